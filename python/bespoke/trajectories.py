"""The model's own samples and the trajectories they come by: an adaptive reference.

The numbers of the run are those of the compiled DormandPrince; here are the arrays. It runs on the
FM-OT path, where every model's field is bounded and smooth at both ends.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from bespoke import _core
from bespoke.arrays import Array
from bespoke.errors import DivergedError
from bespoke.field import Field

MOST_EVALUATIONS = 20000  # per sample, before it is called diverged


class Recorded:
    """The accepted steps of one sample: x and u where they meet, x in their middles."""

    def __init__(self) -> None:
        self.times: List[float] = []
        self.states: List[Array] = []
        self.slopes: List[Array] = []
        self.middles: List[Array] = []

    def at(self, field: Field, r: float) -> Array:
        step, weights = _core.dense_place(self.times, r)
        parts = [self.states[step], self.slopes[step], self.middles[step],
                 self.states[step + 1], self.slopes[step + 1]]
        return field.arrays.combine(weights, parts, parts[0])

    def bridge(self, r: float, state: Array, front: bool) -> None:
        """A straight line to or from a state beyond the first or the last step."""
        at, inner = (0, 0) if front else (len(self.times), -1)
        self.middles.insert(0 if front else len(self.middles), (state + self.states[inner]) * 0.5)
        self.slopes.insert(at, self.slopes[inner])
        self.states.insert(at, state)
        self.times.insert(at, r)


class Trajectories:
    """x(t) of some samples at any time, without evaluations."""

    def __init__(self, field: Field, recorded: List[Recorded], together: bool) -> None:
        self._field = field
        self._recorded = recorded
        self._together = together  # one record holds all samples

    def state_at(self, t: float, samples: Sequence[int], like: Array) -> Array:
        """x(t) of these samples, [samples, ...] in the type and on the device of `like`."""
        arrays = self._field.arrays
        r, scale = self._field.straight_point(t)
        if self._together:
            states = arrays.take(self._recorded[0].at(self._field, r)[0], samples)
        else:
            states = arrays.concatenate([self._recorded[k].at(self._field, r) for k in samples])
        return arrays.cast(states, like) * scale


class Reference(NamedTuple):
    """What the model draws from some noise."""

    x: Array  # x(1), float64 where the device has it
    trajectories: Optional[Trajectories]
    evaluations: float  # a sample, on average


def reference(field: Field, noise: Array, samples: Sequence[int], tolerance: float,
              record: bool = False, on_progress: Optional[Callable[[float], None]] = None,
              together: bool = False) -> Reference:
    """Integrates the field from t = 0 to 1, every sample with steps of its own.

    `together` gives all the same steps, by their mean error: for fields that take one time for a
    whole batch.
    """
    arrays = field.arrays
    before = field.evaluations
    first, last, bridges_start, bridges_end = field.crossing()
    start = x = arrays.wide(arrays.state(noise))
    if bridges_start:
        x = field.bridge(x, 0.0, first, first, samples)
    (r_first, s_first), (r_last, s_last) = field.straight_point(first), field.straight_point(last)
    run = _AdaptiveRun(field, x * (1 / s_first), samples, (r_first, r_last), tolerance, record,
                       together)
    x = run.finish(on_progress) * s_last
    if bridges_end:
        x = field.bridge(x, last, 1.0, last, samples)
    if not arrays.is_finite(x):
        raise DivergedError("the model's own samples are not finite; check the model near t = 0 "
                            "and t = 1")
    spent = (field.evaluations - before) / len(samples)
    if not record:
        return Reference(x, None, spent)
    for bridged, t, states in ((bridges_start, 0.0, start), (bridges_end, 1.0, x)):
        if bridged:
            r, scale = field.straight_point(t)
            run.bridge(r, states * (1 / scale), front=t == 0.0)
    return Reference(x, Trajectories(field, run.recorded, together), spent)


class _AdaptiveRun:
    """The arrays of a Dormand-Prince run: rows are the samples still on their way, or all samples
    together as one row."""

    def __init__(self, field: Field, x: Array, samples: Sequence[int], span: Tuple[float, float],
                 tolerance: float, record: bool, together: bool) -> None:
        self._field = field
        self._arrays = field.arrays
        self._samples = list(samples)
        self._tolerance = tolerance
        self._together = together
        rows = 1 if together else len(samples)
        self._control = _core.DormandPrince(rows, tolerance, span[0], span[1], MOST_EVALUATIONS)
        self._x = self._rows(x)
        self._slopes: List[Array] = []
        self._results: List[Optional[Array]] = [None] * rows
        self._record = record
        self.recorded = [Recorded() for _ in range(rows)]

    def finish(self, on_progress: Optional[Callable[[float], None]]) -> Array:
        if not self._control.done:
            self._begin()
        while not self._control.done:
            self._attempt()
            self._retire()
            if on_progress is not None:
                on_progress(self._control.progress)
        x = self._arrays.concatenate(self._results)
        return x[0] if self._together else x

    def bridge(self, r: float, states: Array, front: bool) -> None:
        states = self._kept(self._rows(states))
        for k, recorded in enumerate(self.recorded):
            recorded.bridge(r, states[k:k + 1], front)

    def _rows(self, x: Array) -> Array:
        return x[None] if self._together else x

    def _evaluate(self, x: Array, times: Sequence[float]) -> Array:
        if self._together:
            u = self._field.straight_velocity(x[0], times, self._samples)
            return self._arrays.wide(u)[None]
        samples = [self._samples[k] for k in self._control.active]
        return self._arrays.wide(self._field.straight_velocity(x, times, samples))

    def _combined(self, combination: Tuple[List[int], List[List[float]]]) -> Array:
        terms, coefficients = combination
        arrays = [self._x if term == 0 else self._slopes[term - 1] for term in terms]
        return self._arrays.combine_per_sample(coefficients, arrays)

    def _norms(self, error: Array, y: Array) -> List[float]:
        return self._arrays.norms(error, self._x, y, self._tolerance)

    def _begin(self) -> None:
        control = self._control
        self._slopes = [self._evaluate(self._x, control.times)]
        control.guess(self._norms(self._x, self._x), self._norms(self._slopes[0], self._x))
        slope = self._evaluate(self._combined(control.guess_state()), control.guess_times())
        control.begin(self._norms(slope - self._slopes[0], self._x))
        self._keep_ends(range(len(control.active)))

    def _attempt(self) -> None:
        control = self._control
        y = self._x
        for stage in range(1, _core.STAGES):
            y = self._combined(control.stage_state(stage))
            self._slopes.append(self._evaluate(y, control.stage_times(stage)))
        errors = self._norms(self._combined(control.error()), y)
        middle = self._combined(control.middle()) if self._record else None
        accepted = control.decide(errors)
        self._x = self._arrays.choose(accepted, y, self._x)
        self._slopes = [self._arrays.choose(accepted, self._slopes[-1], self._slopes[0])]
        positions = [k for k, yes in enumerate(accepted) if yes]
        if self._record and positions:
            middle = self._kept(middle)
            for k in positions:
                self.recorded[control.active[k]].middles.append(middle[k:k + 1])
            self._keep_ends(positions)

    def _keep_ends(self, positions: Sequence[int]) -> None:
        if not self._record:
            return
        x, slopes, times = self._kept(self._x), self._kept(self._slopes[0]), self._control.times
        active = self._control.active
        for k in positions:
            recorded = self.recorded[active[k]]
            recorded.times.append(times[k])
            recorded.states.append(x[k:k + 1])
            recorded.slopes.append(slopes[k:k + 1])

    def _kept(self, x: Array) -> Array:
        return self._arrays.kept(self._arrays.cast(x, self._like()))

    def _like(self) -> Array:
        return self._arrays.state(self._field.example)

    def _retire(self) -> None:
        arrived = self._control.arrived()
        if not arrived:
            return
        active = self._control.active
        for k in arrived:
            self._results[active[k]] = self._x[k:k + 1]
        staying = self._control.retire()
        self._x = self._arrays.take(self._x, staying)
        self._slopes = [self._arrays.take(self._slopes[0], staying)]
