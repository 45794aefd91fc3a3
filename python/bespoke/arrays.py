"""One small adapter per array library: all that the methods do with arrays beyond + and *.

Arrays have the samples along their first axis. A method that answers in numbers answers with
float64 arrays of NumPy.
"""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from typing import Any, ContextManager, List, Sequence

import numpy as np

from bespoke.errors import Error

Array = Any  # of NumPy, PyTorch or JAX
Numbers = Sequence[float]


class Arrays(ABC):
    """What the methods need of an array library."""

    name: str

    @abstractmethod
    def owns(self, x: object) -> bool:
        """Whether x is an array of this library, of real numbers."""

    @abstractmethod
    def epsilon(self, x: Array) -> float:
        """The machine epsilon of x's type."""

    @abstractmethod
    def state(self, x: Array) -> Array:
        """x as states are kept: float32, or float64 where x is."""

    @abstractmethod
    def wide(self, x: Array) -> Array:
        """x in float64, where its device has it."""

    @abstractmethod
    def cast(self, x: Array, like: Array) -> Array:
        """x in the type and on the device of another array."""

    @abstractmethod
    def copy(self, x: Array) -> Array:
        """x in memory of its own, without a graph of gradients."""

    @abstractmethod
    def kept(self, x: Array) -> Array:
        """x where memory is cheap."""

    @abstractmethod
    def numbers(self, values: Numbers, like: Array) -> Array:
        """A vector beside `like`, float32 or wider."""

    @abstractmethod
    def take(self, x: Array, rows: Sequence[int]) -> Array:
        """The samples of these numbers."""

    @abstractmethod
    def concatenate(self, parts: Sequence[Array]) -> Array:
        """Some samples after others."""

    @abstractmethod
    def choose(self, mask: Sequence[bool], yes: Array, no: Array) -> Array:
        """Sample by sample one or the other."""

    @abstractmethod
    def is_finite(self, x: Array) -> bool:
        """Whether all of x is."""

    @abstractmethod
    def largest(self, x: Array, y: Array) -> Array:
        """max(|x|, |y|), number by number."""

    @abstractmethod
    def rows(self, x: Array) -> Array:
        """The samples as rows of a matrix, in float64 where the device has it."""

    @abstractmethod
    def to_numpy(self, x: Array) -> np.ndarray:
        """x as NumPy has it, float64."""

    def no_grad(self) -> ContextManager:
        """Without gradients, where the library would keep them."""
        return contextlib.nullcontext()

    def per_sample(self, values: Numbers, like: Array) -> Array:
        """[samples] numbers to multiply `like` by."""
        return self.numbers(values, like).reshape((-1,) + (1,) * (len(like.shape) - 1))

    def combine(self, coefficients: Numbers, terms: Sequence[Array], like: Array) -> Array:
        """sum_j coefficients[j] terms[j], added up wide, in the type of `like`."""
        total = None
        for factor, term in zip(coefficients, terms):
            part = self.wide(term) * float(factor)
            total = part if total is None else total + part
        return self.cast(total, like)

    def combine_per_sample(self, coefficients: Sequence[Numbers], terms: Sequence[Array]) -> Array:
        """The same with a coefficient of its own for each sample, wide."""
        total = None
        for factors, term in zip(coefficients, terms):
            wide = self.wide(term)
            part = wide * self.per_sample(factors, wide)
            total = part if total is None else total + part
        return total

    def squares(self, x: Array) -> np.ndarray:
        """|x|^2 of each sample."""
        rows = self.rows(x)
        return self.to_numpy((rows * rows).sum(1))

    def root_mean_squares(self, x: Array) -> np.ndarray:
        """Of each sample."""
        return np.sqrt(self.squares(x) / max(1, _size(x)))

    def norms(self, error: Array, left: Array, right: Array, tolerance: float) -> List[float]:
        """The root mean square of error / (atol + rtol max(|left|, |right|)) of each sample."""
        scaled = error / (tolerance + tolerance * self.largest(left, right))
        return self.root_mean_squares(scaled).tolist()

    def products(self, x: Array, columns: Sequence[Array]) -> np.ndarray:
        """The inner products of x with each column, [samples, columns]."""
        result = np.empty((int(x.shape[0]), len(columns)))
        for k in range(result.shape[0]):
            matrix = self.concatenate([self.rows(column[k:k + 1]) for column in columns])
            result[k] = self.to_numpy(matrix @ self.rows(x[k:k + 1])[0])
        return result

    def grams(self, columns: Sequence[Array]) -> np.ndarray:
        """The inner products of all columns, [samples, columns, columns]."""
        samples = int(columns[0].shape[0])
        result = np.empty((samples, len(columns), len(columns)))
        for k in range(samples):  # one sample at a time: many columns wide take much memory
            matrix = self.concatenate([self.rows(column[k:k + 1]) for column in columns])
            result[k] = self.to_numpy(matrix @ matrix.T)
        return result


