"""A scheduler of diffusers that learns its solver in the pipeline's own loop.

    pipe.scheduler = LearningScheduler.from_config(pipe.scheduler.config, steps=8)
    first = pipe(prompt).images    # by 54 evaluations, from which it learns
    later = pipe(prompt).images    # by 8

A pipeline evaluates its network at scheduler.timesteps and hands every output to `step`, which says
the next state. So the first call's timesteps are those of many-step sampling and then those of the
fit; its last step returns the image of the many steps.
"""

from __future__ import annotations

import inspect
import sys
from types import FrameType
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from diffusers import ConfigMixin
from diffusers import SchedulerMixin  # a name of this module: from_pretrained looks for it here
from diffusers.configuration_utils import register_to_config
from diffusers.schedulers.scheduling_utils import KarrasDiffusionSchedulers, SchedulerOutput

from bespoke.clip import Clip
from bespoke.data_field import Conversation, DataField, to_numpy, usual_peak
from bespoke.diffusers import (DISCRETE, PREDICTIONS, BespokeScheduler, FromNoise, default_count,
                               guidance_of_caller, network_time, own_part, path_of_config)
from bespoke.errors import Error
from bespoke.learning import MOST_SAMPLES, REFERENCE, Learner, Quality, Rounding, checked_steps
from bespoke.references import reference_to
from bespoke.sampler import learnt_line, lesson_line, nearest, solver_of, told

SERVED = 1.0  # how far guidance may move from where a solver was learnt
OWN_KEYS = ("steps", "reference", "samples", "quiet", "_class_name")
SOLVER_KEYS = ("solvers", "guidance_range", "clip")  # of a BespokeScheduler


class SeenNetwork(NamedTuple):
    """A network and its adapters. It is not kept alive: it may be large, and be replaced."""

    network: Callable[[], Any]  # gives it, or None once it is gone
    adapters: Tuple[str, ...]

    @classmethod
    def of(cls, network: Any, adapters: Sequence[str] = ()) -> "SeenNetwork":
        """Of what a pipeline holds."""
        return cls(reference_to(network), tuple(adapters))

    def is_same(self, other: "SeenNetwork") -> bool:
        """Whether both are one object with the same adapters. What is gone is the same as none."""
        own = self.network()
        return own is not None and own is other.network() and self.adapters == other.adapters


class Seen(NamedTuple):
    """What is visible of the call that a solver is learnt in."""

    guidance: Optional[float]
    network: Optional[SeenNetwork]
    guided: bool  # whether a second answer of the network is subtracted

    @classmethod
    def of_caller(cls) -> "Seen":
        """Of the pipeline whose call this happens in."""
        guidance, pipe = guidance_of_caller(), pipeline_of_caller()
        return cls(guidance, _network_of(pipe),
                   guidance is not None and guidance > 1 and _guides_by_two_answers(pipe))

    def serves(self, other: "Seen") -> bool:
        """Whether what was learnt here holds there."""
        if self.network is not None and other.network is not None and (
                not self.network.is_same(other.network)):
            return False
        if self.guidance is None or other.guidance is None:
            return True
        return abs(self.guidance - other.guidance) <= SERVED + 1e-6


class Pupil:
    """A learner, where it learnt, and the shape of what it drew."""

    def __init__(self, learner: Learner, seen: Seen) -> None:
        self.learner = learner
        self.seen = seen
        self.shape: Optional[Tuple[int, ...]] = None
        self.peak = 2.0

    def quality(self) -> Dict[int, Quality]:
        """By number of steps."""
        return {nfe: learnt.quality(self.peak, self.seen.guided)
                for nfe, learnt in self.learner.learnt.items()}


