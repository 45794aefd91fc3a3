"""What fit and distill return: a solver with what it took to find it, or several."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from numbers import Integral
from typing import (TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence, Union,
                    overload)

from bespoke.errors import Error

if TYPE_CHECKING:
    from bespoke.solver import PathLike, Solver

Evaluations = Union[int, Sequence[int]]
ENOUGH_SAMPLES = 16  # to say how near others will come


@dataclass(frozen=True)
class Result:
    """A solver and what it took to find it. PSNR is in decibels."""

    solver: "Solver"  # what was found
    psnr: float  # on the held-out samples, on all where none were; NaN where interrupted before
    psnr_error: float  # its standard error
    held_out: int  # samples that measured it and did nothing else; 0 where those it learnt from did
    chosen_by: int  # samples that chose among fits and iterates; 0 where those it learnt from did
    choosing_psnr: float  # on these, which flatters
    training_psnr: float  # on those it was learnt from; NaN where it was not measured
    initial_psnr: float  # before direct, on the samples that chose
    start: str  # what direct started from
    iterations: int  # of direct
    calls: int  # of the model, in single samples, those for the reference samples included
    reference_calls: int  # those for the reference samples alone
    seconds: float  # of the whole search
    ending: str  # converged, iterations, forwards, interrupted or diverged
    note: str  # what a reader should know, or empty

    def __str__(self) -> str:
        measured = (f"{self.held_out} held-out sample{'s' * (self.held_out > 1)}"
                    if self.held_out else "what it was learnt from")
        text = (f"{self.solver.nfe} evaluations reach {self.psnr:.2f} +- {self.psnr_error:.2f} dB "
                f"on {measured}, in {self.calls:,} calls of the model ({self.reference_calls:,} for "
                f"its own samples) and {self.seconds:.1f} s")
        return f"{text}; {self.note}" if self.note else text

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, [_row(self)], self.note)


class Results(Sequence[Result]):
    """Results of several numbers of evaluations, by rising number.

        results = bespoke.fit(field, noise, nfe=(4, 6, 8))
        results.save("mine.solver.json")                      # all in one file
        solver = results.at(6).solver
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self._results = sorted(results, key=lambda result: result.solver.nfe)

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> List[Result]: ...

    def __getitem__(self, place: Any) -> Any:
        return self._results[place]

    def __len__(self) -> int:
        return len(self._results)

    def at(self, nfe: int) -> Result:
        """The Result of so many evaluations."""
        for result in self._results:
            if result.solver.nfe == nfe:
                return result
        known = ", ".join(str(result.solver.nfe) for result in self._results)
        raise Error(f"there is no solver of {nfe} evaluations here, only of {known}")

    def save(self, path: "PathLike", name: Optional[str] = None) -> None:
        """Writes all solvers to one *.solver.json, as save_solvers does."""
        from bespoke.saving import save_solvers
        save_solvers(path, self._results, name)

    def __str__(self) -> str:
        return "\n".join(str(result) for result in self._results)

    def _repr_html_(self) -> str:
        notes = dict.fromkeys(result.note for result in self._results if result.note)
        return html_table(_COLUMNS, [_row(result) for result in self._results], "; ".join(notes))


def for_each_nfe(find: Callable[[int], Result], nfe: Evaluations) -> Union[Result, Results]:
    """A Result for one number of evaluations, Results for several."""
    counts = checked_nfes(nfe)
    if not isinstance(nfe, (list, tuple, range, set)):
        return find(counts[0])
    return Results(find(count) for count in counts)


def checked_nfes(nfe: Evaluations) -> List[int]:
    """Numbers of evaluations, rising."""
    given = nfe if isinstance(nfe, (list, tuple, range, set)) else [nfe]
    counts = sorted({checked_nfe(count) for count in given})
    if not counts:
        raise Error("give at least one number of evaluations")
    return counts


def checked_nfe(nfe: Any) -> int:
    """A number of evaluations, from what users give."""
    if isinstance(nfe, bool) or not isinstance(nfe, Integral):
        raise Error("nfe must be a whole number of evaluations or several, such as 8 or "
                    f"(4, 6, 8), found {nfe!r}")
    return int(nfe)


def few_samples_note(count: int) -> str:
    """What to say of a measurement on so many samples, or nothing."""
    if not 0 < count < ENOUGH_SAMPLES:
        return ""
    return (f"{count} sample{'s' * (count > 1)} measured it, which is few: on others it may differ "
            "by more than this error says")


_COLUMNS = ("evaluations", "PSNR, dB", "held out", "gained on its start, dB", "calls",
            "of them for its own samples", "seconds", "ended")


def _row(result: Result) -> List[str]:
    return [str(result.solver.nfe), f"{result.psnr:.2f} +- {result.psnr_error:.2f}",
            str(result.held_out), f"{result.choosing_psnr - result.initial_psnr:.2f}",
            f"{result.calls:,}", f"{result.reference_calls:,}", f"{result.seconds:.1f}",
            result.ending]


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table for notebooks and pages."""
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
    body = "".join(line("td", row) for row in rows)
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead>{line('th', columns)}</thead><tbody>{body}</tbody></table>{below}"


def write_page(path: "PathLike", title: str, body: str) -> None:
    """A page that needs no other file, atomically."""
    from bespoke import _core
    _core.write_text(os.fspath(path), _PAGE.format(title=html.escape(title), body=body))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #8884; }}
th:first-child, td:first-child {{ text-align: left; }}
svg {{ max-width: 100%; height: auto; background: white; }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""
