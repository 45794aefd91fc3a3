"""Tests of what learns from the first samples: the fit's algebra, exponential steps, the learner,
Sampler and the sampler of k-diffusion. Expected samples come from thousands of small steps."""

import copy
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

from bespoke import Error, Sampler, Solver, _core
from bespoke.errors import DivergedError
from bespoke.exponential import Node, step_weights
from bespoke.k_diffusion import LearningSampler, learning_sampler_of, sample_bespoke
from bespoke.learning import GRIDS, Learner, Parts, Quality, Rounding, reference_times, solver_times
from bespoke.schedule import PlainSchedule
from bespoke.stepwise import (LinearModel, fitted_steps, least_squares,
                              least_log_error, plain_step, weighted_step)
from mixtures import NUMBERS as MODEL, Numbers, two_gaussians

COMPILED = hasattr(_core, "__file__") and not _core.__file__.endswith(".py")
RANDOM = np.random.default_rng(5)


def normal(seed, count, size=64):
    return np.random.default_rng(seed).normal(size=(count, size))


def truth(field, noise, steps=2000):
    """By midpoint steps of a velocity field on FM-OT."""
    x, h = noise, 1 / steps
    for k in range(steps):
        t = np.full(len(x), k * h)
        x = x + h * field(t + h / 2, x + h / 2 * field(t, x))
    return x


def decibels(x, expected, peak=2.0):
    return float(np.mean(10 * np.log10(peak ** 2 / ((x - expected) ** 2).mean(1))))


def driven(lesson, data):
    """Answers a lesson with data(t, x); (what it returns, how many it asked)."""
    asked = 0
    try:
        wanted = next(lesson)
        while True:
            asked += 1
            wanted = lesson.send(data(wanted.time, wanted.state))
    except StopIteration as ended:
        return ended.value, asked


VELOCITY = MODEL.field(PlainSchedule("fm-ot"), "velocity")


def data_of(field):
    return lambda t, x: x + (1 - t) * field(np.full(len(x), t), x)


class Algebra(unittest.TestCase):
    def model(self, groups=5, columns=3, size=40):
        matrix = RANDOM.normal(size=(groups, size, columns + 1))
        return matrix, LinearModel.of(np.einsum("gdi,gdj->gij", matrix, matrix), size)

    def test_least_squares_is_that_of_numpy(self):
        matrix, model = self.model()
        stacked = matrix.reshape(-1, matrix.shape[2])
        expected = np.linalg.lstsq(stacked[:, :-1], -stacked[:, -1], rcond=None)[0]
        np.testing.assert_allclose(least_squares(model), expected, rtol=1e-8)
        np.testing.assert_allclose(model.moved(expected).squares,
                                   ((matrix[:, :, :-1] @ expected + matrix[:, :, -1]) ** 2).sum(1))

    def test_the_log_error_has_no_slope_where_it_is_least(self):
        _, model = self.model()
        change = least_log_error(model)
        for k in range(len(change)):
            aside = change + 1e-3 * np.eye(len(change))[k]
            self.assertGreater(model.loss(aside), model.loss(change))

    def test_one_hard_group_does_not_rule_where_groups_are_weighted(self):
        matrix, _ = self.model(groups=6)
        matrix[:, :, -1] = -matrix[:, :, :-1] @ [1.0, 2.0, 3.0]
        matrix[0, :, -1] += 5 * RANDOM.normal(size=matrix.shape[1])
        model = LinearModel.of(np.einsum("gdi,gdj->gij", matrix, matrix), matrix.shape[1])
        plain, weighted = least_squares(model), weighted_step(model)
        self.assertGreater(np.abs(plain - [1, 2, 3]).max(), 0.05)
        self.assertLess(np.abs(weighted - [1, 2, 3]).max(), 0.01)

    def test_parts_join_to_the_whole(self):
        _, model = self.model(groups=6)
        joined = model.joined(3)
        self.assertEqual(joined.squares.shape, (2,))
        self.assertEqual(joined.size, 3 * model.size)
        np.testing.assert_allclose(least_squares(joined), least_squares(model), rtol=1e-9)

    @unittest.skipUnless(COMPILED, "the compiled module is not built")
    def test_the_fit_is_the_cores(self):
        from bespoke.problem import Problem
        from bespoke.trajectories import reference
        problem = Problem(VELOCITY, normal(3, 4), held_out=0)
        solver = problem.fit(4, start_scale=1, progress=False).solver
        numbers = list(range(4))
        noise = normal(3, 4)
        known = reference(problem.field, noise, numbers, problem.tolerance, record=True).trajectories
        targets = [known.state_at(t, numbers) for t in solver.times[1:]]
        rows, _ = driven(
            fitted_steps(noise, solver.times[:-1], targets,
                         lambda step: plain_step(step.model, step.number == 3)),
            lambda t, x: VELOCITY(np.full(len(x), t), x))
        for row, a, b in zip(rows, solver.a, solver.b):
            np.testing.assert_allclose(row, [a, *b], rtol=1e-9, atol=1e-9)


