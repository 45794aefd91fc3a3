"""Tests of solvers in other tools: k-diffusion's samplers and programs in C and C++."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np

    import bespoke._core  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

from bespoke import Error, Schedule, Solver
from bespoke import export
from bespoke.export import c_header, write_c_header
from bespoke.k_diffusion import sample_bespoke, sigmas_of
from mixtures import Mixture, two_gaussians

SMALL = Mixture([[0.9, -0.4, 0.2], [-0.5, 0.6, -0.3]], [0.3, 0.4])


def normal(seed, count, size):
    return bespoke._core.normal_noise(seed, 0, count, size)


class KDiffusion(unittest.TestCase):
    def denoiser(self, y, sigma):
        self.assertEqual(sigma.shape, y.shape[:1])
        return SMALL.predict(np.ones(len(y)), np.asarray(sigma, dtype=np.float64), y)[0]

    def test_a_denoiser_gives_the_solvers_own_samples(self):
        noise = normal(1, 5, 3)
        schedule = Schedule("ddpm-linear")
        for name in ("dpm++2m/karras", "heun/karras", "euler"):
            solver = Solver.named(name, 6, schedule=schedule, prediction="noise")
            sigmas = sigmas_of(solver)
            seen = []
            found = sample_bespoke(self.denoiser, noise * sigmas[0], sigmas, callback=seen.append,
                                   solver=solver)
            expected = solver.sample(SMALL.field(schedule, "noise"), noise)
            alpha = schedule.alpha(solver.times[-1])
            np.testing.assert_allclose(alpha * found, expected, atol=1e-6, err_msg=name)
            self.assertEqual([step["i"] for step in seen], list(range(6)))

    def test_flows(self):
        noise = normal(2, 5, 4)
        solver = Solver.named("midpoint", 6)

        def denoiser(x, sigma, factor):
            return x + sigma[:, None] * two_gaussians(1 - sigma, x) * factor
        sigmas = sigmas_of(solver)
        self.assertEqual(sigmas[0], 1)
        found = sample_bespoke(denoiser, noise, sigmas, {"factor": 1.0}, solver=solver)
        np.testing.assert_allclose(found, solver.sample(two_gaussians, noise), atol=1e-12)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_in_half_precision(self):
        noise = torch.from_numpy(normal(2, 5, 4)).half()
        solver = Solver.named("midpoint", 6)

        def denoiser(x, sigma):
            self.assertEqual(x.dtype, torch.float16)
            x, sigma = x.double(), sigma.double()
            return (x + sigma[:, None] * two_gaussians(1 - sigma, x)).half()
        found = sample_bespoke(denoiser, noise, torch.tensor(sigmas_of(solver)), solver=solver)
        expected = solver.sample(two_gaussians, noise.double())
        np.testing.assert_allclose(found.double(), expected, atol=2e-2)

    def test_a_denoiser_may_write_into_its_states(self):
        solver = Solver.named("midpoint", 6)
        kinds = [normal(2, 5, 4)]
        if torch is not None:
            kinds.append(torch.from_numpy(normal(2, 5, 4)))

        def denoiser(x, sigma):
            return x + sigma[:, None] * two_gaussians(1 - sigma, x)

        def greedy(x, sigma):
            denoised = denoiser(x, sigma)
            x *= 0.5
            return denoised
        for noise in kinds:
            begun = np.array(noise)
            steps = []
            samples = [sample_bespoke(model, noise, sigmas_of(solver), solver=solver,
                                      callback=lambda step: steps.append(np.array(step["x"])))
                       for model in (denoiser, greedy)]
            np.testing.assert_array_equal(samples[1], samples[0])
            np.testing.assert_array_equal(steps[6:], steps[:6])
            np.testing.assert_array_equal(noise, begun)

    def test_other_sigmas_are_refused(self):
        solver = Solver.named("midpoint", 6)
        with self.assertRaisesRegex(Error, "7 sigmas of its own"):
            sample_bespoke(self.denoiser, normal(1, 2, 3), [1.0, 0.5, 0.0], solver=solver)


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "solver.h"
#define NETWORK(T) static void network_##T(int step, double t, const T* x, T* f, size_t n, \\
                                           void* context) { \\
  size_t k; (void)context; (void)step; \\
  for (k = 0; k < n; ++k) f[k] = (T)((1 + t) * (double)x[(k + 1) % n] - t * (double)x[k]); }
NETWORK(float)
NETWORK(double)
#define RUN(T) do { \\
  T x[5] = {(T)0.3, (T)-1.2, (T)0.7, (T)2, (T)-0.1}; \\
  T* work = (T*)malloc(sizeof(T) * 5 * (SOLVER_NFE + 1)); \\
  int k; \\
  solver_sample_##T(network_##T, NULL, x, work, 5); \\
  for (k = 0; k < 5; ++k) printf("%.17g\\n", (double)x[k]); \\
  free(work); } while (0)
int main(void) { RUN(float); RUN(double); return 0; }
"""


