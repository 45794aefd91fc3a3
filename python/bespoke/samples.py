"""Noise with the model's own samples from it: what the methods of the core ask about.

The compiled ArrayObjective asks the questions; see Objective in bespoke/distill/objective.h. All
answers about arrays are inner products, in float64.
"""

from __future__ import annotations

import itertools
from typing import List, Optional, Sequence, Tuple

import numpy as np

from bespoke import _core
from bespoke.arrays import Array
from bespoke.errors import DivergedError
from bespoke.field import Field, even_parts
from bespoke.sampling import Run, run_solver, step_coefficients
from bespoke.trajectories import Trajectories

# The first evaluation that sees it, what is changed, the column of a coefficient, how much.
Change = Tuple[int, str, int, float]


class Samples:
    """Some samples of a field, by their numbers in all of its noise."""

    def __init__(self, field: Field, noise: Array, numbers: Sequence[int], targets: Array,
                 trajectories: Optional[Trajectories] = None) -> None:
        self.field = field
        self.noise = field.arrays.state(noise)
        self.numbers = list(numbers)
        self.targets = field.arrays.cast(targets, self.noise)
        self.trajectories = trajectories
        self.count = len(self.numbers)
        self.size = float(np.prod(noise.shape[1:], dtype=np.int64))
        squares = field.arrays.squares(self.targets)
        self.deviation = float(np.sqrt(squares.sum() / (self.size * self.count)))
        self.known_trajectories = 0 if trajectories is None else self.count

    @property
    def evaluations(self) -> int:
        """Of the field so far, in single samples."""
        return self.field.evaluations

    def squared_errors(self, solver: "_core.NsSolver", subset: List[int]) -> List[float]:
        """|x_n - x(1)|^2 of each sample."""
        errors: List[float] = []
        for part in self._parts(subset):
            run = run_solver(solver, self.field, *self._chosen(part), keep=False)
            errors.extend(self.field.arrays.squares(self._residual(run, part)).tolist())
        return errors

    def run(self, solver: "_core.NsSolver", subset: List[int]) -> List[Tuple[List[int], Run]]:
        """A run of the solver, in parts that fit memory."""
        return [(part, run_solver(solver, self.field, *self._chosen(part)))
                for part in self._parts(subset)]

    def with_last_step(self, runs: List[Tuple[List[int], Run]],
                       solver: "_core.NsSolver") -> List[Tuple[List[int], Run]]:
        """The same run with the last step of another solver."""
        coefficients = step_coefficients(solver, solver.nfe - 1)
        combine = self.field.arrays.combine
        return [(part, run._replace(x=[*run.x[:-1],
                                       combine(coefficients, run.basis(), run.x[0])]))
                for part, run in runs]

    def last_step(self, runs: List[Tuple[List[int], Run]]) -> np.ndarray:
        """Inner products of x_0, u_0 ... u_{n-1} and the residual."""
        return np.concatenate([self.field.arrays.grams([*run.basis(), self._residual(run, part)])
                               for part, run in runs])

    def linearise(self, runs: List[Tuple[List[int], Run]], solver: "_core.NsSolver",
                  changes: List[Change]) -> "Columns":
        """The changes of x_n that each change alone makes, then those of the last step."""
        return Columns(self, [(part, [*self._columns(run, solver, changes), *run.basis()],
                               self._residual(run, part)) for part, run in runs])

    def against(self, solver: "_core.NsSolver", several: List["Columns"]) -> List[np.ndarray]:
        """What the solver misses by along the columns of several linearisations, in one run.

        Of each, the inner products of the residual with the columns and, last, with itself.
        """
        subset = [k for columns in several for k in columns.subset]
        residuals = self.field.arrays.concatenate([
            self._residual(run_solver(solver, self.field, *self._chosen(part), keep=False), part)
            for part in self._parts(subset)])
        answers, begin = [], 0
        for columns in several:
            end = begin + len(columns.subset)
            answers.append(columns.products(residuals[begin:end]))
            begin = end
        return answers

    def begin(self, subset: List[int]) -> "Steps":
        """A solver in the making, along the true trajectories."""
        return Steps(self, subset)

    def _parts(self, subset: List[int]) -> List[List[int]]:
        size = self.field.batch or len(subset)
        return [subset[begin:begin + size] for begin in range(0, len(subset), size)]

    def _chosen(self, subset: List[int]) -> Tuple[Array, List[int]]:
        return (self.field.arrays.take(self.noise, subset), [self.numbers[k] for k in subset])

    def _residual(self, run: Run, subset: List[int]) -> Array:
        return run.x[-1] - self.field.arrays.take(self.targets, subset)

    def _columns(self, run: Run, solver: "_core.NsSolver", changes: List[Change]) -> List[Array]:
        rows = self.field.batch or self.count
        most = max(1, _BATCHES_SIDE_BY_SIDE * rows // len(run.samples))
        # Those that early evaluations see first: they run side by side longest.
        order = sorted(range(len(changes)), key=lambda number: changes[number][0])
        columns: List[Optional[Array]] = [None] * len(changes)
        for begin in range(0, len(order), most):
            together = order[begin:begin + most]
            runs = ChangedRuns(self.field, run, solver, [changes[k] for k in together], rows)
            for number, column in zip(together, runs.columns()):
                columns[number] = column
        return columns


# Runs with one number changed take memory for every evaluation: that of so many batches.
_BATCHES_SIDE_BY_SIDE = 8


class Columns:
    """How x_n changes on some samples, and what other solvers miss by along the same changes."""

    def __init__(self, samples: Samples,
                 parts: List[Tuple[List[int], List[Array], Array]]) -> None:
        self._samples = samples
        self._arrays = samples.field.arrays
        self._parts = [(len(part), columns) for part, columns, _ in parts]
        self.subset = [k for part, _, _ in parts for k in part]
        self.grams = np.concatenate([self._arrays.grams([*columns, residual])
                                     for _, columns, residual in parts])

    def against(self, solver: "_core.NsSolver") -> np.ndarray:
        """Samples.against of these alone."""
        return self._samples.against(solver, [self])[0]

    def products(self, residual: Array) -> np.ndarray:
        """Inner products of a residual of its samples with the columns and, last, with itself."""
        products, begin = [], 0
        for count, columns in self._parts:
            rows = residual[begin:begin + count]
            products.append(self._arrays.products(rows, [*columns, rows]))
            begin += count
        return np.concatenate(products)


class _Group:
    """Changes that the same evaluation sees first: their states and slopes, change by change."""

    def __init__(self, changes: List[Change], state: Array, sizes: Sequence[Array]) -> None:
        self.first = changes[0][0]
        self.changes = changes
        self.sizes = sizes
        self.state = state
        self.start = state if self.first == 0 else None
        self.slopes: List[Array] = []


class ChangedRuns:
    """Some changes, side by side: what an evaluation sees of them is one batch, or a few even ones.

    Only differences to the plain run are kept: they lose nothing to the rounding of the states.
    """

    def __init__(self, field: Field, run: Run, solver: "_core.NsSolver", changes: List[Change],
                 most_rows: int) -> None:
        """The changes are in the order of the evaluations that see them first."""
        self._field = field
        self._run = run
        self._solver = solver
        self._most = max(1, most_rows // len(run.samples))
        self._groups = [self._begin(list(members))
                        for _, members in itertools.groupby(changes, key=lambda change: change[0])]

    def columns(self) -> List[Array]:
        """The change of x_n for a unit of each number changed."""
        for k in range(self._groups[0].first, self._solver.nfe):
            under_way = [group for group in self._groups if group.first <= k]
            slopes, begin = self._slopes(k, under_way), 0
            for group in under_way:
                end = begin + len(group.changes) * len(self._run.samples)
                group.slopes.append(slopes[begin:end])
                self._step(k, group)
                begin = end
        count = len(self._run.samples)
        return [group.state[c * count:(c + 1) * count] / size
                for group in self._groups for c, size in enumerate(group.sizes)]

    def _begin(self, changes: List[Change]) -> _Group:
        moves, sizes = zip(*[self._move(change) for change in changes])
        return _Group(changes, self._field.arrays.concatenate(moves), sizes)

    def _slopes(self, k: int, groups: List[_Group]) -> Array:
        """How what the field returns differs from what it did in the plain run."""
        arrays, count = self._field.arrays, len(self._run.samples)
        state = arrays.concatenate([group.state for group in groups])
        times = [time for group in groups for time in self._times(k, group)]
        parts = []
        for changes in even_parts(len(times), self._most):
            rows = slice(changes.start * count, changes.stop * count)
            copies = changes.stop - changes.start
            x = arrays.concatenate([self._run.x[k]] * copies) + state[rows]
            u = self._field.velocity(x, [t for t in times[changes] for _ in range(count)],
                                     self._run.samples * copies)
            before = arrays.cast(self._run.u[k], x)
            parts.append(arrays.cast(u, x) - arrays.concatenate([before] * copies))
        return parts[0] if len(parts) == 1 else arrays.concatenate(parts)

    def _step(self, k: int, group: _Group) -> None:
        terms, coefficients = list(group.slopes), list(self._solver.b[k][group.first:])
        if group.start is not None:
            terms.append(group.start)
            coefficients.append(self._solver.a[k])
        group.state = self._field.arrays.combine(coefficients, terms, group.state)
        if not self._field.arrays.is_finite(group.state):
            raise DivergedError("a run with one number changed a little is not finite after "
                                f"step {k + 1} of {self._solver.nfe} "
                                f"(t = {self._solver.times[k]:.6g})")

    def _move(self, change: Change) -> Tuple[Array, Array]:
        """How a change moves the state at its first evaluation, and by how much its number."""
        first, what, column, size = change
        arrays, x = self._field.arrays, self._run.x[first]
        if what == "time":
            return x * 0, size
        if what == "start_scale":
            return x * size, size * self._solver.start_scale
        direction = arrays.cast(self._run.basis()[column], x)
        sizes = size * _safe(arrays.root_mean_squares(x))
        step = arrays.cast(arrays.per_sample(
            sizes / _safe(arrays.root_mean_squares(direction)), x), x)
        return direction * step, step

    def _times(self, k: int, group: _Group) -> List[float]:
        """Of each change."""
        t = self._solver.times[k]
        return [t + size if k == group.first and what == "time" else t
                for _, what, _, size in group.changes]


class Steps:
    """The columns are x_0 and the velocities so far; states are those of the trajectories."""

    def __init__(self, samples: Samples, subset: List[int]) -> None:
        self._samples = samples
        self._arrays = samples.field.arrays
        self._subset = list(subset)
        self._noise, self._numbers = samples._chosen(self._subset)
        self._columns: List[Array] = []
        self._state: Array = None

    def noise_against(self, time: float) -> np.ndarray:
        return self._against([self._noise], time)

    def start(self, scale: float) -> None:
        self._state = self._noise * scale
        self._columns = [self._state]

    def evaluate(self, time: float, next_time: float) -> np.ndarray:
        self._columns.append(self._samples.field.velocity(self._state, [time], self._numbers))
        if not self._arrays.is_finite(self._columns[-1]):
            raise DivergedError(f"the model returned NaN or infinity at t = {time:.6g}")
        return self._against(self._columns, next_time)

    def advance(self, coefficients: List[float]) -> None:
        self._state = self._arrays.combine(coefficients, self._columns, self._noise)
        if not self._arrays.is_finite(self._state):
            raise DivergedError("a state of the fit is not finite")

    def _against(self, columns: List[Array], time: float) -> np.ndarray:
        assert self._samples.trajectories is not None
        truth = self._samples.trajectories.state_at(time, self._subset, self._noise)
        return self._arrays.grams([*columns, -truth])


def _safe(values: np.ndarray) -> np.ndarray:
    """To divide by."""
    return np.maximum(values, 1e-30)
