"""The model's own samples and the trajectories they come by: the core's adaptive reference."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

from bespoke import _core
from bespoke.arrays import Array
from bespoke.field import Field
from bespoke.team import Team, started_team


class Reference(NamedTuple):
    """What the model draws from some noise."""

    x: Array  # x(1), float64 where the device has it
    trajectories: "Optional[_core.Trajectories]"
    evaluations: float  # a sample, on average


def core_field(field: Field, team: Optional[Team] = None) -> "_core.Field":
    """The field as the core asks it."""
    return _core.Field(field, field.schedule, team)


def reference(field: Field, noise: Array, samples: Sequence[int], tolerance: float,
              record: bool = False, on_progress: Optional[Callable[[float], None]] = None,
              together: bool = False, evaluations: int = 0) -> Reference:
    """Integrates the field from t = 0 to 1, every sample with steps of its own.

    Where `evaluations` is not 0, each sample takes so many instead, whatever the tolerance.
    `together` gives all the same steps, by their mean error: for fields that take one time for a
    whole batch. Where torch.distributed has been started, each process draws its share.
    """
    team = None if together else started_team()
    x, evaluations, trajectories = core_field(field, team).draw(
        noise=field.arrays.state(noise), samples=list(samples), tolerance=tolerance,
        evaluations=evaluations, record=record, together=together, batch=field.batch or 0, on_progress=on_progress)
    return Reference(field.arrays.cast(x, field.arrays.wide(noise)), trajectories,
                     sum(evaluations) / len(samples))