class CHeader(unittest.TestCase):
    def field(self, t, x):
        t = t[:, None]
        return (1 + t) * np.roll(x, -1, axis=1) - t * x

    def run_program(self, compiler, standard, suffix, solver, folder):
        source, program = Path(folder) / f"main{suffix}", Path(folder) / "program"
        source.write_text(PROGRAM)
        write_c_header(solver, Path(folder) / "solver.h", name="solver")
        subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                        str(source), "-o", str(program)], check=True)
        return [float(line) for line in subprocess.run([str(program)], check=True,
                                                       stdout=subprocess.PIPE).stdout.split()]

    def test_programs_draw_the_same_samples(self):
        noise = np.array([[0.3, -1.2, 0.7, 2, -0.1]])
        for schedule, prediction in (("fm-ot", "velocity"), ("ddpm-linear", "noise")):
            solver = Solver.named("dpm++2m/lambda-range:from=-2,to=2", 5, schedule=schedule,
                                  prediction=prediction)
            expected = solver.sample(self.field, noise)[0]
            for compiler, standard, suffix in (("gcc", "c11", ".c"), ("g++", "c++17", ".cpp")):
                if shutil.which(compiler) is None:
                    self.skipTest(f"{compiler} is not installed")
                with tempfile.TemporaryDirectory() as folder:
                    found = self.run_program(compiler, standard, suffix, solver, folder)
                scale = np.abs(expected).max()
                np.testing.assert_allclose(found[:5] / scale, expected / scale, atol=1e-4)
                np.testing.assert_allclose(found[5:] / scale, expected / scale, atol=1e-7)

    def test_names_are_made_identifiers_and_bad_ones_refused(self):
        solver = Solver.of([0, 1], [1], [[1]], name="8 steps */ für mich")
        text = c_header(solver)
        self.assertIn("solver_8_steps", text)
        self.assertEqual(text.count("*/"), text.count("/*"))
        with self.assertRaisesRegex(Error, "identifier"):
            c_header(solver, name="2 bad")


class Texts(unittest.TestCase):
    def setUp(self):
        self.solvers = [Solver.named("dpm++2m/lambda-range", nfe, schedule="ddpm-linear",
                                     prediction="noise") for nfe in (3, 5)]

    def test_tables_hold_every_number(self):
        solver = self.solvers[1]
        rows = [[cell.strip() for cell in line.strip("| ").split("|")]
                for line in export.markdown(solver, digits=17).splitlines() if line[:3] == "| 4"]
        self.assertEqual([float(cell) for cell in rows[0]],
                         [4, solver.times[4], solver.a[4], *solver.b[4]])
        self.assertEqual(export.latex(self.solvers).count("\\begin{tabular}"), 2)
        with self.assertRaisesRegex(Error, "digits"):
            export.markdown(solver, digits=0)

    def test_sigmas_are_what_the_sampler_of_k_diffusion_runs(self):
        document = json.loads(export.sigmas(self.solvers))
        noise = normal(1, 5, 3)
        for solver, written in zip(self.solvers, document["solvers"]):
            self.assertEqual(written["sigmas"], sigmas_of(solver))
            y0 = written["start_scale"] * noise
            y, slopes = y0, []
            for i, sigma in enumerate(written["sigmas"][:-1]):
                denoised = SMALL.predict(np.ones(5), np.full(5, sigma), y)[0]
                slopes.append((y - denoised) / sigma)
                y = written["a"][i] * y0 + sum(b * d for b, d in zip(written["b"][i], slopes))
            found = sample_bespoke(
                lambda x, sigma: SMALL.predict(np.ones(len(x)), np.asarray(sigma), x)[0],
                noise * sigmas_of(solver)[0], sigmas_of(solver), solver=solver)
            np.testing.assert_allclose(y, found, atol=1e-12)


