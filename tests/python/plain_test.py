"""Tests of the package where the compiled module is not built: what runs, what says that it cannot,
and that its answers are the compiled ones, where those are to be had."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import bespoke
from bespoke import Error, _core, checks, plain_core, saving
from bespoke.schedule import PlainSchedule
from mixtures import NUMBERS, two_gaussians

COMPILED = not _core.__file__.endswith(".py")
SOURCES = Path(__file__).resolve().parents[2] / "python" / "bespoke"
PATHS = ["fm-ot", "cosine", "vp", "vp:B=15,b=0.2", "ddpm-linear", "ddpm-scaled-linear",
         "ddpm-cosine", "edm:sigma_max=40",
         {"name": "table", "alphas_cumprod": [0.99, 0.9, 0.6, 0.3, 0.05, 0.001]},
         {"name": "preconditioned", "base": {"name": "cosine"}, "sigma_0": 3.0},
         "edm:sigma_max=40,sigma_min=0.01", "ve", "ve-power:sigma=12", "ddpm-quadratic:steps=50",
         "ddpm-cosine:beta_min=0.001,steps=300", "ddpm-linear:zero_terminal_snr=1",
         "vp:end=0.999,denoise=1", "ve-power:start=0.1,end=0.99,denoise=1", "cosine:start=0.2",
         {"name": "table", "betas": [0.01, 0.1, 0.3, 0.6], "end": 0.9},
         {"name": "table", "betas": [0.01, 0.1, 0.3, 0.6], "zero_terminal_snr": True},
         {"name": "preconditioned", "base": {"name": "vp", "end": 0.99}, "sigma_0": 2.0}]
TIMES = [0.0, 0.0004, 0.013, 0.2, 0.4999, 0.77, 0.999, 1.0]


def without_compiled(code):
    """Runs code with a package of the sources alone; its output."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "bespoke"
        package.mkdir()
        for source in SOURCES.glob("*.py"):
            (package / source.name).symlink_to(source)
        hidden = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)
                  if path and not (Path(path) / "bespoke").exists()]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
            [folder, str(Path(__file__).resolve().parent), *hidden])}
        run = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(code)], text=True,
                             capture_output=True, env=environment, cwd=folder)
    if run.returncode:
        raise AssertionError(run.stderr)
    return run.stdout


