"""Learning solvers from samples that are drawn anyway.

A Learner says which evaluations it wants next and is told the answers, whoever makes them: the loop
of a pipeline, a sampler of another tool, or a plain callable. A lesson draws the samples by many
evaluations, which its caller keeps, and fits a solver's steps to their way there.
"""

from __future__ import annotations

import math
from typing import (Any, Callable, Dict, Generator, List, NamedTuple, Optional, Sequence, Tuple,
                    Union)

import numpy as np

from bespoke.errors import DivergedError, Error
from bespoke.exponential import Node, log_snr_of_warped, step_weights, warped_log_snr
from bespoke.stepwise import (LinearModel, Step, Wanted, combined, fitted_steps,
                              weighted_step)

Lesson = Generator[Wanted, np.ndarray, np.ndarray]

REFERENCE = 30  # evaluations of the samples to learn from: 55 to 70 dB from the truth
LEAST_REFERENCE = 12
_ORDER = 3  # evaluations that a step of it looks back at
_DENSE = 6  # evaluations that its states in between are made of
_LOWEST, _HIGHEST = -6.0, 6.0  # log-SNR of its evaluations, where the path has them

MOST_SAMPLES = 8  # to learn from: more gain nothing
_WORTH = 0.25  # decibels that another lesson must promise
_BETWEEN_SAMPLES = 2.5  # decibels by which estimates from one sample were seen to be off
_UNDER_GUIDANCE = 5.0  # the same under guidance, where one sample tells less of others
_LIKELY = 0.75  # decibels by which other times than the likeliest must be better on one sample
_PARTS = 4  # along each axis of an image, to leave out
_LEAST_TO_SPLIT = 256  # numbers in a sample


# Where evaluations are

class Grid(NamedTuple):
    """Times of a solver: log-SNR from `low` to `high` at eight evaluations, bent in the middle."""

    low: float
    high: float
    bend: float


GRIDS = (Grid(-3.8, 4.0, 0.0), Grid(-3.4, 3.4, 0.0), Grid(-3.0, 2.8, -0.2))


class Rounding:
    """How a network's times are rounded: not at all, to whole levels of noise, or to bfloat16."""

    def __init__(self, rule: str = "free", levels: int = 1000) -> None:
        name, _, given = rule.partition(":")
        if name not in ("free", "integer", "bf16") or (given and not given.isdigit()):
            raise Error(f'times is "free", "integer", "integer:LEVELS" or "bf16", found {rule!r}')
        self.name = name
        self.levels = int(given) if given else levels

    def rounded(self, times: Sequence[float]) -> List[float]:
        """The nearest that can be said, each once."""
        if self.name == "free":
            return list(times)
        # Units of noise, falling: levels, or the thousandths that networks on flow paths take.
        units = self.levels if self.name == "integer" else 1000
        found: List[float] = []
        for t in times:
            noise = self._nearest(units * (1 - t))
            if not found or noise < found[-1]:
                found.append(noise)
        least = 1.0 if self.name == "integer" else 1e-3
        return [1 - noise / units for noise in found if noise >= least]

    def _nearest(self, noise: float) -> float:
        if self.name == "integer" or noise <= 0:
            return float(round(noise))
        step = 2.0 ** (math.floor(math.log2(noise)) - 7)
        return step * round(noise / step)


def reference_times(schedule: Any, rounding: Rounding, count: int = REFERENCE) -> List[float]:
    """Where the samples are drawn by `count` evaluations, or fewer where times are rounded."""
    first = schedule.log_snr(0.0)
    from_noise = first < _LOWEST - 0.5
    low, high = (warped_log_snr(value) for value in (max(first, _LOWEST), _HIGHEST))
    inner = [schedule.time_at_log_snr(log_snr_of_warped(w))
             for w in np.linspace(low, high, count - from_noise)]
    times = [0.0, *inner[not from_noise:]]
    return _rising(rounding.rounded(times))


