"""Compares how near solvers come to the reference samples, from the same noise."""

from __future__ import annotations

import html
import os
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from bespoke import _core, field_differences
from bespoke.arrays import Array
from bespoke.clip import ClipLike
from bespoke.error_mask import error_mask_of, mask_of_samples, mean_squares
from bespoke.errors import DivergedError, Error
from bespoke.field import Callback, Field, GuidanceLike, ScheduleLike
from bespoke.field_trial import check_deviation
from bespoke.plots import chart_svg, plot_comparison
from bespoke.progress import Progress, ProgressLike, open_progress
from bespoke.results import (Evaluations, Result, checked_nfes, few_samples_note, html_table,
                             write_page)
from bespoke.sampling import run_solver
from bespoke.solver import PathLike, Solver
from bespoke.trajectories import Reference, core_field, reference

Contender = Union[str, Solver, Result]
BEST = "best"  # of the catalogue, on its best grid
USUAL = [8]  # evaluations, where nothing else is asked for
NAN = float("nan")


@dataclass(frozen=True)
class ComparisonRow:
    """What one solver did; where it diverged the figures are NaN."""

    name: str
    nfe: int  # evaluations per sample
    psnr: float  # mean over the samples, decibels
    psnr_error: float  # its standard error; 0 of one sample
    snr: float  # mean of |truth|^2 / |difference|^2, decibels
    mse_low: float  # the 5th percentile of the samples' squared errors
    mse_median: float  # their 50th percentile
    mse_high: float  # their 95th percentile
    seconds: float  # per sample
    diverged: bool  # whether a state stopped being finite


@dataclass(frozen=True)
class Comparison:
    """What all solvers did, and what they were measured against."""

    rows: List[ComparisonRow]  # one for each solver
    notes: List[str]  # what a reader should know
    samples: int  # that the figures are of
    reference_evaluations: float  # per sample, of the reference
    tolerance: float  # of the reference
    peak: float  # the peak-to-peak range that PSNR is relative to
    calls: int  # of the model, in single samples
    title: str  # what was measured, in a sentence

    def best(self) -> ComparisonRow:
        """The row with the largest PSNR."""
        measured = [row for row in self.rows if not row.diverged]
        if not measured:
            raise Error("all solvers diverged; check the prediction and the schedule")
        return max(measured, key=lambda row: row.psnr)

    def table(self) -> str:
        """PSNR with its standard error by solver and NFE, as text."""
        head, rows = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *rows)]
        rule = ["-" * width for width in widths]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
                         for row in [head, rule, *rows])

    def plot(self, axes: Any = None) -> Any:
        """PSNR by NFE as a matplotlib figure; `axes` is one to draw into."""
        return plot_comparison(self, axes)

    def _cells(self) -> Tuple[List[str], List[List[str]]]:
        """The head of the table, and its rows: a solver each."""
        names = list(dict.fromkeys(row.name for row in self.rows))
        counts = sorted({row.nfe for row in self.rows})
        found = {(row.name, row.nfe): row for row in self.rows}
        return (["solver", *map(str, counts)],
                [[name, *(_cell(found.get((name, n))) for n in counts)] for name in names])

    def _repr_html_(self) -> str:
        head, rows = self._cells()
        title = "".join(f"<p>{html.escape(line)}</p>" for line in self.title.split("\n"))
        return title + html_table(head, rows, "; ".join(self.notes))

    def write(self, path: PathLike) -> None:
        """Writes it as a page of HTML, with a chart where matplotlib is installed."""
        write_page(path, "How near solvers come to the model's own samples",
                   self._repr_html_() + chart_svg(self))

    def __str__(self) -> str:
        return "\n".join([self.title, "", self.table(), *self.notes])


