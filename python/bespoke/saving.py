"""Several solvers of one field in one file."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Union

from bespoke import _core
from bespoke.errors import Error
from bespoke.results import Result
from bespoke.solver import PathLike, Solver


def save_solvers(path: PathLike, solvers: Sequence[Union[Solver, Result]],
                 name: Optional[str] = None) -> None:
    """Writes Solvers or Results of different numbers of evaluations to one *.solver.json.

    They must be for the same field. Without `name` the file has theirs, "solvers" where they
    differ. Solver.load(path, nfe) and Solver.load_all(path) read it.
    """
    joined(solvers, name).write(os.fspath(path))


def joined(solvers: Sequence[Union[Solver, Result]],
           name: Optional[str] = None) -> "_core.SolverFile":
    """The same as the compiled module has it."""
    held = [given.solver if isinstance(given, Result) else given for given in solvers]
    if not held:
        raise Error("give at least one solver")
    first = held[0]
    called = name or (first.name if all(one.name == first.name for one in held) else "solvers")
    for solver in held[1:]:
        if _field(solver) != _field(first):
            raise Error(f"solvers of one file are for one field; {solver.name} with {solver.nfe} "
                        f"evaluations is for another schedule, prediction or guidance than "
                        f"{first.name} with {first.nfe}")
    return _core.SolverFile.joined(called, [solver.file for solver in held])


def _field(solver: Solver) -> object:
    return solver.schedule.describe(), solver.prediction, solver.guidance, solver.clip
