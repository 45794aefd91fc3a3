"""The references of both languages: every public name is described by whole sentences, and the pages
that are kept say what the sources say."""

import importlib.util
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    """A module of docs/api."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "api" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_sentence(text):
    """Whether the first paragraph begins as a sentence does and ends as one."""
    first = text.split("\n\n")[0].strip()
    return re.match(r"[A-Z`\"]", first) is not None and first.endswith((".", ":", "?"))


class Python(unittest.TestCase):
    def setUp(self):
        self.pages = script("python_pages")

    def test_every_public_name_has_a_whole_sentence(self):
        checked = 0
        for module, names in self.pages.public_names().items():
            for name, node in self.pages.documented(module, names):
                with self.subTest(name):
                    text = self.pages.ast.get_docstring(node)
                    self.assertIsNotNone(text, "has no docstring")
                    self.assertTrue(is_sentence(text), f"is no sentence: {text}")
                checked += 1
        self.assertGreater(checked, 100)

    def test_pages_are_what_the_docstrings_say(self):
        folder = ROOT / "docs" / "reference" / "python"
        pages = self.pages.pages()
        self.assertEqual(sorted(page.name for page in folder.glob("*.md")), sorted(pages))
        for name, text in pages.items():
            with self.subTest(name):
                self.assertEqual((folder / name).read_text(encoding="utf-8"), text,
                                 "run ./dev docs")

    def test_lists_every_name_of_the_package(self):
        listed = {called for called in re.findall(r"\[`bespoke\.(\w+)`\]",
                                                  self.pages.pages()["README.md"])}
        package = self.pages.assigned(self.pages.parsed("__init__"), "__all__")
        self.assertEqual(listed, set(package))


class Cpp(unittest.TestCase):
    def documented(self, text):
        return "\n".join(script("comments").documented(text.splitlines()))

    def test_a_comment_over_a_declaration_documents_it(self):
        self.assertEqual(self.documented("// Adds.\nint add();"), "/// Adds.\nint add();")

    def test_a_comment_behind_a_declaration_documents_it_with_its_second_line(self):
        self.assertEqual(self.documented("int a;  // one\n        // more\nint b;"),
                         "int a;  ///< one\n        ///< more\nint b;")

    def test_a_comment_that_stands_alone_documents_nothing(self):
        self.assertEqual(self.documented("// On this file.\n\nint add();"),
                         "// On this file.\n\nint add();")
        self.assertEqual(self.documented("// Of users.\n#include <a>"), "// Of users.\n#include <a>")

    def test_what_doxygen_would_take_for_a_command_is_escaped(self):
        self.assertEqual(self.documented("// A[@B], a < b, `c * d`.\nint e();"),
                         "/// A\\[\\@B\\], a \\< b, `c * d`.\nint e();")

    def test_slashes_in_a_text_are_no_comment(self):
        self.assertEqual(self.documented('const char* kPlace = "https://a";'),
                         'const char* kPlace = "https://a";')

    def test_every_public_name_has_a_comment(self):
        if shutil.which("doxygen") is None:
            self.skipTest("no doxygen")
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([ROOT / "dev", "cpp-reference", folder], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            page = (Path(folder) / "cpp" / "structbespoke_1_1NsSolver.html").read_text()
            self.assertIn("one type of all fixed-step solvers", page)


if __name__ == "__main__":
    unittest.main()
