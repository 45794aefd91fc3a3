"""fit and distill: the solver that best reproduces a model's own samples."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from bespoke import _core
from bespoke.arrays import Array
from bespoke.errors import Error
from bespoke.field import Callback, Field, GuidanceLike, ScheduleLike
from bespoke.progress import Progress, ProgressLike, open_progress
from bespoke.samples import Samples
from bespoke.solver import Solver
from bespoke.trajectories import reference

START_GRIDS = 5  # that a fit is tried on
LEAST_BATCH = 4  # samples below which an iteration says too little


@dataclass(frozen=True)
class Result:
    """A solver and what it took to find it. PSNR is in decibels."""

    solver: Solver
    psnr: float  # on the held-out samples; on all where none were held out
    training_psnr: float  # on the others; NaN where it was not measured
    initial_psnr: float  # before direct, on the held-out samples
    start: str  # what direct started from
    iterations: int
    calls: int  # of the model, in single samples, the reference included
    reference_calls: int
    seconds: float
    ending: str  # converged, iterations, forwards, interrupted or diverged
    note: str  # what a reader should know, or empty

    def __str__(self) -> str:
        text = (f"{self.solver.nfe} evaluations reach {self.psnr:.2f} dB, in {self.calls:,} calls "
                f"of the model ({self.reference_calls:,} for its own samples) and "
                f"{self.seconds:.1f} s")
        return f"{text}; {self.note}" if self.note else text


def fit(field: Callback, noise: Array, nfe: int = 8, *, prediction: str = "velocity",
        schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
        guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
        batch: Optional[int] = None, held_out: Optional[int] = None, tolerance: float = 1e-4,
        free_start_scale: bool = True, peak: float = 2.0, name: Optional[str] = None,
        progress: ProgressLike = None) -> Result:
    """Fits a solver of nfe evaluations to the model's own trajectories, in closed form.

    field(t, x) is any callable: times t [count], 0 at the noise and 1 at the data, and states x
    [count, ...]. It returns an array like x, what `prediction` says. No gradients are asked for.

    noise        [samples, ...], what samples start from: standard normal, times the schedule's
                 source_std. Sixteen are enough. The field is called with arrays of its library,
                 type and device; states are kept in float32 or wider.
    prediction   velocity, noise, data, v or edm.
    schedule     the model's path: "fm-ot", "vp:B=20,b=0.1", a dict or a Schedule.
    conditions   an array or a list with an entry per sample for each name. The field gets those of
                 the samples it is called with, as keyword arguments.
    guidance     the weight w of (1 + w) field - w unconditional, with `unconditional(t, x)` a
                 second callable; or text as the command line has it, "0:1,0.5:3". guidance_scale
                 of other tools is 1 + w.
    batch        at most this many samples are given to the field at once.
    held_out     of the noise, the last this many take no part and measure the result; a quarter
                 where it is not given.
    tolerance    of the model's own samples.
    free_start_scale  whether the noise may be scaled; without, x_0 is the noise itself.
    peak         the peak-to-peak range of the data, for PSNR.
    progress     None shows it on terminals and in notebooks; True, False, or a function that is
                 told what is being done and the calls so far.
    """
    made = Field(field, noise, prediction=prediction, schedule=schedule, conditions=conditions,
                 guidance=guidance, unconditional=unconditional, batch=batch)
    options = _options(made, nfe, "fit", peak)
    options.free_start_scale = bool(free_start_scale)
    return _Search(made, noise, options, held_out, tolerance, name).run(progress)


def distill(field: Callback, noise: Array, nfe: int = 8, *, calls: Optional[int] = None,
            prediction: str = "velocity", schedule: ScheduleLike = "fm-ot",
            conditions: Optional[Mapping[str, Any]] = None, guidance: GuidanceLike = 0.0,
            unconditional: Optional[Callback] = None, batch: Optional[int] = None,
            held_out: Optional[int] = None, tolerance: float = 1e-4,
            starts: Optional[Sequence[Union[str, Solver]]] = None, iterations: int = 0,
            samples: int = 0, difference: Optional[float] = None,
            time_difference: float = 0.2, peak: float = 2.0, name: Optional[str] = None,
            progress: ProgressLike = None) -> Result:
    """Finds a better solver than fit: from the fit on by Gauss-Newton, by plain calls alone.

    As fit, and:

    calls        calls of the model to spend, about, in single samples: the model's own samples,
                 the fit, the iterations and the measurements. No limit where it is not given.
    starts       solvers to begin from instead of the fit: names of the catalogue or Solvers.
    iterations   at most; 0 takes eight. It mostly ends before by itself.
    samples      of an iteration; 0 takes sixteen, more where they are small, fewer where `calls`
                 does not allow as many.
    difference   how far numbers are changed to see their effect, of the state's root mean square;
                 by itself what suits the precision of the field's answers.

    time_difference  how far times are, of the smaller gap beside them.

    Ctrl-C ends it with the best solver so far.
    """
    made = Field(field, noise, prediction=prediction, schedule=schedule, conditions=conditions,
                 guidance=guidance, unconditional=unconditional, batch=batch)
    options = _options(made, nfe, "direct", peak)
    options.iterations = int(iterations)
    options.batch = int(samples)
    options.time_difference = float(time_difference)
    if difference is not None:
        options.difference = float(difference)
    for start in starts or []:
        solver = start if isinstance(start, Solver) else Solver.named(
            start, nfe, schedule=made.schedule, prediction=made.prediction)
        options.add_start(solver.name, solver.core)
    search = _Search(made, noise, options, held_out, tolerance, name)
    search.budget = calls
    search.choose_difference = difference is None
    search.fits = not starts
    return search.run(progress)


def _options(field: Field, nfe: int, method: str, peak: float) -> "_core.DistillOptions":
    options = _core.DistillOptions(nfe=nfe, method=method, prediction=field.prediction,
                                   schedule=field.schedule, guidance=field.guidance)
    options.peak = float(peak)
    options.validate()
    return options


class _Search:
    """One fit or distillation: the reference, then the method of the core."""

    def __init__(self, field: Field, noise: Array, options: "_core.DistillOptions",
                 held_out: Optional[int], tolerance: float, name: Optional[str]) -> None:
        self.field = field
        self.noise = noise
        self.options = options
        self.tolerance = float(tolerance)
        self.name = name
        self.budget: Optional[int] = None
        self.choose_difference = False
        self.fits = True
        self.count = int(noise.shape[0])
        self.held_out = _held_out(held_out, self.count)
        options.validate()

    def run(self, progress: ProgressLike) -> Result:
        began = time.monotonic()
        with open_progress(progress) as shown:
            self.field.on_calls = shown.add
            training, validation = self._samples(shown)
            reference_calls = self.field.calls
            self._prepare(training, validation)
            shown.say("fit" if self.fits else "start")
            summary = _core.distill(training, validation, self.options,
                                    lambda what, fraction: shown.say(what),
                                    _iteration_teller(shown))
            return self._result(summary, reference_calls, time.monotonic() - began)

    def _samples(self, shown: Progress) -> Tuple[Samples, Samples]:
        """The first samples to learn from, the last to measure by."""
        numbers = list(range(self.count))
        learnt = numbers[:self.count - self.held_out]
        arrays = self.field.arrays

        def tell(fraction: float) -> None:
            shown.say(f"the model's own samples, {fraction:.0%}")

        shown.say("the model's own samples")
        truth = reference(self.field, self.noise, numbers, self.tolerance, record=self.fits,
                          on_progress=tell)

        def part(chosen: List[int], trajectories: Any) -> Samples:
            return Samples(self.field, arrays.take(self.noise, chosen), chosen,
                           arrays.take(truth.x, chosen), trajectories)

        training = part(learnt, truth.trajectories)
        return training, part(numbers[len(learnt):], None) if self.held_out else training

    def _prepare(self, training: Samples, validation: Samples) -> None:
        """What depends on how precise the field turned out, and on what was spent already."""
        options = self.options
        if self.choose_difference:
            # The error of a difference quotient is about epsilon / h + h.
            options.difference = max(options.difference, self.field.epsilon ** 0.5)
        if self.budget is None:
            return
        # A guided evaluation is two calls.
        calls_each = self.field.calls / max(1, self.field.evaluations)
        n, learnt, measured = options.nfe, training.count, validation.count
        fits = START_GRIDS * n * min(learnt, options.fit_samples) if self.fits else 0
        # Measured at the start, after the last iteration and twice after the last fit of all.
        ends = n * (3 * measured + 2 * learnt)
        left = int((self.budget - self.field.calls) / calls_each) - fits - ends
        each = _core.iteration_evaluations(options)
        wanted = options.batch or min(16, learnt)
        options.batch = min(wanted, max(LEAST_BATCH, (left - n * measured) // each))
        iteration = options.batch * each + n * measured
        if left < iteration:
            if self.fits:
                return self._only_fit()
            raise Error(f"calls = {self.budget} does not suffice for one iteration; at least "
                        f"{self.budget + int((iteration - left) * calls_each):,} are needed")
        options.most_forwards = max(1, left - iteration + 1)

    def _only_fit(self) -> None:
        options = _core.DistillOptions(nfe=self.options.nfe, method="fit",
                                       prediction=self.field.prediction,
                                       schedule=self.field.schedule, guidance=self.field.guidance)
        options.peak = self.options.peak
        self.options = options

    def _result(self, summary: Dict[str, Any], reference_calls: int, seconds: float) -> Result:
        nfe = self.options.nfe
        provenance = {"made by": f"bespoke-solvers {_core.__version__}", "start": summary["start"],
                      "psnr": summary["psnr"], "samples": self.count - self.held_out,
                      "held out": self.held_out, "tolerance": self.tolerance,
                      "calls": self.field.calls}
        solver = Solver.made(self.name or f"bns-nfe{nfe}", summary["solver"],
                             self.field.prediction, self.field.schedule, self.field.guidance,
                             {key: value for key, value in provenance.items() if value == value})
        return Result(solver=solver, psnr=summary["psnr"], training_psnr=summary["training_psnr"],
                      initial_psnr=summary["initial_psnr"], start=summary["start"],
                      iterations=summary["iterations"], calls=self.field.calls,
                      reference_calls=reference_calls, seconds=seconds, ending=summary["ending"],
                      note=self._note(summary))

    def _note(self, summary: Dict[str, Any]) -> str:
        if summary["ending"] == "interrupted":
            return "interrupted: this is the best solver so far"
        if summary["message"]:
            return f"it diverged and this is the best before that ({summary['message']})"
        if self.budget is not None and summary["iterations"] == 0:
            return f"{self.budget:,} calls suffice for the fit alone"
        return ""


def _iteration_teller(shown: Progress) -> Any:
    def tell(iteration: int, psnr: float, best: float) -> bool:
        shown.say(f"iteration {iteration}, {best:.2f} dB")
        return True
    return tell


def _held_out(held_out: Optional[int], count: int) -> int:
    chosen = count // 4 if held_out is None else int(held_out)
    if chosen < 0 or chosen >= count:
        raise Error(f"held_out must leave a sample to learn from, found {chosen} of {count}")
    return chosen
