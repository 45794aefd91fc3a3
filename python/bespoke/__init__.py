"""Bespoke solvers for diffusion and flow models: the same samples in a few evaluations.

    result = bespoke.distill(velocity, noise, nfe=8)     # any callable u(t, x)
    samples = result.solver.sample(velocity, noise)

    sampler = bespoke.Sampler(velocity, steps=8)         # or learnt from the first samples
    samples = sampler(noise)

NumPy is all it needs. Finding solvers needs the compiled module; running and learning them do not.
The exporter of PyTorch models (export_model) needs PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from bespoke._core import Schedule, __version__  # noqa: F401, read by bespoke.__version__
    from bespoke.adapters import (DiffusersFlux, DiffusersSD3, DiffusersSDXL,
                                  DiffusersUNet)
    from bespoke.comparison import Comparison, ComparisonRow, compare
    from bespoke.errors import DivergedError, Error
    from bespoke.exporting import Export, ExportError, export_model
    from bespoke.learning import Quality
    from bespoke.learning_scheduler import accelerate
    from bespoke.methods import distill, fit
    from bespoke.problem import Problem
    from bespoke.results import Result, Results
    from bespoke.sampler import Sampler
    from bespoke.saving import save_solvers
    from bespoke.starting_noise import noise
    from bespoke.solver import LoweredSolver, Solver, catalogue, grids, schedules

# Where each name lives. They are imported when asked for: the exporter without the compiled
# module, all else without PyTorch.
_HOME = {
    "Comparison": "comparison", "ComparisonRow": "comparison", "compare": "comparison",
    "DiffusersFlux": "adapters", "DiffusersSD3": "adapters", "DiffusersSDXL": "adapters",
    "DiffusersUNet": "adapters",
    "DivergedError": "errors", "Error": "errors",
    "Export": "exporting", "ExportError": "exporting", "export_model": "exporting",
    "distill": "methods", "fit": "methods",
    "Problem": "problem", "Result": "results", "Results": "results",
    "Quality": "learning", "Sampler": "sampler", "accelerate": "learning_scheduler",
    "noise": "starting_noise",
    "save_solvers": "saving",
    "LoweredSolver": "solver", "Schedule": "_core", "Solver": "solver", "catalogue": "solver",
    "grids": "solver", "schedules": "solver", "__version__": "_core",
}

__all__ = ["Comparison", "ComparisonRow", "DiffusersFlux", "DiffusersSD3", "DiffusersSDXL",
           "DiffusersUNet", "DivergedError", "Error", "Export", "ExportError", "LoweredSolver",
           "Problem", "Quality", "Result", "Results", "Sampler", "Schedule", "Solver", "accelerate",
           "catalogue", "compare", "distill", "export_model", "fit", "grids", "noise",
           "save_solvers", "schedules"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bespoke' has no attribute {name!r}")
    value = getattr(import_module(f"bespoke.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted([*__all__, "__version__"])
