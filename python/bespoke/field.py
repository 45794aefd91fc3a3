"""A callable as the velocity field that solvers run on."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from bespoke import _core
from bespoke.arrays import Array, Arrays, arrays_of
from bespoke.clip import Clip, ClipLike
from bespoke.errors import Error
from bespoke.structure import Structure

Callback = Callable[..., Array]
ScheduleLike = Union["_core.Schedule", str, Mapping[str, Any]]
GuidanceLike = Union[float, str]
Calls = Tuple[List[float], List[float], List[float], List[float]]  # of _core.Conversion


def schedule_of(schedule: ScheduleLike) -> "_core.Schedule":
    """A schedule from what users give for one."""
    if isinstance(schedule, (_core.Schedule, str)):
        return _core.Schedule(schedule)
    if isinstance(schedule, Mapping):
        return _core.Schedule(dict(schedule))
    raise Error(f"schedule must be a name, a dict or a Schedule, found {type(schedule).__name__}")


def guidance_of(guidance: GuidanceLike) -> "_core.Guidance":
    """A guidance weight from a number, or the text of a range or of one that changes over time."""
    return _core.Guidance(guidance if isinstance(guidance, str) else float(guidance))


class Field:
    """What a callable predicts, asked for velocities, some samples at a time.

    On a part of a path the callables are told the times of the whole one.

    Samples are known by their numbers in `noise`, so that each gets its own conditions whatever
    else is in its batch. All calls are counted, in single samples: `evaluations` of the guided
    field, `calls` of the callables, of which a guided evaluation takes two.

    Samples of several arrays (Structure) are joined to one, `noise`, and split for the callables.
    `network_prediction` is what the callable predicts. Where data predictions are clipped, the
    field's own `prediction` is the clipped data.
    """

    def __init__(self, function: Callback, noise: Any, *, prediction: str = "velocity",
                 schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
                 guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
                 batch: Optional[int] = None, clip: ClipLike = None) -> None:
        if not callable(function):
            raise Error(f"field must be a callable u(t, x), found {type(function).__name__}")
        self.structure = Structure.of(noise, "noise")
        if self.structure is not None:
            noise = self.structure.joined(noise, "noise")
            function = self.structure.on_joined(function, "field")
            if unconditional is not None:
                unconditional = self.structure.on_joined(unconditional, "unconditional")
        self.noise = noise
        self.arrays: Arrays = arrays_of(noise, "noise")
        if len(noise.shape) < 2 or 0 in noise.shape:
            raise Error("noise must have samples along its first axis and numbers along others, "
                        f"found shape {tuple(noise.shape)}")
        if batch is not None and (isinstance(batch, bool) or int(batch) != batch or batch < 1):
            raise Error(f"batch must be a whole number of samples, at least 1, found {batch!r}")
        self.network_prediction: str = _core.parse_prediction(prediction)
        self.clip = Clip.of(clip)
        self.prediction: str = self.network_prediction if self.clip is None else "data"
        self.schedule = schedule_of(schedule)
        self.guidance = guidance_of(guidance)
        if not self.guidance.is_zero and unconditional is None:
            raise Error(f"guidance is {guidance} but there is no unconditional=; give the second "
                        "callable, or a field that is guided already with guidance 0")
        self.batch = None if batch is None else int(batch)
        self.evaluations = 0
        self.calls = 0
        self.on_calls: Optional[Callable[[int], None]] = None
        self.epsilon = self.arrays.epsilon(noise)  # of the least precise array seen
        self._function = function
        self._unconditional = unconditional
        self.conditions = _checked_conditions(conditions or {}, int(noise.shape[0]))
        self.example = noise[:1]  # of the type and device that the callable is given
        self._conversion = _core.Conversion(self.prediction, self.schedule, self.epsilon)
        self._to_data = _core.Conversion(self.network_prediction, self.schedule, self.epsilon)

    def as_given(self, x: Array) -> Any:
        """States in the arrays that the noise was given in."""
        return x if self.structure is None else self.structure.split(x)

    # Velocities

    def velocity(self, x: Array, times: Sequence[float], samples: Sequence[int]) -> Array:
        """The velocity on the field's own path, a time for each row of x."""
        calls = self._conversion.velocity(_each(times, x))
        x = self._scaled(x, calls)
        return self._converted(x, calls, self.output(x, calls[0], samples))

    def velocity_parts(self, x: Array, times: Sequence[float], samples: Sequence[int],
                       with_difference: bool) -> Tuple[Array, Optional[Array]]:
        """The conditional velocity and how it differs from the unconditional one."""
        calls = self._conversion.velocity(_each(times, x))
        x = self._scaled(x, calls)
        given, difference = self.parts(x, calls[0], samples, with_difference)
        if difference is not None:
            factor = self.arrays.per_sample(calls[3], self.arrays.wide(difference))
            difference = self.arrays.cast(self.arrays.wide(difference) * factor, x)
        return self._converted(x, calls, given), difference

    def _scaled(self, x: Array, calls: Calls) -> Array:
        scales = calls[1]
        if all(scale == 1 for scale in scales):
            return x
        return x * self.arrays.cast(self.arrays.per_sample(scales, x), x)

    def _converted(self, x: Array, calls: Calls, f: Array) -> Array:
        states, outputs = calls[2:]
        if all(state == 0 for state in states) and all(output == 1 for output in outputs):
            return f
        factor = self.arrays.per_sample
        return self.arrays.cast(self.arrays.wide(x) * factor(states, self.arrays.wide(x))
                                + self.arrays.wide(f) * factor(outputs, self.arrays.wide(f)), x)

    # Calls

    def output(self, x: Array, times: Sequence[float], samples: Sequence[int]) -> Array:
        """The field's prediction: what the callable predicts, guided, or the clipped data."""
        times = _each(times, x)
        if self.clip is None:
            return self.network(x, times, samples)
        safe, states, outputs = self._to_data.data(times)
        found, wide = self.arrays.wide(self.network(x, safe, samples)), self.arrays.wide(x)
        data = (wide * self.arrays.per_sample(states, wide)
                + found * self.arrays.per_sample(outputs, wide))
        return self.arrays.cast(self.clip.on(self.arrays, data), self.arrays.state(x))

    def network(self, x: Array, times: Sequence[float], samples: Sequence[int]) -> Array:
        """What the callable predicts, guided; in micro-batches."""
        parts = []
        for rows in even_parts(len(samples), self.batch or len(samples)):
            parts.append(self._guided(x[rows], list(times[rows]), list(samples[rows])))
        self.evaluations += len(samples)
        return parts[0] if len(parts) == 1 else self.arrays.concatenate(parts)

    def parts(self, x: Array, times: Sequence[float], samples: Sequence[int],
              with_difference: bool) -> Tuple[Array, Optional[Array]]:
        """What it predicts without guidance, and how that differs without conditions."""
        if self._unconditional is None:
            raise Error("a solver with built-in guidance needs unconditional=, the second callable")
        if self.clip is not None:
            raise Error("a solver with built-in guidance cannot run on a clipped model: what is "
                        "clipped is the guided prediction; take one without network_calls")
        times = _each(times, x)
        given, differences = [], []
        for rows in even_parts(len(samples), self.batch or len(samples)):
            state, at, those = x[rows], list(times[rows]), list(samples[rows])
            given.append(self._conditional(state, at, those))
            if with_difference:
                plain = self._call(self._unconditional, "unconditional", state, at, {})
                differences.append(self.arrays.state(given[-1]) - self.arrays.state(plain))
        self.evaluations += len(samples) * (2 if with_difference else 1)
        return (self.arrays.concatenate(given),
                self.arrays.concatenate(differences) if with_difference else None)

    def _conditional(self, x: Array, times: List[float], samples: List[int]) -> Array:
        conditions = {name: _take(values, samples)
                      for name, values in self.conditions.items()}
        return self._call(self._function, "field", x, times, conditions)

    def _guided(self, x: Array, times: List[float], samples: List[int]) -> Array:
        given = self._conditional(x, times, samples)
        weights = [self.guidance.at(t, k) for t, k in zip(times, samples)]
        if not any(weights):
            return given
        assert self._unconditional is not None
        plain = self._call(self._unconditional, "unconditional", x, times, {})
        w = self.arrays.per_sample(weights, self.arrays.state(given))
        given, plain = self.arrays.state(given), self.arrays.state(plain)
        return given + w * (given - plain)

    def _call(self, function: Callback, name: str, x: Array, times: List[float],
              conditions: Dict[str, Any]) -> Array:
        with self.arrays.no_grad():
            # A copy: what the callable writes into its x must not reach the states of a run.
            given = self.arrays.copy(self.arrays.cast(x, self.example))
            own = [self.schedule.trained_time(t) for t in times]
            f = function(self.arrays.numbers(own, self.example), given, **conditions)
            if not self.arrays.owns(f):
                raise Error(f"{name} must return a floating-point array of {self.arrays.name}, as "
                            f"the noise is, found {type(f).__name__}")
            if tuple(f.shape) != tuple(x.shape):
                raise Error(f"{name} returned an array of shape {tuple(f.shape)} for states of "
                            f"shape {tuple(x.shape)}; return one prediction per state"
                            + _split_hint(f, x))
            self.epsilon = max(self.epsilon, self.arrays.epsilon(f))
            f = self.arrays.copy(f)
        self.calls += len(times)
        if self.on_calls is not None:
            self.on_calls(len(times))
        return f


