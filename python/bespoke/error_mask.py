"""Which numbers of a sample count in errors: masks as users give them, as one array."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from bespoke.arrays import Array, Arrays
from bespoke.data_field import numbers_of
from bespoke.errors import Error
from bespoke.structure import Structure


def error_mask_of(given: Any, noise: Array, arrays: Arrays, conditions: Mapping[str, Any],
                  structure: Optional[Structure]) -> Optional[Array]:
    """Beside the noise [samples, ...], 1 where a number counts: a row for each sample, or one.

    `given` is an array, of several parts a dict or tuple of them (None where all of a part counts),
    or the name of a condition, whose zeros do not count; "not NAME" takes its ones away.
    """
    if given is None:
        return None
    if isinstance(given, str):
        given = _of_condition(given, conditions)
    count = int(noise.shape[0])
    if structure is None:
        mask = _fitted(given, count, tuple(map(int, noise.shape[1:])), "error_mask")
    else:
        parts = [_fitted(np.ones(()) if part is None else part, count, shape,
                         f"error_mask of {label}").reshape(-1, int(np.prod(shape)))
                 for part, shape, label in zip(structure.parts(given, "error_mask"),
                                               structure.shapes, structure.labels())]
        rows = max(len(part) for part in parts)
        mask = np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in parts], 1)
    counts = mask.reshape(len(mask), -1).sum(1)
    if (counts == 0).any():
        raise Error(f"the error mask of sample {int(np.argmin(counts))} is 0 throughout; at least "
                    "one number must count")
    return arrays.cast(arrays.of_numpy(np.ascontiguousarray(mask)), noise)


def mask_of_samples(arrays: Arrays, mask: Optional[Array], samples: Sequence[int]
                    ) -> Optional[Array]:
    """The rows of these samples, or the one of all."""
    if mask is None or int(mask.shape[0]) == 1:
        return mask
    return arrays.take(mask, samples)


def mean_squares(arrays: Arrays, x: Array, mask: Optional[Array]) -> np.ndarray:
    """Of each sample, over the numbers that count."""
    if mask is None:
        return arrays.root_mean_squares(x) ** 2
    counted = arrays.root_mean_squares(arrays.weighed(x, mask))
    return (counted / arrays.root_mean_squares(mask)) ** 2


def _of_condition(name: str, conditions: Mapping[str, Any]) -> Any:
    inverted = name.startswith("not ")
    name = name[len("not "):] if inverted else name
    if name not in conditions:
        known = ", ".join(conditions) or "none"
        raise Error(f"error_mask names the condition {name!r}; the conditions are: {known}")
    values = _numbers(conditions[name], f"the condition {name}")
    return 1 - values if inverted else values


def _numbers(given: Any, what: str) -> np.ndarray:
    try:
        values = numbers_of(given)
    except (TypeError, ValueError):
        raise Error(f"{what} must be an array of zeros and ones, found "
                    f"{type(given).__name__}") from None
    if not np.isin(values, (0, 1)).all():
        raise Error(f"{what} must hold zeros and ones alone, 1 where a number counts")
    return values


def _fitted(given: Any, count: int, shape: Sequence[int], what: str) -> np.ndarray:
    """[samples or 1, *shape]; axes may be left out at the end, or the samples'."""
    values = _numbers(given, what)
    if values.ndim and len(values) == count and values.ndim <= len(shape) + 1:
        own = values.reshape(values.shape + (1,) * (len(shape) + 1 - values.ndim))
        if _goes_with(own.shape[1:], shape):
            return np.broadcast_to(own, (count, *shape))
    if values.ndim == len(shape) + 1 and len(values) == 1:
        values = values[0]
    if values.ndim <= len(shape) and _goes_with(values.shape, shape):
        own = values.reshape(values.shape + (1,) * (len(shape) - values.ndim))
        return np.broadcast_to(own, shape)[None]
    raise Error(f"{what} has the shape {tuple(values.shape)}; it must go with {count} samples of "
                f"the shape {tuple(shape)}")


def _goes_with(own: Sequence[int], shape: Sequence[int]) -> bool:
    return all(size in (1, whole) for size, whole in zip(own, shape))
