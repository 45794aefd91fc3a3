"""Pictures of solvers and comparisons, with matplotlib where it is installed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np

from bespoke.errors import Error

if TYPE_CHECKING:
    from bespoke.comparison import Comparison
    from bespoke.solver import Solver


def plot_solver(solver: "Solver", axes: Optional[Sequence[Any]] = None) -> Any:
    """Where the solver evaluates the model, and what each step makes of the outputs.

    Left the times, beside even ones; right a_i and b_ij, a row for each step. `axes` are two to
    draw into. Returns the figure.
    """
    left, right = _axes(2, axes)
    steps = np.arange(solver.nfe + 1)
    left.plot(steps, steps / solver.nfe, color="0.75", label="even")
    left.plot(steps, solver.times, marker="o", label=solver.name)
    left.set_xlabel("step")
    left.set_ylabel("time t, 0 noise, 1 data")
    left.set_title(f"{solver.name}, {solver.nfe} evaluations")
    left.legend()
    table = np.full((solver.nfe, solver.nfe + 1), np.nan)
    for i in range(solver.nfe):
        table[i, 0] = solver.a[i]
        table[i, 1:i + 2] = solver.b[i]
    most = float(np.nanmax(np.abs(table)))
    shown = right.imshow(table, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    right.set_xticks(range(solver.nfe + 1), ["$x_0$"] + [f"$u_{{{j}}}$" for j in range(solver.nfe)])
    right.set_yticks(range(solver.nfe), [str(i + 1) for i in range(solver.nfe)])
    right.set_ylabel("step")
    right.set_title("weights of the noise and the outputs")
    right.figure.colorbar(shown, ax=right)
    return right.figure


def plot_comparison(comparison: "Comparison", axes: Any = None) -> Any:
    """PSNR over the number of evaluations, a line for each solver. Returns the figure."""
    axis, = _axes(1, None if axes is None else [axes])
    for name in dict.fromkeys(row.name for row in comparison.rows):
        rows = sorted((row.nfe, row.psnr) for row in comparison.rows
                      if row.name == name and not row.diverged)
        if rows:
            axis.plot(*zip(*rows), marker="o", label=name)
    axis.set_xlabel("evaluations (NFE)")
    axis.set_ylabel("PSNR in dB")
    axis.set_xticks(sorted({row.nfe for row in comparison.rows}))
    axis.set_title(f"{comparison.samples} samples, against {comparison.reference_evaluations:.0f} "
                   "evaluations each")
    axis.grid(True, color="0.9")
    axis.legend()
    return axis.figure


def chart_svg(comparison: "Comparison") -> str:
    """The chart as SVG for a page, or nothing where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(7, 4.5), constrained_layout=True)
    plot_comparison(comparison, figure.subplots())
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg"):]


def _axes(count: int, given: Optional[Sequence[Any]]) -> Sequence[Any]:
    if given is not None:
        return given
    try:
        from matplotlib import pyplot
    except ImportError:
        raise Error("plots need matplotlib: pip install \"bespoke-solvers[plots]\", or "
                    "matplotlib alone") from None
    _, axes = pyplot.subplots(1, count, figsize=(5 * count, 4), constrained_layout=True,
                              squeeze=False)
    return list(axes[0])
