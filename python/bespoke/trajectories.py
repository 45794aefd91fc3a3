"""The model's own samples and the trajectories they come by: the core's adaptive reference."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Sequence

from bespoke import _core
from bespoke.arrays import Array
from bespoke.field import Field
from bespoke.team import Team, started_team


class Reference(NamedTuple):
    """What the model draws from some noise."""

    x: Array  # x(1) of the samples that are finite, float64 where the device has it
    trajectories: "Optional[_core.Trajectories]"  # of the same
    evaluations: float  # a sample, on average
    samples: List[int]  # their numbers

    def left_out(self, count: int) -> str:
        """A sentence on those that are not, of `count`; or nothing."""
        missing = count - len(self.samples)
        if not missing:
            return ""
        return (f"{missing} of {count} samples left out: the model's own are not finite there")


def core_field(field: Field, team: Optional[Team] = None) -> "_core.Field":
    """The field as the core asks it."""
    return _core.Field(field, field.schedule, team)


def reference(field: Field, noise: Array, samples: Sequence[int], tolerance: float,
              record: bool = False, on_progress: Optional[Callable[[float], None]] = None,
              together: bool = False, evaluations: int = 0) -> Reference:
    """Integrates the field from t = 0 to 1, every sample with steps of its own.

    Where `evaluations` is not 0, each sample takes so many instead, whatever the tolerance.
    `together` gives all the same steps, by their mean error: for fields that take one time for a
    whole batch. Where torch.distributed has been started, each process draws its share. Samples
    that are not finite are left out; more than half are an error.
    """
    team = None if together else started_team()
    x, spent, trajectories, finite = core_field(field, team).draw(
        noise=field.arrays.state(noise), samples=list(samples), tolerance=tolerance,
        evaluations=evaluations, record=record, together=together, batch=field.batch or 0,
        on_progress=on_progress)
    return Reference(field.arrays.cast(x, field.arrays.wide(noise)), trajectories,
                     sum(spent) / len(samples), [samples[row] for row in finite])
