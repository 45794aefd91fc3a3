"""A model with its reference samples, for which solvers are looked for."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from bespoke import _core, checks
from bespoke.arrays import Array
from bespoke.clip import ClipLike
from bespoke.error_mask import error_mask_of, mask_of_samples
from bespoke.errors import DivergedError, Error
from bespoke.field import Callback, Field, GuidanceLike, ScheduleLike
from bespoke.field_trial import check_deviation, check_repeats, levels_of_time
from bespoke.progress import Progress, ProgressLike, open_progress
from bespoke.results import Evaluations, Result, checked_nfe, few_samples_note, for_each_nfe
from bespoke.solver import Solver
from bespoke.team import started_team
from bespoke.trajectories import core_field, reference

StartScale = Union[str, int]  # "free" or 1
Features = Callable[[Array], Any]  # of samples [count, ...], a row of numbers for each


class Problem:
    """A model, noise, and the reference samples from it, drawn once for any number of solvers.

        problem = bespoke.Problem(field, noise)
        results = [problem.fit(nfe) for nfe in (4, 6, 8)]

    The arguments are those of bespoke.fit.
    """

    def __init__(self, field: Callback, noise: Any, *, prediction: str = "velocity",
                 schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
                 guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
                 batch: Optional[int] = None, held_out: Optional[int] = None,
                 tolerance: float = 1e-5, peak: float = 2.0, clip: ClipLike = None,
                 error_mask: Any = None) -> None:
        self.field = Field(field, noise, prediction=prediction, schedule=schedule,
                           conditions=conditions, guidance=guidance, unconditional=unconditional,
                           batch=batch, clip=clip)
        self.noise = self.field.noise
        self.error_mask = error_mask_of(error_mask, self.noise, self.field.arrays,
                                        self.field.conditions, self.field.structure)
        check_deviation(self.field, self.error_mask)
        self.count = self.given = int(self.noise.shape[0])
        self.held_out = _held_out(held_out, self.count)  # to choose by and to measure
        self.tolerance = _positive(tolerance, "tolerance")
        self.peak = _positive(peak, "peak")
        self.evaluations = 0  # of each of the model's own samples; 0 leaves them to the tolerance
        self.together = False  # whether the field takes one time for all its samples
        self.extra_calls: Callable[[], int] = lambda: 0  # that the field makes unasked, so far
        self.reference_calls = 0
        self.learnt: List[int] = []  # which of the samples are learnt from, once they are drawn
        self.left_out = ""  # a sentence on samples that are not finite, once they are drawn
        self.size_note = ""  # one on samples that are far too large for the peak
        self._samples: Optional[_Parts] = None
        self._levels: Optional[int] = None
        self._was_tried = False

    def fit(self, nfe: Evaluations = 8, *, start_scale: StartScale = "free",
            times: Optional[str] = None, name: Optional[str] = None,
            progress: ProgressLike = None) -> Any:
        """As bespoke.fit: a Result, or Results where nfe is a list."""
        def found(count: int) -> Result:
            search = _Search(self, self._options(count, "fit", start_scale, times), name)
            search.chooses_times = times is None
            search.unit_start_scale = str(start_scale) == "1"
            return search.run(progress)
        return for_each_nfe(found, nfe)

    def distill(self, nfe: Evaluations = 8, *, calls: Optional[int] = None,
                network_calls: int = 0, method: str = "auto", start_scale: StartScale = "free",
                times: Optional[str] = None, starts: Optional[Sequence[Union[str, Solver]]] = None,
                iterations: int = 0, samples: int = 0, difference: float = 0.0,
                time_difference: float = 0.0, match: str = "auto",
                features: Optional[Features] = None, match_weight: float = 0.0,
                match_groups: Optional[Sequence[int]] = None,
                name: Optional[str] = None, progress: ProgressLike = None) -> Any:
        """As bespoke.distill; `calls` includes those for the reference samples."""
        if calls is not None:
            checks.whole_number(calls, "calls", 1)
        checks.whole_number(network_calls, "network_calls", 0)
        if features is not None and not callable(features):
            raise Error(f"features must be a callable, found {features!r}")

        def found(count: int) -> Result:
            options = self._options(0 if network_calls else count, method, start_scale, times,
                                    network_calls)
            options.iterations = checks.whole_number(iterations, "iterations", 0)
            options.batch = checks.whole_number(samples, "samples", 0)
            options.time_difference = float(checks.number(time_difference, "time_difference"))
            options.difference = float(checks.number(difference, "difference"))
            options.match = checks.text(match, "match")
            options.match_weight = float(checks.number(match_weight, "match_weight"))
            if features is not None or match in ("both", "distribution"):
                options.set_features(self._asked_features(features))
            for start in _starts(starts):
                solver = start if isinstance(start, Solver) else Solver.named(
                    start, count, schedule=self.field.schedule,
                    prediction=self.field.network_prediction)
                options.add_start(solver.name, solver.core)
            search = _Search(self, options, name)
            search.budget = calls
            search.groups = self._checked_groups(match_groups)
            search.chooses_times = times is None
            search.unit_start_scale = str(start_scale) == "1"
            return search.run(progress)
        return for_each_nfe(found, nfe)

    def _checked_groups(self, groups: Optional[Sequence[int]]) -> Optional[List[int]]:
        if groups is None:
            return None
        if not hasattr(groups, "__len__"):
            raise Error(f"match_groups has a number for each sample, found {groups!r}")
        found = [checks.whole_number(group, f"match_groups[{k}]") for k, group in enumerate(groups)]
        if len(found) != self.given:
            raise Error(f"match_groups has a number for each of the {self.given} samples, "
                        f"found {len(found)}")
        return found

    def _asked_features(self, features: Optional[Features]) -> Callable[[Array], Any]:
        """Features as the core asks for them: a row of float64 for each sample."""
        arrays = self.field.arrays

        def plain(samples: Array) -> Any:
            count, *shape = samples.shape
            return _core.plain_features(arrays.to_numpy(samples).reshape(count, -1), shape)

        def asked(samples: Array) -> Any:
            assert features is not None
            found = features(samples)
            return arrays.to_numpy(found) if arrays.owns(found) else found

        return plain if features is None else asked

    def keep_to(self, calls: int, nfe: int, network_calls: int = 0) -> None:
        """Draws only as many samples as so many calls pay for, by few evaluations each."""
        checks.whole_number(calls, "calls", 1)
        checks.whole_number(network_calls, "network_calls", 0)
        self.levels()  # which asks the field a few times
        each = 1 if self.field.guidance.is_zero else 2
        try:
            samples, held_out, self.evaluations = _core.plan_calls(
                calls - self.calls, network_calls or each * nfe, each, 0, network_calls > 0)
        except Error as error:
            raise Error(f"of {calls:,} calls {self.calls:,} were spent on how the field takes "
                        f"time, and {error}") from None
        self.held_out = min(held_out, self.count // 4)
        self.count = min(samples, self.count - self.held_out) + self.held_out
        self.noise = self.field.arrays.take(self.noise, list(range(self.count)))

    def samples(self, shown: Progress) -> "_Parts":
        """The reference samples, drawn once."""
        if self._samples is None:
            self.levels()
            self._samples = self._draw(shown)
            self.reference_calls = self.calls
        return self._samples

    def levels(self) -> Optional[int]:
        """Levels of noise that the field tells apart; None where its times are not rounded.

        A field that answers the same call differently is refused. Of fields that take one time for
        a whole batch nothing else is asked.
        """
        if not self._was_tried and self.together:
            check_repeats(self.field, self.noise)
        elif not self._was_tried:
            self._levels = levels_of_time(self.field, self.noise)
        self._was_tried = True
        return self._levels

    @property
    def calls(self) -> int:
        """Of the model so far, in single samples."""
        return self.field.calls + self.extra_calls()

    def _draw(self, shown: Progress) -> "_Parts":
        arrays = self.field.arrays
        shown.say("the model's own samples")
        truth = reference(
            self.field, self.noise, list(range(self.count)), self.tolerance, record=True,
            together=self.together, evaluations=self.evaluations,
            on_progress=lambda done: shown.say(f"the model's own samples, {done:.0%}"))
        self.left_out = truth.left_out(self.count)
        self.size_note = _size_note(float(arrays.root_mean_squares(truth.x).mean()), self.peak)

        asked = core_field(self.field, None if self.together else started_team())

        def part(rows: List[int], trajectories: "Optional[_core.Trajectories]") -> "_core.Samples":
            numbers = [truth.samples[row] for row in rows]
            noise = arrays.take(arrays.state(self.noise), numbers)
            return _core.Samples(asked, noise, arrays.cast(arrays.take(truth.x, rows), noise),
                                 trajectories, numbers=numbers, batch=self.field.batch or 0,
                                 joins_runs=arrays.on_device(noise),
                                 mask=mask_of_samples(arrays, self.error_mask, numbers))

        chosen_from = self.count - self.held_out
        measured_from = chosen_from + self.held_out // 2

        def rows(begin: int, end: int) -> List[int]:
            return [row for row, number in enumerate(truth.samples) if begin <= number < end]
        learnt, choosing, measured = (rows(0, chosen_from), rows(chosen_from, measured_from),
                                      rows(measured_from, self.count))
        if not learnt:
            raise DivergedError("the model's own samples are not finite for any noise to learn "
                                "from; check the model near t = 0 and t = 1")
        self.learnt = [truth.samples[row] for row in learnt]
        training = part(learnt, truth.trajectories)
        return _Parts(training, part(choosing, None) if choosing else training,
                      part(measured, None) if measured else None)

    def _options(self, nfe: int, method: str, start_scale: StartScale, times: Optional[str],
                 network_calls: int = 0) -> "_core.DistillOptions":
        options = _core.DistillOptions(nfe=checked_nfe(nfe), method=checks.text(method, "method"),
                                       prediction=self.field.network_prediction,
                                       schedule=self.field.schedule, guidance=self.field.guidance)
        options.network_calls = network_calls
        options.peak = self.peak
        options.validate()
        if str(start_scale) not in ("free", "1"):
            raise Error(f"start_scale is \"free\" or 1, found {start_scale!r}")
        options.constrain(str(start_scale) == "1", checks.text(times or "free", "times"))
        return options


@dataclass(frozen=True)
class _Parts:
    """Samples apart: where one set did two things, the figures of it would flatter."""

    training: "_core.Samples"
    choosing: "_core.Samples"  # among fits and iterates; those to learn from where none are spared
    measured: "Optional[_core.Samples]"  # that take no part at all


class _Search:
    """One fit or distillation by the method of the core."""

    def __init__(self, problem: Problem, options: "_core.DistillOptions",
                 name: Optional[str]) -> None:
        options.validate()
        self.problem = problem
        self.options = options
        self.name = None if name is None else checks.text(name, "name")
        self.parts: Optional[_Parts] = None
        self.budget: Optional[int] = None
        self.groups: Optional[List[int]] = None  # of all samples
        self.chooses_times = False  # by how the field rounds its own
        self.unit_start_scale = False
        self.note = ""

    def run(self, progress: ProgressLike) -> Result:
        problem, began = self.problem, time.monotonic()
        with open_progress(progress) as shown:
            problem.field.on_calls = shown.add
            self.parts = parts = problem.samples(shown)
            if self.chooses_times and problem.levels() is not None:
                self._round_times()
            if self.groups is not None:
                self.options.match_groups = [self.groups[k] for k in problem.learnt]
            before = problem.calls
            if self.budget is not None:
                self._limit(self.budget)
            shown.say("start")
            summary = _core.distill(parts.training, parts.choosing, self.options,
                                    lambda what, fraction: shown.say(f"{what}, {fraction:.0%}"),
                                    lambda name, psnr: shown.say(f"{name}, {psnr:.2f} dB"),
                                    _iteration_teller(shown))
            if parts.measured is not None and summary["psnr"] == summary["psnr"]:
                measured = _core.measure(parts.measured, summary["solver"], self.options.peak)
            else:
                measured = (summary["psnr"], summary["psnr_error"])
        calls = problem.reference_calls + problem.calls - before
        return self._result(summary, measured, calls, time.monotonic() - began)

    def _round_times(self) -> None:
        rule = f"integer:{self.problem.levels()}"
        self.options.constrain(self.unit_start_scale, rule)
        self.note = (f"the field rounds its times to {self.problem.levels()} levels of noise, and "
                     f'so does the solver (times="{rule}")')

    def _limit(self, budget: int) -> None:
        """Holds the core to the budget, which it counts in evaluations where it guides nothing."""
        field, spent = self.problem.field, self.problem.reference_calls
        if budget <= spent:
            raise Error(f"the model's own samples took {spent:,} of {budget:,} calls; give more "
                        "calls or less noise")
        each = 1.0 if self.options.network_calls else max(1, field.calls) / field.evaluations
        run = self.options.network_calls or self.options.nfe
        last = run * self.parts.measured.count if self.parts and self.parts.measured else 0
        self.options.most_calls = int(budget / each) - last  # after it, to measure what was found
        self.options.reference_forwards = math.ceil(spent / each)

    def _result(self, summary: Dict[str, Any], measured: Tuple[float, float], calls: int,
                seconds: float) -> Result:
        problem, field = self.problem, self.problem.field
        provenance = {**(summary["provenance"] if summary["psnr"] == summary["psnr"] else {}),
                      "made_by": f"bespoke-solvers {_core.__version__}",
                      "method": self.options.method, "samples": problem.count - problem.held_out,
                      "chosen_by": self._chosen_by, "held_out": self._held_out, "calls": calls}
        if self._held_out and math.isfinite(measured[0]):
            provenance["held_out_psnr"] = measured[0]
        if not problem.evaluations:
            provenance["tolerance"] = problem.tolerance
        solver = Solver.made(self.name or "bns", summary["solver"], field.network_prediction,
                             field.schedule, field.guidance, provenance, field.clip)
        return Result(solver=solver, psnr=measured[0], psnr_error=measured[1],
                      held_out=self._held_out, chosen_by=self._chosen_by,
                      choosing_psnr=summary["psnr"], training_psnr=summary["training_psnr"],
                      initial_psnr=summary["initial_psnr"], start=summary["start"],
                      iterations=summary["iterations"], calls=calls,
                      reference_calls=problem.reference_calls, seconds=seconds,
                      ending=summary["ending"], note=self._note(summary))

    def _note(self, summary: Dict[str, Any]) -> str:
        notes = (self._ending_note(summary), self.problem.left_out, self.problem.size_note,
                 few_samples_note(self._held_out))
        return "; ".join(note for note in notes if note)

    @property
    def _held_out(self) -> int:
        return self.parts.measured.count if self.parts and self.parts.measured else 0

    @property
    def _chosen_by(self) -> int:
        apart = self.parts is not None and self.parts.choosing is not self.parts.training
        return self.parts.choosing.count if self.parts and apart else 0

    def _ending_note(self, summary: Dict[str, Any]) -> str:
        if summary["ending"] == "interrupted":
            return "interrupted: this is the best solver so far"
        if summary["message"]:
            return f"it diverged and this is the best before that ({summary['message']})"
        if self.budget is not None and summary["iterations"] == 0:
            return f"{self.budget:,} calls do not suffice for an iteration; this is the start"
        return self.note


def _size_note(size: float, peak: float) -> str:
    """What to say of samples whose root mean square is this, or nothing."""
    if size <= peak:
        return ""
    return (f"the model's own samples have a root mean square of {size:.3g} and peak is {peak:g}: "
            "does its sampler clip (clip=), or are schedule, prediction or peak wrong?")


def _iteration_teller(shown: Progress) -> Any:
    def tell(iteration: int, psnr: float, best: float) -> bool:
        shown.say(f"iteration {iteration}, {best:.2f} dB")
        return True
    return tell


def _held_out(held_out: Optional[int], count: int) -> int:
    chosen = count // 4 if held_out is None else checks.whole_number(held_out, "held_out", 0)
    if chosen >= count:
        raise Error(f"held_out must leave a sample to learn from, found {chosen} of {count}")
    return chosen


def _positive(value: Any, name: str) -> float:
    found = float(checks.number(value, name))
    if not found > 0:
        raise Error(f"{name}: must be above 0, found {value!r}")
    return found


def _starts(given: Any) -> List[Union[str, Solver]]:
    """Names of the catalogue and Solvers, from one or several."""
    several = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    found = [start.solver if isinstance(start, Result) else start for start in several]
    for start in found:
        if not isinstance(start, (str, Solver)):
            raise Error("starts are names of the catalogue, Solvers or Results, found "
                        f"{start!r}")
    return found