class Exponential(unittest.TestCase):
    def test_constant_predictions_are_integrated_exactly(self):
        start, end = Node(0.2, 0.9), Node(0.7, 0.4)
        scale, weights = step_weights(start, end, [start])
        self.assertAlmostEqual(scale, 0.4 / 0.9)
        self.assertAlmostEqual(weights[0], 0.7 - 0.4 / 0.9 * 0.2, places=12)

    def test_the_end_takes_the_data_prediction(self):
        scale, weights = step_weights(Node(0.9, 0.1), Node(1.0, 0.0), [Node(0.9, 0.1)])
        self.assertEqual((scale, weights), (0.0, [1.0]))

    def test_references_converge_on_every_path(self):
        for description in ("fm-ot", "vp", "cosine", "ddpm-linear"):
            schedule = PlainSchedule(description)
            field = MODEL.field(schedule, "data")

            def answer(t, x):
                return field(np.full(len(x), t), x)

            ends = [driven(Learner(schedule, [4], reference=count).lesson(normal(1, 2)),
                           answer)[0] for count in (30, 60, 160)]
            coarse, fine = (decibels(end, ends[-1]) for end in ends[:2])
            self.assertGreater(coarse, 50, description)
            self.assertGreater(fine, coarse + 6, description)

    def test_the_reference_is_the_models_own_sample(self):
        noise = normal(2, 2)
        found, asked = driven(Learner(PlainSchedule("fm-ot"), [4]).lesson(noise), data_of(VELOCITY))
        self.assertEqual(asked, 30 + 3 * 4)
        self.assertGreater(decibels(found, truth(VELOCITY, noise)), 55)


class Times(unittest.TestCase):
    def test_solvers_begin_later_and_end_earlier_with_fewer_evaluations(self):
        schedule = PlainSchedule("fm-ot")
        free = Rounding()
        eight, four = (solver_times(schedule, n, GRIDS[0], free) for n in (8, 4))
        self.assertAlmostEqual(schedule.log_snr(eight[0]), -3.8)
        self.assertAlmostEqual(schedule.log_snr(four[0]), -3.05)
        self.assertEqual((len(eight), len(four), eight[-1]), (9, 5, 1.0))

    def test_rounded_times_can_be_said_and_rise(self):
        schedule = PlainSchedule({"name": "ddpm-linear"})
        times = reference_times(schedule, Rounding("integer"))
        levels = [1000 * (1 - t) for t in times]
        np.testing.assert_allclose(levels, np.round(levels), atol=1e-9)
        self.assertTrue(all(a > b for a, b in zip(levels, levels[1:])))
        self.assertEqual(round(levels[0]), 1000)
        for t in solver_times(PlainSchedule("fm-ot"), 8, GRIDS[0], Rounding("bf16"))[:-1]:
            noise = 1000 * (1 - t)
            bits = np.float32(noise).view(np.uint32)
            self.assertEqual(int(bits) & 0xFFFF, 0, noise)
        with self.assertRaisesRegex(Error, "take fewer steps"):
            solver_times(schedule, 9, GRIDS[0], Rounding("integer:8"))

    def test_parts_are_squares_of_images(self):
        parts = Parts((2, 3, 8, 16))
        self.assertEqual(parts.count, 16)
        x = RANDOM.normal(size=(2, 3, 8, 16))
        rows = parts.split(x)
        np.testing.assert_array_equal(rows[0], x[0, :, :2, :4].reshape(-1))
        np.testing.assert_array_equal(parts.whole(rows), x)
        self.assertEqual(Parts((5, 8)).count, 1)
        self.assertEqual(Parts((1, 64, 16)).count, 4)