@unittest.skipIf(torch is None or "BESPOKE_BINARY" not in os.environ,
                 "needs PyTorch and the command line")
class TorchScript(unittest.TestCase):
    def test_model_and_solver_in_one_file(self):
        class Network(torch.nn.Module):
            def forward(self, x, t, y):
                return torch.tanh(0.7 * x + torch.sin(t * 3 + y.to(x.dtype))[:, None]) - 0.2 * x
        network = Network()
        noise, classes = torch.from_numpy(normal(1, 5, 3)).float(), torch.tensor([0, 1, 2, 1, 0])
        card = {"format": "torchscript", "weights": "weights.pt", "sample_shape": [3],
                "prediction": "velocity", "schedule": {"name": "fm-ot"},
                "time": {"convention": "noise-to-data"},
                "conditions": [{"name": "y", "classes": 3, "null": 3}]}
        solver = Solver.named("dpm++2m/lambda-range", 6)
        with tempfile.TemporaryDirectory() as folder:
            torch.jit.trace(network, (noise, torch.ones(5), classes)).save(f"{folder}/weights.pt")
            (Path(folder) / "model.json").write_text(json.dumps(card))
            solver.save(Path(folder) / "mine.solver.json")
            subprocess.run([os.environ["BESPOKE_BINARY"], "export", "mine.solver.json", "--to",
                            "torchscript", "--model", "model.json", "--guidance", "1.5", "-o",
                            "fast.pt"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
            fast = torch.jit.load(f"{folder}/fast.pt")

        def guided(t, x):
            null = torch.full_like(classes, 3)
            return 2.5 * network(x, t, classes) - 1.5 * network(x, t, null)
        with torch.no_grad():
            expected = solver.sample(guided, noise)
        np.testing.assert_allclose(fast(noise, classes), expected, rtol=1e-4, atol=1e-5)
        self.assertEqual(fast.double()(noise.double(), classes).dtype, torch.float64)


PAGE = Path(__file__).resolve().parents[2] / "docs/reference/solver-file.md"


class TheFormatAsDocumented(unittest.TestCase):
    """A reader made of the page alone, on the page's own examples."""

    def blocks(self, language):
        text = PAGE.read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)

    def function(self, name):
        """The one of this name that the page defines."""
        names = {}
        for block in self.blocks("python"):
            if f"def {name}(" in block:
                exec(block, names)  # pylint: disable=exec-used
        return names[name]

    def reader(self):
        return self.function("load"), self.function("sample")

    def test_the_worked_example(self):
        load, sample = self.reader()
        example = self.blocks("json")[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "example.json"
            path.write_text(example)
            found = sample(load(path, 2), lambda t, x: (1 + t) * x, 1.0)
        self.assertEqual(found, 2.625)
        self.assertIn("x_2 = 1 + 0.5 u_0 + 0.5 u_1 = 2.625", PAGE.read_text(encoding="utf-8"))
        solver = Solver.parse(example, 2)
        noise = np.ones((1, 1))
        self.assertEqual(solver.sample(lambda t, x: (1 + t[:, None]) * x, noise)[0, 0], 2.625)
        old = {"format": "bespoke-solver", "version": 1, **json.loads(example)["solvers"][1]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "old.json"
            path.write_text(json.dumps(old))
            self.assertEqual(sample(load(path, 2), lambda t, x: (1 + t) * x, 1.0), 2.625)

    def test_a_solver_that_guides_itself(self):
        _, sample = self.reader()
        plain = {"nfe": 3, "times": [0, 0.2, 0.7, 1], "a": [1, 0.9, 1.1],
                 "b": [[0.2], [0.1, 0.6], [0.3, 0.2, 0.4]], "start_scale": 0.8}

        def conditional(t, x):
            return (1 + t) * x

        def unconditional(t, x):
            return 0.5 * x - t
        guided = {**plain, "guided": [0, 1, 2], "c": [[2 * b for b in row] for row in plain["b"]]}
        found = self.function("sample_guided")(guided, conditional, unconditional, 1.5)
        expected = sample(plain, lambda t, x: 3 * conditional(t, x) - 2 * unconditional(t, x), 1.5)
        self.assertAlmostEqual(found, expected, places=12)
        calls = []
        guided["guided"], guided["c"] = [1], [[], [0.3], [0.4]]
        self.function("sample_guided")(guided, conditional,
                                       lambda t, x: calls.append(t) or unconditional(t, x), 1.5)
        self.assertEqual(calls, [0.2])

    def test_velocities_of_every_prediction(self):
        convert = self.function("velocity")
        load, sample = self.reader()
        schedule, noise, step = Schedule("cosine"), normal(3, 4, 3), 1e-6
        solver = Solver.named("dpm++2m/lambda-range", 5, schedule=schedule)
        expected = solver.sample(SMALL.field(schedule, "velocity"), noise)

        def slope(function, t):
            return (function(t + step) - function(t - step)) / (2 * step)
        with tempfile.TemporaryDirectory() as folder:
            solver.save(Path(folder) / "mine.json")
            numbers = load(Path(folder) / "mine.json", 5)
        for prediction in bespoke._core.predictions():
            def velocity(t, x, prediction=prediction):
                output = SMALL.field(schedule, prediction)(np.full(len(x), t), x)
                if prediction == "edm":  # F from D = 0.25 alpha x / q + 0.5 sigma F / sqrt(q)
                    alpha, sigma = schedule.alpha(t), schedule.sigma(t)
                    q = sigma ** 2 + 0.25 * alpha ** 2
                    data = SMALL.field(schedule, "data")(np.full(len(x), t), x)
                    output = (data - 0.25 * alpha / q * x) * q ** 0.5 / (0.5 * sigma)
                return convert(prediction, output, x, schedule.alpha(t), schedule.sigma(t),
                               slope(schedule.alpha, t), slope(schedule.sigma, t))
            np.testing.assert_allclose(sample(numbers, velocity, noise), expected, atol=1e-6,
                                       err_msg=prediction)

    def test_the_description_of_anothers_solver(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "theirs.json"
            path.write_text(self.blocks("json")[1])
            solver = Solver.imported(path)
        self.assertEqual((solver.name, solver.nfe, solver.prediction), ("theirs", 4, "noise"))
        self.assertEqual(solver.times, [0, 0.25, 0.5, 0.75, 1])


class Imports(unittest.TestCase):
    def test_times_alone_run_a_method(self):
        sigmas = [14.6146412293, 3.5, 1.2, 0.3]
        found = Solver.from_times("dpm++2m", sigmas=sigmas, schedule="ddpm-scaled-linear",
                                  prediction="noise")
        expected = Solver.named("dpm++2m/sigmas:14.6146412293,3.5,1.2,0.3,0", 4,
                                schedule="ddpm-scaled-linear", prediction="noise")
        self.assertEqual((found.times, found.a, found.b), (expected.times, expected.a, expected.b))
        self.assertEqual(found.prediction, "noise")
        self.assertEqual(Solver.from_times("euler", times=[0, 0.5, 1]).b, [[0.5], [0.5, 0.5]])
        self.assertEqual(Solver.from_times("ddim", timesteps=np.array([999, 499]),
                                           schedule="ddpm-linear").times, [0, 0.5, 1])
        with self.assertRaisesRegex(Error, "needs one of"):
            Solver.from_times("euler")

    def test_weights_and_steps(self):
        ddim = Solver.named("ddim", 4, schedule="vp", prediction="noise")
        for over in ("noise", "data", "slope"):
            found = Solver.from_weights([[1]] * 4, over, times=ddim.times, schedule="vp")
            for row, own in zip(found.b, ddim.b):
                np.testing.assert_allclose(row, own, rtol=1e-9, atol=1e-12)
        rows = [[0.0] * i + [1.0] for i in range(4)]
        steps = [[0.0] * i + [t1 - t0]
                 for i, (t0, t1) in enumerate(zip(ddim.times, ddim.times[1:]))]
        found = Solver.from_steps(rows, steps, times=ddim.times)
        self.assertEqual(found.a, [1, 1, 1, 1])
        np.testing.assert_allclose(found.b[3], np.diff(ddim.times), atol=1e-15)
        with self.assertRaisesRegex(Error, "unknown term"):
            Solver.from_weights([[1]], "epsilon", times=[0, 1])

    def test_files(self):
        solvers = Texts.setUp(self) or self.solvers
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "theirs.json"
            path.write_text(export.sigmas(solvers))
            found = Solver.imported(path, 5)
            np.testing.assert_allclose(found.b[4], solvers[1].b[4], rtol=1e-6)
            with self.assertRaisesRegex(Error, "3, 5"):
                Solver.imported(path)


if __name__ == "__main__":
    unittest.main()
