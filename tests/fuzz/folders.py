#!/usr/bin/env python3
"""Mutates real folders (a model with its training, pairs, a distillation, a cache) by what their files
are made of, and runs the whole program on them. A run may succeed or refuse in words; a signal, an
exception of a library, the text of a stack, a minute without an end or a file left half written is a
finding, whose folder is kept.

    python3 tests/fuzz/folders.py build/release/bespoke --runs 1000"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

MODEL = "--model model/model.json --threads 1 "
TRAIN = ("transformer --data data.safetensors --patch 4 --width 16 --depth 1 --heads 1 --batch 8 --warmup 2 "
         "--steps 8 --threads 1 -o model")
PAIRS = f"pairs {MODEL}--count 8 --validation 4 --shard 4 --trajectories 4 --tolerance 1e-2 -o pairs"
DISTILL = f"distill {MODEL}--nfe 2-3 --samples 8 --method fit --tolerance 1e-2 -o run"
COMPARE = (f"compare {MODEL}--solvers euler,run/bns.solver.json --nfe 2-3 --count 2 --tolerance 1e-2 "
           "--equal-up-to 4 --cache cache")

# What reads the files of each folder.
COMMANDS = {
    "model": ["check model/model.json --count 2 --threads 1", COMPARE, TRAIN + " --resume",
              f"sample {MODEL}--solver euler --nfe 2 --count 2 -o out",
              f"export run/bns.solver.json --nfe 2 --to torchscript {MODEL}-o out.pt"
              .replace("--threads 1 ", "")],
    "pairs": [PAIRS, f"distill {MODEL}--pairs pairs --nfe 2 --method fit -o other"],
    "run": ["show run/bns.solver.json", "show run/bns.solver.json --nfe 2", DISTILL + " --resume",
            "export run/bns.solver.json --nfe 3 --to c", "export run/bns.solver.json --to markdown",
            "export run/bns.solver.json --to diffusers -o out",
            COMPARE + " --report out.html --force",
            f"sample {MODEL}--solver run/bns.solver.json --nfe 3 --count 2 -o out"],
    "cache": [COMPARE],
}

ODD_VALUES = [None, True, [], {}, 0, -1, 1, 2, 0.5, 1e308, -1e308, 1e-320, 2**53 + 1, 2**63 - 1, -2**63,
              2**64, "", " ", "NaN", "/dev/zero", "../../../etc/passwd", ".", "a\nb", "a\0b", "\x1b[31m",
              "\u202etxt", "\u009b2J", "*/", "%s%n", "y ", "-1-0.5", "x" * 5000, [[[]]],
              {"from": 0, "to": 4}, {"points": [[0, 1], [1, 0]], "interval": [0.2, 1]}]
PATIENT = "waiting for a reader of the pipe"
FOREIGN = re.compile(r"json\.exception|terminate called|frame #\d|Exception raised from|std::|c10::|"
                     r"Sanitizer|Assertion|\x1b|\u202e")
CODES = {0, 1, 2, 3, 4, 5}


class Finding(Exception):
    pass


def write_data(path):
    """16 tiny images in two classes, as docs/guide/datasets.md has them."""
    numbers = random.Random(0)
    images = bytes(numbers.randrange(256) for _ in range(16 * 8 * 8))
    labels = struct.pack("<16q", *[i % 2 for i in range(16)])
    header = json.dumps({
        "labels": {"dtype": "I64", "shape": [16], "data_offsets": [0, 128]},
        "samples": {"dtype": "U8", "shape": [16, 1, 8, 8], "data_offsets": [128, 128 + 1024]}})
    header = header.encode() + b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + labels + images)


class Mutator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def places(self, node):
        """Every value in a document, as what holds it and where."""
        keys = node.keys() if isinstance(node, dict) else range(len(node))
        for key in list(keys):
            yield node, key
            if isinstance(node[key], (dict, list)):
                yield from self.places(node[key])

    def number_near(self, value):
        return self.random.choice([-value, value * 2, value / 2, value * 1e6, value + 1, int(value)])

    def document(self, document):
        """One to three mutations, and maybe a key that is there twice."""
        whole = {"": document}
        for _ in range(self.random.randint(1, 3)):
            places = list(self.places(whole))
            holder, key = self.random.choice(places)
            kind = self.random.randrange(6)
            if kind == 0:
                holder[key] = self.random.choice(ODD_VALUES)
            elif kind == 1 and isinstance(holder[key], (int, float)):
                holder[key] = self.number_near(holder[key])
            elif kind == 2 and holder is not whole:
                del holder[key]
            elif kind == 3 and isinstance(holder, dict) and holder is not whole:
                holder[str(key) + "s"] = holder.pop(key)
            elif kind == 4:
                other, place = self.random.choice(places)
                if other is not holder and place in (other if isinstance(other, dict)
                                                     else range(len(other))):
                    holder[key] = json.loads(json.dumps(other[place]))
            elif isinstance(holder[key], list) and holder[key]:
                holder[key] += holder[key][:self.random.randint(1, 3)]
        text = json.dumps(whole[""])
        keys = re.findall(r'"[a-z_]+": ', text)
        if keys and self.random.random() < 0.1:
            text = text.replace(keys[0], keys[0] + "0, " + keys[0], 1)
        return text.encode()

    def bytes(self, content):
        content = bytearray(content)
        for _ in range(self.random.randint(1, 8)):
            if content:
                content[self.random.randrange(len(content))] = self.random.randrange(256)
        return bytes(content)

    def cut(self, content):
        return content[:self.random.randrange(len(content) + 1)]

    def lines(self, content):
        lines = content.split(b"\n")
        at = self.random.randrange(len(lines))
        lines[at] = self.text(lines[at])
        return b"\n".join(lines)

    def text(self, content):
        try:
            return self.document(json.loads(content))
        except ValueError:
            return self.bytes(content)

    def tensors(self, content):
        """The header, its length, or the numbers."""
        length = struct.unpack("<Q", content[:8])[0]
        header, rest = content[8:8 + length], content[8 + length:]
        if self.random.random() < 0.6:
            header = self.text(header)
            length = len(header)
        elif self.random.random() < 0.3:
            length = self.random.choice([0, 1, length - 1, length + 8, 2**40, 2**64 - 1])
        else:
            rest = self.random.choice([self.bytes, self.cut])(rest)
        return struct.pack("<Q", length) + header + rest

    def content(self, name, content):
        if self.random.random() < 0.1:
            return self.random.choice([b"", self.cut(content), self.bytes(content), content * 2])
        if name.endswith(".jsonl"):
            return self.lines(content)
        if name.endswith(".json"):
            return self.text(content)
        if name.endswith(".safetensors"):
            return self.tensors(content)
        return self.random.choice([self.cut, self.bytes])(content)

    def place(self, path, others):
        """Something else than the file under its name."""
        kind = self.random.randrange(6)
        if kind == 0:
            os.unlink(path)
        elif kind == 1:
            os.unlink(path)
            os.mkdir(path)
        elif kind == 2:
            os.unlink(path)
            os.symlink(os.path.basename(path), path)
        elif kind == 3:
            os.unlink(path)
            os.symlink("/dev/zero", path)
        elif kind == 4:
            os.unlink(path)
            os.mkfifo(path)
        else:
            other = self.random.choice(others)
            if other != path:
                shutil.copyfile(other, path)


class Folders:
    def __init__(self, bespoke, seed):
        self.bespoke = os.path.abspath(bespoke)
        self.seed = seed
        self.top = tempfile.mkdtemp(prefix="bespoke_folders_")
        self.good = os.path.join(self.top, "good")
        self.codes = collections.Counter()
        self.inputs = 0
        os.mkdir(self.good)
        write_data(os.path.join(self.good, "data.safetensors"))
        for command in [TRAIN, PAIRS, DISTILL, COMPARE]:
            done = self.run(command, self.good)
            if done.returncode != 0:
                raise Finding(f"nothing to begin with: {command}: {done.stderr}")
        self.give_guidance()

    def run(self, command, folder):
        program = self.bespoke + ("-train" if command.startswith("transformer ") else "")
        return subprocess.run([program] + command.split(), cwd=folder, timeout=60,
                              capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL)

    def give_guidance(self):
        """A solver file over a range and one over time, beside the one that is compared."""
        with open(os.path.join(self.good, "run/bns.solver.json")) as file:
            solvers = json.load(file)
        for name, guidance in [("range", {"from": 0, "to": 2}),
                               ("time", {"points": [[0, 1], [1, 0]], "interval": [0.1, 1]})]:
            solvers["field"]["guidance"] = guidance
            with open(os.path.join(self.good, f"run/{name}.solver.json"), "w") as file:
                json.dump(solvers, file)

    def trial(self, number):
        mutator = Mutator(self.seed + number)
        folder = os.path.join(self.top, "trial")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.good, folder, symlinks=True)
        area = mutator.random.choice(list(COMMANDS))
        files = sorted(os.path.join(place, name)
                       for place, _, names in os.walk(os.path.join(folder, area)) for name in names
                       if not name.endswith((".png", ".html")))
        path = mutator.random.choice(files)
        if area == "model" and mutator.random.random() < 0.5:
            path = os.path.join(folder, "model/model.json")  # cards are what people write
        if mutator.random.random() < 0.12:
            mutator.place(path, files)
        else:
            with open(path, "rb") as file:
                content = file.read()
            self.inputs += len(content)
            with open(path, "wb") as file:
                file.write(mutator.content(path, content))
        command = mutator.random.choice(COMMANDS[area])
        if path.endswith(("range.solver.json", "time.solver.json")):
            command = command.replace("bns.solver.json", os.path.basename(path))
        self.judge(number, os.path.relpath(path, folder), command, folder)

    def judge(self, number, path, command, folder):
        where = f"run {number}, {path}, {command}"
        try:
            done = self.run(command, folder)
        except subprocess.TimeoutExpired as late:
            # A pipe where a result is to go has no reader here, and whoever waits for one says so.
            if PATIENT in str(late.stderr):
                self.codes["waits for a reader"] += 1
                return
            raise Finding(f"{where}: no end within a minute") from None
        self.codes[done.returncode] += 1
        if done.returncode not in CODES:
            raise Finding(f"{where}: exit code {done.returncode}: {done.stderr}")
        found = FOREIGN.search(done.stderr + done.stdout)
        if found:
            raise Finding(f"{where}: says {found.group(0)!r}: {done.stderr}")
        if done.returncode != 0 and not done.stderr.strip():
            raise Finding(f"{where}: exit code {done.returncode} without a word")
        for place, _, names in os.walk(folder):
            for name in names:
                if name.startswith(".bespoke-"):
                    raise Finding(f"{where}: leaves {os.path.join(place, name)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bespoke", help="the program")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; the next has one more")
    options = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        folders = Folders(options.bespoke, options.seed)
        for number in range(options.runs):
            folders.trial(number)
    except Finding as finding:
        sys.exit(f"{finding}\nthe folder is kept below {tempfile.gettempdir()}")
    shutil.rmtree(folders.top)
    told = ", ".join(f"{count} with {code}" for code, count in sorted(folders.codes.items(), key=str))
    print(f"{options.runs} runs on {folders.inputs / 1e6:.1f} MB of mutated files; they ended: {told}")


if __name__ == "__main__":
    main()
