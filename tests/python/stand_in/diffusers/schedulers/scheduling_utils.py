from dataclasses import dataclass
from enum import Enum
from typing import Any


class KarrasDiffusionSchedulers(Enum):
    DDIMScheduler = 1


@dataclass
class SchedulerOutput:
    prev_sample: Any


class SchedulerMixin:
    pass