@unittest.skipUnless(COMPILED, "the compiled module is not built")
class Parity(unittest.TestCase):
    def test_schedules(self):
        for description in PATHS:
            theirs, ours = _core.Schedule(description), PlainSchedule(description)
            self.assertEqual(ours.describe(), theirs.describe())
            self.assertEqual((ours.name, ours.source_std), (theirs.name, theirs.source_std))
            for t in TIMES:
                for what in ("alpha", "sigma", "log_snr", "trained_time"):
                    np.testing.assert_allclose(getattr(ours, what)(t), getattr(theirs, what)(t),
                                               rtol=1e-12, atol=1e-15, err_msg=f"{what} {t}")
            for log_snr in (-20, -3.8, -0.5, 0.0, 1.2, 4.0, 9.0):
                np.testing.assert_allclose(ours.time_at_log_snr(log_snr),
                                           theirs.time_at_log_snr(log_snr), rtol=1e-10, atol=1e-13)

    def test_conversions(self):
        for description in PATHS:
            for prediction in _core.predictions():
                theirs = _core.Conversion(prediction, _core.Schedule(description), 1e-7)
                ours = plain_core.Conversion(prediction, PlainSchedule(description), 1e-7)
                for left, right in zip(ours.velocity(TIMES), theirs.velocity(TIMES)):
                    np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9,
                                               err_msg=f"{description} {prediction}")
                for left, right in zip(ours.data(TIMES), theirs.data(TIMES)):
                    np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9,
                                               err_msg=f"{description} {prediction}")

    def test_lowering(self):
        for description in PATHS[:8]:
            solver = bespoke.Solver.named("dpm++2m/lambda-range:from=-3,to=3", 5,
                                          schedule=description)
            core, path = solver.core, PlainSchedule(description)
            plain = plain_core.NsSolver(core.times, core.a, core.b, core.start_scale)
            for prediction in ("velocity", "noise", "data", "v"):
                expected = _core.lower(core, prediction, solver.schedule, 1e-7)
                for left, right in zip(plain_core.lower(plain, prediction, path, 1e-7), expected):
                    self.close(left, right)
            expected = _core.lower_to_sigmas(core, solver.schedule, 1e-7)
            for left, right in zip(plain_core.lower_to_sigmas(plain, path, 1e-7), expected):
                self.close(left, right)

    def close(self, left, right):
        flat = [np.concatenate([np.atleast_1d(row) for row in value])
                if isinstance(value, list) else np.atleast_1d(value) for value in (left, right)]
        np.testing.assert_allclose(*flat, rtol=1e-8, atol=1e-8)

    def test_noise(self):
        for seed, first, size in ((0, 0, 5), (2 ** 40 + 3, 2 ** 33, 8)):
            np.testing.assert_allclose(plain_core.normal_noise(seed, first, 3, size),
                                       _core.normal_noise(seed, first, 3, size), rtol=1e-13)

    def test_guidance(self):
        for given in (1.5, "2", "0-4", "-1-0.5", "1e-3-2e-1", "0:1,0.5:3"):
            theirs, ours = _core.Guidance(given), plain_core.Guidance(given)
            self.assertEqual(ours.describe(), theirs.describe())
            self.assertEqual(ours.is_zero, theirs.is_zero)
            for t in TIMES:
                for sample in (0, 7):
                    self.assertAlmostEqual(ours.at(t, sample), theirs.at(t, sample))

    def test_files_are_read_alike_and_written_for_the_other(self):
        solvers = [bespoke.Solver.named("dpm++2m/karras", n, schedule="ddpm-linear",
                                        prediction="noise") for n in (4, 6)]
        text = saving.joined(solvers, "both").text()
        plain = plain_core.SolverFile.parse(text, "text")
        self.assertEqual(plain.nfes, [4, 6])
        again = _core.SolverFile.parse(plain.text(), "plain")
        self.assertEqual(again.text(), text)
        self.assertEqual(plain.only(6).solver.b, solvers[1].b)


class Numbers(unittest.TestCase):
    def test_whole_ones_are_taken_as_they_are_and_others_refused(self):
        for given in (4, np.int64(4), np.uint8(4)):
            found = checks.whole_number(given, "steps", 1)
            self.assertEqual((found, type(found)), (4, int))
        self.assertEqual(checks.whole_number(-5, "first"), -5)
        for given in (2.5, 4.0, "4", True, None, np.float32(4), [4]):
            with self.assertRaisesRegex(Error, "^steps: must be a whole number, found "):
                checks.whole_number(given, "steps", 1)
        with self.assertRaisesRegex(Error, "^steps: must be at least 1, found 0$"):
            checks.whole_number(0, "steps", 1)
        with self.assertRaisesRegex(Error, "^steps: is 9, it must be from 1 to 8$"):
            checks.whole_number(9, "steps", 1, 8)
        with self.assertRaisesRegex(Error, f"^seed: must be at most {2 ** 63 - 1}, found {2 ** 63}$"):
            checks.whole_number(2 ** 63, "seed")


class Files(unittest.TestCase):
    good = {"format": "bespoke-solver", "version": 2, "name": "two",
            "field": {"prediction": "velocity", "schedule": {"name": "fm-ot"}, "guidance": 0.0},
            "solvers": [{"nfe": 2, "times": [0, 0.5, 1], "a": [1, 1], "b": [[0.5], [0.5, 0.5]]}]}

    def refused(self, message, **changes):
        with self.assertRaisesRegex(Error, message):
            plain_core.SolverFile.parse(json.dumps({**self.good, **changes}), "it")

    def test_what_is_wrong_is_said(self):
        plain_core.SolverFile.parse(json.dumps(self.good), "it")
        solver = self.good["solvers"][0]
        self.refused("it: not a solver file", format="other")
        self.refused("newer bespoke", version=3)
        self.refused('unknown key "extra"', extra=1)
        self.refused("rising order", solvers=[solver, solver])
        self.refused("times fall", solvers=[{**solver, "times": [0, 1, 0.5]}])
        self.refused("row 1 needs 2", solvers=[{**solver, "b": [[0.5], [0.5]]}])
        self.refused("guides itself", solvers=[{**solver, "guided": [0], "c": [[1], [1]]}])
        self.refused("nfe is 3", solvers=[{**solver, "nfe": 3}])
        self.refused("unknown prediction 'scores'",
                     field={**self.good["field"], "prediction": "scores"})
        self.refused("schedule", field={**self.good["field"], "schedule": {"name": "vq"}})
        with self.assertRaisesRegex(Error, 'key "name" is there twice'):
            plain_core.SolverFile.parse('{"name": 1, "name": 2}', "it")
        with self.assertRaisesRegex(Error, "cannot read"):
            plain_core.SolverFile.read("/nowhere/it.json")


