"""Solvers as a sampler of k-diffusion, for tools that hand a sampler a denoiser and sigmas.

    x = bespoke.k_diffusion.sample_bespoke(denoiser, x, sigmas)    # learns from the first samples

    sigmas = bespoke.k_diffusion.sigmas_of(solver)                 # or a solver found before
    x = torch.randn(...) * sigmas[0]
    x = bespoke.k_diffusion.sample_bespoke(denoiser, x, torch.tensor(sigmas), solver=solver)
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from bespoke.arrays import Array, arrays_of
from bespoke.data_field import Conversation, like, to_numpy, usual_peak
from bespoke.errors import DivergedError, Error
from bespoke.learning import MOST_SAMPLES, REFERENCE, Learner, Rounding
from bespoke.sampler import Say, learnt_line, lesson_line, told
from bespoke.schedule import PlainSchedule
from bespoke.solver import Solver

__all__ = ["LearningSampler", "learning_sampler_of", "sample_bespoke", "sigmas_of"]


def sigmas_of(solver: Solver) -> List[float]:
    """Where the solver calls the denoiser, and where it ends: n + 1 numbers."""
    return solver.lower_to_sigmas().sigmas


def sample_bespoke(model: Callable[..., Array], x: Array, sigmas: Any,
                   extra_args: Optional[Mapping[str, Any]] = None,
                   callback: Optional[Callable[[Dict[str, Any]], None]] = None,
                   disable: Optional[bool] = None, *, solver: Optional[Solver] = None) -> Array:
    """Called as every sample_* of k-diffusion; with a solver, or learning one.

    model(x, sigma, **extra_args) is the denoiser, guided where it is to be; x is noise times
    sigmas[0]. The callback is told the step, the sigma, the state and what was denoised.

    With a solver `sigmas` are sigmas_of(solver), since a solver has times of its own. Without one
    the first call of a model is one to learn from, by as many steps as the sigmas have: see
    LearningSampler.
    """
    if solver is None:
        return learning_sampler_of(model)(model, x, sigmas, extra_args, callback, disable)
    lowered = solver.lower_to_sigmas()
    _check_sigmas(sigmas, lowered.sigmas)
    arrays = arrays_of(x, "x")
    start = arrays.state(x) * (lowered.start_scale / lowered.sigmas[0])
    state, slopes = start, []
    with arrays.no_grad():
        for i, sigma in enumerate(lowered.sigmas[:-1]):
            each = arrays.numbers([sigma] * int(x.shape[0]), start)
            # Copies: a cast may be the state itself, and a denoiser may write into what it gets.
            denoised = model(arrays.copy(arrays.cast(state, x)), arrays.cast(each, x),
                             **(extra_args or {}))
            if callback is not None:
                callback({"x": arrays.copy(arrays.cast(state, x)), "i": i, "sigma": sigma,
                          "sigma_hat": sigma, "denoised": denoised})
            data = arrays.cast(denoised, state)
            if solver.clip is not None:
                data = solver.clip.on(arrays, data)
            slopes.append((state - data) * (1 / sigma))
            state = arrays.combine([lowered.a[i], *lowered.b[i]], [start, *slopes], start)
            if not arrays.is_finite(state):
                raise DivergedError(f"the state is not finite after step {i + 1} of {solver.nfe} "
                                    f"(sigma = {sigma:.6g}); check that the solver was made for "
                                    "this model")
    return arrays.cast(state, x)


def _check_sigmas(given: Any, own: List[float]) -> None:
    values = np.asarray([float(sigma) for sigma in given])
    if len(values) != len(own) or not np.allclose(values, own, rtol=1e-3, atol=1e-4):
        raise Error(f"the solver has {len(own)} sigmas of its own, from {own[0]:.4g} to "
                    f"{own[-1]:.4g}; pass sigmas_of(solver)")


class LearningSampler:
    """A sampler of k-diffusion that learns: the first call by many evaluations, later ones by few.

    Of the sigmas only the first, the last, which must be 0, and their number count. Another shape,
    number of steps, first sigma or cond_scale is learnt anew; so is all after relearn().

    schedule  the path of the network's training, where its times are rounded; by itself a flow
              where the first sigma is at most 1, and otherwise data + sigma noise.
    times     how the network's times are rounded on that path, as of bespoke.Sampler.
    """

    def __init__(self, *, schedule: Any = None, times: str = "free", reference: int = REFERENCE,
                 samples: int = MOST_SAMPLES, say: Say = None) -> None:
        self._schedule = None if schedule is None else PlainSchedule(schedule)
        self._rounding = Rounding(times)
        self._options = {"reference": reference, "samples": samples}
        self._say = told(say)
        self._learners: Dict[Tuple[Any, ...], Learner] = {}

    def __call__(self, model: Callable[..., Array], x: Array, sigmas: Any,
                 extra_args: Optional[Mapping[str, Any]] = None,
                 callback: Optional[Callable[[Dict[str, Any]], None]] = None,
                 disable: Optional[bool] = None) -> Array:
        """Draws samples; the arguments are those of sample_bespoke."""
        extra = dict(extra_args or {})
        first, steps = _whole_way(sigmas, x)
        key, learner = self._learner_for(x, first, steps, extra)
        path = learner.schedule
        noise = to_numpy(x, "x") / (first / path.source_std)
        if not learner.wants_more:
            return self._run(learner.sample(steps, noise), path, model, x, extra, callback)
        self._say(lesson_line(learner, len(learner.times())))
        samples = self._run(learner.lesson(noise), path, model, x, extra, callback)
        self._learners[key] = learner
        self._say(learnt_line(learner, usual_peak(to_numpy(samples))))
        return samples

    def relearn(self) -> None:
        """Forgets all that was learnt: for other weights, or another guidance than cond_scale says."""
        self._learners = {}

    def evaluations(self, x: Array, sigmas: Any,
                    extra_args: Optional[Mapping[str, Any]] = None) -> int:
        """How many evaluations the next call will take."""
        steps = len(sigmas) - 1
        _, learner = self._learner_for(x, float(sigmas[0]), steps, extra_args or {})
        return len(learner.times()) if learner.wants_more else steps

    def _learner_for(self, x: Array, first: float, steps: int, extra: Mapping[str, Any]
                     ) -> Tuple[Tuple[Any, ...], Learner]:
        key = (tuple(x.shape[1:]), steps, round(first, 6), extra.get("cond_scale"))
        if key in self._learners:
            return key, self._learners[key]
        path = self._schedule or PlainSchedule("fm-ot" if first <= 1.001 else
                                               {"name": "edm", "sigma_max": first})
        return key, Learner(path, [steps], rounding=self._rounding, **self._options)

    def _run(self, lesson: Any, path: PlainSchedule, model: Callable[..., Array], x: Array,
             extra: Dict[str, Any], callback: Optional[Callable[[Dict[str, Any]], None]]) -> Array:
        talk, step = Conversation(lesson), 0
        flow = path.name == "fm-ot"
        with arrays_of(x, "x").no_grad():
            while talk.wanted is not None:
                alpha, sigma = (path.alpha(talk.wanted.time), path.sigma(talk.wanted.time))
                scale = 1.0 if flow else alpha
                given = like(talk.wanted.state / scale, x)
                denoised = model(given, like(np.full(len(x), sigma / scale), x), **extra)
                if callback is not None:
                    callback({"x": given, "i": step, "sigma": sigma / scale,
                              "sigma_hat": sigma / scale, "denoised": denoised})
                talk.tell(to_numpy(denoised, "what the denoiser returns"))
                step += 1
        assert talk.samples is not None
        return like(talk.samples, x)


_SAMPLERS: "weakref.WeakKeyDictionary[Any, LearningSampler]" = weakref.WeakKeyDictionary()


def learning_sampler_of(model: Any) -> LearningSampler:
    """The sampler that sample_bespoke learns this model with; it lives as long as the model."""
    owner = getattr(model, "__self__", model)  # a bound method is a new object each time
    if owner not in _SAMPLERS:
        _SAMPLERS[owner] = LearningSampler()
    return _SAMPLERS[owner]


def _whole_way(sigmas: Any, x: Array) -> Tuple[float, int]:
    """The first sigma and the number of steps of a run from noise to data."""
    values = [float(sigma) for sigma in sigmas]
    if len(values) < 3 or values[-1] != 0 or not values[0] > 0:
        raise Error("a solver is learnt for the whole way from noise to data: sigmas must be at "
                    f"least three and end with 0, found {len(values)} that end with "
                    f"{values[-1] if values else 'nothing'}")
    spread = float(to_numpy(x, "x").std())
    if not 0.7 < spread / values[0] < 1.4:
        raise Error(f"x has the deviation {spread:.4g} and the first sigma is {values[0]:.4g}: a "
                    "solver is learnt and run from noise alone, not from an image")
    return values[0], len(values) - 1