def even_parts(count: int, most: int) -> List[slice]:
    """`count` rows in as few parts of at most `most` as can be, of nearly the same size."""
    size = math.ceil(count / math.ceil(count / most))
    return [slice(begin, min(count, begin + size)) for begin in range(0, count, size)]


def _take(values: Any, samples: List[int]) -> Any:
    if isinstance(values, (list, tuple)):
        return [values[k] for k in samples]
    return values[np.asarray(samples, dtype=np.int64)]


def _each(times: Sequence[float], x: Array) -> List[float]:
    """A time for each row of x, from one or as many."""
    return list(times) if len(times) == x.shape[0] else [float(times[0])] * int(x.shape[0])


def _split_hint(f: Array, x: Array) -> str:
    shape, wanted = tuple(f.shape), tuple(x.shape)
    if len(shape) > 1 and shape[:1] + (shape[1] // 2,) + shape[2:] == wanted:
        return f" (a learned variance? return f[:, :{wanted[1]}])"
    return ""


def _checked_conditions(conditions: Mapping[str, Any], count: int) -> Dict[str, Any]:
    for name, values in conditions.items():
        try:
            found = len(values)
        except TypeError:
            raise Error(f"condition {name} must have an entry for each sample of noise, found "
                        f"{type(values).__name__}; close over what all samples share") from None
        if found != count:
            raise Error(f"condition {name} has {found} entries for {count} samples of noise; give "
                        "one for each, and close over what all samples share")
    return dict(conditions)
