"""A stand-in for diffusers where it is not installed: as much of it as a scheduler touches."""

from .configuration_utils import ConfigMixin
from .schedulers.scheduling_utils import SchedulerMixin

__all__ = ["ConfigMixin", "SchedulerMixin"]