def compare(field: Callback, noise: Any, solvers: Sequence[Contender],
            nfe: Optional[Evaluations] = None, *, prediction: str = "velocity",
            schedule: ScheduleLike = "fm-ot", conditions: Optional[Mapping[str, Any]] = None,
            guidance: GuidanceLike = 0.0, unconditional: Optional[Callback] = None,
            batch: Optional[int] = None, tolerance: float = 1e-5, peak: float = 2.0,
            clip: ClipLike = None, error_mask: Any = None,
            progress: ProgressLike = None, report: Optional[PathLike] = None) -> Comparison:
    """Measures solvers against the reference samples from this noise.

    `solvers` are names of the catalogue, or "best", the best of the catalogue on its best grid,
    chosen on other noise, each at every NFE of `nfe` (8) that it can spend; paths of files, whose
    solvers of `nfe` are taken, or all; and Solvers or Results, at their own. Take noise that no
    solver was made from. A solver that was made for another prediction or guidance is measured all
    the same, and noted. Samples that are not finite are left out. `report` names a page of HTML to
    write. The other arguments are those of fit.
    """
    made = Field(field, noise, prediction=prediction, schedule=schedule, conditions=conditions,
                 guidance=guidance, unconditional=unconditional, batch=batch, clip=clip)
    mask = error_mask_of(error_mask, made.noise, made.arrays, made.conditions, made.structure)
    check_deviation(made, mask)
    counts = None if nfe is None else checked_nfes(nfe)
    named: List[Contender] = ([solvers] if isinstance(solvers, (str, Solver, Result))
                              else list(solvers))
    if not named:
        raise Error("there is no solver to compare; name some, for instance midpoint and dpm++2m")
    # What cannot be found is said before anything is drawn.
    parts = [[] if one == BEST else _contenders(one, counts, made) for one in named]
    noise, count = made.noise, int(made.noise.shape[0])
    notes = _differences([one for part in parts for one in part], made)
    with open_progress(progress) as shown:
        made.on_calls = shown.add
        if BEST in named:
            best = best_of_catalogue(made, counts or USUAL, tolerance, mask, shown)
            notes.extend(f"{BEST} at {solver.nfe} NFE is {name}" for name, solver in best)
            parts[named.index(BEST)] = [(BEST, solver) for _, solver in best]
        shown.say("the model's own samples")
        truth = reference(made, noise, list(range(count)), tolerance)
        kept = made.arrays.take(noise, truth.samples)
        rows = []
        for name, solver in _told_apart([one for part in parts for one in part]):
            shown.say(f"{name}, {solver.nfe} evaluations")
            rows.append(_measured(name, solver, made, kept, truth, peak,
                                  mask_of_samples(made.arrays, mask, truth.samples)))
    few = few_samples_note(len(truth.samples))
    notes.extend(note for note in [truth.left_out(count), few] if note)
    clipped = "" if made.clip is None else f", {made.clip}"
    title = (f"PSNR in dB (peak-to-peak {peak:g}) against the reference ({truth.evaluations:.0f} "
             f"evaluations per sample, tolerance {tolerance:g}), ± standard error, by NFE\n"
             f"{made.schedule.name} path, "
             f"{made.network_prediction} prediction{clipped}, {made.guidance}, "
             f"{len(truth.samples)} samples")
    found = Comparison(rows, notes, len(truth.samples), truth.evaluations, tolerance, peak,
                       made.calls, title)
    if report is not None:
        found.write(report)
    return found


def best_of_catalogue(field: Field, counts: Sequence[int], tolerance: float,
                      mask: Optional[Array], shown: Progress) -> List[Tuple[str, Solver]]:
    """The best of the catalogue at each NFE, by its name, on noise that no figure is of."""
    most, seed, batch = 24, 0x62657374, 64
    arrays, noise = field.arrays, field.noise
    size = int(np.prod(noise.shape[1:], dtype=np.int64))
    count = min(most, int(noise.shape[0]))
    values = _core.normal_noise(seed, 0, count, size) * field.schedule.source_std
    other = arrays.cast(arrays.of_numpy(values.reshape((count, *noise.shape[1:]))), noise)
    shown.say("samples to choose the best of the catalogue on")
    truth = reference(field, other, list(range(count)), tolerance)
    chosen = arrays.take(arrays.state(other), truth.samples)
    samples = _core.Samples(core_field(field), chosen, arrays.cast(truth.x, chosen), None,
                            numbers=truth.samples, batch=field.batch or batch, joins_runs=True,
                            mask=mask_of_samples(arrays, mask, truth.samples))
    best = []
    for nfe in counts:
        name, solver = _core.best_of_catalogue(
            samples, nfe, field.network_prediction, field.schedule, field.guidance,
            lambda done: shown.say(f"the best of the catalogue, {nfe} NFE, {done:.0%}"))
        best.append((name, Solver.made(name, solver, field.network_prediction, field.schedule,
                                       field.guidance, {}, field.clip)))
    return best


