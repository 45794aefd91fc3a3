"""fit and distill: the solver that best reproduces a model's own samples."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from bespoke.arrays import Array
from bespoke.field import Callback, GuidanceLike, ScheduleLike
from bespoke.problem import Problem, Result
from bespoke.progress import ProgressLike
from bespoke.solver import Solver


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
    problem = Problem(field, noise, prediction=prediction, schedule=schedule,
                      conditions=conditions, guidance=guidance, unconditional=unconditional,
                      batch=batch, held_out=held_out, tolerance=tolerance, peak=peak)
    return problem.fit(nfe, free_start_scale=free_start_scale, name=name, progress=progress)


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
    problem = Problem(field, noise, prediction=prediction, schedule=schedule,
                      conditions=conditions, guidance=guidance, unconditional=unconditional,
                      batch=batch, held_out=held_out, tolerance=tolerance, peak=peak)
    return problem.distill(nfe, calls=calls, starts=starts, iterations=iterations, samples=samples,
                           difference=difference, time_difference=time_difference, name=name,
                           progress=progress)