def solver_times(schedule: Any, nfe: int, grid: Grid, rounding: Rounding) -> List[float]:
    """t_0 ... t_n of a solver."""
    fewer = math.log2(8 / nfe)
    low = max(grid.low + 0.75 * fewer, schedule.log_snr(0.0))
    high = max(grid.high - 0.6 * fewer, low + 1)
    places = np.arange(nfe) / nfe
    places = places + grid.bend * places * (1 - places)
    times = [schedule.time_at_log_snr(low + (high - low) * place) for place in places]
    rounded = _rising(rounding.rounded(times))
    if len(rounded) < nfe:
        raise Error(f"{nfe} evaluations need as many different times, and the network's times "
                    f"are rounded to fewer; take fewer steps")
    return [*rounded, 1.0]


def _rising(times: Sequence[float]) -> List[float]:
    """Without those that do not rise."""
    kept: List[float] = []
    for t in times:
        if t < 1 and (not kept or t > kept[-1]):
            kept.append(t)
    return kept


# The model's own samples

class Trajectory:
    """The way of some samples by the model's own ODE, from many evaluations."""

    def __init__(self, schedule: Any, times: Sequence[float]) -> None:
        self._schedule = schedule
        self._times = list(times)
        self._nodes = [self._node(t) for t in times]
        self._states: List[np.ndarray] = []
        self._data: List[np.ndarray] = []  # predictions at the times
        self.end: np.ndarray = np.empty(0)

    def draw(self, noise: np.ndarray) -> Generator[Wanted, np.ndarray, None]:
        """Draws the samples of this noise, by multistep exponential steps that are corrected."""
        state = noise
        for i, time in enumerate(self._times):
            self._states.append(state)
            self._data.append((yield Wanted(time, state)))
            if i:
                self._states[i] = self._step(i - 1, self._nodes[i], _last(i + 1, _ORDER))
            if i + 1 < len(self._times):
                state = self._step(i, self._nodes[i + 1], _last(i + 1, _ORDER))
        # Over the end predictions are not carried on as polynomials: the last one is taken.
        last = len(self._times) - 1
        self.end = self._step(last, self._node(1.0), _last(last + 1, 1))

    def state_at(self, t: float) -> np.ndarray:
        """x(t)."""
        if t >= 1:
            return self.end
        before = int(np.searchsorted(self._times, t, side="right")) - 1
        if self._times[before] == t:
            return self._states[before]
        count = len(self._times)
        first = min(max(0, before + 1 - _DENSE // 2), max(0, count - _DENSE))
        return self._step(before, self._node(t), slice(first, min(first + _DENSE, count)))

    def _step(self, start: int, end: Node, known: slice) -> np.ndarray:
        scale, weights = step_weights(self._nodes[start], end, self._nodes[known])
        return combined([scale, *weights], [self._states[start], *self._data[known]])

    def _node(self, t: float) -> Node:
        return Node(self._schedule.alpha(t), 0.0 if t >= 1 else self._schedule.sigma(t))


def _last(count: int, most: int) -> slice:
    return slice(max(0, count - most), count)


# Parts of samples, to leave out

class Parts:
    """Splits samples [count, ...] into groups of numbers, [groups, numbers], and back."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self.count = 1
        order = np.arange(int(np.prod(shape[1:], dtype=np.int64)))
        # Squares of images; of other samples, stretches of the first axis that is long enough.
        axes = [k for k in range(1, len(shape)) if shape[k] % _PARTS == 0 and shape[k] > _PARTS]
        axes = axes[-2:] if len(shape) > 3 else axes[:1]
        axes = axes if len(order) >= _LEAST_TO_SPLIT else []
        if axes:
            label = np.zeros(shape[1:], dtype=np.int64)
            for axis in axes:
                at = np.arange(shape[axis]) * _PARTS // shape[axis]
                label = label * _PARTS + at.reshape([-1 if k == axis else 1
                                                     for k in range(1, len(shape))])
            self.count = _PARTS ** len(axes)
            order = np.argsort(label.reshape(-1), kind="stable")
        self._order, self._back = order, np.argsort(order)

    def split(self, x: np.ndarray) -> np.ndarray:
        """[count, ...] as [count * parts, numbers]."""
        rows = x.reshape(len(x), -1)[:, self._order]
        return rows.reshape(len(x) * self.count, -1)

    def whole(self, rows: np.ndarray) -> np.ndarray:
        """The inverse."""
        return rows.reshape(-1, len(self._back))[:, self._back].reshape(-1, *self.shape[1:])


# What is learnt

# Decibels of an error that says no more than where the figure begins.
_VAGUE = 15


class Quality(NamedTuple):
    """How near a learnt solver comes, in decibels of PSNR, with a standard error.

    Measured on samples that it had not seen, or, as long as there was only one lesson, estimated by
    leaving out parts of the sample, or samples, from the fit of each step. An estimate is that of
    the worst step; how much better the last one does is part of its error.
    """

    decibels: float  # the mean PSNR
    error: float  # its standard error
    measured: bool  # whether it was measured, not estimated
    doubt: str = ""  # why an estimate is worth less than others

    def __str__(self) -> str:
        word = "measured on samples not seen" if self.measured else (
            self.doubt or "estimated by leaving out parts")
        if self.error > _VAGUE and not self.measured:
            return f"{self.decibels:.0f} dB or more ({word}; its steps tell different things)"
        return f"{self.decibels:.1f} +- {self.error:.1f} dB ({word})"


class Learnt(NamedTuple):
    """A solver on data predictions: x_{i+1} = rows[i] of x_0, D_0 ... D_i, x_0 the noise."""

    times: List[float]
    rows: List[np.ndarray]
    steps: List[List[LinearModel]]  # of every lesson, the model of every step
    errors: List[float]  # mean squares of samples that were not seen, by earlier states of it
    loss: float  # the mean log error on what it was fitted to
    parts: int

    @property
    def nfe(self) -> int:
        """Evaluations."""
        return len(self.rows)

    @property
    def samples(self) -> int:
        """How many it was learnt from."""
        return sum(len(lesson[-1].squares) for lesson in self.steps) // self.parts

    def quality(self, peak: float, guided: bool = False) -> Quality:
        """With this peak-to-peak range of the data; `guided` where the field is known to be."""
        if self.errors:
            return Quality(*_mean_decibels(np.array(self.errors), peak), True)
        # Parts of one sample add up to it; samples are judged each by itself.
        parted = self.samples == 1
        steps = [_mean_decibels(errors, peak, parted) for errors in self._left_out()]
        worst, spread = min(steps)
        # Parts of a sample are more alike than samples are, and what an early step misses later
        # ones may make up for or not: where the last one misses as much, that is no question.
        between = (_UNDER_GUIDANCE if guided else _BETWEEN_SAMPLES) / math.sqrt(self.samples)
        return Quality(worst, math.hypot(spread, between, steps[-1][0] - worst), False,
                       _doubt(self.samples) if guided else "")

    def _left_out(self) -> List[np.ndarray]:
        """Of each step, mean squares of parts, or samples, that it was not fitted to.

        Each step is judged at the solver's own states.
        """
        steps = [self.steps[0][i].beside([lesson[i] for lesson in self.steps[1:]])
                 for i in range(self.nfe)]
        if self.samples > 1:
            steps = [step.joined(self.parts) for step in steps]
        return [_without_each(step) for step in steps]


def _mean_decibels(errors: np.ndarray, peak: float, parted: bool = False) -> Tuple[float, float]:
    """The mean PSNR of samples with these mean squares, or of the one they are parts of, and its
    standard error."""
    decibels = 10 * np.log10(peak ** 2 / np.maximum(errors, 1e-30))
    mean = 10 * math.log10(peak ** 2 / max(errors.mean(), 1e-30)) if parted else decibels.mean()
    spread = float(decibels.std(ddof=1)) if len(decibels) > 1 else _BETWEEN_SAMPLES
    return float(mean), spread / math.sqrt(len(decibels))


def _doubt(samples: int) -> str:
    if samples == 1:
        return "an estimate from the sample itself; under guidance mostly too high"
    return "an estimate from the samples themselves; under guidance often decibels off"


def _without_each(model: LinearModel) -> np.ndarray:
    """The mean square of each group, by a step fitted to the others."""
    count = len(model.squares)
    if count == 1:
        return model.errors(weighted_step(model)) / model.size
    errors = []
    for k in range(count):
        keep = np.arange(count) != k
        others = LinearModel(model.squares[keep], model.products[keep], model.grams[keep],
                             model.size)
        errors.append(model.errors(weighted_step(others))[k] / model.size)
    return np.array(errors)


class Learner:
    """Learns solvers of some numbers of evaluations, lesson by lesson.

    Lessons are generators: they yield where the field's data prediction is wanted and are sent it;
    what they return are the samples. What a lesson taught is kept when it ends, not before.
    """

    def __init__(self, schedule: Any, steps: Sequence[int], *, rounding: Optional[Rounding] = None,
                 reference: int = REFERENCE, samples: int = MOST_SAMPLES) -> None:
        self.schedule = schedule
        self.steps = checked_steps(steps)
        self.rounding = rounding or Rounding()
        if reference < LEAST_REFERENCE:
            raise Error(f"reference must be at least {LEAST_REFERENCE} evaluations, found "
                        f"{reference}")
        self.most_samples = samples
        self.reference = reference_times(schedule, self.rounding, reference)
        self._candidates = {nfe: [solver_times(schedule, nfe, grid, self.rounding)
                                  for grid in GRIDS] for nfe in self.steps}
        self.learnt: Dict[int, Learnt] = {}

    @property
    def wants_more(self) -> bool:
        """Whether another lesson is expected to gain anything."""
        return any(self._wants_more(nfe) for nfe in self.steps)

    def times(self) -> List[float]:
        """Of all evaluations of the next lesson, in order."""
        wanted = list(self.reference)
        for nfe in self._taught():
            for times in self._runs(nfe):
                wanted.extend(times[:-1])
        return wanted

    def lesson(self, noise: np.ndarray) -> Lesson:
        """Draws the samples of this noise [count, ...] and learns from them."""
        noise = _checked_noise(noise)
        parts = Parts(noise.shape)
        way = Trajectory(self.schedule, self.reference)
        yield from _finite(way.draw(noise))
        found = {}
        for nfe in self._taught():
            known = self.learnt.get(nfe)
            lesson = self._first(nfe, noise, way, parts) if known is None else self._another(
                known, noise, way, parts)
            found[nfe] = yield from _finite(lesson)
        self.learnt.update(found)
        return way.end

    def sample(self, nfe: int, noise: np.ndarray) -> Lesson:
        """Draws samples by what was learnt; nothing is learnt from them."""
        learnt = self.learnt[nfe]
        noise = _checked_noise(noise)
        return _finite(_run(learnt, noise))

    # One number of evaluations

    def _wants_more(self, nfe: int) -> bool:
        learnt = self.learnt.get(nfe)
        if learnt is None:
            return True
        if learnt.samples >= self.most_samples:
            return False
        if not learnt.errors:
            return True
        unseen = float(np.mean(np.log(learnt.errors)))
        return 10 / math.log(10) * (unseen - learnt.loss) > _WORTH

    def _taught(self) -> List[int]:
        """Those that are still learnt."""
        return [nfe for nfe in self.steps if self._wants_more(nfe)]

    def _runs(self, nfe: int) -> List[List[float]]:
        learnt = self.learnt.get(nfe)
        return self._candidates[nfe] if learnt is None else [learnt.times, learnt.times]

    def _first(self, nfe: int, noise: np.ndarray, way: Trajectory, parts: Parts
               ) -> Generator[Wanted, np.ndarray, Learnt]:
        best: Optional[Learnt] = None
        least = math.inf
        for times in self._candidates[nfe]:
            fitted = yield from self._fitted(times, noise, way, parts, [], [])
            # Other times than the likeliest suit few samples by chance.
            handicap = 0 if best is None else _LIKELY * math.log(10) / 10 / math.sqrt(len(noise))
            if best is None or fitted.loss + handicap < least:
                best, least = fitted, fitted.loss + handicap
        assert best is not None
        return best

    def _another(self, known: Learnt, noise: np.ndarray, way: Trajectory, parts: Parts
                 ) -> Generator[Wanted, np.ndarray, Learnt]:
        """What it misses these samples by, unseen; then fitted to them too."""
        drawn = yield from _run(known, noise)
        misses = ((drawn - way.end) ** 2).reshape(len(noise), -1).mean(1)
        return (yield from self._fitted(known.times, noise, way, parts, known.steps,
                                        [*known.errors, *misses.tolist()]))

    def _fitted(self, times: List[float], noise: np.ndarray, way: Trajectory, parts: Parts,
                before: List[List[LinearModel]], errors: List[float]
                ) -> Generator[Wanted, np.ndarray, Learnt]:
        """The steps on these times, with what earlier lessons say of each."""
        models: List[LinearModel] = []
        losses: List[float] = []

        def solve(step: Step) -> np.ndarray:
            models.append(step.model)
            every = step.model.beside([lesson[step.number] for lesson in before])
            every = every.joined(parts.count)
            row = weighted_step(every)
            losses.append(every.loss(row))
            return row

        targets = [parts.split(way.state_at(t)) for t in times[1:]]
        rows = yield from _split(parts, fitted_steps(parts.split(noise), times[:-1], targets,
                                                     solve))
        return Learnt(times, rows, [*before, models], errors, losses[-1], parts.count)


def checked_steps(steps: Union[int, Sequence[int]]) -> List[int]:
    """Numbers of evaluations, rising."""
    given = list(steps) if isinstance(steps, (list, tuple, range, set)) else [steps]
    for nfe in given:
        if isinstance(nfe, bool) or not isinstance(nfe, (int, np.integer)) or not 2 <= nfe <= 64:
            raise Error(f"steps are whole numbers from 2 to 64, found {nfe!r}")
    if not given:
        raise Error("give at least one number of steps")
    return sorted({int(nfe) for nfe in given})


def _run(learnt: Learnt, noise: np.ndarray) -> Lesson:
    columns, state = [noise], noise
    for time, row in zip(learnt.times, learnt.rows):
        columns.append((yield Wanted(time, state)))
        state = combined(row, columns)
    return state


def _split(parts: Parts, lesson: Generator[Wanted, np.ndarray, Any]
           ) -> Generator[Wanted, np.ndarray, Any]:
    """Of a lesson on groups of numbers, one on whole samples."""
    return (yield from _translated(lesson, lambda wanted: wanted._replace(
        state=parts.whole(wanted.state)), parts.split))


def _finite(lesson: Generator[Wanted, np.ndarray, Any]) -> Generator[Wanted, np.ndarray, Any]:
    """Ends a lesson at the first answer that is not finite."""
    asked: List[float] = []

    def ask(wanted: Wanted) -> Wanted:
        asked[:] = [wanted.time]
        return wanted

    def answer(data: np.ndarray) -> np.ndarray:
        if not np.isfinite(data).all():
            raise DivergedError(f"the model returned NaN or infinity at t = {asked[0]:.6g}"
                                f"{_whose(data)}; nothing was learnt from this call")
        return data
    return (yield from _translated(lesson, ask, answer))


def _whose(data: np.ndarray) -> str:
    """Which of several samples are not finite: they share their steps, so one ends all."""
    bad = np.flatnonzero(~np.isfinite(data.reshape(len(data), -1)).all(1))
    if len(bad) == len(data):
        return ""
    return f" for {len(bad)} of {len(data)} samples, the first of them number {bad[0] + 1}"


def _translated(lesson: Generator[Wanted, np.ndarray, Any], ask: Callable[[Wanted], Wanted],
                answer: Callable[[np.ndarray], np.ndarray]
                ) -> Generator[Wanted, np.ndarray, Any]:
    try:
        wanted = next(lesson)
        while True:
            wanted = lesson.send(answer((yield ask(wanted))))
    except StopIteration as ended:
        return ended.value


def _checked_noise(noise: np.ndarray) -> np.ndarray:
    if noise.ndim < 2 or 0 in noise.shape:
        raise Error("noise must have samples along its first axis and numbers along others, found "
                    f"shape {tuple(noise.shape)}")
    if not np.isfinite(noise).all():
        raise Error("the noise is not finite")
    return noise


# What is learnt as a solver of velocities

def velocity_rows(learnt: Learnt, velocity: Callable[[float], Tuple[float, float]]
                  ) -> Tuple[List[float], List[List[float]]]:
    """(a, b): the same on velocities u = state x + output D, (state, output) = velocity(t)."""
    size = learnt.nfe + 1
    state = np.eye(1, size)[0]  # of x_0, u_0 ... u_{n-1}
    data: List[np.ndarray] = []
    a, b = [], []
    for i, row in enumerate(learnt.rows):
        of_state, of_data = velocity(learnt.times[i])
        data.append((np.eye(1, size, i + 1)[0] - of_state * state) / of_data)
        state = row[0] * np.eye(1, size)[0] + sum(w * form for w, form in zip(row[1:], data))
        a.append(float(state[0]))
        b.append(state[1:i + 2].tolist())
    return a, b
