#!/usr/bin/env python3
"""Evaluations against errors of adaptive Runge-Kutta pairs and step controls, for the reference.

    python3 research/reference_order.py mixture cifar10-fm-ot --samples 8

Runs every pair with every control, each sample with steps of its own, on the FM-OT path as the
reference does, and compares x(1) with a run of DOP853 in float64. Needs PyTorch, NumPy and SciPy
(whose coefficients of DOP853 it takes). What it found: research/experiments.md, "The reference's
order and step control".
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Callable, List, NamedTuple, Sequence

import numpy as np
import torch
from scipy.integrate._ivp import dop853_coefficients as dop853

MODELS = Path(__file__).resolve().parent.parent / "models"


class Pair(NamedTuple):
    """A tableau whose last stage is the new state; `errors` are one or two estimates' weights."""

    stages: np.ndarray
    errors: List[np.ndarray]
    order: int  # 1 + that of the estimate


class Control(NamedTuple):
    """A step's factor: safety * error^(-now / order) * last_error^(before / order)."""

    safety: float
    now: float = 1.0
    before: float = 0.0


def tableau(rows: Sequence[Sequence[float]]) -> np.ndarray:
    square = np.zeros((len(rows), len(rows)))
    for k, row in enumerate(rows):
        square[k, :len(row)] = row
    return square


def dormand_prince() -> Pair:
    stages = tableau([
        [], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]])
    errors = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]
    return Pair(stages, [np.array(errors)], 5)


def tsitouras() -> Pair:
    stages = tableau([
        [], [0.161], [-0.008480655492356989, 0.335480655492357],
        [2.8971530571054935, -6.359448489975075, 4.3622954328695815],
        [5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525],
        [5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
         -0.028269050394068383],
        [0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
         2.324710524099774]])
    embedded = [0.09468075576583945, 0.009183565540343254, 0.4877705284247616, 1.234297566930479,
                -2.7077123499835256, 1.866628418170587, 1 / 66]
    return Pair(stages, [stages[-1] - np.array(embedded)], 5)


def bogacki_shampine() -> Pair:
    stages = tableau([
        [], [1 / 6], [2 / 27, 4 / 27], [183 / 1372, -162 / 343, 1053 / 1372],
        [68 / 297, -4 / 11, 42 / 143, 1960 / 3861],
        [597 / 22528, 81 / 352, 63099 / 585728, 58653 / 366080, 4617 / 20480],
        [174197 / 959244, -30942 / 79937, 8152137 / 19744439, 666106 / 1039181, -29421 / 29068,
         482048 / 414219],
        [587 / 8064, 0, 4440339 / 15491840, 24353 / 124800, 387 / 44800, 2152 / 5985,
         7267 / 94080]])
    embedded = [2479 / 34992, 0, 123 / 416, 612941 / 3411720, 43 / 1440, 2272 / 6561,
                79937 / 1113912, 3293 / 556956]
    return Pair(stages, [stages[-1] - np.array(embedded)], 5)


def dormand_prince_8() -> Pair:
    stages = np.zeros((13, 13))
    stages[:12, :12] = dop853.A[:12, :12]
    stages[12, :12] = dop853.B
    return Pair(stages, [dop853.E5, dop853.E3], 8)


PAIRS = {"dopri5": dormand_prince(), "tsit5": tsitouras(), "bs5": bogacki_shampine(),
         "dop853": dormand_prince_8()}
CONTROLS = {"last error": Control(0.9), "0.7, 0.4": Control(0.95, 0.7, 0.4),
            "1.0, 0.3": Control(0.9, 1.0, 0.3)}


class Problem(NamedTuple):
    """Noise on the FM-OT path from time `start` to 1, and u(r, x, samples) there."""

    noise: torch.Tensor
    start: float
    velocity: Callable[[np.ndarray, torch.Tensor, np.ndarray], torch.Tensor]


def per_sample(values: np.ndarray, x: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64).reshape([-1] + [1] * (x.dim() - 1))


def mixture(count: int) -> Problem:
    """Twelve Gaussians in 192 dimensions, as `mixture` of the program has them."""
    generator = torch.Generator().manual_seed(0)
    means = 0.6 * torch.randn(12, 192, generator=generator, dtype=torch.float64)
    variances = (0.08 + 0.15 * torch.rand(12, generator=generator, dtype=torch.float64)) ** 2

    def velocity(r: np.ndarray, x: torch.Tensor, _: np.ndarray) -> torch.Tensor:
        alpha = per_sample(r, x)
        variance = alpha ** 2 * variances + (1 - alpha) ** 2
        away = x[:, None, :] - alpha[:, :, None] * means
        weights = torch.softmax(-0.5 * 192 * variance.log() - 0.5 * (away ** 2).sum(2) / variance,
                                1)
        gains = (alpha * variances - (1 - alpha)) / variance
        return (weights[:, :, None] * (means + gains[:, :, None] * away)).sum(1)

    return Problem(torch.randn(count, 192, generator=generator, dtype=torch.float64), 0.0, velocity)


