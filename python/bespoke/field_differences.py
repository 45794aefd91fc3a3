"""In what a model differs from the one that a solver was made for, in the words of the program.

Each function returns half a sentence that goes behind the solver's name, or nothing. A solver of the
catalogue follows from the path and the number of evaluations, and is for any model on this path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from bespoke import _core
from bespoke.clip import Clip

if TYPE_CHECKING:
    from bespoke.solver import Solver

MADE_BY_CATALOGUE = "catalogue"
_COMPARED_TIMES = (0.05, 0.35, 0.65, 0.95)


def follows_from_the_path(solver: "Solver") -> bool:
    """Whether the solver is of the catalogue."""
    return solver.provenance.get("made_by") == MADE_BY_CATALOGUE


def is_same_path(one: "_core.Schedule", other: "_core.Schedule") -> bool:
    """Whether two schedules have the same noise for their signal, whatever they are called."""
    for t in _COMPARED_TIMES:
        expected, found = (schedule.sigma(t) / schedule.alpha(t) for schedule in (one, other))
        if abs(found - expected) > 0.01 * expected:
            return False
    return True


def of_prediction(solver: "Solver", prediction: str) -> str:
    """Where the network predicts something else."""
    if follows_from_the_path(solver) or solver.prediction == prediction:
        return ""
    return f"was made for {solver.prediction} prediction, this model has {prediction} prediction"


def of_clip(solver: "Solver", clip: Optional[Clip]) -> str:
    """Where data predictions are clipped otherwise."""
    if follows_from_the_path(solver) or solver.clip == clip:
        return ""
    made, now = (found or "data that is not clipped" for found in (solver.clip, clip))
    return f"was made for {made}, this run has {now}"


def of_guidance(solver: "Solver", guidance: "_core.Guidance") -> str:
    """Where the run has a weight that the solver was not made for."""
    made = solver.file.guidance
    if guides_itself(solver) or follows_from_the_path(solver) or _covers(made, guidance):
        return ""
    return f"was made for {made}, this run has {guidance}"


def guides_itself(solver: "Solver") -> bool:
    """Whether the weight is in the solver's numbers, so that it draws by no other."""
    return bool(solver.core.guided)


def is_same_guidance(made: "_core.Guidance", asked: "_core.Guidance") -> bool:
    """Whether both are the same weight at all times."""
    return bool(made.describe() == asked.describe())


def _covers(made: "_core.Guidance", asked: "_core.Guidance") -> bool:
    """Whether the weight asked for is the one it was made for, or in its range."""
    if is_same_guidance(made, asked):
        return True
    whole, part = _ends(made.describe()), _ends(asked.describe())
    if whole is None or part is None or whole[2] != part[2]:
        return False
    return whole[0] <= part[0] and part[1] <= whole[1]


def _ends(described: Any) -> Optional[Tuple[float, float, Any]]:
    """The least and the largest weight, and when; None where it changes over time."""
    if isinstance(described, (int, float)):
        return described, described, None
    interval = described.get("interval")
    if "from" in described:
        return described["from"], described["to"], interval
    points = described["points"]
    return (points[0][1], points[0][1], interval) if len(points) == 1 else None
