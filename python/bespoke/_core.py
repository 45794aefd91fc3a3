"""Stands in for the compiled module: Python finds that one first where it is built."""

from typing import Any

from bespoke import plain_core
from bespoke.files import write_text  # noqa: F401
from bespoke.plain_core import (Conversion, Guidance, NsSolver, Schedule,  # noqa: F401
                                SolverFile, built_version, lower, lower_to_sigmas, normal_noise,
                                parse_prediction, predictions, schedules)

__version__ = built_version()


def __getattr__(name: str) -> Any:
    return getattr(plain_core, name)
