"""Runs the bespoke program in a table's folder and keeps what it answered: a table that was stopped
goes on after the last command that came to its end."""

import json
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path


class Failure(Exception):
    """One sentence about what went wrong and what to do."""


def write_text(path, text):
    """The whole file or none of it, beside other processes that write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def shown(word):
    """A word of a command as others would type it: not where this machine keeps its files."""
    name, is_given, value = word.partition("=")
    if is_given and Path(value).is_absolute():
        return f"{name}={shown(value)}"
    path = Path(word)
    if not path.is_absolute():
        return word
    return f"{path.parent.name}/{path.name}" if path.is_dir() else path.name


class Program:
    """The program, for one table. `machine(command)` are options of where it runs, which are not
    shown with the commands."""

    def __init__(self, binary, folder, machine):
        self.binary, self.folder, self.machine = binary, folder, machine
        self.commands, self.seconds = [], 0.0
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, name, *words, writes=None):
        """What the command printed for programs and for people, now or when it was first run. The
        folder that it writes is made anew, so that its seconds are those of all of it."""
        words = [str(word) for word in words]
        kept = self.folder / f"{name}.answer.json"
        answer = json.loads(kept.read_text()) if kept.exists() else {}
        if answer.get("words") != words:
            if writes:
                shutil.rmtree(self.folder / writes, ignore_errors=True)
            answer = self._ask(words)
            write_text(kept, json.dumps(answer))
        self.commands.append(shlex.join(["bespoke", *map(shown, words)]))
        self.seconds += answer["seconds"]
        return answer

    def _ask(self, words):
        began = time.monotonic()
        done = subprocess.run([str(self.binary), *words, *self.machine(words[0])], cwd=self.folder,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"bespoke {words[0]} ended with exit code {done.returncode} in "
                          f"{self.folder}: {done.stderr.strip()}")
        return {"words": words, "seconds": time.monotonic() - began, "output": done.stdout,
                "messages": done.stderr}

    def pairs(self, *words):
        self.run("pairs", "pairs", *words, "--trajectories", "-o", "pairs", writes="pairs")

    def distill(self, name, *words):
        """The file of the solvers."""
        self.run(name, "distill", *words, "-o", name, writes=name)
        family = words[words.index("--family") + 1] if "--family" in words else "bns"
        return f"{name}/{family}.solver.json"

    def summary(self, name, nfe):
        """What a distillation says of its solver of so many evaluations."""
        return json.loads((self.folder / name / f"nfe-{nfe:02}" / "summary.json").read_text())

    def compare(self, name, *words):
        """A row for each solver and NFE, and what is said beside them."""
        answer = self.run(name, "compare", *words, "--format", "json")
        return json.loads(answer["output"]), answer["messages"]
