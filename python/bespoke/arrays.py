"""One small adapter per array library: all that runs of the core do with arrays (run/arrays.h).

Arrays have the samples along their first axis. A method that answers in numbers answers with
float64 arrays of NumPy.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import sys
from abc import ABC, abstractmethod
from typing import Any, ContextManager, Iterator, List, Sequence

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
    def on_device(self, x: Array) -> bool:
        """Whether x lies where one large batch costs less than several small ones."""

    @abstractmethod
    def byte_count(self, x: Array) -> int:
        """How much memory x takes."""

    def count(self, x: Array) -> int:
        """Samples."""
        return int(x.shape[0])

    def sample_size(self, x: Array) -> int:
        """Numbers of a sample."""
        return _size(x)

    def rows(self, x: Array, begin: int, end: int) -> Array:
        """Some samples in a row."""
        return x[begin:end]

    @abstractmethod
    def take(self, x: Array, rows: Sequence[int]) -> Array:
        """The samples of these numbers."""

    @abstractmethod
    def concatenate(self, parts: Sequence[Array]) -> Array:
        """Some samples after others."""

    @abstractmethod
    def beside(self, parts: Sequence[Array]) -> Array:
        """The numbers of each sample behind those of the part before: [samples, numbers]."""

    @abstractmethod
    def choose(self, mask: Sequence[bool], yes: Array, no: Array) -> Array:
        """Sample by sample one or the other."""

    @abstractmethod
    def is_finite(self, x: Array) -> bool:
        """Whether all of x is."""

    def first_not_finite(self, x: Array) -> int:
        """The first sample that is not, or -1."""
        if self.is_finite(x):
            return -1
        return next(k for k in range(self.count(x)) if not self.is_finite(x[k:k + 1]))

    @abstractmethod
    def largest(self, x: Array, y: Array) -> Array:
        """max(|x|, |y|), number by number."""

    @abstractmethod
    def clamp(self, x: Array, least: Any, most: Any) -> Array:
        """x between two numbers, or two arrays that go with it."""

    @abstractmethod
    def magnitude_quantiles(self, x: Array, quantile: float) -> Array:
        """Of each sample's magnitudes, linear between the two nearest: [samples, 1, ...]."""

    def weighed(self, x: Array, weights: Array) -> Array:
        """x times the weights; where they have fewer rows they begin anew."""
        rows = self.count(weights)
        folded = x.reshape((self.count(x) // rows, rows, -1))
        return (folded * self.cast(weights, x).reshape((1, rows, -1))).reshape(x.shape)

    @abstractmethod
    def matrix(self, x: Array) -> Array:
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

    def root_mean_squares(self, x: Array) -> np.ndarray:
        """Of each sample."""
        rows = self.matrix(x)
        return np.sqrt(self.to_numpy((rows * rows).sum(1)) / max(1, _size(x)))

    def scaled_norms(self, coefficients: Sequence[Numbers], terms: Sequence[Array], left: Array,
                     right: Array, rtol: float, atol: float) -> np.ndarray:
        """The root mean square of a sum / (atol + rtol max(|left|, |right|)) of each sample."""
        error = self.combine_per_sample(coefficients, terms)
        return self.root_mean_squares(error / (atol + rtol * self.largest(left, right)))

    def products(self, columns: Array, residual: Array) -> np.ndarray:
        """Of each sample the inner products of its residual with its columns and with itself.

        Columns lie side by side: row c * samples + s is column c of sample s.
        """
        samples = self.count(residual)
        return np.stack([self.to_numpy(all_of @ all_of[-1])
                         for all_of in self._columns(columns, residual, samples)])

    def grams(self, columns: Array, residual: Array) -> np.ndarray:
        """Of each sample the inner products of its columns and, behind them, its residual."""
        samples = self.count(residual)
        return np.stack([self.to_numpy(all_of @ all_of.T)
                         for all_of in self._columns(columns, residual, samples)])

    def _columns(self, columns: Array, residual: Array, samples: int) -> Iterator[Array]:
        """The columns of a sample, then its residual, wide: many of them take much memory."""
        for k in range(samples):
            yield self.concatenate([self.matrix(columns[k::samples]),
                                    self.matrix(self.cast(residual[k:k + 1], columns))])

    def bytes(self, x: Array) -> builtins.bytes:
        """For another process."""
        file = io.BytesIO()
        np.save(file, self.exact(x), allow_pickle=False)
        return file.getvalue()

    def from_bytes(self, data: builtins.bytes) -> Array:
        """The array that another process sent, where memory is cheap."""
        return self.of_numpy(np.load(io.BytesIO(data), allow_pickle=False))

    @abstractmethod
    def exact(self, x: Array) -> np.ndarray:
        """x in NumPy, in its own type."""

    @abstractmethod
    def of_numpy(self, x: np.ndarray) -> Array:
        """An array of NumPy in this library."""


class NumPyArrays(Arrays):
    """NumPy, and what calls itself by the same names."""

    name = "NumPy"

    def __init__(self, xp: Any = np) -> None:
        self.xp = xp

    def owns(self, x: object) -> bool:
        # A mask would be dropped on the way, and so would the digits of longer types.
        return (isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
                and x.dtype.kind == "f" and x.dtype.itemsize <= 8)

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

    def beside(self, parts: Sequence[Array]) -> Array:
        return self.xp.concatenate(list(parts), axis=1)

    def choose(self, mask: Sequence[bool], yes: Array, no: Array) -> Array:
        shape = (-1,) + (1,) * (len(yes.shape) - 1)
        return self.xp.where(np.asarray(mask).reshape(shape), yes, no)

    def is_finite(self, x: Array) -> bool:
        return bool(self.xp.isfinite(x).all())

    def largest(self, x: Array, y: Array) -> Array:
        return self.xp.maximum(self.xp.abs(x), self.xp.abs(y))

    def clamp(self, x: Array, least: Any, most: Any) -> Array:
        return self.xp.clip(x, least, most)

    def magnitude_quantiles(self, x: Array, quantile: float) -> Array:
        rows = self.xp.abs(x).reshape((x.shape[0], -1))
        found = self.xp.quantile(rows, quantile, axis=1)
        return self.cast(found, x).reshape((-1,) + (1,) * (len(x.shape) - 1))

    def matrix(self, x: Array) -> Array:
        return self.wide(x).reshape((x.shape[0], -1))

    def to_numpy(self, x: Array) -> np.ndarray:
        return np.asarray(x, dtype=np.float64)

    def exact(self, x: Array) -> np.ndarray:
        return np.asarray(x)

    def of_numpy(self, x: np.ndarray) -> Array:
        return self.xp.asarray(x)

    def on_device(self, x: Array) -> bool:
        return False

    def byte_count(self, x: Array) -> int:
        return int(x.nbytes)


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

    def matrix(self, x: Array) -> Array:
        return np.asarray(x, dtype=np.float64).reshape((x.shape[0], -1))

    def on_device(self, x: Array) -> bool:
        return any(device.platform != "cpu" for device in x.devices())

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

    def beside(self, parts: Sequence[Array]) -> Array:
        return self.torch.cat(list(parts), 1)

    def choose(self, mask: Sequence[bool], yes: Array, no: Array) -> Array:
        shape = (-1,) + (1,) * (yes.dim() - 1)
        return self.torch.where(self.torch.tensor(list(mask), device=yes.device).reshape(shape),
                                yes, no)

    def is_finite(self, x: Array) -> bool:
        return bool(self.torch.isfinite(x).all())

    def largest(self, x: Array, y: Array) -> Array:
        return self.torch.maximum(x.abs(), y.abs())

    def clamp(self, x: Array, least: Any, most: Any) -> Array:
        return self.torch.clamp(x, least, most)

    def magnitude_quantiles(self, x: Array, quantile: float) -> Array:
        # By a sort: quantile() refuses samples of many numbers.
        rows = x.abs().reshape((x.shape[0], -1)).sort(1).values
        place = quantile * (rows.shape[1] - 1)
        below = int(place)
        low, high = rows[:, below], rows[:, min(below + 1, rows.shape[1] - 1)]
        return (low + (place - below) * (high - low)).reshape((-1,) + (1,) * (x.dim() - 1))

    def matrix(self, x: Array) -> Array:
        return self.wide(x).reshape((x.shape[0], -1))

    def to_numpy(self, x: Array) -> np.ndarray:
        return x.detach().to("cpu").to(self.torch.float64).numpy()

    def exact(self, x: Array) -> np.ndarray:
        return x.detach().to("cpu").numpy()

    def of_numpy(self, x: np.ndarray) -> Array:
        return self.torch.from_numpy(x)

    def on_device(self, x: Array) -> bool:
        return x.device.type != "cpu"

    def byte_count(self, x: Array) -> int:
        return int(x.element_size() * x.numel())

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
    raise Error(f"{what} must be an array of NumPy, PyTorch or JAX in float64 or narrower, without "
                f"a mask, found {found}")
