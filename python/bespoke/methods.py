"""Finds the solver that best reproduces a model's reference samples, by fit and distill."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from bespoke import _core
from bespoke.clip import ClipLike
from bespoke.field import Callback, GuidanceLike, ScheduleLike
from bespoke.problem import Features, Problem, StartScale
from bespoke.progress import ProgressLike
from bespoke.results import Evaluations, checked_nfes
from bespoke.solver import Solver


def fit(field: Callback, noise: Any, nfe: Evaluations = 8, *, prediction: str = "velocity",
        schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
        guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
        batch: Optional[int] = None, held_out: Optional[int] = None,
        tolerance: Optional[float] = None, start_scale: StartScale = "free",
        times: Optional[str] = None, peak: float = 2.0, clip: ClipLike = None,
        error_mask: Any = None, name: Optional[str] = None,
        progress: ProgressLike = None) -> Any:
    """Fits a solver of nfe evaluations to the model's own trajectories, in closed form.

    Returns a Result. For several nfe, (4, 6, 8), it returns Results, whose solvers learn from the
    same samples and can be saved as one file.

    field(t, x) is any callable: times t [count], 0 at the noise and 1 at the data, and states x
    [count, ...]. It returns an array like x, what `prediction` says. No gradients are asked for.

    noise        [samples, ...], what samples start from: standard normal, times the schedule's
                 source_std. Sixteen are enough. The field is called with arrays of its library,
                 type and device; states are kept in float32 or wider. A dict or a tuple of arrays
                 where a sample has several parts; the field then gets and returns such.
    prediction   velocity, noise, data, v, edm or score.
    schedule     the model's path: "fm-ot", "vp:B=20,b=0.1", a dict or a Schedule.
    conditions   an array or a list with an entry per sample for each name. The field gets those of
                 the samples it is called with, as keyword arguments.
    guidance     the weight w of (1 + w) field - w unconditional, with `unconditional(t, x)` a
                 second callable; or text as the command line has it: "0:1,0.5:3", which changes
                 over time, or "0-4", of which each sample has its own. guidance_scale of other
                 tools is 1 + w.
    batch        at most this many samples are given to the field at once.
    held_out     of the noise, the last this many are not learnt from: the first half of them
                 chooses among fits and iterates, the other half takes no part and measures the
                 result. A quarter of the noise where it is not given.
    tolerance    of the reference samples; 1e-5 where it is not given, beyond twelve evaluations
                 3e-6.
    start_scale  "free", or 1 where whoever runs the solver takes the noise as it is.
    times        "free", or as whoever runs the solver rounds them: "integer", "integer:LEVELS" (to
                 levels of noise, 1000 of them) or "bf16" (1000 (1 - t), to bfloat16). Where it is
                 not given: "integer:LEVELS" if the field is seen to round its times, else "free".
    peak         the peak-to-peak range of the data, for PSNR.
    clip         what the model's own sampler does to data predictions at every step: True for
                 [-1, 1], R for [-R, R], [least, most], or {"quantile": 0.995, "cap": 1.5} for
                 dynamic thresholding. The field stays the network's own prediction.
    error_mask   which numbers of a sample count in errors, fits and PSNR: an array of ones and
                 zeros [samples, ...], axes left out at the end or for all samples; or the name of
                 a condition, or "not NAME" for its zeros.
    progress     None shows it on terminals and in notebooks; True, False, or a function that is
                 told what is being done and the calls so far.
    """
    problem = Problem(field, noise, prediction=prediction, schedule=schedule,
                      conditions=conditions, guidance=guidance, unconditional=unconditional,
                      batch=batch, held_out=held_out, tolerance=_tolerance(tolerance, nfe),
                      peak=peak, clip=clip, error_mask=error_mask)
    return problem.fit(nfe, start_scale=start_scale, times=times, name=name, progress=progress)


def distill(field: Callback, noise: Any, nfe: Evaluations = 8, *, calls: Optional[int] = None,
            network_calls: int = 0, prediction: str = "velocity", schedule: ScheduleLike = "fm-ot",
            conditions: Optional[Mapping[str, Any]] = None, guidance: GuidanceLike = 0.0,
            unconditional: Optional[Callback] = None, batch: Optional[int] = None,
            held_out: Optional[int] = None, tolerance: Optional[float] = None, method: str = "auto",
            start_scale: StartScale = "free", times: Optional[str] = None,
            starts: Optional[Sequence[Union[str, Solver]]] = None, iterations: int = 0,
            samples: int = 0, difference: float = 0.0, time_difference: float = 0.0,
            match: str = "auto", features: Optional[Features] = None, match_weight: float = 0.0,
            match_groups: Optional[Sequence[int]] = None,
            peak: float = 2.0, clip: ClipLike = None, error_mask: Any = None,
            name: Optional[str] = None, progress: ProgressLike = None) -> Any:
    """Finds a better solver than fit: from the fit on by Gauss-Newton, by plain calls alone.

    As fit, and:

    calls        calls of the model to spend at most, in single samples and all in: its own
                 samples, the fit, the iterations and the measurements. It decides how much of the
                 noise is used, and by how many evaluations samples are drawn (tolerance and
                 held_out are not used). A hundred are enough for two samples and a fit to them. No
                 limit where it is not given.
    network_calls  a solver with built-in guidance, which makes so many calls per sample of both
                 callables together, in as many evaluations as do best (nfe is not used). It needs
                 one guidance weight and `unconditional`.
    method       auto, which ends where another iteration is not worth its calls, or direct, which
                 does all `iterations`.
    starts       solvers to begin from instead of the fit: names of the catalogue or Solvers.
    iterations   at most; 0 takes 24 for auto and 6 for direct.
    samples      of an iteration; 0 takes 4, more where samples are small, and twice as many after
                 an iteration that gained nothing.
    difference   how far numbers are changed to see their effect, of the state's root mean square; 0
                 takes what suits how well the field's answers repeat, which is measured.
    time_difference  how far times are, of the smaller gap beside them; 0 takes 0.05, and more where
                 answers are imprecise.

    match        what the solver's samples have in common with the reference samples: "samples" (each
                 sample), "both" (and the mean and covariance of their features), "distribution"
                 (hardly anything but these), or "auto": both up to four evaluations where features
                 are given, otherwise samples. Statistics need a few hundred samples, and more than
                 there are features.
    features     features(samples) returns a row of numbers for each of some samples [count, ...],
                 which are arrays of the field's library. For "both" and "distribution" they are
                 plain numbers of a sample where none are given.
    match_weight  of the mean log error of samples beside the statistics; 0 takes what suits match.
    match_groups  a number for each sample, such as its class: the statistics of each group are
                 matched apart. All samples are one group where none are given.

    Ctrl-C ends it with the best solver so far.
    """
    problem = Problem(field, noise, prediction=prediction, schedule=schedule,
                      conditions=conditions, guidance=guidance, unconditional=unconditional,
                      batch=batch, held_out=held_out, tolerance=_tolerance(tolerance, nfe),
                      peak=peak, clip=clip, error_mask=error_mask)
    if calls is not None:
        problem.keep_to(calls, checked_nfes(nfe)[-1], network_calls)
    return problem.distill(nfe, calls=calls, network_calls=network_calls, method=method,
                           start_scale=start_scale, times=times, starts=starts,
                           iterations=iterations, samples=samples,
                           difference=difference, time_difference=time_difference, match=match,
                           features=features, match_weight=match_weight,
                           match_groups=match_groups, name=name,
                           progress=progress)


def _tolerance(given: Optional[float], nfe: Evaluations) -> float:
    return _core.usual_tolerance(checked_nfes(nfe)[-1]) if given is None else given
