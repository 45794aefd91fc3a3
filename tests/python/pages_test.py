"""The pages of the repository: links lead somewhere, figures are ones that were measured, and every
command is described."""

import functools
import json
import os
import re
import subprocess
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results.md"
LINK = re.compile(r"\]\(([^()\s]+(?:\([^()]*\)[^()\s]*)?)\)")
FIGURE = re.compile(r"(?<![\d.])(\d+\.\d) dB")


def pages():
    """Every page that is part of the sources."""
    folders = [ROOT / name for name in ("docs", "research", "models", "python", "integrations",
                                        ".github")]
    return sorted([*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md")
                                         if "build" not in page.parts)])


@functools.lru_cache(None)
def text_of(page):
    return page.read_text(encoding="utf-8")


def fenced(text):
    """What a page quotes: blocks between fences, and indented ones."""
    blocks = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    return blocks + re.findall(r"(?:^ {4}.*\n)+", text, flags=re.MULTILINE)


def prose(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@functools.lru_cache(None)
def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found, counts = set(), {}
    for heading in re.findall(r"^#{1,6} (.*)$", prose(text), flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = counts.get(anchor, 0)
        counts[anchor] = number + 1
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def broken_links(page):
    for target in LINK.findall(prose(text_of(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: {target} is not there"
        elif anchor and file.suffix == ".md" and anchor not in anchors(text_of(file)):
            yield f"{page.relative_to(ROOT)}: {target} has no such heading"


def guides():
    """Pages for users. Results and research are where figures come from."""
    return [page for page in pages() if page == ROOT / "README.md" or
            page.is_relative_to(ROOT / "docs") and page != RESULTS]


def evidence():
    found = [page for page in pages() if page.is_relative_to(ROOT / "research") or page == RESULTS]
    return "\n".join(map(text_of, found))


def unmeasured(text, measured):
    """Figures in dB with a decimal that neither `measured` nor a run that the page quotes has."""
    known = measured + "\n".join(fenced(text))
    return [figure for figure in FIGURE.findall(prose(text))
            if not re.search(rf"(?<![\d.]){re.escape(figure)}\d?(?!\d)", known)]


def commands(text):
    """Commands of the program that a page tells, without what follows a comment or a pipe."""
    for block in fenced(text):
        for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
            found = re.match(r"\s*(?:build/release/)?bespoke (?:--config \S+ )?([a-z]+)\b(.*)", line)
            if found:
                yield found.group(1), re.split(r"\s#|\s[|>]|\s{3,}", found.group(2))[0]


def options_of(binary, command):
    told = subprocess.run([binary, command, "--help"], capture_output=True, text=True)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", told.stdout.partition("Options:")[2]))


class Pages(unittest.TestCase):
    def test_links_lead_somewhere(self):
        broken = [link for page in pages() for link in broken_links(page)]
        self.assertEqual(broken, [])

    def test_figures_were_measured(self):
        measured = evidence()
        for page in guides():
            self.assertEqual(unmeasured(text_of(page), measured), [], f"{page.name}: write down in "
                             "docs/results.md or research/ where these figures come from")

    def test_the_front_page_quotes_the_demo_as_it_was_measured(self):
        demo = json.loads((ROOT / "docs/results/demo.json").read_text(encoding="utf-8"))
        after = text_of(ROOT / "README.md").partition("<!-- demo table -->\n")[2]
        quoted = textwrap.dedent(re.match(r"\n((?: {4}.*)?\n)+", after).group()).strip()
        self.assertIn("bns.solver.json", quoted)
        self.assertIn(quoted, demo["quoted"])

    def test_an_invented_figure_is_found(self):
        text = "It reaches 99.9 dB, or 41.0 dB.\n\n    a run: 12.34\n\nand 12.3 dB\n"
        self.assertEqual(unmeasured(text, "41.0"), ["99.9"])
        self.assertEqual(list(commands("    bespoke sample --no-such \\\n      --nfe 3   # yes\n")),
                         [("sample", " --no-such --nfe 3")])
        self.assertEqual(anchors("# A\n## What `b` is: c+d\n## A\n"), {"a", "what-b-is-cd", "a-1"})

    def test_every_command_is_described(self):
        binary = os.environ.get("BESPOKE_BINARY")
        if not binary:
            self.skipTest("the program is not built")
        told = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
        commands = set(re.findall(r"^  ([a-z]+) ", told[told.index("Subcommands:"):],
                                  flags=re.MULTILINE))
        page = ROOT / "docs/reference/commands.md"
        described = set(re.findall(r"^\| `([a-z]+)` \|", text_of(page), flags=re.MULTILINE))
        self.assertEqual(commands - described, set())
        self.assertGreater(len(commands), 5)

    def test_commands_have_the_options_that_pages_give_them(self):
        binary = os.environ.get("BESPOKE_BINARY")
        if not binary:
            self.skipTest("the program is not built")
        known, wrong, seen = {}, [], 0
        for page in guides():
            for command, words in commands(text_of(page)):
                if command not in known:
                    known[command] = options_of(binary, command)
                seen += 1
                wrong += [f"{page.name}: bespoke {command} {option}"
                          for option in re.findall(r"(?<=\s)--?[a-z][\w-]*", words)
                          if option not in known[command]]
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 50)


if __name__ == "__main__":
    unittest.main()