class NumPyArrays(Arrays):
    """NumPy, and what calls itself by the same names."""

    name = "NumPy"

    def __init__(self, xp: Any = np) -> None:
        self.xp = xp

    def owns(self, x: object) -> bool:
        return isinstance(x, np.ndarray) and x.dtype.kind == "f"

    def epsilon(self, x: Array) -> float:
        return float(np.finfo(x.dtype).eps)

    def state(self, x: Array) -> Array:
        return x if x.dtype == np.float64 else self.xp.asarray(x, dtype=np.float32)

    def wide(self, x: Array) -> Array:
        return self.xp.asarray(x, dtype=np.float64)

    def cast(self, x: Array, like: Array) -> Array:
        return self.xp.asarray(x, dtype=like.dtype)

    def copy(self, x: Array) -> Array:
        return self.xp.array(x)

    def kept(self, x: Array) -> Array:
        return x

    def numbers(self, values: Numbers, like: Array) -> Array:
        return self.xp.asarray(values, dtype=np.float64 if like.dtype == np.float64 else np.float32)

    def take(self, x: Array, rows: Sequence[int]) -> Array:
        return x[np.asarray(rows, dtype=np.int64)]

    def concatenate(self, parts: Sequence[Array]) -> Array:
        return self.xp.concatenate(list(parts))

    def choose(self, mask: Sequence[bool], yes: Array, no: Array) -> Array:
        shape = (-1,) + (1,) * (len(yes.shape) - 1)
        return self.xp.where(np.asarray(mask).reshape(shape), yes, no)

    def is_finite(self, x: Array) -> bool:
        return bool(self.xp.isfinite(x).all())

    def largest(self, x: Array, y: Array) -> Array:
        return self.xp.maximum(self.xp.abs(x), self.xp.abs(y))

    def rows(self, x: Array) -> Array:
        return self.wide(x).reshape((x.shape[0], -1))

    def to_numpy(self, x: Array) -> np.ndarray:
        return np.asarray(x, dtype=np.float64)


class JaxArrays(NumPyArrays):
    """JAX. Without its 64-bit mode sums are taken in float32, inner products in NumPy."""

    name = "JAX"

    def __init__(self, jax: Any) -> None:
        super().__init__(jax.numpy)
        self.jax = jax

    def owns(self, x: object) -> bool:
        return isinstance(x, self.jax.Array) and self.xp.issubdtype(x.dtype, self.xp.floating)

    def epsilon(self, x: Array) -> float:
        return float(self.xp.finfo(x.dtype).eps)

    def wide(self, x: Array) -> Array:
        wide = np.float64 if self.jax.config.jax_enable_x64 else np.float32
        return self.xp.asarray(x, dtype=wide)

    def rows(self, x: Array) -> Array:
        return np.asarray(x, dtype=np.float64).reshape((x.shape[0], -1))

    def concatenate(self, parts: Sequence[Array]) -> Array:
        inner = np if all(isinstance(part, np.ndarray) for part in parts) else self.xp
        return inner.concatenate(list(parts))


class TorchArrays(Arrays):
    """PyTorch, on any device."""

    name = "PyTorch"

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def owns(self, x: object) -> bool:
        return isinstance(x, self.torch.Tensor) and x.is_floating_point()

    def epsilon(self, x: Array) -> float:
        return float(self.torch.finfo(x.dtype).eps)

    def state(self, x: Array) -> Array:
        x = x.detach()
        return x if x.dtype == self.torch.float64 else x.to(self.torch.float32)

    def wide(self, x: Array) -> Array:
        # Apple's devices have no float64.
        return x.to(self.torch.float32 if x.device.type == "mps" else self.torch.float64)

    def cast(self, x: Array, like: Array) -> Array:
        return x.to(device=like.device, dtype=like.dtype)

    def copy(self, x: Array) -> Array:
        # Compiled modules may write their next output into the memory of this one.
        return x.detach().clone()

    def kept(self, x: Array) -> Array:
        return x.to("cpu")

    def numbers(self, values: Numbers, like: Array) -> Array:
        wide = like.dtype == self.torch.float64
        return self.torch.tensor(list(values), device=like.device,
                                 dtype=self.torch.float64 if wide else self.torch.float32)

    def take(self, x: Array, rows: Sequence[int]) -> Array:
        return x[self.torch.tensor(list(rows), dtype=self.torch.int64, device=x.device)]

    def concatenate(self, parts: Sequence[Array]) -> Array:
        return self.torch.cat(list(parts))

    def choose(self, mask: Sequence[bool], yes: Array, no: Array) -> Array:
        shape = (-1,) + (1,) * (yes.dim() - 1)
        return self.torch.where(self.torch.tensor(list(mask), device=yes.device).reshape(shape),
                                yes, no)

    def is_finite(self, x: Array) -> bool:
        return bool(self.torch.isfinite(x).all())

    def largest(self, x: Array, y: Array) -> Array:
        return self.torch.maximum(x.abs(), y.abs())

    def rows(self, x: Array) -> Array:
        return self.wide(x).reshape((x.shape[0], -1))

    def to_numpy(self, x: Array) -> np.ndarray:
        return x.detach().to("cpu").to(self.torch.float64).numpy()

    def no_grad(self) -> ContextManager:
        return self.torch.no_grad()


def _size(x: Array) -> int:
    return int(np.prod(x.shape[1:], dtype=np.int64))


def _known() -> List[Arrays]:
    """The libraries that arrays can be of: those that were imported."""
    known: List[Arrays] = [NumPyArrays()]
    if "torch" in sys.modules:
        known.append(TorchArrays(sys.modules["torch"]))
    if "jax" in sys.modules:
        known.append(JaxArrays(sys.modules["jax"]))
    return known


def arrays_of(x: object, what: str) -> Arrays:
    """The adapter of an array; `what` names it in messages."""
    for arrays in _known():
        if arrays.owns(x):
            return arrays
    kind = getattr(x, "dtype", None)
    found = type(x).__name__ if kind is None else f"{type(x).__name__} of {kind}"
    raise Error(f"{what} must be a floating-point array of NumPy, PyTorch or JAX, found {found}")
