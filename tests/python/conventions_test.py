"""What models' own samplers do, from Python: clips, parts of paths, integer times, masks, and
samples of several arrays."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import bespoke._core
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import bespoke
from bespoke import Error, Schedule, Solver
from bespoke.arrays import arrays_of
from bespoke.clip import Clip
from bespoke.field import Field
from bespoke.field_trial import levels_of_time
from bespoke.k_diffusion import sample_bespoke, sigmas_of
from mixtures import NUMBERS, Counted, Mixture, two_gaussians

try:
    import torch
except ImportError:
    torch = None
COMPILED = not bespoke._core.__name__.endswith("plain_core")

SMALL = Mixture([[0.9, -0.4, 0.2, 0.5], [-0.5, 0.6, -0.3, 0.1]], [0.3, 0.4])
TIGHT = Clip(-0.4, 0.3)


def normal(seed, count, size):
    return bespoke._core.normal_noise(seed, 0, count, size)


def decibels(found, truth, peak=2.0):
    errors = ((found - truth) ** 2).reshape(len(truth), -1).mean(1)
    return float(np.mean(10 * np.log10(peak ** 2 / errors)))


class Clips(unittest.TestCase):
    def test_what_they_do(self):
        data = np.array([[-3.0, 0.5, 1.0, 2.0], [0.1, -0.2, 0.3, 0.4]])
        libraries = [data] + ([torch.from_numpy(data)] if torch else [])
        for x in libraries:
            arrays = arrays_of(x, "x")
            fixed = arrays.to_numpy(Clip(-1, 1).on(arrays, x))
            np.testing.assert_array_equal(fixed, np.clip(data, -1, 1))
            # Imagen's: s = the quantile of |x|, at least 1; here 2 of the first, 1 of the second.
            dynamic = arrays.to_numpy(Clip(-1, 1, 2 / 3, 9).on(arrays, x))
            np.testing.assert_allclose(dynamic, [[-1, 0.25, 0.5, 1], data[1]], atol=1e-12)
            capped = arrays.to_numpy(Clip(-1, 1, 2 / 3, 1.6).on(arrays, x))
            np.testing.assert_allclose(capped[0], np.clip(data[0], -1.6, 1.6) / 1.6)

    def test_how_they_are_said(self):
        for given, wanted in ((True, Clip(-1, 1)), (0.5, Clip(-0.5, 0.5)), ([-2, 1], Clip(-2, 1)),
                              ({"quantile": 0.99, "cap": 1.5}, Clip(-1, 1, 0.99, 1.5)),
                              ({"quantile": 0.9, "cap": 3, "range": [-2, 2]}, Clip(-2, 2, 0.9, 3))):
            self.assertEqual(Clip.of(given), wanted)
            self.assertEqual(Clip.of(wanted.describe()), wanted)
        self.assertIsNone(Clip.of(None))
        for given in ([1, -1], -1, "yes", {"quantile": 0.9}, {"quantile": 1.5, "cap": 2},
                      {"quantile": 0.9, "cap": 0.5}, [1, 2, 3], float("nan")):
            with self.assertRaisesRegex(Error, "clip"):
                Clip.of(given)

    def test_of_schedulers(self):
        self.assertIsNone(Clip.of_diffusers({"clip_sample": False}))
        self.assertEqual(Clip.of_diffusers({"clip_sample": True, "clip_sample_range": 2.0}),
                         Clip(-2, 2))
        self.assertEqual(Clip.of_diffusers({"thresholding": True, "clip_sample": True,
                                            "dynamic_thresholding_ratio": 0.9,
                                            "sample_max_value": 1.5}), Clip(-1, 1, 0.9, 1.5))

    def test_the_field_is_that_of_the_clipped_data(self):
        """u = alpha' D + sigma' E with the clipped D, and E what is left of x."""
        path, noise = Schedule("cosine"), normal(1, 5, 4)
        step = 1e-6
        for prediction in ("velocity", "noise", "data", "v", "score"):
            field = Field(SMALL.field(path, prediction), noise, prediction=prediction,
                          schedule=path, clip=TIGHT)
            for t in (0.2, 0.6, 0.9):
                alpha, sigma = path.alpha(t), path.sigma(t)
                slopes = [(f(t + step) - f(t - step)) / (2 * step)
                          for f in (path.alpha, path.sigma)]
                data, _ = SMALL.predict(np.full(5, alpha), np.full(5, sigma), noise)
                data = np.clip(data, -0.4, 0.3)
                expected = slopes[0] * data + slopes[1] * (noise - alpha * data) / sigma
                found = field.velocity(noise, [t], range(5))
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6,
                                           err_msg=f"{prediction} {t}")

    def test_what_is_clipped_is_guided(self):
        noise = normal(1, 3, 4)

        def given(t, x):
            return 0 * x + 0.5

        def plain(t, x):
            return 0 * x + 0.1
        field = Field(given, noise, prediction="data", guidance=1.0, unconditional=plain, clip=0.6)
        np.testing.assert_allclose(field.output(noise, [0.5], range(3)), 0.6)  # 0.9, clipped
        with self.assertRaisesRegex(Error, "built-in guidance"):
            field.parts(noise, [0.5], range(3), True)

    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_distilled_compared_saved_and_run(self):
        """As a field that clips by itself, which needs no word of it."""
        path = Schedule("vp")

        def by_hand(t, x):
            return np.clip(SMALL.field(path, "data")(t, x), -0.4, 0.3)
        found = [bespoke.fit(field, normal(1, 16, 4), 4, prediction=kind, schedule=path, clip=clip)
                 for field, kind, clip in ((SMALL.field(path, "noise"), "noise", TIGHT),
                                           (by_hand, "data", None))]
        np.testing.assert_allclose(found[0].psnr, found[1].psnr, atol=0.05)
        clipped, plain = (result.solver for result in found)
        self.assertEqual((clipped.clip, clipped.prediction, plain.clip), (TIGHT, "noise", None))
        again, fresh = Solver.parse(clipped.to_json()), normal(2, 8, 4)
        self.assertEqual(again.clip, TIGHT)
        samples = again.sample(SMALL.field(path, "noise"), fresh)
        expected = again.sample(by_hand, fresh, prediction="data")
        np.testing.assert_allclose(samples, expected, atol=1e-6)
        self.assertLess(np.abs(samples).max(), 0.6)
        table = bespoke.compare(SMALL.field(path, "noise"), fresh, [again, "euler"], 4,
                                prediction="noise", schedule=path, clip=TIGHT)
        self.assertIn("data clipped to [-0.4, 0.3]", str(table))
        self.assertGreater(table.rows[0].psnr, table.rows[1].psnr)
        with self.assertRaisesRegex(Error, "give clip="):
            bespoke.compare(SMALL.field(path, "noise"), fresh, [again], prediction="noise",
                            schedule=path)
        with self.assertRaisesRegex(Error, "data predictions alone"):
            again.lower("noise")

    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_samples_that_leave_the_range_are_noted(self):
        def weak(t, x):  # of data of deviation 0.3, with an error that alpha is too small for
            alpha, sigma = np.sin(np.pi * t / 2)[:, None], np.cos(np.pi * t / 2)[:, None]
            return 0.6 * sigma * x / (0.09 * alpha ** 2 + sigma ** 2)
        note = "does its sampler clip"
        for clip in (None, True):
            found = bespoke.fit(weak, normal(1, 8, 8), nfe=3, prediction="noise",
                                schedule="cosine", clip=clip).note
            self.assertEqual(note in found, clip is None)

    def test_in_the_space_of_sigmas(self):
        path, noise = Schedule("vp"), normal(3, 4, 4)
        solver = Solver.of([0.05, 0.4, 1.0], [0.9, 0.8], [[0.3], [0.1, 0.4]],
                           schedule=path.describe(), prediction="noise", clip=TIGHT)

        def denoiser(y, sigma):
            return SMALL.predict(np.ones(4), sigma, y)[0]
        sigmas = sigmas_of(solver)
        found = sample_bespoke(denoiser, noise * sigmas[0], sigmas, solver=solver)
        expected = solver.sample(SMALL.field(path, "noise"), noise)
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_lowered_to_clipped_data(self):
        path, noise = Schedule("vp"), normal(3, 4, 4)
        field = SMALL.field(path, "noise")
        solver = Solver.of([0.05, 0.4, 1.0], [0.9, 0.8], [[0.3], [0.1, 0.4]],
                           schedule=path.describe(), prediction="noise", clip=TIGHT)
        steps, x, outputs = solver.lower(), noise, []
        for i in range(steps.nfe):
            t = np.full(4, steps.times[i])
            alpha, sigma = path.alpha(t[0]), path.sigma(t[0])
            outputs.append(np.clip((x - sigma * field(t, x)) / alpha, -0.4, 0.3))
            x = steps.a[i] * noise + sum(b * f for b, f in zip(steps.b[i], outputs))
        np.testing.assert_allclose(x, solver.sample(field, noise), atol=1e-6)

    @unittest.skipUnless("BESPOKE_BINARY" in os.environ, "the program is not built")
    def test_files_of_the_program_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.solver.json"
            solver = Solver.of([0.1, 1.0], [0.9], [[0.3]], schedule="cosine", prediction="noise",
                               clip={"quantile": 0.9, "cap": 2})
            solver.save(path)
            shown = subprocess.run([os.environ["BESPOKE_BINARY"], "show", str(path)],
                                   capture_output=True, text=True, check=True)
            self.assertIn("0.9", shown.stdout)
            self.assertEqual(Solver.load(path), solver)


class Paths(unittest.TestCase):
    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_networks_are_told_the_time_of_the_whole_path(self):
        """A part of VP from 0.2 to 0.9: the reference is the classical method over these times."""
        whole = Schedule("vp")
        part = Schedule({"name": "vp", "start": 0.2, "end": 0.9})
        field, noise = SMALL.field(whole, "velocity"), normal(1, 8, 4)
        seen = []

        def watched(t, x):
            # The part's velocity is 0.7 times the whole path's, as its time runs over 0.7 of it.
            seen.extend(t.tolist())
            return 0.7 * field(t, x)
        problem = bespoke.Problem(watched, noise, schedule=part, tolerance=1e-8, held_out=0)
        solver = problem.fit(6).solver
        self.assertGreaterEqual(min(seen), 0.2)
        self.assertLessEqual(max(seen), 0.9)
        x, steps = noise, 400
        for i in range(steps):
            t, h = 0.2 + 0.7 * i / steps, 0.7 / steps
            at = [np.full(8, s) for s in (t, t + h / 2, t + h)]
            k1 = field(at[0], x)
            k2 = field(at[1], x + h / 2 * k1)
            k3 = field(at[1], x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(at[2], x + h * k3))
        self.assertGreater(decibels(solver.sample(watched, noise), x), 60)


def rounded(levels, rule):
    """A network of noise levels 0 ... levels - 1 that looks its index up."""
    path = Schedule({"name": "ddpm-linear", "steps": levels})
    exact = NUMBERS.field(path, "noise")

    def field(t, x):
        index = np.clip(rule(levels * (1 - t) - 1), 0, levels - 1)
        return exact(1 - (index + 1) / levels, x)
    return field, path


class Times(unittest.TestCase):
    def found(self, function, dtype=np.float32, **options):
        noise = normal(1, 2, 32).astype(dtype)
        return levels_of_time(Field(function, noise, **options), noise)

    def test_levels_are_counted(self):
        for levels, rule, dtype in ((1000, np.round, np.float32), (1000, np.floor, np.float16),
                                    (100, np.round, np.float32), (20, np.floor, np.float32)):
            field, path = rounded(levels, rule)
            self.assertEqual(self.found(field, dtype, prediction="noise", schedule=path), levels)

    def test_others_are_free(self):
        self.assertIsNone(self.found(lambda t, x: -x))  # takes no time
        for dtype in (np.float32, np.float16):
            self.assertIsNone(self.found(two_gaussians, dtype))

        def bfloat16(t, x):
            units = (1000 * (1 - t)).astype(np.float32)
            step = 2.0 ** (np.floor(np.log2(units)) - 7)
            return two_gaussians((1 - step * np.round(units / step) / 1000).astype(np.float32), x)
        self.assertIsNone(self.found(bfloat16))

    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_solvers_take_the_times_that_the_field_tells_apart(self):
        field, path = rounded(50, np.round)
        counted = Counted(field)
        result = bespoke.fit(counted, normal(1, 8, 32), nfe=4, prediction="noise", schedule=path)
        places = 50 * np.array(result.solver.times)
        np.testing.assert_allclose(places, np.round(places), atol=1e-9)
        self.assertIn("50 levels of noise", result.note)
        self.assertEqual(result.calls, counted.calls)
        free = bespoke.fit(field, normal(1, 8, 32), nfe=4, prediction="noise", schedule=path,
                           times="free")
        self.assertNotIn("levels", free.note)

    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_dropout_is_refused_at_once(self):
        rng = np.random.default_rng(0)

        def dropout(t, x):
            return two_gaussians(t, x * (rng.random(x.shape) > 0.1) / 0.9).astype(x.dtype)
        counted = Counted(dropout)
        for method in (bespoke.fit, bespoke.distill):
            with self.assertRaisesRegex(Error, "answers the same call differently"):
                method(counted, normal(1, 8, 32), nfe=4)
        self.assertLess(counted.calls, 50)


# Its numbers do not look at each other, so that some of them are a problem of their own.
def apart(t, x):
    return NUMBERS.field(Schedule("fm-ot"), "velocity")(t, x.reshape(len(x), -1)).reshape(x.shape)


@unittest.skipUnless(COMPILED, "the compiled module is not built")
class Masks(unittest.TestCase):
    def test_the_rest_is_no_part_of_the_problem(self):
        noise, known = normal(1, 12, 20), np.zeros((12, 20))
        known[:, :8] = 1
        for mask, conditions in ((known, {}), (known[0], {}), (known.astype(bool), {}),
                                 ("m", {"m": known}), ("not m", {"m": 1 - known})):
            def field(t, x, **unused):
                return apart(t, x)
            masked = bespoke.fit(field, noise, 4, error_mask=mask, conditions=conditions)
            small = bespoke.fit(apart, noise[:, :8], 4)
            self.assertAlmostEqual(masked.psnr, small.psnr, delta=0.02)
        whole = bespoke.fit(apart, noise, 4)
        self.assertGreater(abs(whole.psnr - small.psnr), 0.1)
        tables = [bespoke.compare(apart, *arguments, **options) for arguments, options in (
            ((noise, ["midpoint"], 8), {"error_mask": known}),
            ((noise[:, :8], ["midpoint"], 8), {}))]
        self.assertAlmostEqual(tables[0].rows[0].psnr, tables[1].rows[0].psnr, places=3)
        self.assertAlmostEqual(tables[0].rows[0].snr, tables[1].rows[0].snr, places=3)

    def test_a_row_for_each_sample(self):
        """The PSNR is the mean of those of what counts in each, however little it is."""
        noise, counts = normal(1, 3, 8), np.array([8, 2, 5])
        mask = np.arange(8) < counts[:, None]
        found = bespoke.compare(apart, noise, ["euler"], 6, error_mask=mask,
                                tolerance=1e-8).rows[0].psnr
        each = [bespoke.compare(apart, noise[k:k + 1, :n], ["euler"], 6,
                                tolerance=1e-8).rows[0].psnr for k, n in enumerate(counts)]
        self.assertAlmostEqual(found, np.mean(each), places=4)

    def test_axes_may_be_left_out(self):
        noise, nodes = normal(1, 4, 24).reshape(4, 6, 4), np.ones((4, 6))
        nodes[:, 4:] = 0
        found = bespoke.compare(apart, noise, ["euler"], 4, error_mask=nodes).rows[0].psnr
        small = bespoke.compare(apart, noise[:, :4], ["euler"], 4).rows[0].psnr
        self.assertAlmostEqual(found, small, places=3)

    def test_what_makes_no_sense(self):
        noise = normal(1, 4, 8)
        for mask, message in ((np.zeros(8), "sample 0 is 0"), (np.full(8, 0.5), "zeros and ones"),
                              (np.ones(5), "must go with 4 samples"), ("m", "conditions are: none"),
                              (object(), "array of zeros and ones")):
            with self.assertRaisesRegex(Error, message):
                bespoke.fit(apart, noise, 4, error_mask=mask)


class Structures(unittest.TestCase):
    SHAPES = {"nodes": (12, 3, 4), "edges": (12, 3, 3, 2)}

    @staticmethod
    def field(t, x):
        """Nodes and edges that look at each other."""
        edges = x["edges"] + 0.1 * x["nodes"].mean((1, 2))[:, None, None, None]
        return {"nodes": two_gaussians(t, x["nodes"]), "edges": two_gaussians(t, edges)}

    @classmethod
    def joined(cls, t, x):
        """The same on one array."""
        parts = {"nodes": x[:, :12].reshape(-1, 3, 4), "edges": x[:, 12:].reshape(-1, 3, 3, 2)}
        found = cls.field(t, parts)
        return np.concatenate([found[name].reshape(len(x), -1) for name in parts], 1)

    def test_solvers_run_on_dicts_and_tuples(self):
        noise = bespoke.noise(self.SHAPES, seed=3)
        flat = bespoke.noise((12, 30), seed=3)
        solver = Solver.of([0.05, 0.4, 1.0], [0.9, 0.8], [[0.3], [0.1, 0.4]])
        expected = solver.sample(self.joined, flat)
        found = solver.sample(self.field, noise)
        self.assertEqual(found["edges"].shape, (12, 3, 3, 2))
        np.testing.assert_allclose(found["nodes"].reshape(12, -1), expected[:, :12], atol=1e-6)
        np.testing.assert_allclose(found["edges"].reshape(12, -1), expected[:, 12:], atol=1e-6)

        def of_tuples(t, x):
            found = self.field(t, {"nodes": x[0], "edges": x[1]})
            return found["nodes"], found["edges"]
        pair = solver.sample(of_tuples, tuple(noise.values()))
        np.testing.assert_array_equal(pair[1], found["edges"])

    def test_learnt_from_the_first_samples(self):
        samplers = [bespoke.Sampler(field, steps=4, samples=1, say=False)
                    for field in (self.field, self.joined)]
        for seed in (1, 2):
            parted = samplers[0](bespoke.noise(self.SHAPES, seed))
            whole = samplers[1](bespoke.noise((12, 30), seed))
            np.testing.assert_allclose(parted["edges"].reshape(12, -1), whole[:, 12:], atol=1e-5)
        self.assertEqual(parted["nodes"].shape, (12, 3, 4))

    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_distilled_as_one_array(self):
        noise, flat = bespoke.noise(self.SHAPES, seed=3), bespoke.noise((12, 30), seed=3)
        parted, whole = (bespoke.distill(field, x, nfe=3, iterations=1)
                         for field, x in ((self.field, noise), (self.joined, flat)))
        self.assertAlmostEqual(parted.psnr, whole.psnr, places=3)
        comparison = bespoke.compare(self.field, noise, ["euler", parted], 3)
        self.assertGreater(comparison.rows[1].psnr, comparison.rows[0].psnr)
        mask = {"nodes": None, "edges": np.zeros((3, 3))}
        nodes = bespoke.compare(self.field, noise, ["euler"], 3, error_mask=mask).rows[0].psnr
        alone = bespoke.compare(two_gaussians, noise["nodes"], ["euler"], 3).rows[0].psnr
        self.assertAlmostEqual(nodes, alone, delta=0.01)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_tensors(self):
        noise = {name: torch.from_numpy(part)
                 for name, part in bespoke.noise(self.SHAPES, seed=3).items()}
        solver = Solver.of([0.05, 1.0], [0.9], [[0.3]])
        found = solver.sample(self.field, noise)
        expected = solver.sample(self.field, {name: part.numpy() for name, part in noise.items()})
        for name, part in expected.items():
            np.testing.assert_allclose(found[name].numpy(), part, atol=1e-6)

    def test_what_makes_no_sense(self):
        noise = bespoke.noise(self.SHAPES)
        solver = Solver.of([0.05, 1.0], [0.9], [[0.3]])
        for field, message in ((lambda t, x: x["nodes"], "must be a dict of nodes, edges"),
                               (lambda t, x: {"nodes": x["nodes"], "edges": x["nodes"]},
                                "edges of what field returns has the shape"),
                               (lambda t, x: {"nodes": 1, "edges": 2},
                                "nodes of what field returns must")):
            with self.assertRaisesRegex(Error, message):
                solver.sample(field, noise)
        with self.assertRaisesRegex(Error, "as many samples"):
            solver.sample(self.field, {"nodes": noise["nodes"], "edges": noise["edges"][:3]})
        with self.assertRaisesRegex(Error, "at least one array"):
            solver.sample(self.field, {})


if __name__ == "__main__":
    unittest.main()