def vp_point(t: np.ndarray) -> tuple:
    log_alpha = -((1 - t) ** 2 * 19.9 / 4 + (1 - t) * 0.05)
    return np.exp(log_alpha), np.sqrt(-np.expm1(2 * log_alpha))


def vp_time(r: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        depth = 0.5 * np.logaddexp(0, -2 * (np.log(r) - np.log1p(-r)))
    return np.clip(1 - 2 * depth / (0.05 + np.sqrt(0.05 ** 2 + 19.9 * depth)), 0, 1)


def prompts(count: int) -> torch.Tensor:
    card = json.loads((MODELS / "emoji-t2i.json").read_text())["conditions"][0]
    words = torch.zeros(count, *card["shape"], dtype=torch.long)
    for k, line in enumerate((MODELS / "emoji-t2i-prompts.txt").read_text().splitlines()[:count]):
        for j, word in enumerate(line.split()):
            words[k, j] = 1 + card["vocabulary"].index(word)
    return words


def network(name: str, count: int, dtype: torch.dtype, guidance: float) -> Problem:
    """An embedded model; noise predictions on VP are taken to the FM-OT path."""
    module = torch.jit.load(str(MODELS / f"{name}.pt")).to(dtype).eval()
    shape = json.loads((MODELS / f"{name}.json").read_text())["sample_shape"]
    noise = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0),
                        dtype=torch.float64)
    is_prompted = name == "emoji-t2i"
    conditions = prompts(count) if is_prompted else torch.arange(count) % 10
    null = torch.zeros_like(conditions) if is_prompted else torch.full((count,), 10)

    def output(t: np.ndarray, x: torch.Tensor, samples: np.ndarray) -> torch.Tensor:
        x, times = x.to(dtype), torch.as_tensor(t, dtype=dtype)
        with torch.no_grad():
            guided = module(x, times, conditions[samples]).double()
            if guidance == 0:
                return guided
            return guided + guidance * (guided - module(x, times, null[samples]).double())

    if not name.endswith("eps-vp"):
        return Problem(noise, 0.0, output)

    def velocity(r: np.ndarray, x: torch.Tensor, samples: np.ndarray) -> torch.Tensor:
        t = vp_time(np.asarray(r))
        alpha, sigma = (per_sample(value, x) for value in vp_point(t))
        scaled = x * (alpha + sigma)
        epsilon = output(t, scaled, samples)
        return (scaled - sigma * epsilon) / alpha - epsilon

    alpha, sigma = vp_point(np.zeros(()))
    return Problem(noise / (alpha + sigma), float(alpha / (alpha + sigma)), velocity)


def problem_of(name: str, count: int, dtype: torch.dtype, guidance: float) -> Problem:
    return mixture(count) if name == "mixture" else network(name, count, dtype, guidance)


def norms(values: torch.Tensor, x: torch.Tensor, y: torch.Tensor,
          tolerances: np.ndarray) -> np.ndarray:
    scale = per_sample(tolerances, x) * (1 + torch.maximum(x.abs(), y.abs()))
    return ((values / scale) ** 2).flatten(1).mean(1).sqrt().numpy()


def total(slopes: Sequence[torch.Tensor], weights: np.ndarray, steps: np.ndarray) -> torch.Tensor:
    terms = (float(weight) * slope for slope, weight in zip(slopes, weights) if weight != 0)
    return sum(terms) * per_sample(steps, slopes[0])


class Outcome(NamedTuple):
    x: torch.Tensor
    evaluations: np.ndarray
    rejected: float  # of all attempts


