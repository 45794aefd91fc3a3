"""bench/reproduce.py measures, keeps what it measured, goes on, and writes the page of docs/."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/reproduce.py"
sys.path.insert(0, str(ROOT / "bench"))

from results.charts import svg  # noqa: E402
from results.records import Chart, Part, Record  # noqa: E402
from results import models, page  # noqa: E402
from results.program import shown  # noqa: E402


def reproduce(*words):
    return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, words)], capture_output=True,
                          text=True)


def measured(folder, *words):
    return reproduce("--bespoke", os.environ["BESPOKE_BINARY"], "--quick", "analytic", "--device",
                     "cpu", "--output", folder, *words)


class Reproduce(unittest.TestCase):
    def test_a_table_is_measured_kept_and_gone_on_with(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            done = measured(folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = (folder / "results.md").read_text()
            record = json.loads((folder / "results/analytic.json").read_text())
            figures = {row[0]: row[2] for row in record["parts"][0]["rows"]}  # at 8 evaluations
            self.assertEqual(set(figures), {"Euler", "Midpoint", "BST", "the fit", "BNS"})
            self.assertGreater(figures["the fit"][0], figures["Euler"][0] + 10)
            for value, error in figures.values():
                self.assertGreater(error, 0)
                self.assertIn(f"{value:.1f}", text)
            self.assertIn(record["version"], text)
            for command in record["commands"]:
                self.assertIn(command, text)
            chart = xml.parse(folder / "pictures/results/analytic-psnr.svg").getroot()
            self.assertEqual(len(chart.findall("{*}polyline")), len(figures))
            self.goes_on(folder, record)

    def goes_on(self, folder, record):
        """Only what is not there is run again, and nothing to write the page."""
        work = folder / "work/analytic"
        answers = {path.name: path.stat().st_mtime_ns for path in work.glob("*.answer.json")}
        self.assertEqual(len(answers), len(record["commands"]) + 1)  # that it runs was checked
        # As if the fit had been stopped, and another command had been of other sizes.
        (work / "fit.answer.json").unlink()
        changed = json.loads((work / "bst.answer.json").read_text())
        (work / "bst.answer.json").write_text(json.dumps({**changed, "words": []}))
        done = measured(folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in work.glob("*.answer.json"):
            same = path.stat().st_mtime_ns == answers[path.name]
            self.assertEqual(same, path.name not in ("fit.answer.json", "bst.answer.json"), path)
        again = folder / "again"
        self.assertEqual(reproduce("--from", folder / "results", "--output", again).returncode, 0)
        self.assertEqual((again / "results.md").read_text(), (folder / "results.md").read_text())

    def test_what_is_missing_is_said_before_anything_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, said in (
                    (["no-such"], "there is no table 'no-such'; there are demo, cifar10-fm-ot,"),
                    (["card-in64"], "need --models"),
                    (["--models", f"{folder}/none"], "no folder of model cards"),
                    (["--speech", folder], "spoken_digits"),
                    (["--bespoke", f"{folder}/none"], "is not built"),
                    (["--from", folder], "holds no measurements")):
                done = reproduce("--output", folder, *words)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn(said, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_further_models_have_a_table_each(self):
        with tempfile.TemporaryDirectory() as folder:
            card = {"sample_shape": [3, 64, 64], "prediction": "v", "schedule": {"name": "cosine"},
                    "conditions": [{"name": "y", "classes": 100, "null": 100}]}
            (Path(folder) / "mine.json").write_text(json.dumps(card))
            (Path(folder) / "other.json").write_text("{}")
            done = reproduce("--list", "--models", folder)
            self.assertIn("card-mine ", done.stdout)
            self.assertIn("calls-cards ", done.stdout)
            self.assertNotIn("card-other", done.stdout)

    def test_conditions_that_are_tensors_lie_beside_the_card(self):
        with tempfile.TemporaryDirectory() as folder:
            card = {"sample_shape": [1, 8, 8], "prediction": "noise", "schedule": {"name": "vp"},
                    "conditions": [{"name": "y", "classes": 3}, {"name": "mask", "shape": [1, 8, 8]}]}
            path = Path(folder) / "mine.json"
            path.write_text(json.dumps(card))
            self.assertEqual(models.of_card(path).unseen[""], ("--cond", "y=0-2"))
            beside = path.with_name("mine.conditions.safetensors")
            beside.write_bytes(b"")
            mask = ("--cond", f"mask={beside.resolve()}:mask")
            self.assertEqual(models.of_card(path).unseen[""], ("--cond", "y=0-2", *mask))
            self.assertEqual(models.of_card(path).learnt, mask)
            self.assertEqual(shown(mask[1]), "mask=mine.conditions.safetensors:mask")


class Page(unittest.TestCase):
    def test_a_page_is_of_one_version(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, version, made in (("old", "bespoke 1", "2026-01-01"),
                                        ("new", "bespoke 2", "2026-02-01")):
                Record(name, f"The {name} table", "Variants", "Of samples.",
                       [Part("PSNR", ["", "dB"], [["a", [1, 0.5]]])], version=version,
                       made=made).write(Path(folder) / "results")
            done = reproduce("--from", f"{folder}/results", "--output", folder)
            self.assertIn("left out: old is of bespoke 1", done.stdout)
            text = (Path(folder) / "results.md").read_text()
            self.assertIn("The new table", text)
            self.assertNotIn("The old table", text)

    def test_cells_have_errors_and_the_best_stands_out(self):
        part = Part("PSNR", ["", "4", "8"], [["a", [40.123, 0.26], [None, None]],
                                             ["b", [39, 0.3], [41, None]]], "most")
        lines = page.table(part).splitlines()
        self.assertEqual(lines[-2:], ["| a | **40.1** ± 0.3 | diverged |",
                                      "| b | 39.0 ± 0.3 | **41.0** |"])

    def test_the_summary_says_what_the_best_of_the_catalogue_needs(self):
        curve = [[20.0, 0.1], [30.0, 0.1], [40.0, 0.1]]
        part = Part("PSNR, dB", ["NFE", "4", "8", "12"],
                    [["best of the catalogue", *curve],
                     ["BNS", [33.0, 0.2], [35.0, 0.2], [45.0, 0.2]]], "most")
        record = Record("m", "A model", "Audio", "", [part])
        self.assertIn("| 30.0 ± 0.1 |  |  | 35.0 ± 0.2 | 10.0 |", page.page([record]))
        self.assertEqual(page.needed({4: 20, 8: 30}, 31, 8), "> 8")
        self.assertEqual(page.needed({4: 20, 8: 30}, 20, 8), "≤ 4")

    def test_charts_leave_out_what_was_not_measured(self):
        drawn = svg(Chart("c", "calls", "dB", {"a": [[10, 40], [1000, None], [100, 42]],
                                               "b & c": [[10, None]]}, "x"))
        root = xml.fromstring(drawn)
        lines = root.findall("{*}polyline")
        self.assertEqual(len(lines), 1)
        self.assertEqual(len(lines[0].get("points").split()), 2)

    def test_the_page_in_docs_is_of_the_measurements_in_docs(self):
        source = ROOT / "docs/results"
        if not source.is_dir():
            self.skipTest("there are no measurements")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(reproduce("--from", source, "--output", folder).returncode, 0)
            self.assertEqual((Path(folder) / "results.md").read_text(encoding="utf-8"),
                             (ROOT / "docs/results.md").read_text(encoding="utf-8"),
                             "run bench/reproduce.py --from docs/results")
            charts = sorted(path.name for path in (Path(folder) / "pictures/results").iterdir())
            for name in charts:
                self.assertEqual((Path(folder) / "pictures/results" / name).read_text(),
                                 (ROOT / "docs/pictures/results" / name).read_text(), name)


if __name__ == "__main__":
    unittest.main()