class Learning(unittest.TestCase):
    def test_a_solver_learnt_from_one_sample_holds_for_others(self):
        sampler = Sampler(VELOCITY, steps=(4, 8), say=False)
        first = sampler(normal(1, 1))
        self.assertEqual(sampler.evaluations, 30 + 3 * (4 + 8))
        self.assertGreater(decibels(first, truth(VELOCITY, normal(1, 1))), 55)
        expected = truth(VELOCITY, normal(2, 16))
        sampler(normal(3, 2))  # learns more
        before = sampler.evaluations
        held = copy.deepcopy(sampler)
        held._learners[(64,)].most_samples = 0
        for steps in (4, 8):
            found = held(normal(2, 16), steps=steps)
            classical = truth(VELOCITY, normal(2, 16), steps // 2)  # by as many evaluations
            self.assertGreater(decibels(found, expected), decibels(classical, expected) + 8)
        self.assertEqual(held.evaluations - before, 16 * (4 + 8))
        quality = sampler.quality(8)
        self.assertTrue(quality.measured)
        self.assertLess(abs(quality.decibels - decibels(held(normal(2, 16)), expected)), 6)

    def test_an_error_as_large_as_the_figure_is_not_said_as_one(self):
        for quality, said in ((Quality(41.2, 3.4, True), "41.2 +- 3.4 dB (measured"),
                              (Quality(43.8, 5.1, False), "43.8 +- 5.1 dB (estimated"),
                              (Quality(43.6, 43.7, False), "44 dB or more (estimated"),
                              (Quality(41.2, 20.0, True), "41.2 +- 20.0 dB (measured")):
            self.assertTrue(str(quality).startswith(said), quality)

    def test_it_ends_learning_and_then_repeats_itself(self):
        said = []
        sampler = Sampler(VELOCITY, steps=6, say=said.append)
        for k in range(8):
            before = sampler.evaluations
            sampler(normal(k, 2))
            if sampler.evaluations - before == 2 * 6:
                break
        else:
            self.fail("it never ended")
        self.assertIn("drawing with 48 evaluations to learn 6-step sampling; later ones take 6",
                      said[0])
        self.assertTrue(said[-1].startswith("learnt; 6 steps: "))
        np.testing.assert_array_equal(sampler(normal(9, 2)), sampler(normal(9, 2)))
        sampler.relearn()
        before = sampler.evaluations
        sampler(normal(1, 1))
        self.assertEqual(sampler.evaluations - before, 48)

    def test_what_was_learnt_is_a_solver(self):
        for schedule, prediction in (("fm-ot", "velocity"), ("vp", "noise"), ("cosine", "v"),
                                     ("ddpm-scaled-linear", "data")):
            field = MODEL.field(PlainSchedule(schedule), prediction)
            sampler = Sampler(field, schedule, steps=5, prediction=prediction, samples=2,
                              say=False)
            sampler(normal(1, 2))
            found = sampler(normal(2, 3))
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "learnt.solver.json"
                sampler.save(path)
                solver = Solver.load(path)
            self.assertEqual((solver.nfe, solver.start_scale), (5, 1.0))
            np.testing.assert_allclose(solver.sample(field, normal(2, 3)), found, atol=1e-6,
                                       err_msg=schedule)

    def test_clipped_predictions_are_the_model(self):
        def clipped(t, x):
            return np.clip(MODEL.field(PlainSchedule("vp"), "data")(t, x), -0.4, 0.4)
        plain = MODEL.field(PlainSchedule("vp"), "data")
        by_clip, by_hand = (Sampler(field, "vp", steps=5, prediction="data", samples=1, say=False,
                                    clip=clip) for field, clip in ((plain, 0.4), (clipped, None)))
        for k in (1, 2):
            np.testing.assert_array_equal(by_clip(normal(k, 1)), by_hand(normal(k, 1)))
        # The solver file says it, so the solver draws what the sampler does.
        learnt = Solver.parse(by_clip.solver().to_json())
        self.assertEqual(learnt.clip, (-0.4, 0.4, 0.0, 0.0))
        noise = normal(9, 2)
        np.testing.assert_allclose(learnt.sample(plain, noise), by_clip(noise), rtol=1e-7, atol=1e-7)

    def test_an_interrupted_or_broken_call_teaches_nothing(self):
        calls = []

        def breaking(t, x):
            calls.append(t)
            if len(calls) == 40:
                raise KeyboardInterrupt
            return VELOCITY(t, x) * (np.nan if len(calls) == 45 else 1)
        sampler = Sampler(breaking, steps=8, say=False)
        with self.assertRaises(KeyboardInterrupt):
            sampler(normal(1, 1))
        with self.assertRaisesRegex(DivergedError, "NaN or infinity at t = .*nothing was learnt"):
            sampler(normal(1, 1))
        with self.assertRaisesRegex(Error, "nothing is learnt yet"):
            sampler.solver()
        sampler(normal(1, 1))
        self.assertEqual(len(calls), 40 + 5 + 54)

    def test_fields_may_write_into_their_states(self):
        def writing(t, x):
            u = VELOCITY(t, x)
            x *= 0
            return u
        kept, written = (Sampler(field, steps=4, samples=1, say=False)
                         for field in (VELOCITY, writing))
        for k in (1, 2):
            np.testing.assert_array_equal(kept(normal(k, 1)), written(normal(k, 1)))

    def test_what_is_wrong_is_said(self):
        for options, message in (({"steps": 1}, "from 2 to 64, found 1"),
                                 ({"steps": 2.5}, "from 2 to 64, found 2.5"),
                                 ({"steps": ()}, "at least one"),
                                 ({"reference": 3}, "at least 12"),
                                 ({"times": "nearest"}, "found 'nearest'"),
                                 ({"clip": -1}, "range must be"),
                                 ({"schedule": "edm"}, "deviation 80"),
                                 ({"prediction": "scores"}, "unknown prediction 'scores'")):
            with self.assertRaisesRegex(Error, message):
                Sampler(VELOCITY, **options)
        with self.assertRaisesRegex(Error, "a callable"):
            Sampler(3)
        sampler = Sampler(lambda t, x: x[:, :3], say=False)
        with self.assertRaisesRegex(Error, r"returned an array of shape \(1, 3\)"):
            sampler(normal(1, 1))
        with self.assertRaisesRegex(Error, "first axis"):
            Sampler(VELOCITY, say=False)(np.zeros(4))
        said = []
        sampler = Sampler(VELOCITY, steps=(4, 6), samples=1, say=said.append)
        sampler(normal(1, 1))
        sampler(normal(1, 1), steps=20)
        self.assertEqual(said[-1], "20 steps are not learnt; taking 6")

    def test_what_an_array_would_lose_is_refused_as_by_a_fit(self):
        noise = normal(2, 4)
        masked = np.ma.masked_array(noise, noise > 1)
        for given in (masked, noise.astype(np.longdouble), noise.astype(int), noise.tolist()):
            with self.assertRaisesRegex(Error, "in float64 or narrower, without a mask, found "):
                Sampler(two_gaussians, say=False)(given)
            with self.assertRaisesRegex(Error, "without a mask, found |field returned list"):
                Sampler(lambda t, x: given, say=False)(noise)
            with self.assertRaisesRegex(Error, "^x must be an array of NumPy"):
                LearningSampler(say=False)(lambda x, sigma: x, given, [1.0, 0.5, 0.0])
        if torch is not None:
            with self.assertRaisesRegex(Error, "found Tensor of torch.int64"):
                Sampler(two_gaussians, say=False)(torch.ones(4, 8, dtype=torch.int64))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_tensors_give_tensors(self):
        sampler = Sampler(two_gaussians, steps=4, samples=1, say=False)
        noise = torch.from_numpy(normal(1, 2, 6)).float()
        first, second = sampler(noise), sampler(noise)
        self.assertEqual((first.dtype, second.dtype), (torch.float32, torch.float32))
        np.testing.assert_allclose(first, truth(two_gaussians, normal(1, 2, 6)), atol=2e-2)
        half = Sampler(two_gaussians, steps=4, samples=1, say=False)
        self.assertEqual(half(noise.bfloat16()).dtype, torch.bfloat16)


class Divergence(unittest.TestCase):
    def test_one_sample_that_is_not_finite_is_named(self):
        def broken(rows):
            def field(t, x):
                found = VELOCITY(t, x)
                if t[0] > 0.5:
                    found[rows] = np.nan
                return found
            return Sampler(field, steps=4, say=False)
        with self.assertRaisesRegex(DivergedError, r"NaN or infinity at t = 0\.5\d* for 1 of 4 "
                                                   "samples, the first of them number 3; nothing"):
            broken([2])(normal(1, 4))
        for rows, count in ((slice(None), 4), ([0], 1)):
            with self.assertRaisesRegex(DivergedError, r"infinity at t = 0\.5\d*; nothing was"):
                broken(rows)(normal(1, count))


class Estimates(unittest.TestCase):
    """What is said of later samples after the first ones, where the truth is known."""

    shape = (1, 16, 16)
    schedule = PlainSchedule("fm-ot")

    def guided(self, weight):
        plain = Numbers([[0.7], [-0.5], [0.0]], [0.4, 0.4, 0.4])

        def data(t, x):
            found, without = (model.predict(np.full(len(x), t), np.full(len(x), 1 - t),
                                            x.reshape(len(x), -1))[0] for model in (MODEL, plain))
            return (found + weight * (found - without)).reshape(x.shape)
        return data

    def noise(self, seed, count):
        return normal(seed, count, 256).reshape(count, *self.shape)

    def learnt_from(self, count, data, steps, seed):
        learner = Learner(self.schedule, [steps])
        driven(learner.lesson(self.noise(seed, count)), data)
        return learner

    def test_they_hold_within_their_error(self):
        fresh = self.noise(99, 16)
        for weight, steps in ((0, 4), (0, 8), (3, 4), (3, 8)):
            data = self.guided(weight)
            exact, _ = driven(Learner(self.schedule, [2], reference=100).lesson(fresh), data)
            for count in (1, 4):
                for seed in range(3):
                    learner = self.learnt_from(count, data, steps, seed)
                    found, _ = driven(learner.sample(steps, fresh), data)
                    rows = [x.reshape(16, -1) for x in (found, exact)]
                    quality = learner.learnt[steps].quality(2.0, guided=weight > 0)
                    self.assertFalse(quality.measured)
                    self.assertLess(abs(quality.decibels - decibels(*rows)), 1.6 * quality.error,
                                    (weight, steps, count, seed))

    def test_the_error_is_small_where_the_steps_agree(self):
        quality = self.learnt_from(4, self.guided(3), 4, 1).learnt[4].quality(2.0)
        self.assertLess(quality.error, 8)

    def test_guidance_makes_them_doubtful_until_something_is_measured(self):
        data = self.guided(3)
        one, four = (self.learnt_from(count, data, 4, 1) for count in (1, 4))
        for learner, word in ((one, "the sample itself; under guidance mostly too high"),
                              (four, "the samples themselves; under guidance often decibels off")):
            said = learner.learnt[4].quality(2.0, guided=True)
            plain = learner.learnt[4].quality(2.0)
            self.assertIn(f"dB (an estimate from {word})", str(said))
            self.assertIn("dB (estimated by leaving out parts)", str(plain))
            self.assertEqual(said.decibels, plain.decibels)
            self.assertGreater(said.error, plain.error)
            driven(learner.lesson(self.noise(7, 2)), data)
            self.assertIn("(measured on samples not seen)",
                          str(learner.learnt[4].quality(2.0, guided=True)))


class KDiffusion(unittest.TestCase):
    sigmas = [14.6, 5.0, 2.0, 0.8, 0.3, 0.1, 0.0]

    def denoiser(self, calls):
        def denoise(y, sigma, shift=0.0, cond_scale=None):
            calls.append(sigma)
            return MODEL.predict(np.ones(len(y)), sigma, y)[0] + shift
        return denoise

    def expected(self, noise):
        """By midpoint steps in the logarithm of sigma."""
        levels = np.geomspace(14.6, 1e-3, 3000)
        y = noise * 14.6

        def slope(y, s):
            return y - MODEL.predict(np.ones(len(y)), np.full(len(y), s), y)[0]

        for high, low in zip(levels, levels[1:]):
            middle, h = np.sqrt(high * low), np.log(low / high)
            y = y + h * slope(y + h / 2 * slope(y, high), middle)
        return y

    def test_the_first_call_learns_and_later_ones_are_short(self):
        calls, steps = [], []
        denoise = self.denoiser(calls)
        noise = normal(4, 8)
        first = sample_bespoke(denoise, normal(1, 8) * 14.6, self.sigmas, disable=True,
                               callback=steps.append)
        self.assertEqual(len(calls), 30 + 18)
        self.assertEqual([step["i"] for step in steps], list(range(48)))
        self.assertGreater(decibels(first, self.expected(normal(1, 8))), 45)
        calls.clear()
        found = sample_bespoke(denoise, noise * 14.6, self.sigmas)
        self.assertEqual(len(calls), 6)
        self.assertGreater(decibels(found, self.expected(noise)), 32)

    def test_models_are_told_apart_and_forgotten_with_them(self):
        first, second = self.denoiser([]), self.denoiser([])
        self.assertIsNot(learning_sampler_of(first), learning_sampler_of(second))
        self.assertIs(learning_sampler_of(first), learning_sampler_of(first))

    def test_flows_and_other_strengths_are_told_apart(self):
        def denoise(y, sigma, cond_scale=1.0):
            data, _ = MODEL.predict(1 - sigma, sigma, y)
            return cond_scale * data
        sampler = LearningSampler(samples=1, say=False)
        sigmas = np.linspace(1, 0, 7)
        first = sampler(denoise, normal(1, 1), sigmas, {"cond_scale": 1.0})
        self.assertGreater(decibels(first, truth(VELOCITY, normal(1, 1))), 45)
        self.assertEqual(sampler.evaluations(normal(1, 1), sigmas, {"cond_scale": 1.0}), 6)
        self.assertEqual(sampler.evaluations(normal(1, 1), sigmas, {"cond_scale": 1.1}), 48)
        self.assertEqual(sampler.evaluations(normal(1, 1, 32), sigmas, {"cond_scale": 1.0}), 48)
        sampler.relearn()
        self.assertEqual(sampler.evaluations(normal(1, 1), sigmas, {"cond_scale": 1.0}), 48)

    def test_parts_of_a_way_are_refused(self):
        denoise = self.denoiser([])
        with self.assertRaisesRegex(Error, "end with 0.1"):
            sample_bespoke(denoise, normal(1, 1) * 14.6, self.sigmas[:-1])
        with self.assertRaisesRegex(Error, "from noise alone"):
            sample_bespoke(denoise, normal(1, 1), self.sigmas)


if __name__ == "__main__":
    unittest.main()
