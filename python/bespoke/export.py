"""Solvers for programs in other languages, papers and other tools."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Union

from bespoke import _core
from bespoke.saving import joined
from bespoke.solver import PathLike, Solver

__all__ = ["c_header", "latex", "markdown", "sigmas", "write_c_header", "write_diffusers"]

Solvers = Union[Solver, Sequence[Solver]]


def c_header(solver: Solver, prediction: Optional[str] = None, name: Optional[str] = None) -> str:
    """The text of a header with the solver on a network's raw outputs, in float and double.

    `prediction` is what the network outputs, the solver's own where it is not given; `name` begins
    every name in the header.
    """
    return _core.c_header(solver.file, prediction or solver.prediction, name or "")


def write_c_header(solver: Solver, path: PathLike, prediction: Optional[str] = None,
                   name: Optional[str] = None) -> None:
    """Writes the header of c_header to a file, whole or not at all."""
    _core.write_text(os.fspath(path), c_header(solver, prediction, name))


def markdown(solvers: Solvers, digits: int = 6) -> str:
    """Tables of times and coefficients, with so many significant digits."""
    return _core.markdown_text(_file(solvers), digits)


def latex(solvers: Solvers, digits: int = 6) -> str:
    """The tables of markdown for LaTeX, with booktabs."""
    return _core.latex_text(_file(solvers), digits)


def sigmas(solvers: Solvers) -> str:
    """Sigmas and coefficients on a denoiser, as JSON, for tools that count in sigmas."""
    return _core.sigmas_text(_file(solvers))


def write_diffusers(solvers: Solvers, folder: PathLike) -> None:
    """Writes the folder that BespokeScheduler.from_pretrained reads; needs no diffusers itself."""
    text = _core.diffusers_config_text(_file(solvers))
    os.makedirs(folder, exist_ok=True)
    _core.write_text(os.path.join(os.fspath(folder), "scheduler_config.json"), text)


def _file(solvers: Solvers) -> "_core.SolverFile":
    return joined([solvers] if isinstance(solvers, Solver) else solvers)
