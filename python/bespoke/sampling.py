"""Runs a solver on a field: x_{i+1} = a_i x_0 + sum_{j <= i} b_ij u_j.

One with built-in guidance has also the differences d_j of its guided steps, + sum_j c_ij d_j.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Sequence

from bespoke import _core
from bespoke.arrays import Array
from bespoke.errors import DivergedError
from bespoke.field import Field


class Run(NamedTuple):
    """x_0 ... x_n and u_0 ... u_{n-1} of some samples."""

    samples: List[int]
    x: List[Array]
    u: List[Array]


def step_coefficients(solver: "_core.NsSolver", step: int) -> List[float]:
    """(a_i, b_i0 ... b_ii), and (c_i0 ...) of a solver with built-in guidance."""
    return [solver.a[step], *solver.b[step], *(solver.c[step] if solver.c else [])]


def run_solver(solver: "_core.NsSolver", field: Field, noise: Array, samples: Sequence[int],
               keep: bool = True,
               on_step: Optional[Callable[[int, float, Array], None]] = None) -> Run:
    """All states and velocities; without `keep`, the last state alone."""
    arrays = field.arrays
    start = arrays.state(noise) * solver.start_scale
    x, states, velocities = start, [start], []
    differences: List[Array] = []
    for step in range(solver.nfe):
        if solver.guided:
            velocity, difference = field.velocity_parts(x, [solver.times[step]], samples,
                                                        step in solver.guided)
            velocities.append(velocity)
            differences.extend([] if difference is None else [difference])
        else:
            velocities.append(field.velocity(x, [solver.times[step]], samples))
        x = arrays.combine(step_coefficients(solver, step), [start, *velocities, *differences],
                           start)
        if not arrays.is_finite(x):
            raise DivergedError(_not_finite(field, solver, step, velocities[-1]))
        if keep:
            states.append(x)
        if on_step is not None:
            on_step(step, solver.times[step + 1], x)
    return Run(list(samples), states if keep else [x], velocities if keep else [])


def _not_finite(field: Field, solver: "_core.NsSolver", step: int, velocity: Array) -> str:
    where = f"at step {step + 1} of {solver.nfe} (t = {solver.times[step]:.6g})"
    if field.arrays.is_finite(velocity):
        return (f"the state overflowed {where}; check that the solver was made for this model, "
                "schedule and prediction")
    narrow = field.arrays.epsilon(velocity) > 1e-4
    advice = "run the model in a wider precision" if narrow else "check the model at this time"
    return f"the model returned NaN or infinity {where}; {advice}"