class LearningScheduler(FromNoise, SchedulerMixin, ConfigMixin):
    """Learns to draw in `steps` evaluations what the network draws in many, from the first images.

    steps        evaluations of later images; for several, num_inference_steps chooses. None learns
                 what the first call asks for.
    reference    evaluations of the images that it learns from.
    samples      at most so many to learn from; it ends sooner where more gain nothing.
    quiet        whether it keeps to itself what it does.

    The others are those of the scheduler it replaces: what the network predicts, its noise, and
    whether data predictions are clipped.
    """

    _compatibles = [entry.name for entry in KarrasDiffusionSchedulers] + [
        "FlowMatchEulerDiscreteScheduler", "BespokeScheduler"]
    order = 1
    init_noise_sigma = 1.0

    @register_to_config
    def __init__(self, steps: Union[None, int, Sequence[int]] = 8, reference: int = REFERENCE,
                 samples: int = MOST_SAMPLES, quiet: bool = False,
                 prediction_type: Optional[str] = None, num_train_timesteps: int = 1000,
                 beta_start: float = 0.0001, beta_end: float = 0.02,
                 beta_schedule: Optional[str] = None,
                 trained_betas: Optional[List[float]] = None, rescale_betas_zero_snr: bool = False,
                 clip_sample: bool = False, clip_sample_range: float = 1.0,
                 thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995,
                 sample_max_value: float = 1.0, shift: float = 1.0,
                 use_dynamic_shifting: bool = False, base_shift: float = 0.5,
                 max_shift: float = 1.15, base_image_seq_len: int = 256,
                 max_image_seq_len: int = 4096) -> None:
        self._steps = None if steps is None else checked_steps(steps)
        self._field = _field_of(self.config)
        self._levels = int(num_train_timesteps)
        self._say = told(False if quiet else None)
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)
        self.sigmas: Optional[torch.Tensor] = None
        self.num_inference_steps: Optional[int] = None
        self._pupils: List[Pupil] = []
        self._pupil: Optional[Pupil] = None
        self._learns = False
        self._warned: Optional[Tuple[int, int]] = None
        self._begin_index: Optional[int] = None
        self._forget_run()

    @classmethod
    def from_config(cls, config: Any = None, **options: Any) -> Any:
        """A scheduler in the place of the one with this config."""
        config = getattr(config, "config", config)
        path_of_config(config)  # says now what no solver takes the place of
        # Given one by one: diffusers drops what the other scheduler had by default (DDPM clips).
        known = set(inspect.signature(cls.__init__).parameters) & set(config)
        given = {**_clipping(config),
                 **{key: config[key] for key in known if key not in OWN_KEYS}}
        others = {key: value for key, value in config.items() if key not in SOLVER_KEYS}
        return super().from_config(others, **{**given, **options})

    @classmethod
    def from_pretrained(cls, *arguments: Any, **keywords: Any) -> Any:
        """Loads the BespokeScheduler that save_pretrained wrote: it has learnt."""
        return BespokeScheduler.from_pretrained(*arguments, **keywords)

    # What was learnt

    @property
    def quality(self) -> Dict[int, Quality]:
        """How near later images are to those of many evaluations, by number of steps."""
        return self._latest().quality()

    @property
    def learning(self) -> bool:
        """Whether the next call is one to learn from."""
        return not self._pupils or self._pupils[-1].learner.wants_more

    def relearn(self) -> None:
        """Forgets all that was learnt: for changes of the network that cannot be seen from here."""
        self._pupils, self._pupil = [], None
        self._forget_run()

    def learnt(self) -> BespokeScheduler:
        """A scheduler with the solvers learnt in the latest call."""
        pupil = self._latest()
        guidance = pupil.seen.guidance
        solvers = [solver_of(pupil.learner.learnt[nfe], self._field, quality)
                   for nfe, quality in pupil.quality().items()]
        config = {key: value for key, value in self.config.items() if key not in OWN_KEYS}
        return BespokeScheduler.from_solvers(
            solvers, config, guidance_range=None if guidance is None else
            (guidance - SERVED, guidance + SERVED))

    def save_pretrained(self, *arguments: Any, **keywords: Any) -> Any:
        """Saves what was learnt, which loads as a BespokeScheduler."""
        return self.learnt().save_pretrained(*arguments, **keywords)

    # What pipelines read

    def set_timesteps(self, num_inference_steps: Optional[int] = None, device: Any = None,
                      timesteps: Any = None, sigmas: Any = None, mu: Optional[float] = None,
                      **ignored: Any) -> None:
        """Many for a call to learn from, few for others."""
        if timesteps is not None:
            raise Error("a solver has times of its own; do not pass timesteps")
        if sigmas is not None:
            num_inference_steps = default_count(sigmas)
        self._forget_run()
        self._pupil = self._pupil_for(Seen.of_caller(), num_inference_steps)
        learner = self._pupil.learner
        self._learns = learner.wants_more
        self.num_inference_steps = self._chosen(learner, num_inference_steps)
        times = learner.times() if self._learns else (
            learner.learnt[self.num_inference_steps].times[:-1])
        if self._learns:
            self._say(lesson_line(learner, len(times)))
        numbers = [self._network_time(t) for t in times]
        flow = self._field.sign < 0
        self.timesteps = torch.tensor(numbers, dtype=torch.float32 if flow else torch.int64,
                                      device=device)
        schedule = self._field.schedule
        self.sigmas = torch.tensor([schedule.sigma(t) if flow else schedule.sigma(t)
                                    / schedule.alpha(t) for t in [*times, 1.0]],
                                   dtype=torch.float32)

    def step(self, model_output: torch.Tensor, timestep: Any, sample: torch.Tensor,
             generator: Any = None, eta: float = 0.0,
             use_clipped_model_output: Optional[bool] = None, return_dict: bool = True,
             **ignored: Any) -> Union[SchedulerOutput, Tuple[torch.Tensor]]:
        """The next state. Steps are counted; times may repeat and are not looked up."""
        if self._pupil is None:
            raise Error("call set_timesteps before step")
        if self._step_index is None:
            self._begin(sample)
        talk = self._talk
        if talk is None or talk.wanted is None:
            raise Error(f"all {len(self.timesteps)} steps were taken; call set_timesteps to begin "
                        "again")
        self._check_untouched(sample)
        self._check_time(talk.wanted.time, timestep)
        output = own_part(model_output, sample)
        data = self._field.data(talk.wanted.time, to_numpy(sample), to_numpy(output))
        state = torch.from_numpy(talk.tell(data)).to(sample)
        self._returned = state
        assert self._step_index is not None
        self._step_index += 1
        if talk.samples is not None:
            self._end(talk.samples)
        return SchedulerOutput(prev_sample=state) if return_dict else (state,)

    def _path(self) -> Tuple[Any, int]:
        return self._field.schedule, self._levels

    # The run

    def _forget_run(self) -> None:
        self._step_index: Optional[int] = None
        self._talk: Optional[Conversation] = None
        self._returned: Optional[torch.Tensor] = None

    def _begin(self, sample: torch.Tensor) -> None:
        pupil = self._pupil
        assert pupil is not None and self.num_inference_steps is not None
        shape = tuple(sample.shape[1:])
        if pupil.shape not in (None, shape):
            warnings.warn(f"the solver was learnt from samples of the shape {pupil.shape} and "
                          f"draws {shape} now; call scheduler.relearn() to learn it anew")
        noise = to_numpy(sample)
        self._talk = Conversation(pupil.learner.lesson(noise) if self._learns else
                                  pupil.learner.sample(self.num_inference_steps, noise))
        self._step_index = 0

    def _end(self, samples: np.ndarray) -> None:
        pupil = self._pupil
        assert pupil is not None
        self._returned = None
        if not self._learns:
            return
        pupil.shape, pupil.peak = tuple(samples.shape[1:]), usual_peak(samples)
        if pupil not in self._pupils:
            self._pupils.append(pupil)
        self._say(learnt_line(pupil.learner, pupil.peak, pupil.seen.guided))

    def _check_time(self, wanted: float, given: Any) -> None:
        expected = self._network_time(wanted)
        if abs(float(given) - expected) > 1e-3 * (1 + abs(expected)):
            raise Error(f"the pipeline asked its network about time {float(given):.6g} instead of "
                        f"{expected:.6g}: it does not take its times from its scheduler")

    def _network_time(self, t: float) -> float:
        number = network_time(self._field.schedule, t, self._levels)
        return number if self._field.sign < 0 else float(round(number))

    # Which solver

    def _pupil_for(self, seen: Seen, asked: Optional[int]) -> Pupil:
        for pupil in reversed(self._pupils):
            if pupil.seen.serves(seen):
                return pupil
        if self._pupils:
            self._say(f"guidance or network changed (guidance_scale {seen.guidance}); learning "
                      "anew")
        steps = self._steps or checked_steps(asked if asked and 2 <= asked <= 20 else 8)
        rounding = Rounding("bf16") if self._field.sign < 0 else Rounding("integer", self._levels)
        return Pupil(Learner(self._field.schedule, steps, rounding=rounding,
                             reference=self.config.reference, samples=self.config.samples), seen)

    def _chosen(self, learner: Learner, asked: Optional[int]) -> int:
        chosen = nearest(learner.steps, asked or learner.steps[-1])
        if asked != chosen and not self._learns and self._warned != (asked, chosen):
            self._warned = (asked or 0, chosen)
            self._say(f"num_inference_steps is {asked}; taking the {chosen} that are learnt")
        return chosen

    def _latest(self) -> Pupil:
        if not self._pupils:
            raise Error("nothing is learnt yet; draw an image first")
        return self._pupils[-1] if self._pupil not in self._pupils else self._pupil


