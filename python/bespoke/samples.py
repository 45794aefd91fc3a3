"""Noise with the model's own samples from it: what the methods of the core ask about.

The compiled ArrayObjective asks the questions; see Objective in bespoke/distill/objective.h. All
answers about arrays are inner products, in float64.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from bespoke import _core
from bespoke.arrays import Array
from bespoke.errors import DivergedError
from bespoke.field import Field
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
        groups: Dict[int, List[int]] = {}
        for number, change in enumerate(changes):
            groups.setdefault(change[0], []).append(number)
        most = max(1, (self.field.batch or len(changes) * len(run.samples)) // len(run.samples))
        columns: List[Optional[Array]] = [None] * len(changes)
        for first, members in groups.items():
            for begin in range(0, len(members), most):
                together = members[begin:begin + most]
                changed = ChangedRuns(self.field, run, solver, first,
                                      [changes[number] for number in together])
                for number, column in zip(together, changed.columns()):
                    columns[number] = column
        return columns


class Columns:
    """How x_n changes on some samples, and what other solvers miss by along the same changes."""

    def __init__(self, samples: Samples,
                 parts: List[Tuple[List[int], List[Array], Array]]) -> None:
        self._samples = samples
        self._arrays = samples.field.arrays
        self._parts = [(part, columns) for part, columns, _ in parts]
        self.grams = np.concatenate([self._arrays.grams([*columns, residual])
                                     for _, columns, residual in parts])

    def against(self, solver: "_core.NsSolver") -> np.ndarray:
        """Inner products of the solver's residual with the columns and, last, with itself."""
        products = []
        for part, columns in self._parts:
            run = run_solver(solver, self._samples.field, *self._samples._chosen(part), keep=False)
            residual = self._samples._residual(run, part)
            products.append(self._arrays.products(residual, [*columns, residual]))
        return np.concatenate(products)


class ChangedRuns:
    """Some changes first seen by the same evaluation, side by side in one batch.

    Only differences to the plain run are kept: they lose nothing to the rounding of the states.
    """

    def __init__(self, field: Field, run: Run, solver: "_core.NsSolver", first: int,
                 changes: List[Change]) -> None:
        self._field = field
        self._run = run
        self._solver = solver
        self._first = first
        self._changes = changes

    def columns(self) -> List[Array]:
        """The change of x_n for a unit of each number changed."""
        arrays, solver, count = self._field.arrays, self._solver, len(self._run.samples)
        moves, sizes = zip(*[self._move(change) for change in self._changes])
        state = arrays.concatenate(moves)
        start = state if self._first == 0 else None
        slopes: List[Array] = []
        samples = self._run.samples * len(self._changes)
        for k in range(self._first, solver.nfe):
            x = self._repeated(self._run.x[k]) + state
            u = self._field.velocity(x, self._times(k), samples)
            slopes.append(arrays.cast(u, x) - self._repeated(arrays.cast(self._run.u[k], x)))
            terms, coefficients = list(slopes), list(solver.b[k][self._first:])
            if start is not None:
                terms.append(start)
                coefficients.append(solver.a[k])
            state = arrays.combine(coefficients, terms, state)
            if not arrays.is_finite(state):
                raise DivergedError("a run with one number changed a little is not finite after "
                                    f"step {k + 1} of {solver.nfe} (t = {solver.times[k]:.6g})")
        return [state[c * count:(c + 1) * count] / size for c, size in enumerate(sizes)]

    def _repeated(self, x: Array) -> Array:
        return self._field.arrays.concatenate([x] * len(self._changes))

    def _move(self, change: Change) -> Tuple[Array, Array]:
        """How a change moves the state at its first evaluation, and by how much its number."""
        arrays, x = self._field.arrays, self._run.x[self._first]
        _, what, column, size = change
        if what == "time":
            return x * 0, size
        if what == "start_scale":
            return x * size, size * self._solver.start_scale
        direction = arrays.cast(self._run.basis()[column], x)
        sizes = size * _safe(arrays.root_mean_squares(x))
        step = arrays.cast(arrays.per_sample(
            sizes / _safe(arrays.root_mean_squares(direction)), x), x)
        return direction * step, step

    def _times(self, k: int) -> List[float]:
        count, t = len(self._run.samples), self._solver.times[k]
        moved = [t + size if k == self._first and what == "time" else t
                 for _, what, _, size in self._changes]
        return [time for time in moved for _ in range(count)]


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