class Run:
    """A row for each sample at each tolerance; none depends on another."""

    def __init__(self, problem: Problem, pair: Pair, control: Control,
                 tolerances: Sequence[float]) -> None:
        count = len(problem.noise)
        self.problem, self.pair, self.control = problem, pair, control
        self.samples = np.tile(np.arange(count), len(tolerances))
        self.tolerances = np.repeat(tolerances, count)
        self.x = problem.noise[self.samples].clone()
        self.t = np.full(len(self.samples), problem.start)
        self.last_error = np.ones(len(self.samples))
        self.after_rejection = np.zeros(len(self.samples), bool)
        self.evaluations = np.full(len(self.samples), 2)
        self.attempts = self.rejections = 0
        self.begin()

    def begin(self) -> None:
        """The starting step of Hairer, Norsett and Wanner."""
        x, field = self.x, self.problem.velocity
        self.slope = field(self.t, x, self.samples)
        size = norms(self.slope, x, x, self.tolerances)
        guess = np.minimum(1 - self.t, 0.01 * norms(x, x, x, self.tolerances) / size)
        there = field(self.t + guess, x + total([self.slope], np.ones(1), guess), self.samples)
        change = norms(there - self.slope, x, x, self.tolerances) / guess
        self.step = np.minimum(np.minimum(100 * guess, 1 - self.t),
                               (0.01 / np.maximum(size, change)) ** (1 / self.pair.order))

    def finish(self) -> Outcome:
        active = np.arange(len(self.samples))
        while len(active):
            self.attempt(active)
            active = active[self.t[active] < 1]
        return Outcome(self.x, self.evaluations, self.rejections / self.attempts)

    def attempt(self, rows: np.ndarray) -> None:
        left = 1 - self.t[rows]
        steps = np.where(self.step[rows] > left * (1 - 1e-10), left, self.step[rows])
        x, slopes = self.x[rows], [self.slope[rows]]
        for weights in self.pair.stages[1:]:
            y = x + total(slopes, weights, steps)
            times = np.minimum(1, self.t[rows] + weights.sum() * steps)
            slopes.append(self.problem.velocity(times, y, self.samples[rows]))
        error = self.error(slopes, steps, x, y, self.tolerances[rows])
        good = error <= 1
        self.evaluations[rows] += len(slopes) - 1
        if all(weights[-1] == 0 for weights in self.pair.errors):
            self.evaluations[rows[~good]] -= 1  # the slope at a state that is not taken
        self.attempts += len(rows)
        self.rejections += np.count_nonzero(~good)
        self.step[rows] = steps * self.factor(rows, error, good)
        self.last_error[rows[good]] = np.maximum(error[good], 1e-4)
        self.after_rejection[rows] = ~good
        self.t[rows[good]] = np.where(steps >= left, 1, self.t[rows] + steps)[good]
        self.x[rows[good]], self.slope[rows[good]] = y[good], slopes[-1][good]

    def error(self, slopes: Sequence[torch.Tensor], steps: np.ndarray, x: torch.Tensor,
              y: torch.Tensor, tolerances: np.ndarray) -> np.ndarray:
        sizes = [norms(total(slopes, weights, steps), x, y, tolerances)
                 for weights in self.pair.errors]
        if len(sizes) == 1:
            return np.maximum(sizes[0], 1e-10)
        fifth, third = (size ** 2 for size in sizes)
        return np.maximum(fifth / np.sqrt(fifth + 0.01 * third + 1e-300), 1e-10)

    def factor(self, rows: np.ndarray, error: np.ndarray, good: np.ndarray) -> np.ndarray:
        order, control = self.pair.order, self.control
        trend = error ** (-control.now / order) * self.last_error[rows] ** (control.before / order)
        factor = control.safety * np.where(good, trend, error ** (-1 / order))
        return np.clip(factor, 0.2, np.where(good & ~self.after_rejection[rows], 3, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("problems", nargs="+", help="mixture, or the names of embedded models")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--guidance", type=float, default=3, help="of emoji-t2i")
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-4, 1e-5, 1e-6])
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--controls", nargs="+", default=list(CONTROLS), choices=list(CONTROLS))
    parser.add_argument("--true-tolerance", type=float, default=1e-8)
    options = parser.parse_args()
    for name in options.problems:
        guidance = options.guidance if name == "emoji-t2i" else 0.0
        exact = problem_of(name, options.samples, torch.float64, guidance)
        truth = Run(exact, PAIRS["dop853"], CONTROLS["last error"],
                    [options.true_tolerance]).finish().x
        problem = problem_of(name, options.samples, torch.float32, guidance)
        for pair in options.pairs:
            for control in options.controls:
                for tolerance in options.tolerances:
                    found = Run(problem, PAIRS[pair], CONTROLS[control], [tolerance]).finish()
                    error = (found.x - truth).pow(2).mean().sqrt()
                    print(f"{name:15} {pair:7} {control:10}  tolerance {tolerance:.0e}  "
                          f"evaluations {found.evaluations.mean():6.1f}  error {error:.2e}  "
                          f"rejected {100 * found.rejected:4.1f} %", flush=True)


if __name__ == "__main__":
    main()
