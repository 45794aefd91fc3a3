"""The algebra of a fit: a solver's steps in closed form, from the true states of some samples.

Everything is made of inner products, summed over groups of numbers: one for each sample, or several
for parts of a sample. A change d of a step's coefficients misses the truth by r + V d, so a group's
squared error is |r|^2 + 2 <V^T r, d> + <d, V^T V d>.
"""

from __future__ import annotations

from typing import Callable, Generator, List, NamedTuple, Optional, Sequence, Union

import numpy as np

LEAST_ERROR = 1e-30  # of the mean square: keeps logarithms finite where a solver is exact
SMOOTHING = 0.05  # the floor under a group's error, of the typical one
RIDGE = 1e-10  # of each column's own square
ROUNDS = 3  # of weights, after least squares


class LinearModel(NamedTuple):
    """What a step misses by on some groups, as a function of its coefficients."""

    squares: np.ndarray  # |r|^2, [groups]
    products: np.ndarray  # V^T r, [groups, columns]
    grams: np.ndarray  # V^T V, [groups, columns, columns]
    size: float  # numbers in a group
    floor: float = 0.0  # added to |r|^2

    @classmethod
    def of(cls, grams: np.ndarray, size: float) -> "LinearModel":
        """From the inner products of the columns and, last, the residual."""
        return cls(grams[:, -1, -1], grams[:, -1, :-1], grams[:, :-1, :-1], size)

    def moved(self, change: np.ndarray) -> "LinearModel":
        """The same after a change."""
        along = self.grams @ change
        squares = self.squares + 2 * self.products @ change + along @ change
        return self._replace(squares=squares, products=self.products + along)

    def errors(self, change: np.ndarray) -> np.ndarray:
        """The squared error of each group after a change, with the floor."""
        squares = self.moved(change).squares
        return np.maximum(squares, LEAST_ERROR * self.size) + self.floor

    def loss(self, change: np.ndarray) -> float:
        """The mean log of the mean squares."""
        return float(np.mean(np.log(self.errors(change) / self.size)))

    def joined(self, parts: int) -> "LinearModel":
        """With so many groups in a row as one."""
        def sums(values: np.ndarray) -> np.ndarray:
            return values.reshape(-1, parts, *values.shape[1:]).sum(1)
        return LinearModel(sums(self.squares), sums(self.products), sums(self.grams),
                           self.size * parts)

    def beside(self, others: Sequence["LinearModel"]) -> "LinearModel":
        """With the groups of others, of the same size."""
        every = [self, *others]
        return LinearModel(np.concatenate([model.squares for model in every]),
                           np.concatenate([model.products for model in every]),
                           np.concatenate([model.grams for model in every]), self.size)

    def typical_square(self) -> float:
        """The geometric mean of |r|^2."""
        return float(np.exp(np.mean(np.log(np.maximum(self.squares, LEAST_ERROR * self.size)))))


def least_squares(model: LinearModel, weights: Optional[np.ndarray] = None) -> np.ndarray:
    """The change with the least weighted sum of squares, ridged by a hair."""
    weights = np.ones(len(model.squares)) if weights is None else weights
    gram = np.einsum("g,gij->ij", weights, model.grams)
    scale = _scales(gram)
    gram = gram * np.outer(scale, scale) + RIDGE * np.eye(len(scale))
    return scale * np.linalg.solve(gram, -scale * (weights @ model.products))


def least_log_error(model: LinearModel) -> np.ndarray:
    """The change with the least mean log error, by damped Gauss-Newton steps."""
    change = np.zeros(model.products.shape[1])
    loss, damping = model.loss(change), 1e-9
    for _ in range(50):
        here = model.moved(change)
        weights = 2 / (model.errors(change) * len(model.squares))
        curvature = np.einsum("g,gij->ij", weights, model.grams)
        curvature[np.diag_indices_from(curvature)] *= 1 + damping
        trial = change - np.linalg.solve(curvature, weights @ here.products)
        gain = loss - model.loss(trial)
        if not gain > 0:
            damping *= 100
            continue
        change, loss = trial, loss - gain
        if gain < 1e-6:
            break
    return change


def plain_step(model: LinearModel, last: bool) -> np.ndarray:
    """As the core fits: the last step by the mean log error, which solvers are measured by."""
    if not last:
        return weighted_step(model)
    change = least_squares(model)
    there = model.moved(change)
    return change + least_log_error(there._replace(floor=SMOOTHING * there.typical_square()))


def weighted_step(model: LinearModel) -> np.ndarray:
    """Least squares in which no group rules: weights 1 / (its error + a part of the mean)."""
    change = least_squares(model)
    for _ in range(ROUNDS if len(model.squares) > 1 else 0):
        errors = np.maximum(model.moved(change).squares, LEAST_ERROR * model.size)
        weights = 1 / (errors + SMOOTHING * errors.mean())
        change = least_squares(model, weights)
    return change


class Wanted(NamedTuple):
    """A column that is wanted next: the field's answer at this time and state."""

    time: float
    state: np.ndarray


def combined(coefficients: Union[Sequence[float], np.ndarray], columns: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of coefficients[j] columns[j] over j, in float64."""
    total = float(coefficients[0]) * columns[0].astype(np.float64, copy=False)
    for factor, column in zip(coefficients[1:], columns[1:]):
        total += float(factor) * column
    return total


class Step(NamedTuple):
    """What is known when a step is to be solved."""

    number: int
    model: LinearModel


def fitted_steps(start: np.ndarray, times: Sequence[float], targets: Sequence[np.ndarray],
                 solve: Callable[[Step], np.ndarray]
                 ) -> Generator[Wanted, np.ndarray, List[np.ndarray]]:
    """The rows of coefficients of the columns start, answer 0, answer 1 ..., step by step.

    Every step is fitted at the solver's own states, so that its errors so far are seen. Arrays are
    [groups, numbers]; targets[i] is the truth after step i.
    """
    columns, rows, state = [start], [], start
    grams = np.empty((len(start), 0, 0))
    for i, time in enumerate(times):
        columns.append((yield Wanted(time, state)))
        grams = _extended(grams, columns)
        row = solve(Step(i, _against(grams, columns, targets[i])))
        rows.append(row)
        state = combined(row, columns)
    return rows


def _extended(grams: np.ndarray, columns: List[np.ndarray]) -> np.ndarray:
    """With the inner products of the columns that are new."""
    known, count = grams.shape[1], len(columns)
    wider = np.empty((len(columns[0]), count, count))
    wider[:, :known, :known] = grams
    for i in range(known, count):
        for j in range(i + 1):
            wider[:, i, j] = wider[:, j, i] = _dot(columns[i], columns[j])
    return wider


def _against(grams: np.ndarray, columns: List[np.ndarray], target: np.ndarray) -> LinearModel:
    products = -np.stack([_dot(column, target) for column in columns], axis=1)
    return LinearModel(_dot(target, target), products, grams, float(target.shape[1]))


def _dot(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of each group, in float64."""
    return np.einsum("gd,gd->g", left, right, dtype=np.float64)


def _scales(gram: np.ndarray) -> np.ndarray:
    """What makes columns of very different length alike."""
    squares = np.diag(gram)
    return np.where(squares > 0, 1 / np.sqrt(np.where(squares > 0, squares, 1)), 1)