class WithoutCompiled(unittest.TestCase):
    def test_solvers_run_and_are_learnt(self):
        noise = np.random.default_rng(1).normal(size=(3, 6))
        solver = bespoke.Solver.of([0, 0.4, 1], [1, 0.9], [[0.4], [0.4, 0.6]])
        expected = solver.sample(two_gaussians, noise)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "two.solver.json"
            solver.save(path)
            found = without_compiled(f"""
                import json, numpy as np, bespoke
                from bespoke import Sampler, Solver
                from bespoke.k_diffusion import sample_bespoke, sigmas_of
                from mixtures import two_gaussians
                noise = np.random.default_rng(1).normal(size=(3, 6))
                solver = Solver.load({str(path)!r})
                by_field = solver.sample(two_gaussians, noise)
                denoise = lambda y, s: y - s[:, None] * -two_gaussians(1 - s, y)
                by_tool = sample_bespoke(denoise, noise, sigmas_of(solver), solver=solver)
                sampler = Sampler(two_gaussians, steps=4, say=False)
                first = sampler(noise)
                sampler.save({str(path) + ".learnt"!r})
                again = Solver.load({str(path) + ".learnt"!r})
                print(json.dumps([by_field.tolist(), by_tool.tolist(), first.tolist(), again.nfe]))
            """)
            by_field, by_tool, first, nfe = json.loads(found)
            learnt = bespoke.Solver.load(str(path) + ".learnt")
        np.testing.assert_allclose(by_field, expected, rtol=1e-12)
        np.testing.assert_allclose(by_tool, expected, atol=1e-9)
        self.assertEqual((nfe, learnt.nfe), (4, 4))
        here = bespoke.Sampler(two_gaussians, steps=4, say=False)
        np.testing.assert_allclose(here(noise), first, rtol=1e-12)

    def test_clips_and_parts_of_paths_run_the_same(self):
        """Dynamic thresholds, and a path that ends before the data with a denoising step."""
        solver = bespoke.Solver.of([0.02, 0.5, 1.0], [0.9, 0.8], [[0.3], [0.1, 0.4]],
                                   schedule={"name": "vp", "end": 0.9, "denoise": True},
                                   prediction="noise", clip={"quantile": 0.7, "cap": 1.2})
        code = """
            import json, numpy as np, bespoke
            from mixtures import NUMBERS
            noise = np.random.default_rng(1).normal(size=(3, 6))
            solver = bespoke.Solver.parse(TEXT)
            field = NUMBERS.field(bespoke.Schedule("vp"), "noise")
            print(json.dumps([solver.sample(field, noise).tolist(), solver.to_json()]))
        """.replace("TEXT", repr(solver.to_json()))
        there, text = json.loads(without_compiled(code))
        field = NUMBERS.field(bespoke.Schedule("vp"), "noise")
        noise = np.random.default_rng(1).normal(size=(3, 6))
        np.testing.assert_allclose(there, solver.sample(field, noise), rtol=1e-9, atol=1e-9)
        self.assertEqual(bespoke.Solver.parse(text), solver)

    def test_what_needs_it_says_so(self):
        found = without_compiled("""
            import bespoke, numpy as np
            for call in (lambda: bespoke.fit(lambda t, x: x, np.ones((4, 3)), progress=False),
                         lambda: bespoke.Solver.named("euler"), bespoke.catalogue):
                try:
                    call()
                except bespoke.Error as error:
                    print(error)
        """).splitlines()
        self.assertEqual(len(found), 3)
        self.assertTrue(found[0].startswith("finding solvers needs the compiled module"), found)
        for line in found:
            self.assertIn("bespoke._core, which is not built here; install a C++ compiler", line)


if __name__ == "__main__":
    unittest.main()
