"""A model with its own samples, for which solvers are looked for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from bespoke import _core
from bespoke.arrays import Array
from bespoke.errors import Error
from bespoke.field import Callback, Field, GuidanceLike, ScheduleLike
from bespoke.progress import Progress, ProgressLike, open_progress
from bespoke.solver import Solver
from bespoke.team import started_team
from bespoke.trajectories import core_field, reference

StartScale = Union[str, int]  # "free" or 1
Features = Callable[[Array], Any]  # of samples [count, ...], a row of numbers for each


@dataclass(frozen=True)
class Result:
    """A solver and what it took to find it. PSNR is in decibels."""

    solver: Solver
    psnr: float  # on the held-out samples, on all where none were; NaN where interrupted before
    training_psnr: float  # on the others; NaN where it was not measured
    initial_psnr: float  # before direct, on the held-out samples
    start: str  # what direct started from
    iterations: int
    calls: int  # of the model, in single samples, those for its own samples included
    reference_calls: int
    seconds: float
    ending: str  # converged, iterations, forwards, interrupted or diverged
    note: str  # what a reader should know, or empty

    def __str__(self) -> str:
        text = (f"{self.solver.nfe} evaluations reach {self.psnr:.2f} dB, in {self.calls:,} calls "
                f"of the model ({self.reference_calls:,} for its own samples) and "
                f"{self.seconds:.1f} s")
        return f"{text}; {self.note}" if self.note else text


class Problem:
    """A model, noise, and the model's own samples from it, drawn once for any number of solvers.

        problem = bespoke.Problem(field, noise)
        results = [problem.fit(nfe) for nfe in (4, 6, 8)]

    The arguments are those of bespoke.fit.
    """

    def __init__(self, field: Callback, noise: Array, *, prediction: str = "velocity",
                 schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
                 guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
                 batch: Optional[int] = None, held_out: Optional[int] = None,
                 tolerance: float = 1e-5, peak: float = 2.0) -> None:
        self.field = Field(field, noise, prediction=prediction, schedule=schedule,
                           conditions=conditions, guidance=guidance, unconditional=unconditional,
                           batch=batch)
        self.noise = noise
        self.count = int(noise.shape[0])
        self.held_out = _held_out(held_out, self.count)
        self.tolerance = float(tolerance)
        self.peak = float(peak)
        self.together = False  # whether the field takes one time for all its samples
        self.extra_calls: Callable[[], int] = lambda: 0  # that the field makes unasked, so far
        self.reference_calls = 0
        self._samples: Optional[Tuple[_core.Samples, _core.Samples]] = None

    def fit(self, nfe: int = 8, *, start_scale: StartScale = "free", times: str = "free",
            name: Optional[str] = None, progress: ProgressLike = None) -> Result:
        """As bespoke.fit."""
        return _Search(self, self._options(nfe, "fit", start_scale, times), name).run(progress)

    def distill(self, nfe: int = 8, *, calls: Optional[int] = None,
                network_calls: int = 0, method: str = "auto", start_scale: StartScale = "free", times: str = "free",
                starts: Optional[Sequence[Union[str, Solver]]] = None, iterations: int = 0,
                samples: int = 0, difference: float = 0.0, time_difference: float = 0.0,
                match: str = "auto", features: Optional[Features] = None, match_weight: float = 0.0,
                name: Optional[str] = None, progress: ProgressLike = None) -> Result:
        """As bespoke.distill; `calls` includes those for the model's own samples."""
        options = self._options(0 if network_calls else nfe, method, start_scale, times,
                                network_calls)
        options.iterations = int(iterations)
        options.batch = int(samples)
        options.time_difference = float(time_difference)
        options.difference = float(difference)
        options.match, options.match_weight = match, float(match_weight)
        if features is not None or match in ("both", "distribution"):
            options.set_features(self._asked_features(features))
        for start in starts or []:
            solver = start if isinstance(start, Solver) else Solver.named(
                start, nfe, schedule=self.field.schedule, prediction=self.field.prediction)
            options.add_start(solver.name, solver.core)
        search = _Search(self, options, name)
        search.budget = calls
        return search.run(progress)

    def _asked_features(self, features: Optional[Features]) -> Callable[[Array], Any]:
        """Features as the core asks for them: a row of float64 for each sample."""
        arrays, shape = self.field.arrays, tuple(self.noise.shape[1:])

        def plain(samples: Array) -> Any:
            return _core.plain_features(arrays.to_numpy(samples).reshape(samples.shape[0], -1),
                                        shape)

        def asked(samples: Array) -> Any:
            assert features is not None
            found = features(samples)
            return arrays.to_numpy(found) if arrays.owns(found) else found

        return plain if features is None else asked

    def samples(self, shown: Progress) -> "Tuple[_core.Samples, _core.Samples]":
        """The first samples to learn from, the last to measure by."""
        if self._samples is None:
            self._samples = self._draw(shown)
            self.reference_calls = self.calls
        return self._samples

    @property
    def calls(self) -> int:
        """Of the model so far, in single samples."""
        return self.field.calls + self.extra_calls()

    def _draw(self, shown: Progress) -> "Tuple[_core.Samples, _core.Samples]":
        numbers = list(range(self.count))
        learnt = numbers[:self.count - self.held_out]
        arrays = self.field.arrays
        shown.say("the model's own samples")
        truth = reference(
            self.field, self.noise, numbers, self.tolerance, record=True, together=self.together,
            on_progress=lambda done: shown.say(f"the model's own samples, {done:.0%}"))

        asked = core_field(self.field, None if self.together else started_team())

        def part(chosen: List[int], trajectories: "Optional[_core.Trajectories]") -> "_core.Samples":
            noise = arrays.take(arrays.state(self.noise), chosen)
            return _core.Samples(asked, noise, arrays.cast(arrays.take(truth.x, chosen), noise),
                                 trajectories, numbers=chosen, batch=self.field.batch or 0,
                                 joins_runs=arrays.on_device(noise))

        training = part(learnt, truth.trajectories)
        return training, part(numbers[len(learnt):], None) if self.held_out else training

    def _options(self, nfe: int, method: str, start_scale: StartScale, times: str,
                 network_calls: int = 0) -> "_core.DistillOptions":
        options = _core.DistillOptions(nfe=checked_nfe(nfe), method=method, prediction=self.field.prediction,
                                       schedule=self.field.schedule, guidance=self.field.guidance)
        options.network_calls = int(network_calls)
        options.peak = self.peak
        options.validate()
        if str(start_scale) not in ("free", "1"):
            raise Error(f"start_scale is \"free\" or 1, found {start_scale!r}")
        options.constrain(str(start_scale) == "1", times)
        return options


