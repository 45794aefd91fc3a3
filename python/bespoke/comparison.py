"""compare: how near solvers come to the model's own samples, from the same noise."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from bespoke import _core
from bespoke.arrays import Array, Arrays
from bespoke.clip import ClipLike
from bespoke.error_mask import error_mask_of
from bespoke.errors import DivergedError, Error
from bespoke.field import Callback, Field, GuidanceLike, ScheduleLike
from bespoke.plots import plot_comparison
from bespoke.problem import Result
from bespoke.progress import ProgressLike, open_progress
from bespoke.sampling import run_solver
from bespoke.solver import Solver
from bespoke.trajectories import reference

Contender = Union[str, Solver, Result]
NAN = float("nan")


@dataclass(frozen=True)
class ComparisonRow:
    """What one solver did; where it diverged the figures are NaN."""

    name: str
    nfe: int
    psnr: float  # mean over the samples, decibels
    snr: float  # mean of |truth|^2 / |difference|^2, decibels
    mse_low: float  # the 5th, 50th and 95th percentile of the squared error
    mse_median: float
    mse_high: float
    seconds: float  # a sample
    diverged: bool


@dataclass(frozen=True)
class Comparison:
    """All of them, and what they were measured against."""

    rows: List[ComparisonRow]
    samples: int
    reference_evaluations: float  # a sample
    tolerance: float
    peak: float
    calls: int
    title: str

    def best(self) -> ComparisonRow:
        """The row with the largest PSNR."""
        measured = [row for row in self.rows if not row.diverged]
        if not measured:
            raise Error("all solvers diverged; check the prediction and the schedule")
        return max(measured, key=lambda row: row.psnr)

    def table(self) -> str:
        """PSNR by solver and NFE, as text."""
        names = list(dict.fromkeys(row.name for row in self.rows))
        counts = sorted({row.nfe for row in self.rows})
        found = {(row.name, row.nfe): row for row in self.rows}
        width = max(len(name) for name in ["solver", *names])
        lines = [f"{'solver':<{width}}" + "".join(f"  {n:>6}" for n in counts),
                 "-" * width + "  ------" * len(counts)]
        for name in names:
            cells = [_cell(found.get((name, n))) for n in counts]
            lines.append(f"{name:<{width}}" + "".join(f"  {cell:>6}" for cell in cells))
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """PSNR by NFE as a matplotlib figure; `axes` is one to draw into."""
        return plot_comparison(self, axes)

    def __str__(self) -> str:
        return f"{self.title}\n\n{self.table()}"


def compare(field: Callback, noise: Any, solvers: Sequence[Contender],
            nfe: Union[int, Sequence[int]] = 8, *, prediction: str = "velocity",
            schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
            guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
            batch: Optional[int] = None, tolerance: float = 1e-5, peak: float = 2.0,
            clip: ClipLike = None, error_mask: Any = None,
            progress: ProgressLike = None) -> Comparison:
    """Measures solvers against the model's own samples from this noise.

    `solvers` are names of the catalogue, each at every NFE of `nfe` that it can spend, and Solvers,
    Results or paths of files, all of whose solvers are taken, at their own. Take noise that no
    solver was made from. The other arguments are those of fit.
    """
    made = Field(field, noise, prediction=prediction, schedule=schedule, conditions=conditions,
                 guidance=guidance, unconditional=unconditional, batch=batch, clip=clip)
    mask = error_mask_of(error_mask, made.noise, made.arrays, made.conditions, made.structure)
    counts = [nfe] if isinstance(nfe, int) else list(nfe)
    contenders = _contenders(solvers, counts, made)
    samples = list(range(int(made.noise.shape[0])))
    with open_progress(progress) as shown:
        made.on_calls = shown.add
        shown.say("the model's own samples")
        truth = reference(made, made.noise, samples, tolerance)
        rows = []
        for name, solver in contenders:
            shown.say(f"{name}, {solver.nfe} evaluations")
            rows.append(_measured(name, solver, made, truth.x, samples, peak, mask))
    title = (f"PSNR in dB (peak-to-peak {peak:g}) against the reference ({truth.evaluations:.0f} "
             f"evaluations a sample, tolerance {tolerance:g}), by NFE\n{made.schedule.name} path, "
             f"{made.network_prediction} prediction{'' if made.clip is None else f', {made.clip}'}, "
             f"{made.guidance}, {len(samples)} samples")
    return Comparison(rows, len(samples), truth.evaluations, tolerance, peak, made.calls, title)


def _contenders(solvers: Sequence[Contender], counts: List[int],
                field: Field) -> List[Tuple[str, Solver]]:
    if isinstance(solvers, (str, Solver, Result)):
        solvers = [solvers]
    found: List[Tuple[str, Solver]] = []
    for contender in solvers:
        if isinstance(contender, (Result, Solver)):
            solver = contender.solver if isinstance(contender, Result) else contender
            found.append((solver.name, solver))
        elif os.fspath(contender).endswith(".json"):
            found.extend((os.fspath(contender), solver) for solver in Solver.load_all(contender))
        else:
            found.extend(_named(contender, counts, field))
    if not found:
        raise Error("there is no solver to compare; name some, for instance midpoint and dpm++2m")
    found = _told_apart(found)
    for name, solver in found:
        if solver.schedule != field.schedule:
            raise Error(f"solver {name} is for the schedule {solver.schedule.name}, the field's is "
                        f"{field.schedule.name}")
        if solver.clip != field.clip:
            found, wanted = (clip or "data that is not clipped"
                             for clip in (solver.clip, field.clip))
            raise Error(f"solver {name} is for {found}, the field is of {wanted}; give clip= as the "
                        "solver has it")
    return found


def _told_apart(found: List[Tuple[str, Solver]]) -> List[Tuple[str, Solver]]:
    """Solvers of one name and NFE get numbers."""
    seen: Dict[Tuple[str, int], int] = {}
    result = []
    for name, solver in found:
        times = seen[name, solver.nfe] = seen.get((name, solver.nfe), 0) + 1
        result.append((name if times == 1 else f"{name} ({times})", solver))
    return result


def _named(name: str, counts: List[int], field: Field) -> List[Tuple[str, Solver]]:
    found, problem = [], None
    for count in counts:
        try:
            found.append((name, Solver.named(name, count, schedule=field.schedule,
                                             prediction=field.network_prediction,
                                             clip=field.clip)))
        except Error as error:
            problem = error
    if not found and problem is not None:
        raise problem
    return found


def _measured(name: str, solver: Solver, field: Field, truth: Array, samples: List[int],
              peak: float, mask: Optional[Array]) -> ComparisonRow:
    began = time.monotonic()
    try:
        x = run_solver(solver.core, field, field.noise, samples, keep=False).x[-1]
    except DivergedError:
        return ComparisonRow(name, solver.nfe, NAN, NAN, NAN, NAN, NAN, NAN, True)
    arrays = field.arrays
    seconds = (time.monotonic() - began) / len(samples)
    powers = _mean_squares(arrays, truth, mask).tolist()
    errors = _mean_squares(arrays, arrays.wide(x) - truth, mask).clip(1e-30).tolist()
    low, median, high = (_core.quantile(errors, part) for part in (0.05, 0.5, 0.95))
    return ComparisonRow(name, solver.nfe, _core.mean_psnr(errors, peak),
                         _core.mean_snr(errors, powers), low, median, high, seconds, False)


def _mean_squares(arrays: Arrays, x: Array, mask: Optional[Array]) -> np.ndarray:
    """Of each sample, over the numbers that count."""
    if mask is None:
        return arrays.root_mean_squares(x) ** 2
    counted = arrays.root_mean_squares(arrays.weighed(x, mask))
    return (counted / arrays.root_mean_squares(mask)) ** 2


def _cell(row: Optional[ComparisonRow]) -> str:
    if row is None:
        return "-"
    return "failed" if row.diverged else f"{row.psnr:.2f}"
