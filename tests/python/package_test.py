"""Tests of the package bespoke-solvers: the NumPy half, and all array types that are installed.

BESPOKE_PLAIN_ANSWERS, where it is set, is the program that solves the same problems in plain C++;
BESPOKE_BINARY the command line.
"""

import copy
import io
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

try:
    import numpy as np
    import bespoke._core
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import bespoke
from bespoke import Error, Schedule, Solver, plain_core
from bespoke import progress as progress_module
from bespoke.field import Field
from mixtures import Counted, Mixture, two_gaussians

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
    import jax.numpy
except ImportError:
    jax = None

SMALL = Mixture([[0.9, -0.4, 0.2, 0.5], [-0.5, 0.6, -0.3, 0.1], [0.1, 0.2, 0.9, -0.8]],
                [0.3, 0.4, 0.25])


def normal(seed, count, size):
    """Float64 noise of the core, sample by sample."""
    return bespoke._core.normal_noise(seed, 0, count, size)


def exact(mixture, schedule, noise, times, steps=300):
    """x(t) at these times by the classical Runge-Kutta method on dy/dr = D - E, y on FM-OT."""
    def slope(r, y):
        r = np.full(len(y), r)
        data, eps = mixture.predict(r, 1 - r, y)
        return data - eps

    def place(t):
        alpha, sigma = schedule.alpha(t), schedule.sigma(t)
        return alpha / (alpha + sigma), alpha + sigma

    r, scale = place(0.0)
    y, states = noise / scale, []
    for t in times:
        (end, scale), begin = place(t), r
        h = (end - begin) / steps
        for i in range(steps):
            r = begin + i * h
            k1 = slope(r, y)
            k2 = slope(r + h / 2, y + h / 2 * k1)
            k3 = slope(r + h / 2, y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(r + h, y + h * k3))
        r = end
        states.append(scale * y)
    return states


class Names(unittest.TestCase):
    def test_the_package_shows_its_public_names_alone(self):
        import bespoke.k_diffusion  # noqa: F401, a module that is imported must not show
        found = dir(bespoke)
        self.assertEqual(found, sorted([*bespoke.__all__, "__version__"]))
        self.assertEqual([name for name in found if name.startswith("_")], ["__version__"])
        with self.assertRaisesRegex(AttributeError, "has no attribute 'import_solver'"):
            bespoke.import_solver


class Schedules(unittest.TestCase):
    def test_closed_forms(self):
        for t in (0.0, 0.3, 1.0):
            self.assertEqual(Schedule("fm-ot").alpha(t), t)
            self.assertEqual(Schedule("fm-ot").sigma(t), 1 - t)
        s = 0.6
        log_alpha = -(s * s * (20 - 0.1) / 4 + s * 0.1 / 2)
        self.assertAlmostEqual(Schedule("vp").alpha(1 - s), np.exp(log_alpha), places=14)
        self.assertEqual(Schedule("edm:sigma_max=40").source_std, 40)
        self.assertAlmostEqual(Schedule("cosine").log_snr(0.5), 0, places=14)
        self.assertAlmostEqual(Schedule("cosine").time_at_log_snr(0), 0.5, places=14)

    def test_descriptions_read_back(self):
        for entry in bespoke.schedules():
            schedule = Schedule(entry.name)
            self.assertEqual(Schedule(schedule.describe()), schedule)
            # What is as it always was may be left out.
            self.assertLessEqual(schedule.describe().keys() - {"name"}, entry.defaults.keys())
        self.assertNotEqual(Schedule("vp"), Schedule("vp:B=19"))

    def test_copies_and_pickles_are_the_same(self):
        for given in ("vp", {"name": "edm", "sigma_max": 20}, "ddpm-linear"):
            schedule = Schedule(given)
            for other in (copy.copy(schedule), copy.deepcopy(schedule),
                          pickle.loads(pickle.dumps(schedule))):
                self.assertEqual(other, schedule)
                self.assertEqual(other.describe(), schedule.describe())

    def test_one_that_was_never_made_says_so(self):
        with self.assertRaisesRegex(Error, "was never made"):
            Schedule.__new__(Schedule).alpha(0.5)

    def test_what_is_no_description_is_refused(self):
        with self.assertRaisesRegex(Error, "a name, a dict or a Schedule, found int"):
            Schedule(3)

    def test_numbers_that_are_not_finite_are_refused(self):
        for value in (math.nan, math.inf):
            with self.assertRaisesRegex(Error, "numbers must be finite"):
                Schedule({"name": "vp", "B": value, "b": 0.1})
        with self.assertRaisesRegex(Error, "seed: must be at least 0, found -1"):
            bespoke.noise((2, 3), seed=-1)

    def test_unknown_names_are_refused_with_what_there_is(self):
        with self.assertRaisesRegex(Error, "fm-ot"):
            Schedule("fmot")

    def test_tables_may_be_given_whole(self):
        alphas = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)).tolist()
        table = Schedule({"name": "table", "alphas_cumprod": alphas})
        self.assertAlmostEqual(table.alpha(0.5), Schedule("ddpm-linear").alpha(0.5), places=12)