def _contenders(contender: Contender, counts: Optional[List[int]],
                field: Field) -> List[Tuple[str, Solver]]:
    """The solvers that something given stands for, by their names."""
    if isinstance(contender, (Result, Solver)):
        solver = contender.solver if isinstance(contender, Result) else contender
        found = [(solver.name, solver)]
    elif os.fspath(contender).endswith(".json"):
        found = _filed(os.fspath(contender), counts)
    else:
        found = _named(contender, counts or USUAL, field)
    for name, solver in found:
        if solver.schedule != field.schedule:
            raise Error(f"solver {name} is for the schedule {solver.schedule.name}, the field's is "
                        f"{field.schedule.name}")
        if solver.clip != field.clip:
            own, wanted = (clip or "data that is not clipped"
                           for clip in (solver.clip, field.clip))
            raise Error(f"solver {name} is for {own}, the field is of {wanted}; give clip= as the "
                        "solver has it")
        if field_differences.guides_itself(solver) and not field_differences.is_same_guidance(
                solver.file.guidance, field.guidance):
            raise Error(f"solver {name} has {solver.file.guidance} built in and no other; "
                        f"this run has {field.guidance}")
    return found


def _differences(contenders: List[Tuple[str, Solver]], field: Field) -> List[str]:
    """What solvers were made for and this field is not, in sentences."""
    found = []
    for name, solver in contenders:
        for difference in (field_differences.of_guidance(solver, field.guidance),
                           field_differences.of_prediction(solver, field.network_prediction)):
            if difference:
                found.append(f"{name} {difference}")
    return list(dict.fromkeys(found))  # solvers of one file say the same


def _filed(path: str, counts: Optional[List[int]]) -> List[Tuple[str, Solver]]:
    """The solvers of a file that were asked for, or all."""
    solvers = Solver.load_all(path)
    asked = [solver for solver in solvers if counts is None or solver.nfe in counts]
    if counts is not None and not asked:
        raise Error(f"{path} has solvers of {', '.join(str(s.nfe) for s in solvers)} evaluations, "
                    f"none of {', '.join(map(str, counts))}; say nfe=")
    return [(path, solver) for solver in asked]


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


def _measured(name: str, solver: Solver, field: Field, noise: Array, truth: Reference,
              peak: float, mask: Optional[Array]) -> ComparisonRow:
    began = time.monotonic()
    try:
        x = run_solver(solver.core, field, noise, truth.samples, keep=False).x[-1]
    except DivergedError:
        return ComparisonRow(name, solver.nfe, NAN, NAN, NAN, NAN, NAN, NAN, NAN, True)
    arrays = field.arrays
    seconds = (time.monotonic() - began) / len(truth.samples)
    powers = mean_squares(arrays, truth.x, mask).tolist()
    errors = mean_squares(arrays, arrays.wide(x) - truth.x, mask).clip(1e-30).tolist()
    low, median, high = (_core.quantile(errors, part) for part in (0.05, 0.5, 0.95))
    spread = _core.psnr_error(np.log(errors).tolist())
    return ComparisonRow(name, solver.nfe, _core.mean_psnr(errors, peak), spread,
                         _core.mean_snr(errors, powers), low, median, high, seconds, False)


def _cell(row: Optional[ComparisonRow]) -> str:
    if row is None:
        return "-"
    if row.diverged:
        return "failed"
    return f"{row.psnr:.2f} ± {row.psnr_error:.2f}" if row.psnr_error > 0 else f"{row.psnr:.2f}"
