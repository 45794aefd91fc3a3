"""Samples of several arrays, nodes and edges say, as the one array that solvers step with."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from bespoke.arrays import Array, arrays_of
from bespoke.errors import Error


class Structure(NamedTuple):
    """The names of the parts, none of a tuple's, and their shapes without the samples."""

    names: Optional[Tuple[str, ...]]
    shapes: Tuple[Tuple[int, ...], ...]

    @classmethod
    def of(cls, given: Any, what: str) -> "Optional[Structure]":
        """That of a dict or a tuple of arrays; None of a single array."""
        if not isinstance(given, (Mapping, tuple, list)):
            return None
        names = tuple(given) if isinstance(given, Mapping) else None
        parts = list(given.values()) if isinstance(given, Mapping) else list(given)
        if not parts:
            raise Error(f"{what} has no part; give at least one array")
        kinds = {arrays_of(part, f"a part of {what}").name for part in parts}
        counts = {int(part.shape[0]) if len(part.shape) else -1 for part in parts}
        if len(kinds) > 1 or len(counts) > 1 or -1 in counts:
            raise Error(f"the parts of {what} must be arrays of one library with as many samples "
                        f"each, found {', '.join(str(tuple(part.shape)) for part in parts)} of "
                        f"{' and '.join(sorted(kinds))}")
        return cls(names, tuple(tuple(map(int, part.shape[1:])) for part in parts))

    @classmethod
    def of_shapes(cls, shapes: Mapping[str, Sequence[int]]) -> "Tuple[Structure, Tuple[int, int]]":
        """From shapes with the samples in front, and the shape of the parts side by side."""
        counts = {int(shape[0]) for shape in shapes.values()}
        if len(counts) != 1:
            raise Error(f"the parts must have as many samples each, found {sorted(counts)}")
        structure = cls(tuple(shapes), tuple(tuple(map(int, shape[1:]))
                                             for shape in shapes.values()))
        return structure, (counts.pop(), sum(math.prod(shape) for shape in structure.shapes))

    def parts(self, given: Any, what: str) -> List[Array]:
        """Those of a value of this structure, in order."""
        if self.names is not None:
            if not isinstance(given, Mapping) or set(given) != set(self.names):
                raise Error(f"{what} must be a dict of {', '.join(self.names)}, as the noise is, "
                            f"found {_found(given)}")
            return [given[name] for name in self.names]
        if not isinstance(given, (tuple, list)) or len(given) != len(self.shapes):
            raise Error(f"{what} must be a tuple of {len(self.shapes)} arrays, as the noise is, "
                        f"found {_found(given)}")
        return list(given)

    def labels(self) -> Sequence[str]:
        """What messages call the parts."""
        return self.names or [f"part {k}" for k in range(len(self.shapes))]

    def joined(self, given: Any, what: str) -> Array:
        """The parts side by side: [samples, numbers]."""
        parts = self.parts(given, what)
        arrays = arrays_of(parts[0], f"{self.labels()[0]} of {what}")
        rows = []
        for part, shape, label in zip(parts, self.shapes, self.labels()):
            if not arrays.owns(part):
                raise Error(f"{label} of {what} must be a floating-point array of {arrays.name}, "
                            f"found {_found(part)}")
            if tuple(part.shape[1:]) != shape:
                raise Error(f"{label} of {what} has the shape {tuple(part.shape)}, it must be "
                            f"[samples, {', '.join(map(str, shape))}]")
            rows.append(arrays.cast(part, parts[0]).reshape((int(part.shape[0]), -1)))
        if len({int(part.shape[0]) for part in rows}) > 1:
            raise Error(f"the parts of {what} have different numbers of samples")
        return arrays.beside(rows)

    def split(self, x: Array) -> Any:
        """The inverse."""
        parts, begin = [], 0
        for shape in self.shapes:
            end = begin + math.prod(shape)
            parts.append(x[:, begin:end].reshape((int(x.shape[0]), *shape)))
            begin = end
        return tuple(parts) if self.names is None else dict(zip(self.names, parts))

    def on_joined(self, function: Callable[..., Any], name: str) -> Callable[..., Array]:
        """A callable of such states as one of joined ones."""
        if not callable(function):
            raise Error(f"{name} must be a callable u(t, x), found {type(function).__name__}")

        def joined(t: Array, x: Array, **conditions: Any) -> Array:
            return self.joined(function(t, self.split(x), **conditions), f"what {name} returns")
        return joined


def _found(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"a dict of {', '.join(map(str, given))}"
    if isinstance(given, (tuple, list)):
        return f"{len(given)} values"
    return type(given).__name__