class Solvers(unittest.TestCase):
    def test_the_catalogue_names_solvers_that_can_be_made(self):
        names = [entry.name for entry in bespoke.catalogue()]
        self.assertEqual(len(set(names)), len(names))
        self.assertIn("dpm++2m", names)
        self.assertIn("karras", [grid.name for grid in bespoke.grids()])
        for name in names:
            nfe = 13 if name == "edm-heun" else 12  # whose last step is one evaluation
            self.assertEqual(Solver.named(name, nfe, schedule="vp").nfe, nfe)

    def test_euler_is_what_euler_is(self):
        euler = Solver.named("euler", 4)
        self.assertEqual(euler.times, [0, 0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(euler.a, 1)
        for i, row in enumerate(euler.b):
            np.testing.assert_allclose(row, [0.25] * (i + 1))

    def test_files_read_back_exactly(self):
        solver = Solver.of([0.1, 0.4, 1], [1 / 3, 2 / 7], [[0.1], [1e-17, 3]], start_scale=1.1,
                           name="mine", schedule="vp:B=19.5", prediction="noise", guidance=2.5,
                           provenance={"from": "a test"})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mine.solver.json"
            solver.save(path)
            again = Solver.load(path)
            self.assertEqual(json.loads(path.read_text())["format"], "bespoke-solver")
        self.assertEqual(again, solver)
        self.assertEqual((again.times, again.a, again.b), (solver.times, solver.a, solver.b))
        self.assertEqual((again.start_scale, again.guidance), (1.1, 2.5))
        self.assertEqual(again.provenance, {"from": "a test"})
        self.assertEqual(Solver.parse(solver.to_json()), solver)
        self.assertIn("2 evaluations", repr(again))

    def test_copies_and_pickles_of_solvers_are_the_same(self):
        solver = Solver.named("dpm++2m/karras", 5, schedule="vp", prediction="noise")
        for other in (copy.deepcopy(solver), pickle.loads(pickle.dumps(solver))):
            self.assertEqual(other, solver)
            self.assertEqual(other.times, solver.times)

    def test_files_of_several_solvers(self):
        solvers = [Solver.named("dpm++2m", n, schedule="vp") for n in (8, 4)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "both.solver.json"
            bespoke.save_solvers(path, solvers)
            text = json.loads(path.read_text())
            self.assertEqual([one["nfe"] for one in text["solvers"]], [4, 8])
            self.assertEqual(text["name"], "dpm++2m")
            for solver in solvers:
                found = Solver.load(path, solver.nfe)
                self.assertEqual((found.times, found.a, found.b),
                                 (solver.times, solver.a, solver.b))
                self.assertEqual(found.provenance, solver.provenance)
                self.assertEqual(Solver.parse(path.read_text(), solver.nfe), found)
            self.assertEqual([solver.nfe for solver in Solver.load_all(path)], [4, 8])
            with self.assertRaisesRegex(Error, "4 and 8|4, 8"):
                Solver.load(path)
            with self.assertRaisesRegex(Error, "no solver of 6 evaluations"):
                Solver.load(path, 6)
            rows = bespoke.compare(SMALL.field(Schedule("vp")), normal(1, 4, 4), [str(path)],
                                   schedule="vp", progress=False).rows
            self.assertEqual([row.nfe for row in rows], [4, 8])
            with self.assertRaisesRegex(Error, "two solvers have 4 evaluations"):
                bespoke.save_solvers(path, [solvers[1], solvers[1]])
            with self.assertRaisesRegex(Error, "for one field"):
                bespoke.save_solvers(path, [solvers[0], Solver.named("euler", 4)])
            with self.assertRaisesRegex(Error, "at least one solver"):
                bespoke.save_solvers(path, [])
            self.assertEqual([solver.nfe for solver in Solver.load_all(path)], [4, 8])

    def test_files_say_how_the_network_counts_time(self):
        document = json.loads(Solver.named("euler", 2).to_json())
        self.assertIsNone(Solver.parse(json.dumps(document)).time)
        document["field"]["time"] = {"convention": "index", "levels": 1000}
        solver = Solver.parse(json.dumps(document))
        self.assertEqual(solver.time, {"convention": "index", "levels": 1000})
        self.assertEqual(Solver.parse(solver.to_json()).time, solver.time)
        document["field"]["time"] = {"convention": "index"}
        with self.assertRaisesRegex(Error, "levels"):
            Solver.parse(json.dumps(document))

    def test_files_of_version_1_are_read(self):
        old = {"format": "bespoke-solver", "version": 1, "name": "old", "nfe": 1, "times": [0, 1],
               "a": [1], "b": [[1]], "field": {"prediction": "velocity", "guidance": 0,
                                               "schedule": {"name": "fm-ot"}}}
        self.assertEqual(Solver.parse(json.dumps(old)).times, [0, 1])

    def test_solvers_with_built_in_guidance_are_read(self):
        file = {"format": "bespoke-solver", "version": 2, "name": "own",
                "field": {"prediction": "velocity", "guidance": 2, "schedule": {"name": "fm-ot"}},
                "solvers": [{"nfe": 1, "times": [0, 1], "a": [1], "b": [[1]], "guided": [0],
                             "c": [[2]]}]}
        solver = Solver.parse(json.dumps(file))
        noise = normal(1, 4, 3)
        # u = x conditionally, 0.5 x without: x_1 = x_0 + x_0 + 2 (x_0 - 0.5 x_0).
        found = solver.sample(lambda t, x: x, noise, unconditional=lambda t, x: 0.5 * x)
        np.testing.assert_allclose(found, 3 * noise, rtol=1e-14)
        with self.assertRaisesRegex(Error, "unconditional="):
            solver.sample(lambda t, x: x, noise)
        with self.assertRaisesRegex(Error, "built-in guidance"):
            solver.lower()

    def test_bad_files_and_numbers_are_refused(self):
        with self.assertRaisesRegex(Error, "nothing.json"):
            Solver.load("nothing.json")
        with self.assertRaisesRegex(Error, "not a solver file"):
            Solver.parse("{}")
        with self.assertRaises(Error):
            Solver.of([0, 1], [1, 1], [[1], [1, 1]])
        with self.assertRaisesRegex(Error, "unknown solver|midpoint"):
            Solver.named("midpont", 8)
        with self.assertRaises(Error):
            Solver.named("midpoint", 7)

    def test_constant_and_linear_fields_are_closed_forms(self):
        noise = normal(0, 3, 5)
        constant = Solver.named("euler", 3).sample(lambda t, x: np.ones_like(x), noise)
        np.testing.assert_allclose(constant, noise + 1, rtol=1e-15)
        decay = Solver.named("midpoint", 8).sample(lambda t, x: -x, noise)
        np.testing.assert_allclose(decay, noise * (1 - 0.25 + 0.25 ** 2 / 2) ** 4, rtol=1e-14)

    def test_steps_are_told(self):
        seen = []
        noise = normal(0, 2, 3)
        x = Solver.named("euler", 4).sample(lambda t, x: -x, noise, on_step=lambda i, t, x:
                                            seen.append((i, t, x)))
        self.assertEqual([step[:2] for step in seen],
                         [(0, 0.25), (1, 0.5), (2, 0.75), (3, 1.0)])
        np.testing.assert_array_equal(seen[-1][2], x)

    def test_every_prediction_gives_the_same_samples(self):
        noise = normal(1, 6, 4)
        for name in ("vp", "cosine", "fm-ot"):
            schedule = Schedule(name)
            solver = Solver.named("dpm++2m/lambda-range:from=-3,to=3", 6, schedule=schedule)
            expected = solver.sample(SMALL.field(schedule), noise)
            for prediction in ("noise", "data", "v"):
                found = solver.sample(SMALL.field(schedule, prediction), noise,
                                      prediction=prediction)
                np.testing.assert_allclose(found, expected, atol=1e-7, err_msg=prediction)

    def test_a_lowered_solver_needs_no_schedule(self):
        schedule = Schedule("vp")
        noise = normal(2, 5, 4)
        solver = Solver.named("unipc2-bh2/karras", 6, schedule=schedule, prediction="noise")
        field = SMALL.field(schedule, "noise")
        lowered = solver.lower(precision="float64")
        x0 = x = lowered.start_scale * noise
        outputs = []
        for i in range(lowered.nfe):
            outputs.append(field(np.full(5, lowered.times[i]), x))
            x = lowered.a[i] * x0 + sum(b * f for b, f in zip(lowered.b[i], outputs))
        np.testing.assert_allclose(x, solver.sample(field, noise), rtol=1e-9, atol=1e-9)

    def test_in_the_space_of_sigmas_the_same_images_come_out(self):
        schedule = Schedule("vp")
        noise = normal(3, 5, 4)
        solver = Solver.named("dpm++2m/karras", 6, schedule=schedule, prediction="noise")
        lowered = solver.lower_to_sigmas(precision="float64")
        y0 = y = lowered.start_scale * noise
        slopes = []
        for i in range(lowered.nfe):
            sigma = np.full(5, lowered.sigmas[i])
            slopes.append(SMALL.predict(np.ones(5), sigma, y)[1])
            y = lowered.a[i] * y0 + sum(b * d for b, d in zip(lowered.b[i], slopes))
        x = solver.sample(SMALL.field(schedule, "noise"), noise)
        np.testing.assert_allclose(schedule.alpha(solver.times[-1]) * y, x, rtol=1e-8, atol=1e-8)


class References(unittest.TestCase):
    """By way of compare, whose truth the reference is, and of the trajectories themselves."""

    def test_samples_and_trajectories_against_runge_kutta(self):
        from bespoke.trajectories import reference
        times = [0.05, 0.3, 0.62, 0.97, 1.0]
        for name, prediction in (("fm-ot", "velocity"), ("fm-ot", "noise"), ("cosine", "data"),
                                 ("vp", "noise"), ("vp", "v"), ("edm", "data")):
            schedule = Schedule(name)
            noise = schedule.source_std * normal(4, 5, 4)
            field = Field(SMALL.field(schedule, prediction), noise, prediction=prediction,
                          schedule=schedule)
            found = reference(field, noise, range(5), 1e-9, record=True)
            truth = exact(SMALL, schedule, noise, times)
            for t, states in zip(times, truth):
                state = found.trajectories.state_at(t, range(5))
                np.testing.assert_allclose(state, states, atol=2e-5 * schedule.source_std,
                                           err_msg=f"{name} {prediction} t = {t}")
            np.testing.assert_allclose(found.x, truth[-1], atol=2e-6)

    def test_a_sample_does_not_depend_on_its_batch(self):
        from bespoke.trajectories import reference
        noise = normal(5, 6, 4)
        schedule = Schedule("fm-ot")
        field = Field(SMALL.field(schedule), noise)
        together = reference(field, noise, range(6), 1e-5)
        alone = reference(field, noise[3:4], [3], 1e-5)
        np.testing.assert_allclose(together.x[3:4], alone.x, rtol=1e-13)

    def test_a_model_that_is_not_finite_is_said_so(self):
        with self.assertRaisesRegex(bespoke.DivergedError, "NaN"):
            bespoke.fit(lambda t, x: x * np.nan, normal(0, 8, 4), nfe=3, progress=False)


class Methods(unittest.TestCase):
    def setUp(self):
        self.noise = normal(1, 40, 8)

    def test_paths_that_start_from_large_noise(self):
        for description in ("ve", "edm", {"name": "edm", "sigma_min": 0.002, "sigma_max": 60.0},
                            "ve-power"):
            path = Schedule(description)
            noise, fresh = (bespoke.noise((24, 4), seed=seed, schedule=path) for seed in (1, 2))
            for prediction in ("noise", "data"):
                result = bespoke.fit(SMALL.field(path, prediction), noise, nfe=8, schedule=path,
                                     prediction=prediction, progress=False)
                self.assertGreater(result.psnr, 60, (description, prediction))
                found = result.solver.sample(SMALL.field(path, prediction), fresh)
                error = ((found - self.by_small_steps(path, fresh)) ** 2).mean(1)
                self.assertGreater(float(np.mean(10 * np.log10(4 / error))), 60, description)

    @staticmethod
    def by_small_steps(path, noise):
        """Midpoint steps in the logarithm of sigma, where alpha is 1."""
        least = max(path.sigma(1.0), 1e-4)
        levels, y = np.geomspace(path.source_std, least, 3000), noise.astype(np.float64)

        def slope(y, s):
            return y - SMALL.predict(np.ones(len(y)), np.full(len(y), s), y)[0]
        for high, low in zip(levels, levels[1:]):
            middle, h = np.sqrt(high * low), np.log(low / high)
            y = y + h * slope(y + h / 2 * slope(y, high), middle)
        return y

    def test_the_fit_beats_the_catalogue_and_direct_the_fit(self):
        for nfe in (4, 6):
            fitted = bespoke.fit(two_gaussians, self.noise, nfe=nfe, progress=False)
            better = bespoke.distill(two_gaussians, self.noise, nfe=nfe, progress=False)
            comparison = bespoke.compare(two_gaussians, normal(9, 48, 8),
                                         ["euler", "midpoint", "dpm++2m", fitted, better],
                                         nfe=nfe, progress=False)
            psnr = {row.name: row.psnr for row in comparison.rows}
            self.assertGreater(psnr["bns"], psnr["midpoint"] + 10)
            self.assertGreater(psnr["bns (2)"], psnr["bns"])
            self.assertGreater(better.psnr, fitted.psnr)
            self.assertEqual(fitted.iterations, 0)
            self.assertEqual(comparison.best().nfe, nfe)
            self.assertIn("bns (2)", comparison.table())
        # By its iterations too, not by more careful fits alone.
        self.assertGreater(better.choosing_psnr, better.initial_psnr + 10)

    def test_psnr_is_that_of_the_held_out_samples(self):
        result = bespoke.fit(two_gaussians, self.noise, nfe=4, held_out=12, tolerance=1e-8,
                             progress=False)
        held = self.noise[-6:]
        x, truth = result.solver.sample(two_gaussians, held), held
        for i in range(4000):
            t, h = np.full(6, i / 4000), 1 / 4000
            k1 = two_gaussians(t, truth)
            k2 = two_gaussians(t + h / 2, truth + h / 2 * k1)
            k3 = two_gaussians(t + h / 2, truth + h / 2 * k2)
            truth = truth + h / 6 * (k1 + 2 * k2 + 2 * k3 + two_gaussians(t + h, truth + h * k3))
        errors = ((x - truth) ** 2).mean(1)
        decibels = 10 * np.log10(4 / errors)
        self.assertAlmostEqual(result.psnr, np.mean(decibels), places=2)
        self.assertAlmostEqual(result.psnr_error, np.std(decibels, ddof=1) / 6 ** 0.5, places=2)
        self.assertEqual(result.held_out, 6)
        self.assertIn("+- ", str(result))
        self.assertIn("6 samples measured it, which is few", result.note)

    def test_samples_that_measure_take_no_part(self):
        others = self.noise.copy()
        others[-6:] = normal(77, 6, 8)
        options = dict(nfe=4, held_out=12, progress=False)
        for find in (bespoke.fit, bespoke.distill):
            result = find(two_gaussians, self.noise, **options)
            again = find(two_gaussians, others, **options)
            self.assertEqual(result.solver.b, again.solver.b)
            self.assertEqual(result.choosing_psnr, again.choosing_psnr)
            self.assertNotEqual(result.psnr, again.psnr)
            self.assertEqual((result.chosen_by, result.held_out), (6, 6))
            self.assertEqual(result.solver.provenance["held_out"], 6)
            self.assertEqual(result.solver.provenance["chosen_by"], 6)
            self.assertEqual(result.solver.provenance["held_out_psnr"], result.psnr)

    def test_all_calls_are_counted_and_a_budget_is_kept(self):
        for budget in (None, 7000, 5000, 500, 60):
            field = Counted(two_gaussians)
            result = bespoke.distill(field, self.noise, nfe=4, calls=budget, progress=False)
            self.assertEqual(result.calls, field.calls)
            self.assertLess(result.reference_calls, result.calls)
            if budget:
                self.assertLessEqual(result.calls, budget)
                self.assertGreaterEqual(result.iterations, int(budget >= 5000))
            self.assertEqual(result.solver.provenance["calls"], field.calls)
        self.assertIn("60 calls do not suffice for an iteration", result.note)
        self.assertEqual(result.iterations, 0)
        with self.assertRaisesRegex(bespoke.Error, "of 19 calls .* at least 16"):
            bespoke.distill(two_gaussians, self.noise, nfe=4, calls=19, progress=False)

    def test_both_calls_of_guidance_are_paid_for(self):
        def plain(t, x):
            return 0.5 * two_gaussians(t, x)

        for arguments in ({"nfe": 4}, {"network_calls": 8}):
            field, other = Counted(two_gaussians), Counted(plain)
            result = bespoke.distill(field, self.noise, guidance=1.5, unconditional=other,
                                     calls=3000, progress=False, **arguments)
            self.assertEqual(result.calls, field.calls + other.calls)
            self.assertLessEqual(result.calls, 3000)

    def test_questions_reach_the_model_in_few_even_batches(self):
        batches = []

        def field(t, x):
            batches.append(len(x))
            return two_gaussians(t, x)

        for batch in (None, 7):
            batches.clear()
            result = bespoke.distill(field, self.noise[:24], nfe=4, held_out=8, batch=batch,
                                     iterations=2, progress=False)
            self.assertEqual(sum(batches), result.calls)
            if batch is not None:
                self.assertLessEqual(max(batches), batch)

    def test_a_field_may_write_into_its_states(self):
        def greedy(t, x):
            u = two_gaussians(t, x)
            x *= 0.5
            return u

        solver = Solver.named("midpoint", 4)
        np.testing.assert_array_equal(solver.sample(greedy, self.noise),
                                      solver.sample(two_gaussians, self.noise))
        found = bespoke.distill(greedy, self.noise, nfe=3, iterations=1, progress=False)
        expected = bespoke.distill(two_gaussians, self.noise, nfe=3, iterations=1, progress=False)
        self.assertEqual(found.solver.b, expected.solver.b)

    def test_numbers_of_evaluations_are_whole(self):
        for nfe in ((4, 6.5), 2.5, "8", True):
            with self.assertRaisesRegex(bespoke.Error, "nfe must be a whole number"):
                bespoke.fit(two_gaussians, self.noise, nfe=nfe, progress=False)
        with self.assertRaisesRegex(bespoke.Error, "at least one number"):
            bespoke.fit(two_gaussians, self.noise, nfe=(), progress=False)

    def test_several_numbers_of_evaluations_give_one_artefact(self):
        results = bespoke.fit(two_gaussians, self.noise, nfe=(6, 4), progress=False)
        self.assertEqual([result.solver.nfe for result in results], [4, 6])
        self.assertEqual(results[0].reference_calls, results[1].reference_calls)
        alone = bespoke.fit(two_gaussians, self.noise, nfe=6, progress=False)
        self.assertEqual(results.at(6).solver.b, alone.solver.b)
        with self.assertRaisesRegex(bespoke.Error, "only of 4, 6"):
            results.at(5)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "both.solver.json")
            results.save(path)
            self.assertEqual([solver.nfe for solver in Solver.load_all(path)], [4, 6])
        self.assertEqual(results._repr_html_().count("<tr>"), 3)

    def test_samples_that_are_not_finite_are_left_out(self):
        noise = self.noise.copy()
        noise[3] *= 40

        def broken(t, x):
            return np.where(np.abs(x).max(1, keepdims=True) > 9, np.nan, two_gaussians(t, x))
        result = bespoke.fit(broken, noise, nfe=4, progress=False)
        self.assertIn("1 of 40 samples left out", result.note)
        others = np.delete(noise, 3, axis=0)
        # As if it had never been there.
        alone = bespoke.fit(two_gaussians, others, nfe=4, held_out=10, progress=False)
        np.testing.assert_allclose(result.solver.times, alone.solver.times, rtol=1e-12)
        np.testing.assert_allclose(result.solver.a, alone.solver.a, rtol=1e-9)
        comparison = bespoke.compare(broken, noise, ["euler"], 4, progress=False)
        self.assertEqual(comparison.samples, 39)
        self.assertIn("1 of 40 samples left out", str(comparison))

    def test_solvers_with_built_in_guidance_are_found_and_run(self):
        def plain(t, x):
            return 0.5 * two_gaussians(t, x)

        result = bespoke.distill(two_gaussians, self.noise, network_calls=8, guidance=1.5,
                                 unconditional=plain, progress=False)
        solver = result.solver
        self.assertEqual(solver.nfe + len(solver.core.guided), 8)
        noise = normal(3, 16, 8)
        comparison = bespoke.compare(two_gaussians, noise, [solver, "midpoint"], nfe=4,
                                     guidance=1.5, unconditional=plain, progress=False)
        psnr = {row.name: row.psnr for row in comparison.rows}
        self.assertGreater(psnr[solver.name], psnr["midpoint"] + 10)
        with self.assertRaisesRegex(bespoke.Error, "unconditional="):
            solver.sample(two_gaussians, noise)
        with self.assertRaisesRegex(bespoke.Error, "has guidance w = 1.5 .* built in and no "
                                                   "other; this run has guidance w = 2 "):
            bespoke.compare(two_gaussians, noise, [solver], nfe=4, guidance=2,
                            unconditional=plain, progress=False)

    def test_a_problem_draws_its_samples_once(self):
        field = Counted(two_gaussians)
        problem = bespoke.Problem(field, self.noise)
        results = [problem.fit(3, progress=False), problem.distill(4, calls=4000, progress=False)]
        once = results[0].reference_calls
        self.assertEqual(results[1].reference_calls, once)
        self.assertEqual(field.calls, sum(result.calls - once for result in results) + once)
        self.assertLessEqual(results[1].calls, 4000)
        with self.assertRaisesRegex(bespoke.Error, "the model's own samples took"):
            problem.distill(4, calls=once, progress=False)

    def test_the_distribution_is_matched_by_any_features(self):
        noise, shapes = normal(1, 120, 8), []

        def features(x):
            shapes.append(x.shape[1:])
            return np.hstack([x, np.abs(x)])

        plain = bespoke.distill(two_gaussians, noise, nfe=1, progress=False)
        found = {match: bespoke.distill(two_gaussians, noise, nfe=1, match=match, progress=False,
                                        features=features) for match in ("auto", "both")}
        self.assertEqual(set(shapes), {(8,)})
        self.assertEqual(found["auto"].solver.core, found["both"].solver.core)
        told = found["both"].solver.provenance["match"]
        self.assertLess(told["statistics_distance"][1], told["statistics_distance"][0])
        self.assertEqual(told["psnr_before"], plain.choosing_psnr)
        spread = {name: np.abs(result.solver.sample(two_gaussians, noise)).mean()
                  for name, result in (("plain", plain), ("both", found["both"]))}
        truth = np.abs(bespoke.Solver.named("rk4", 200).sample(two_gaussians, noise)).mean()
        self.assertLess(abs(spread["both"] - truth), abs(spread["plain"] - truth))

    def test_without_features_plain_numbers_are_matched(self):
        result = bespoke.distill(two_gaussians, normal(1, 120, 8), nfe=1, match="both",
                                 progress=False)
        self.assertIn("match", result.solver.provenance)

    def test_groups_are_matched_apart(self):
        noise = normal(1, 120, 8)

        def found(**how):
            return bespoke.distill(two_gaussians, noise, nfe=1, match="both", progress=False,
                                   features=lambda x: np.hstack([x, np.abs(x)]), **how).solver.core

        self.assertEqual(found(match_groups=[5] * 120), found())
        self.assertNotEqual(found(match_groups=np.arange(120) % 3), found())
        with self.assertRaisesRegex(Error, "each of the 120 samples, found 3"):
            found(match_groups=[1, 2, 3])

    def test_bad_features_are_said(self):
        noise = normal(1, 120, 8)
        for features, said in ((lambda x: x[:, 0], "a row of numbers for each sample"),
                               (lambda x: x[1:], "a row for each"),
                               (lambda x: x * np.nan, "NaN or infinity among the features"),
                               (lambda x: 0 * x, "all 8 features are the same")):
            with self.assertRaisesRegex(Error, said):
                bespoke.distill(two_gaussians, noise, nfe=1, features=features, progress=False)
        with self.assertRaisesRegex(Error, "match"):
            bespoke.distill(two_gaussians, noise, nfe=1, match="set", progress=False)

    def test_starts_may_be_named(self):
        result = bespoke.distill(two_gaussians, self.noise, nfe=4, progress=False,
                                 starts=["midpoint", Solver.named("euler", 4)])
        self.assertIn(result.start, ("midpoint", "euler"))
        self.assertGreater(result.choosing_psnr, result.initial_psnr + 10)

    def test_micro_batches_change_nothing(self):
        whole = bespoke.distill(two_gaussians, self.noise, nfe=3, progress=False)
        field = Counted(two_gaussians)
        parts = bespoke.distill(field, self.noise, nfe=3, batch=3, progress=False)
        self.assertEqual(field.largest, 3)
        self.assertEqual(parts.calls, whole.calls)
        np.testing.assert_allclose(parts.solver.a, whole.solver.a, rtol=1e-9)

    def test_conditions_go_with_their_samples(self):
        shift = np.linspace(-1, 1, 40)
        names = [str(k) for k in range(40)]

        def shifted(t, x, shift, name):
            for row, (value, text) in enumerate(zip(shift, name)):
                assert value == np.linspace(-1, 1, 40)[int(text)], row
            return two_gaussians(t, x) + shift[:, None]
        result = bespoke.distill(shifted, self.noise, nfe=3, batch=7, progress=False,
                                 conditions={"shift": shift, "name": names})
        x = result.solver.sample(shifted, self.noise, conditions={"shift": shift, "name": names})
        self.assertEqual(x.shape, self.noise.shape)
        with self.assertRaisesRegex(Error, "condition shift has 3 entries for 40 samples"):
            bespoke.fit(shifted, self.noise, conditions={"shift": shift[:3]})
        with self.assertRaisesRegex(Error, "close over"):
            bespoke.fit(shifted, self.noise, conditions={"shift": 3})

    def test_guidance_is_that_of_both_predictions(self):
        def other(t, x):
            return 0.5 * two_gaussians(t, x)

        def guided(t, x):
            w = np.where(t < 0.5, 1 + 2 * t, 2.0).reshape(-1, 1)
            return (1 + w) * two_gaussians(t, x) - w * other(t, x)
        field = Counted(two_gaussians)
        plain = Counted(other)
        inner = bespoke.fit(field, self.noise, nfe=3, guidance="0:1,0.5:2", unconditional=plain,
                            progress=False)
        outer = bespoke.fit(guided, self.noise, nfe=3, progress=False)
        np.testing.assert_allclose(inner.solver.a, outer.solver.a, rtol=1e-6)
        self.assertEqual(inner.calls, field.calls + plain.calls)
        self.assertEqual(inner.calls, 2 * outer.calls)
        self.assertEqual(inner.solver.guidance["points"], [[0, 1], [0.5, 2]])
        with self.assertRaisesRegex(Error, "unconditional"):
            bespoke.fit(two_gaussians, self.noise, guidance=2)

    def test_the_start_scale_can_be_held_at_one(self):
        for method in (bespoke.fit, bespoke.distill):
            free = method(two_gaussians, self.noise, nfe=4, progress=False)
            held = method(two_gaussians, self.noise, nfe=4, start_scale=1, progress=False)
            self.assertNotEqual(free.solver.start_scale, 1)
            self.assertEqual(held.solver.start_scale, 1)
        self.assertGreater(held.iterations, 0)
        with self.assertRaisesRegex(Error, 'start_scale is "free" or 1, found 2'):
            bespoke.fit(two_gaussians, self.noise, start_scale=2)

    def test_times_can_be_those_of_a_tool_that_rounds_them(self):
        for times, levels in (("integer", 1000), ("integer:50", 50)):
            for method in (bespoke.fit, bespoke.distill):
                solver = method(two_gaussians, self.noise, nfe=4, times=times,
                                progress=False).solver
                numbers = levels * (1 - np.array(solver.times))
                np.testing.assert_allclose(numbers, np.round(numbers), atol=1e-9)
        with self.assertRaisesRegex(Error, "integer"):
            bespoke.fit(two_gaussians, self.noise, times="whole")

    def test_a_range_of_guidance_gives_each_sample_its_own_weight(self):
        def other(t, x):
            return 0.5 * two_gaussians(t, x)
        sampled = Solver.named("euler", 1).sample(two_gaussians, self.noise, guidance="1-3",
                                                  unconditional=other)
        u = two_gaussians(np.zeros(40), self.noise)
        weights = ((sampled - self.noise - u) / (0.5 * u)).mean(1)
        self.assertTrue(((weights >= 1) & (weights < 3)).all())
        gaps = np.diff(np.sort(weights))
        self.assertLess(gaps.max(), 3 * 2 / 40)
        result = bespoke.fit(two_gaussians, self.noise, nfe=3, guidance="1-3", unconditional=other,
                             progress=False)
        self.assertEqual(result.solver.guidance, {"from": 1, "to": 3})

    def test_methods_that_need_gradients_are_refused(self):
        field = Counted(two_gaussians)
        with self.assertRaisesRegex(Error, "needs gradients.*auto, fit or direct"):
            bespoke.distill(field, self.noise, method="adam")
        with self.assertRaisesRegex(Error, "method"):
            bespoke.distill(field, self.noise, method="newton")
        self.assertEqual(field.calls, 0)
        result = bespoke.distill(two_gaussians, self.noise, nfe=3, method="direct", iterations=2,
                                 progress=False)
        self.assertEqual((result.iterations, result.ending), (2, "iterations"))

    def test_results_say_where_they_came_from(self):
        result = bespoke.fit(SMALL.field(Schedule("vp"), "noise"), normal(1, 16, 4), nfe=4,
                             schedule="vp", prediction="noise", name="small", progress=False)
        self.assertEqual(result.solver.name, "small")
        self.assertEqual(result.solver.schedule, Schedule("vp"))
        self.assertEqual(result.solver.prediction, "noise")
        self.assertEqual(result.solver.provenance["calls"], result.calls)
        self.assertIn("4 evaluations reach", str(result))


class Interrupts(unittest.TestCase):
    """Ctrl-C is a KeyboardInterrupt in the middle of a call."""

    @staticmethod
    def stop():
        raise KeyboardInterrupt

    def test_the_best_so_far_is_kept_whenever_there_is_one(self):
        noise = normal(1, 40, 8)
        plain = bespoke.distill(two_gaussians, noise, nfe=4, progress=False)
        fitted = bespoke.fit(two_gaussians, noise, nfe=4, progress=False)
        kept = 0
        for at in range(plain.reference_calls + 150, plain.calls, 97):
            field = Counted(two_gaussians, at, self.stop)
            result = bespoke.distill(field, noise, nfe=4, progress=False)
            self.assertEqual(result.ending, "interrupted")
            self.assertIn("best solver so far", result.note)
            self.assertLess(result.calls, plain.calls + 1)
            self.assertTrue(np.isfinite(result.solver.sample(two_gaussians, noise)).all())
            kept += result.psnr > fitted.psnr
        self.assertGreater(kept, 0)

    def test_before_there_is_one_it_is_an_interrupt(self):
        for at in (1, 500):
            with self.assertRaises(KeyboardInterrupt):
                bespoke.distill(Counted(two_gaussians, at, self.stop), normal(1, 40, 8), nfe=4,
                                progress=False)

    def test_other_errors_of_the_field_come_through(self):
        def fail():
            raise LookupError("no such prompt")
        for at in (1, 2000, 3000):
            with self.assertRaisesRegex(LookupError, "no such prompt"):
                bespoke.distill(Counted(two_gaussians, at, fail), normal(1, 40, 8), nfe=4,
                                progress=False)


class Refusals(unittest.TestCase):
    def check(self, pattern, *arguments, **options):
        with self.assertRaisesRegex(Error, pattern):
            bespoke.fit(*arguments, progress=False, **options)

    def test_what_cannot_be_used_is_said(self):
        noise = normal(0, 8, 4)
        self.check("callable", 3, noise)
        self.check("must be an array of NumPy", two_gaussians, [[0.0, 1.0]])
        self.check("in float64 or narrower.*float128", two_gaussians, noise.astype(np.longdouble))
        self.check("without a mask.*MaskedArray", two_gaussians, np.ma.masked_array(noise))
        self.check("must be an array.*int64", two_gaussians, np.zeros((3, 4), dtype=np.int64))
        self.check("first axis", two_gaussians, np.zeros(4))
        self.check("first axis", two_gaussians, np.zeros((0, 4)))
        self.check("returned an array of shape", lambda t, x: x[:, :2], noise)
        self.check(r"learned variance\? return f\[:, :4\]",
                   lambda t, x: np.concatenate([x, x], 1), noise)
        self.check("floating-point array of NumPy", lambda t, x: (x, x), noise)
        self.check("batch must be", two_gaussians, noise, batch=0)
        self.check("held_out", two_gaussians, noise, held_out=8)
        self.check("unknown prediction|velocity", two_gaussians, noise, prediction="epsylon")
        self.check("schedule must be", two_gaussians, noise, schedule=3)
        self.check("from 1 to", two_gaussians, noise, nfe=0)
        self.check("at least 2 samples are needed", two_gaussians, noise, nfe=5, held_out=7)

    def test_numbers_that_are_not_whole_are_said(self):
        file = Solver.named("euler", 2).to_json()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "two.solver.json"
            path.write_text(file)
            for nfe in (2.5, 2.0, "2", True):
                for call in (lambda: Solver.named("euler", nfe), lambda: Solver.load(path, nfe),
                             lambda: Solver.parse(file, nfe)):
                    with self.assertRaisesRegex(Error, f"^nfe: must be a whole .*found {nfe!r}$"):
                        call()
            self.assertEqual(Solver.load(path, np.int64(2)).nfe, 2)
        for nfe in (-2, 2 ** 40):
            for call in (Solver.named, Solver.parse):
                with self.assertRaisesRegex(Error, f"^nfe: is {nfe}, it must be from"):
                    call("euler" if call == Solver.named else file, nfe)
        with self.assertRaisesRegex(Error, "^name must be that of a solver .*found 3$"):
            Solver.named(3)

    def test_noise_says_what_it_cannot_take(self):
        for options, pattern in (({"seed": 1.5}, "^seed: must be a whole number, found 1.5$"),
                                 ({"seed": 2 ** 63}, "^seed: must be at most"),
                                 ({"seed": -1}, "^seed: must be at least 0, found -1$"),
                                 ({"first": "2"}, "^first: must be a whole number, found '2'$"),
                                 ({"shape": (2.5, 3)}, r"^shape\[0\]: must be a whole number"),
                                 ({"shape": (2, -3)}, r"^shape\[1\]: must be at least 0"),
                                 ({"shape": 3}, "^shape must be a list of sizes.*found 3$"),
                                 ({"shape": ()}, "^shape must be a list of sizes")):
            with self.assertRaisesRegex(Error, pattern):
                bespoke.noise(**{"shape": (2, 3), **options})
        self.assertEqual(bespoke.noise(np.array([2, 3]), seed=2 ** 63 - 1).shape, (2, 3))
        for seed, first in ((-1, 0), (0, -1)):
            for core in (bespoke._core, plain_core):
                with self.assertRaisesRegex(Error, "seed and first must not be negative"):
                    core.normal_noise(seed, first, 2, 3)

    def test_numbers_and_words_of_another_kind_are_refused_in_a_sentence(self):
        noise = normal(0, 24, 4)

        def refused(pattern, **options):
            for function in (bespoke.distill,
                             lambda *arguments, **given: bespoke.Problem(
                                 *arguments).distill(**given)):
                with self.assertRaisesRegex(Error, pattern) as raised:
                    function(two_gaussians, noise, **{"nfe": 3, "progress": False, **options})
                self.assertNotIn("\n", str(raised.exception))
                if {"held_out", "peak", "tolerance"} & set(options):
                    break  # these are arguments of Problem itself
        whole = "must be a whole number, found "
        for name in ("calls", "network_calls", "iterations", "samples", "held_out"):
            for value in (2.5, "3", True, 4.0):
                refused(f"^{name}: {whole}{value!r}$", **{name: value})
        for name in ("network_calls", "iterations", "samples", "held_out"):
            refused(f"^{name}: must be at least 0, found -1$", **{name: -1})
        refused("^calls: must be at least 1, found 0$", calls=0)
        refused(r"^match_groups\[1\]: " + whole + "0.5$", match_groups=[1, 0.5] * 12)
        refused("^match_groups has a number for each sample, found 3$", match_groups=3)
        for name in ("difference", "time_difference", "match_weight", "peak", "tolerance"):
            refused(f"^{name}: must be a finite number, found 'a'$", **{name: "a"})
        for name in ("peak", "tolerance"):
            refused(f"^{name}: must be above 0, found 0$", **{name: 0})
        for name in ("match", "method", "times", "name"):
            refused(f"^{name}: must be a text, found 3$", **{name: 3})
        refused("^starts are names of the catalogue, Solvers or Results, found 3$", starts=[3])
        refused("^features must be a callable, found 3$", features=3)

    def test_one_start_needs_no_list(self):
        results = [bespoke.distill(two_gaussians, normal(0, 12, 4), nfe=4, iterations=1,
                                   starts=starts, progress=False)
                   for starts in ("midpoint", ["midpoint"])]
        np.testing.assert_array_equal(*(result.solver.b[-1] for result in results))

    def test_noise_of_another_deviation_is_refused(self):
        path, noise = Schedule("ve"), normal(0, 24, 4)
        field = SMALL.field(path, "noise")

        def tried(scale, function=bespoke.fit, given=noise, **options):
            return function(field, scale * given, **{"schedule": path, "prediction": "noise",
                                                     "progress": False, **options})
        for function, more in ((bespoke.fit, {}), (bespoke.distill, {}),
                               (bespoke.compare, {"solvers": "euler"})):
            for scale, factor in ((1, "50$"), (120, r"0\.\d+$"), (20, r"2\.\d+$")):
                with self.assertRaisesRegex(Error, "the noise has the deviation .* on the path ve "
                                                   "start from 50: multiply it by " + factor):
                    tried(scale, function, **more)
            tried(50, function, **more)
        tried(60)
        tried(38)
        tried(1, schedule="vp")
        # Few numbers may be so by chance, and those that do not count are not looked at.
        bespoke.compare(field, 20 * normal(0, 1, 4), "euler", schedule=path, prediction="noise",
                        progress=False)
        padded = np.concatenate([noise, np.zeros_like(noise)], 1)
        mask = np.repeat([1, 0], 4)
        wide = Mixture(np.concatenate([SMALL.means, 0 * SMALL.means], 1), SMALL.deviations)
        bespoke.fit(wide.field(path, "noise"), 50 * padded, schedule=path, prediction="noise",
                    error_mask=mask, progress=False)
        with self.assertRaisesRegex(Error, "multiply it by 50"):
            bespoke.fit(wide.field(path, "noise"), padded, schedule=path, prediction="noise",
                        error_mask=mask, progress=False)

    def test_solvers_of_other_paths_are_not_compared(self):
        with self.assertRaisesRegex(Error, "for the schedule vp"):
            bespoke.compare(two_gaussians, normal(0, 4, 8),
                            [Solver.named("euler", 4, schedule="vp")], progress=False)
        with self.assertRaisesRegex(Error, "no solver to compare"):
            bespoke.compare(two_gaussians, normal(0, 4, 8), [], progress=False)

    def test_the_best_of_the_catalogue_is_found(self):
        noise = normal(3, 24, 4)
        every = ["euler", "dpm++2m/karras", "unipc3-bh2/uniform-lambda", "midpoint"]
        comparison = bespoke.compare(two_gaussians, noise, [*every, "best"], nfe=6, progress=False)
        self.assertEqual(comparison.best().name, "best")
        self.assertRegex(comparison.notes[0], r"best at 6 NFE is [a-z0-9+-]+/")
        self.assertEqual([row.name for row in comparison.rows][-1], "best")
        # Its name is that of what was run.
        name = comparison.notes[0].split(" is ")[1]
        again = bespoke.compare(two_gaussians, noise, [name], nfe=6, progress=False)
        self.assertAlmostEqual(again.rows[0].psnr, comparison.best().psnr, delta=1e-9)

    def test_psnr_has_its_standard_error(self):
        noise = normal(3, 20, 4)
        found = bespoke.compare(two_gaussians, noise, ["euler", "midpoint"], nfe=(4, 6),
                                progress=False)
        each = [bespoke.compare(two_gaussians, noise[k:k + 1], ["euler"], nfe=4, progress=False)
                for k in range(20)]
        decibels = [one.rows[0].psnr for one in each]
        row = found.rows[0]
        self.assertAlmostEqual(row.psnr, np.mean(decibels), delta=0.01)
        self.assertAlmostEqual(row.psnr_error, np.std(decibels, ddof=1) / 20 ** 0.5, delta=0.01)
        self.assertIn(f"{row.psnr:.2f} ± {row.psnr_error:.2f}  ", found.table())
        self.assertIn(f"<td>{row.psnr:.2f} ± {row.psnr_error:.2f}</td>", found._repr_html_())
        self.assertIn("± standard error", str(found))
        self.assertEqual({len(line) for line in found.table().splitlines()},
                         {len("midpoint") + 2 * len("  12.34 ± 1.23")})
        self.assertEqual(found.notes, [])
        self.assertIn("1 sample measured it, which is few", str(each[0]))
        self.assertEqual(each[0].rows[0].psnr_error, 0)
        self.assertNotIn(" ± ", each[0].table())
        wild = Solver.of([0, 1], [1e308], [[1e308]], name="wild")
        with np.errstate(over="ignore", invalid="ignore"):
            row = bespoke.compare(two_gaussians, noise * 1e9, [wild], progress=False).rows[0]
        self.assertTrue(np.isnan(row.psnr_error))

    def test_what_a_solver_was_not_made_for_is_noted(self):
        path = Schedule("vp")

        def notes(guidance=0.0, prediction="noise", made_by=None, run=1.0):
            solver = Solver.of([0.1, 0.5, 1], [1, 1], [[0.5], [0.5, 0.5]], name="mine",
                               schedule=path, prediction=prediction, guidance=guidance,
                               provenance=made_by and {"made_by": made_by})
            field = SMALL.field(path, "noise")
            return bespoke.compare(field, normal(0, 16, 4), [solver, "euler"], nfe=2, schedule=path,
                                   prediction="noise", guidance=run, progress=False,
                                   unconditional=lambda t, x: 0.9 * field(t, x)).notes
        self.assertEqual(notes(guidance=1.0), [])
        self.assertEqual(notes(guidance=2.0, prediction="data"), [
            "mine was made for guidance w = 2 (guidance_scale 3), this run has guidance w = 1 "
            "(guidance_scale 2)",
            "mine was made for data prediction, this model has noise prediction"])
        self.assertEqual(notes(guidance="0.5-3"), [])
        self.assertEqual(len(notes(guidance="1.5-3")), 1)
        self.assertEqual(len(notes(guidance="0.5-3", run="0-2")), 1)
        self.assertEqual(notes(guidance="0-3", run="0.5-2"), [])
        self.assertEqual(len(notes(guidance="0:1,0.5:1")), 1)
        self.assertEqual(notes(guidance=2.0, prediction="data", made_by="catalogue"), [])

    def test_of_a_file_the_numbers_asked_for_are_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "several.solver.json")
            bespoke.save_solvers(path, [Solver.named("euler", n) for n in (4, 6, 8)])
            shown = bespoke.compare(two_gaussians, normal(0, 4, 8), [path], nfe=(6,),
                                    progress=False)
            self.assertEqual([row.nfe for row in shown.rows], [6])
            with self.assertRaisesRegex(Error, "has solvers of 4, 6, 8 evaluations, none of 5"):
                bespoke.compare(two_gaussians, normal(0, 4, 8), [path], nfe=5, progress=False)
            page = os.path.join(folder, "page.html")
            bespoke.compare(two_gaussians, normal(0, 4, 8), ["euler"], nfe=4, report=page,
                            progress=False)
            with open(page, encoding="utf-8") as file:
                self.assertIn("<td>euler</td>", file.read())

    def test_a_solver_that_diverges_does_not_stop_the_others(self):
        wild = Solver.of([0, 0.5, 1], [1e308, 1e308], [[1e308], [1e308, 1e308]], name="wild")
        with np.errstate(over="ignore", invalid="ignore"):
            comparison = bespoke.compare(two_gaussians, normal(0, 4, 8), ["euler", wild], nfe=2,
                                         progress=False)
            with self.assertRaisesRegex(bespoke.DivergedError, "overflowed at step"):
                wild.sample(two_gaussians, normal(0, 4, 8))
        self.assertEqual([row.diverged for row in comparison.rows], [False, True])
        self.assertEqual(comparison.best().name, "euler")
        self.assertIn("failed", comparison.table())


class Progress(unittest.TestCase):
    def test_a_function_is_told(self):
        seen = []
        result = bespoke.distill(two_gaussians, normal(1, 16, 8), nfe=3,
                                 progress=lambda what, calls: seen.append((what, calls)))
        self.assertEqual(seen[-1][1], result.calls)
        self.assertTrue(any("own samples" in what for what, _ in seen))
        self.assertTrue(any("iteration 1" in what for what, _ in seen))
        self.assertTrue(any(f"{result.start}, {result.initial_psnr:.2f} dB" == what
                            for what, _ in seen))
        self.assertEqual([calls for _, calls in seen], sorted(calls for _, calls in seen))

    def test_terminals_get_a_line_and_files_nothing(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True
        for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
            with mock.patch.object(sys, "stderr", stream), \
                    mock.patch.object(progress_module, "_tqdm", lambda: None):
                bespoke.fit(two_gaussians, normal(1, 16, 8), nfe=3)
            self.assertEqual("calls" in stream.getvalue(), shown)
            self.assertTrue(not shown or stream.getvalue().endswith("\x1b[K"))

    def test_tqdm_is_used_where_it_is_installed(self):
        bar = mock.MagicMock(n=0)
        with mock.patch.object(progress_module, "_tqdm", lambda: lambda **options: bar):
            bespoke.fit(two_gaussians, normal(1, 16, 8), nfe=3, progress=True)
        self.assertTrue(bar.update.called)
        bar.close.assert_called_once_with()


class ArrayTypes(unittest.TestCase):
    """The same problem in every library and type gives the same solver."""

    def expect_same(self, convert, decibels, tolerance, check=lambda x: None):
        noise = bespoke.noise((32, 2, 4), seed=3).astype(np.float64)
        expected = bespoke.distill(two_gaussians, noise, nfe=2, iterations=2, progress=False)

        def field(t, x):
            check(x)
            check(t)
            return two_gaussians(t, x)
        found = bespoke.distill(field, convert(noise), nfe=2, iterations=2, progress=False)
        self.assertAlmostEqual(found.psnr, expected.psnr, delta=decibels)
        x = found.solver.sample(field, convert(noise))
        truth = expected.solver.sample(two_gaussians, noise)
        np.testing.assert_allclose(np.asarray(x, dtype=np.float64), truth, atol=tolerance)
        return x

    def test_numpy_float32(self):
        def check(x):
            self.assertEqual(x.dtype, np.float32)
        x = self.expect_same(lambda noise: noise.astype(np.float32), 1, 5e-3, check)
        self.assertEqual(x.dtype, np.float32)

    def test_half_precision_outputs_with_wide_states(self):
        noise = bespoke.noise((32, 16), seed=3)

        def half(t, x):
            return two_gaussians(t, x).astype(np.float16)
        result = bespoke.distill(half, noise, nfe=4, progress=False)
        truth = bespoke.compare(two_gaussians, bespoke.noise((32, 16), seed=4),
                                [result, "midpoint"], nfe=4, progress=False)
        self.assertEqual(result.solver.sample(half, noise).dtype, np.float32)
        self.assertGreater(truth.rows[0].psnr, truth.rows[1].psnr + 8)

    def test_half_precision_noise_is_what_the_field_gets(self):
        noise = bespoke.noise((8, 16), seed=3).astype(np.float16)

        def half(t, x):
            self.assertEqual(x.dtype, np.float16)
            self.assertEqual(t.dtype, np.float32)
            return two_gaussians(t, x.astype(np.float32)).astype(np.float16)
        x = Solver.named("midpoint", 4).sample(half, noise)
        self.assertEqual(x.dtype, np.float32)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch(self):
        def check(x):
            self.assertIsInstance(x, torch.Tensor)
            self.assertFalse(torch.is_grad_enabled())
        for kind, *limits in ((torch.float64, 1e-6, 1e-6), (torch.float32, 1, 5e-3)):
            x = self.expect_same(lambda noise: torch.from_numpy(noise).to(kind), *limits, check)
            self.assertEqual(x.dtype, kind)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_modules_in_bfloat16(self):
        torch.manual_seed(0)
        noise = torch.from_numpy(bespoke.noise((16, 8), seed=3))

        def low(t, x):
            return two_gaussians(t, x).to(torch.bfloat16)
        result = bespoke.distill(low, noise, nfe=4, progress=False)
        rows = bespoke.compare(low, torch.from_numpy(bespoke.noise((32, 8), seed=4)),
                               [result, "midpoint"], nfe=4, tolerance=1e-3, progress=False).rows
        self.assertGreater(rows[0].psnr, rows[1].psnr)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_a_torch_module_that_reuses_its_output_and_wants_gradients(self):
        network = torch.nn.Linear(8, 8)
        memory = torch.empty(0)

        def reusing(t, x):
            nonlocal memory
            memory.resize_(x.shape)
            memory.copy_(-x + 0.1 * torch.tanh(network(x)))
            return memory
        noise = torch.from_numpy(bespoke.noise((16, 8), seed=3)).requires_grad_()
        plain = bespoke.fit(lambda t, x: -x + 0.1 * torch.tanh(network(x)), noise, nfe=3,
                            progress=False)
        found = bespoke.fit(reusing, noise, nfe=3, progress=False)
        self.assertEqual(found.solver.a, plain.solver.a)
        self.assertFalse(found.solver.sample(reusing, noise).requires_grad)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_a_torch_field_may_write_into_its_states(self):
        def greedy(t, x):
            u = two_gaussians(t, x)
            x.mul_(0.5)
            return u
        noise = torch.from_numpy(normal(3, 5, 4))
        begun, solver = noise.clone(), Solver.named("midpoint", 4)
        for kind in (torch.float64, torch.float32):
            self.assertTrue(torch.equal(solver.sample(greedy, noise.to(kind)),
                                        solver.sample(two_gaussians, noise.to(kind))))
        self.assertTrue(torch.equal(noise, begun))

    @unittest.skipIf(jax is None, "JAX is not installed")
    def test_jax(self):
        x = self.expect_same(lambda noise: jax.numpy.asarray(noise, dtype=np.float32), 1, 5e-3)
        self.assertEqual(x.dtype, np.float32)


class Agreement(unittest.TestCase):
    """With the same methods asked by other programs."""

    @unittest.skipIf("BESPOKE_PLAIN_ANSWERS" not in os.environ, "there is no C++ to agree with")
    def test_with_plain_cpp(self):
        given = json.loads(subprocess.run([os.environ["BESPOKE_PLAIN_ANSWERS"]], check=True,
                                          stdout=subprocess.PIPE).stdout)
        size, held_out = given["dimension"], given["held_out"]
        mixture = Mixture(np.reshape(given["means"], (-1, size)), given["deviations"])
        for answer in given["answers"]:
            schedule = Schedule(answer["schedule"])
            held = schedule.source_std * normal(2, held_out, size)
            training = schedule.source_std * normal(1, given["training"], size)
            noise = np.concatenate([training, held, held])  # chosen by and measured by
            field = mixture.field(schedule, "noise")
            options = dict(schedule=schedule, prediction="noise", held_out=2 * held_out,
                           tolerance=1e-10, progress=False, nfe=len(answer["a"]))
            result = bespoke.fit(field, noise, **options) if answer["method"] == "fit" else \
                bespoke.distill(field, noise, method="direct", iterations=2, **options)
            where = f"{schedule.name} {answer['method']}"
            self.assertEqual((result.start, result.iterations),
                             (answer["start"], answer["iterations"]), where)
            samples = result.solver.sample(field, held)
            expected = np.reshape(answer["samples"], samples.shape)
            np.testing.assert_allclose(samples, expected, atol=1e-6, err_msg=where)
            np.testing.assert_allclose(result.solver.times, answer["times"], atol=1e-6)
            for psnr in (result.psnr, result.choosing_psnr):
                self.assertAlmostEqual(psnr, answer["psnr"], delta=1e-4, msg=where)

    @unittest.skipIf("BESPOKE_BINARY" not in os.environ, "there is no command line to agree with")
    def test_with_the_command_line(self):
        model = "analytic:mixture:dim=6,components=4,seed=7,min_deviation=0.3,max_deviation=0.3"
        mixture = Mixture(0.6 * normal(7, 4, 6), [0.3] * 4)
        noise = np.concatenate([normal(1, 24, 6), normal(2, 32, 6), normal(3, 32, 6)])
        for name, prediction in (("fm-ot", "velocity"), ("vp", "noise")):
            schedule = Schedule(name)
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([os.environ["BESPOKE_BINARY"], "distill", "--model",
                                f"{model},prediction={prediction}@{name}", "--dtype", "fp64",
                                "--samples", "24", "--nfe", "4", "-o", folder], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                theirs = Solver.load(Path(folder) / "bns.solver.json", 4)
            field = mixture.field(schedule, "noise")
            options = dict(nfe=4, schedule=schedule, held_out=64, progress=False)
            if prediction == "noise":
                ours = bespoke.distill(field, noise, prediction="noise", **options).solver
            else:
                ours = bespoke.distill(
                    lambda t, x: np.subtract(*mixture.predict(t, 1 - t, x)), noise,
                    **options).solver
            np.testing.assert_allclose(ours.sample(field, noise, prediction="noise"),
                                       theirs.sample(field, noise, prediction="noise"), atol=1e-6)


if __name__ == "__main__":
    unittest.main()