class _Search:
    """One fit or distillation by the method of the core."""

    def __init__(self, problem: Problem, options: "_core.DistillOptions",
                 name: Optional[str]) -> None:
        options.validate()
        self.problem = problem
        self.options = options
        self.name = name
        self.budget: Optional[int] = None

    def run(self, progress: ProgressLike) -> Result:
        problem, began = self.problem, time.monotonic()
        with open_progress(progress) as shown:
            problem.field.on_calls = shown.add
            training, validation = problem.samples(shown)
            before = problem.calls
            if self.budget is not None:
                self.options.most_forwards = self._most_forwards(self.budget)
                self.options.counts_validation = True
            shown.say("start")
            summary = _core.distill(training, validation, self.options,
                                    lambda what, fraction: shown.say(f"{what}, {fraction:.0%}"),
                                    lambda name, psnr: shown.say(f"{name}, {psnr:.2f} dB"),
                                    _iteration_teller(shown))
        calls = problem.reference_calls + problem.calls - before
        return self._result(summary, calls, time.monotonic() - began)

    def _most_forwards(self, budget: int) -> int:
        """What is left of the budget after the model's own samples, in evaluations."""
        field, left = self.problem.field, budget - self.problem.reference_calls
        if not self.options.network_calls:  # where calls are counted one by one
            left = int(left * field.evaluations / max(1, field.calls))
        return max(1, left)

    def _result(self, summary: Dict[str, Any], calls: int, seconds: float) -> Result:
        problem, field = self.problem, self.problem.field
        provenance = {**(summary["provenance"] if summary["psnr"] == summary["psnr"] else {}),
                      "made_by": f"bespoke-solvers {_core.__version__}",
                      "method": self.options.method, "samples": problem.count - problem.held_out,
                      "held_out": problem.held_out, "tolerance": problem.tolerance, "calls": calls}
        solver = Solver.made(self.name or "bns", summary["solver"], field.prediction,
                             field.schedule, field.guidance, provenance)
        return Result(solver=solver, psnr=summary["psnr"], training_psnr=summary["training_psnr"],
                      initial_psnr=summary["initial_psnr"], start=summary["start"],
                      iterations=summary["iterations"], calls=calls,
                      reference_calls=problem.reference_calls, seconds=seconds,
                      ending=summary["ending"], note=self._note(summary))

    def _note(self, summary: Dict[str, Any]) -> str:
        if summary["ending"] == "interrupted":
            return "interrupted: this is the best solver so far"
        if summary["message"]:
            return f"it diverged and this is the best before that ({summary['message']})"
        if self.budget is not None and summary["iterations"] == 0:
            return f"{self.budget:,} calls do not suffice for an iteration; this is the start"
        return ""


def _iteration_teller(shown: Progress) -> Any:
    def tell(iteration: int, psnr: float, best: float) -> bool:
        shown.say(f"iteration {iteration}, {best:.2f} dB")
        return True
    return tell


def checked_nfe(nfe: Any) -> int:
    """A number of evaluations, from what users give."""
    if isinstance(nfe, bool) or not isinstance(nfe, Integral):
        raise Error(f"nfe must be a whole number of evaluations, found {nfe!r}; a Problem finds a "
                    "solver for each of several numbers, and save_solvers puts them into one file")
    return int(nfe)


def _held_out(held_out: Optional[int], count: int) -> int:
    chosen = count // 4 if held_out is None else int(held_out)
    if chosen < 0 or chosen >= count:
        raise Error(f"held_out must leave a sample to learn from, found {chosen} of {count}")
    return chosen