def accelerate(pipe: Any, steps: Union[None, int, Sequence[int]] = 8, **options: Any) -> Any:
    """Gives a pipeline of diffusers a LearningScheduler, and the pipeline back."""
    if not hasattr(pipe, "scheduler") or not hasattr(pipe.scheduler, "config"):
        raise Error(f"accelerate takes a pipeline of diffusers, found {type(pipe).__name__}")
    pipe.scheduler = LearningScheduler.from_config(pipe.scheduler.config, steps=steps, **options)
    return pipe


def pipeline_of_caller() -> Any:
    """The pipeline whose call this happens in, or None."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        pipe = frame.f_locals.get("self")
        if hasattr(pipe, "scheduler") and hasattr(pipe, "__call__"):
            return pipe
        frame = frame.f_back
    return None


def _network_of(pipe: Any) -> Optional[SeenNetwork]:
    """A pipeline's network and its adapters, where that can be seen."""
    network = getattr(pipe, "transformer", None) or getattr(pipe, "unet", None)
    if network is None:
        return None
    active = getattr(network, "active_adapters", None)
    try:
        return SeenNetwork.of(network, active() if callable(active) else ())
    except ValueError:  # it has none
        return SeenNetwork.of(network)


def _guides_by_two_answers(pipe: Any) -> bool:
    """Not where the scale is an input of the network (Flux). Where that is not known, it does."""
    known = getattr(pipe, "do_classifier_free_guidance", None)
    if known is not None:
        return bool(known)
    return not hasattr(getattr(getattr(pipe, "transformer", None), "config", None),
                       "guidance_embeds")


def _field_of(config: Any) -> DataField:
    """The network's path and what it predicts, from the config of a scheduler."""
    kind = config.prediction_type
    flow = kind == "flow_prediction" or config.beta_schedule is None
    kind = "flow_prediction" if flow else kind or "epsilon"
    if kind not in PREDICTIONS:
        raise Error(f"the pipeline's prediction_type is {kind!r}; known are "
                    f"{', '.join(PREDICTIONS)}")
    clip = Clip.of_diffusers(config)
    if flow:
        return DataField.of("fm-ot", "velocity", clip, sign=-1.0)
    return DataField.of(_discrete(config), PREDICTIONS[kind], clip)


def _clipping(config: Any) -> Dict[str, Any]:
    """The range of a BespokeScheduler's config as others have it; thresholding is kept there."""
    clip = Clip.of(config.get("clip"))
    if clip is None or clip.quantile or clip.least != -clip.most:
        return {}
    return {"clip_sample": True, "clip_sample_range": clip.most}


def _discrete(config: Any) -> Dict[str, Any]:
    path = path_of_config(config)
    if path is None:
        raise Error(f"the pipeline's beta_schedule is {config.beta_schedule!r}; known are "
                    f"{', '.join(DISCRETE)}")
    return path
