"""Solvers as a scheduler of diffusers, in unmodified pipelines.

    pipe.scheduler = BespokeScheduler.from_solvers("bns.solver.json", pipe.scheduler)
    image = pipe(prompt, num_inference_steps=8).images[0]
"""

from __future__ import annotations

import json
import os
import sys
from types import FrameType
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from diffusers import ConfigMixin
from diffusers import SchedulerMixin  # a name of this module: from_pretrained looks for it here
from diffusers.configuration_utils import register_to_config
from diffusers.schedulers.scheduling_utils import KarrasDiffusionSchedulers, SchedulerOutput

from bespoke.clip import Clip, ClipLike
from bespoke.data_field import DataField, to_numpy
from bespoke.errors import Error
from bespoke.field_differences import is_same_path, of_clip, of_prediction
from bespoke.results import Result
from bespoke.solver import LoweredSolver, Schedule, Solver

__all__ = ["BespokeScheduler", "LearningScheduler"]  # noqa: F822, by __getattr__

SolverLike = Union[Solver, Result, str, "os.PathLike[str]"]

# What diffusers calls what a network predicts, and what we do. A flow's output is dx/dsigma, the
# negative velocity.
PREDICTIONS = {"epsilon": "noise", "v_prediction": "v", "sample": "data",
               "flow_prediction": "velocity"}
# Keys that pipelines object to, or would change the samples by.
REFUSED_KEYS = {"clip_sample": False, "steps_offset": 1}
DISCRETE = {"linear": "ddpm-linear", "scaled_linear": "ddpm-scaled-linear",
            "squaredcos_cap_v2": "ddpm-cosine"}


class FromNoise:
    """What schedulers of solvers have in common: they run from noise alone, step by step."""

    _step_index: Optional[int]
    _begin_index: Optional[int]
    _returned: Optional[torch.Tensor]  # the state that the last step returned

    def _path(self) -> Tuple[Any, int]:
        """The network's path and its number of levels."""
        raise NotImplementedError

    @property
    def step_index(self) -> Optional[int]:
        """Steps taken; None before the first."""
        return self._step_index

    @property
    def begin_index(self) -> Optional[int]:
        """Where the pipeline begins."""
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        """Only from the beginning."""
        if begin_index:
            raise Error(f"a solver runs from noise alone, not from step {begin_index}; "
                        "use strength 1, or another scheduler for this")
        self._begin_index = 0

    def scale_model_input(self, sample: torch.Tensor, timestep: Any = None) -> torch.Tensor:
        """Networks get the state as it is."""
        return sample

    def add_noise(self, original_samples: torch.Tensor, noise: torch.Tensor,
                  timesteps: torch.Tensor) -> torch.Tensor:
        """The path's own states alpha x + sigma noise, at the network's times."""
        schedule, levels = self._path()
        times = [our_time(schedule, float(time), levels) for time in timesteps.flatten()]
        shape = (-1,) + (1,) * (original_samples.dim() - 1)

        def weights(values: List[float]) -> torch.Tensor:
            return torch.tensor(values, dtype=original_samples.dtype,
                                device=original_samples.device).reshape(shape)
        return (weights([schedule.alpha(t) for t in times]) * original_samples
                + weights([schedule.sigma(t) for t in times]) * noise)

    def scale_noise(self, sample: torch.Tensor, timestep: torch.Tensor,
                    noise: torch.Tensor) -> torch.Tensor:
        """The same, as flow pipelines call it."""
        return self.add_noise(sample, noise, timestep)

    def __len__(self) -> int:
        return self._path()[1]

    def _check_untouched(self, sample: torch.Tensor) -> None:
        if self._returned is None or sample is self._returned:
            return
        if sample.shape != self._returned.shape or not torch.equal(
                sample, self._returned.to(sample)):
            raise Error("the state was edited between steps, by a callback or an inpainting mask; "
                        "a solver makes its next state of the noise and the outputs alone and "
                        "would drop the edit, so use another scheduler for this")


class BespokeScheduler(FromNoise, SchedulerMixin, ConfigMixin):
    """Runs the solver of `num_inference_steps` evaluations out of those it holds.

    Data predictions are clipped as the solvers say, or as `clip` does: [least, most], or dynamic
    thresholding, {"quantile": 0.995, "cap": 1.0}; and where neither says it, as the scheduler does
    that it replaces.

    The next state is made of the noise and the outputs so far, not of the state that comes back, so
    what edits states on the way is refused: callbacks that do, inpainting, strength < 1.
    """

    _compatibles = [entry.name for entry in KarrasDiffusionSchedulers] + [
        "FlowMatchEulerDiscreteScheduler"]
    order = 1

    @register_to_config
    def __init__(self, solvers: Optional[List[Dict[str, Any]]] = None,
                 prediction_type: Optional[str] = None, num_train_timesteps: int = 1000,
                 shift: float = 1.0, use_dynamic_shifting: bool = False, base_shift: float = 0.5,
                 max_shift: float = 1.15, base_image_seq_len: int = 256,
                 max_image_seq_len: int = 4096,
                 guidance_range: Optional[List[float]] = None,
                 clip: Any = None) -> None:
        held = [Solver.parse(json.dumps(solver)) for solver in solvers or []]
        self._solvers = {solver.nfe: solver for solver in held}
        if len(self._solvers) < len(held):
            raise Error("two solvers have the same number of evaluations; the pipeline could not "
                        "choose")
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1).float()
        self.sigmas: Optional[torch.Tensor] = None
        self.num_inference_steps: Optional[int] = None
        self._scale_was_read = False
        self._begin_index: Optional[int] = None
        self._lowered: Optional[LoweredSolver] = None
        self._data: Optional[DataField] = None  # where data predictions are clipped
        self._step_index: Optional[int] = None
        self._start: Optional[torch.Tensor] = None
        self._returned: Optional[torch.Tensor] = None
        self._outputs: List[torch.Tensor] = []

    @classmethod
    def from_config(cls, config: Any = None, **options: Any) -> Any:
        """A scheduler in the place of the one with this config, for networks on the same path."""
        given = dict(getattr(config, "config", config) or {})
        if options.get("clip") is None:
            options["clip"] = _clip_of_config(given)
        kept = {key: value for key, value in given.items() if REFUSED_KEYS.get(key, value) == value}
        found = super().from_config(kept, **options)
        scheduler = found[0] if isinstance(found, tuple) else found
        path = path_of_config(given)
        for solver in scheduler._solvers.values():
            check_path(solver, path)
        return found

    @classmethod
    def from_solvers(cls, solvers: Union[SolverLike, Sequence[SolverLike]], scheduler: Any = None,
                     prediction_type: Optional[str] = None,
                     guidance_range: Optional[Sequence[float]] = None,
                     clip: ClipLike = None) -> "BespokeScheduler":
        """From Solvers, Results or files of one or several, in the place of a pipeline's scheduler.

        `scheduler` is the one it replaces, or its config: what the network predicts, its path, how
        it counts time and whether data predictions are clipped are taken from it, and kept for the
        way back. `guidance_range` is the least and the largest guidance_scale to run with, where it
        is not to be what the solvers say; `clip` what is done to data predictions, where they do
        not say it, False to clip nothing.
        """
        if isinstance(solvers, (Solver, Result, str, os.PathLike)):
            solvers = [solvers]
        held = [solver for given in solvers for solver in _solvers(given)]
        if not held:
            raise Error("give at least one solver")
        config = dict(getattr(scheduler, "config", scheduler) or {})
        kind = prediction_type or _prediction_type(held, config)
        own = Clip.of(clip)
        found = cls.from_config(config, solvers=[json.loads(solver.to_json()) for solver in held],
                                prediction_type=kind,
                                guidance_range=guidance_range and [*map(float, guidance_range)],
                                clip=clip if own is None else own.describe())
        for solver in held:
            found._check(solver)
            check_path(solver, _path_of_alphas(scheduler))
            found._warn_of(solver, asked_for=clip is not None)
        return found

    # What pipelines read

    @property
    def init_noise_sigma(self) -> float:
        """What the pipeline is to multiply its noise by."""
        self._scale_was_read = True
        scales = {solver.start_scale for solver in self._solvers.values()}
        if self.num_inference_steps is not None:
            return self._solvers[self.num_inference_steps].start_scale
        if len(scales) > 1:
            raise Error("the solvers scale their noise differently; this pipeline asks for the "
                        "scale before it says how many steps it takes: hold one solver alone")
        return scales.pop() if scales else 1.0

    def set_timesteps(self, num_inference_steps: Optional[int] = None, device: Any = None,
                      timesteps: Any = None, sigmas: Any = None, mu: Optional[float] = None,
                      **ignored: Any) -> None:
        """Chooses the solver with this many evaluations."""
        if timesteps is not None:
            raise Error("a solver has times of its own; do not pass timesteps")
        if sigmas is not None:
            num_inference_steps = default_count(sigmas)
        if num_inference_steps not in self._solvers:
            held = ", ".join(map(str, sorted(self._solvers))) or "no solver at all"
            raise Error(f"num_inference_steps is {num_inference_steps}; this scheduler holds "
                        f"solvers for {held}")
        assert num_inference_steps is not None
        solver = self._solvers[num_inference_steps]
        self._check(solver)
        self._check_guidance(solver, guidance_of_caller())
        kind = PREDICTIONS[self._kind(solver)]
        clip = self._clip(solver)
        self._data = None
        if clip is not None:
            sign = -1.0 if kind == "velocity" else 1.0
            self._data = DataField.of(solver.schedule, kind, clip, sign)
            kind = "data"
        lowered = solver.lower(kind)
        self._lowered = lowered
        self.num_inference_steps = num_inference_steps
        levels = int(self.config.num_train_timesteps)
        numbers = [network_time(solver.schedule, t, levels) for t in lowered.times[:-1]]
        self.timesteps = torch.tensor(numbers, dtype=torch.float32, device=device)
        self.sigmas = torch.tensor(lowered.sigmas, dtype=torch.float32)
        self._forget()

    def step(self, model_output: torch.Tensor, timestep: Any, sample: torch.Tensor,
             generator: Any = None, eta: float = 0.0,
             use_clipped_model_output: Optional[bool] = None, return_dict: bool = True,
             **ignored: Any) -> Union[SchedulerOutput, Tuple[torch.Tensor]]:
        """The next state. Steps are counted; times may repeat and are not looked up."""
        if self.num_inference_steps is None or self._lowered is None:
            raise Error("call set_timesteps before step")
        if self._step_index is None:
            self._begin(sample)
        index = self._step_index
        assert index is not None
        if index >= self.num_inference_steps:
            raise Error(f"all {self.num_inference_steps} steps were taken; call set_timesteps to "
                        "begin again")
        self._check_untouched(sample)
        self._outputs.append(self._prediction(index, own_part(model_output, sample), sample))
        state = self._combined(index).to(model_output.dtype)
        self._returned = state
        self._step_index = index + 1
        if self._step_index == self.num_inference_steps:
            self._outputs, self._start, self._scale_was_read = [], None, False
        return SchedulerOutput(prev_sample=state) if return_dict else (state,)

    def _path(self) -> Tuple[Any, int]:
        return self._schedule(), int(self.config.num_train_timesteps)

    # The run

    def _forget(self) -> None:
        self._step_index, self._start, self._returned, self._outputs = None, None, None, []

    def _begin(self, sample: torch.Tensor) -> None:
        assert self._lowered is not None
        scale = self._lowered.start_scale
        if scale != 1 and not self._scale_was_read:
            raise Error("this pipeline did not multiply its noise by init_noise_sigma, "
                        f"{scale:.6g} for this solver; pass latents= times that, or take a "
                        "solver whose start scale is 1 (fit or distill with start_scale=1)")
        self._step_index = 0
        self._start = sample.detach().float()
        self._outputs = []

    def _prediction(self, index: int, output: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
        """The output, or the data prediction where it is clipped."""
        if self._data is None:
            return output.detach()
        assert self._lowered is not None
        data = self._data.data(self._lowered.times[index], to_numpy(sample), to_numpy(output))
        return torch.from_numpy(data).to(device=sample.device, dtype=torch.float32)

    def _combined(self, index: int) -> torch.Tensor:
        assert self._lowered is not None and self._start is not None
        sign = -1.0 if self._is_flow() and self._data is None else 1.0
        state = self._lowered.a[index] * self._start
        for factor, output in zip(self._lowered.b[index], self._outputs):
            state = state + sign * factor * output.float()
        return state

    # What the network is

    def _kind(self, solver: Solver) -> str:
        return self.config.prediction_type or _prediction_type([solver], {})

    def _clip(self, solver: Solver) -> Optional[Clip]:
        return solver.clip or Clip.of(self.config.clip)

    def _warn_of(self, solver: Solver, asked_for: bool) -> None:
        """Of what the solver was not made for; not of a clip that the user asked for."""
        doubts = [of_prediction(solver, PREDICTIONS[self._kind(solver)])]
        if not asked_for:
            doubts.append(of_clip(solver, self._clip(solver)))
        for doubt in doubts:
            if doubt:
                warnings.warn(f"solver {solver.name} {doubt}; fit one for this pipeline")

    def _is_flow(self) -> bool:
        assert self.num_inference_steps is not None
        return self._kind(self._solvers[self.num_inference_steps]) == "flow_prediction"

    def _schedule(self) -> Schedule:
        if not self._solvers:
            raise Error("this scheduler holds no solver; make it with from_solvers")
        chosen = self.num_inference_steps or next(iter(self._solvers))
        return self._solvers[chosen].schedule

    def _check_guidance(self, solver: Solver, scale: Optional[float]) -> None:
        allowed = self.config.guidance_range or _guidance_range(solver)
        if scale is None or allowed is None:
            return
        low, high = allowed
        if not low - 1e-6 <= scale <= high + 1e-6:
            meant = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            raise Error(f"guidance_scale is {scale:g}; solver {solver.name} is for {meant}: fit "
                        "one for this scale, or give from_solvers a wider guidance_range")

    def _check(self, solver: Solver) -> None:
        kind = self._kind(solver)
        if kind not in PREDICTIONS:
            raise Error(f"prediction_type must be one of {', '.join(PREDICTIONS)}, found {kind!r}")
        flow = solver.schedule.name == "fm-ot"
        if flow != (kind == "flow_prediction"):
            raise Error(f"solver {solver.name} is for the path {solver.schedule.name}, which does "
                        f"not go with the prediction_type {kind!r} of the pipeline")
        network_time(solver.schedule, 0.5, int(self.config.num_train_timesteps))


def guidance_of_caller() -> Optional[float]:
    """The guidance_scale of the pipeline's call that this happens in: schedulers are not told it."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        scale = frame.f_locals.get("guidance_scale")
        if isinstance(scale, (int, float)) and hasattr(frame.f_locals.get("self"), "scheduler"):
            return float(scale)
        frame = frame.f_back
    return None


def own_part(output: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
    """Without the learned variance that some networks put behind their prediction."""
    if output.shape == sample.shape:
        return output
    if output.dim() > 1 and output.shape[1] == 2 * sample.shape[1]:
        return output[:, :sample.shape[1]]
    raise Error(f"the network's output has the shape {tuple(output.shape)}, the state "
                f"{tuple(sample.shape)}")


def _solvers(given: SolverLike) -> List[Solver]:
    if isinstance(given, Result):
        return [given.solver]
    return [given] if isinstance(given, Solver) else Solver.load_all(given)


def _guidance_range(solver: Solver) -> Optional[Tuple[float, float]]:
    """In guidance_scale, 1 + w. Files with w = 0 may come from a field that was guided already."""
    guidance = solver.guidance
    if isinstance(guidance, Mapping):
        least, most = guidance.get("from"), guidance.get("to")
        return None if least is None or most is None else (1 + least, 1 + most)
    return (1 + guidance, 1 + guidance) if guidance else None


def _prediction_type(solvers: List[Solver], config: Mapping[str, Any]) -> str:
    if solvers[0].schedule.name == "fm-ot" or _is_flow_scheduler(config):
        return "flow_prediction"
    if config.get("prediction_type"):
        return str(config["prediction_type"])
    names = {ours: theirs for theirs, ours in PREDICTIONS.items() if ours != "velocity"}
    if solvers[0].prediction not in names:
        raise Error(f"solver {solvers[0].name} is for {solvers[0].prediction} predictions; say "
                    "what the network predicts with prediction_type")
    return names[solvers[0].prediction]


def _clip_of_config(config: Mapping[str, Any]) -> Any:
    """What is done to data predictions, by the config of one of ours or of another's."""
    if config.get("clip") is not None:
        return config["clip"]
    found = Clip.of_diffusers(config)
    return None if found is None else found.describe()


def _is_flow_scheduler(config: Mapping[str, Any]) -> bool:
    """Whether a scheduler with this config is for flows; ours have all of its keys."""
    says_nothing_else = not (config.get("prediction_type") or config.get("beta_schedule")
                             or "solvers" in config)
    return says_nothing_else and ("shift" in config or "use_dynamic_shifting" in config)


def path_of_config(config: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """The path of the network that a scheduler with this config is for; None where it does not say.

    Refused are schedulers that no solver takes the place of.
    """
    if "sigma_data" in config:
        raise Error("the pipeline's scheduler is of EDM's kind, whose networks do not take a "
                    "state as it is; solvers are for noise, v, data and flow predictions")
    if config.get("prediction_type") == "flow_prediction" or _is_flow_scheduler(config):
        return {"name": "fm-ot"}
    zero_snr = ends_without_signal(config)
    if config.get("trained_betas") is not None:
        alphas = np.cumprod(1 - np.asarray(config["trained_betas"], dtype=np.float64))
        return {"name": "table", "alphas_cumprod": alphas.tolist(), "zero_terminal_snr": zero_snr}
    name = DISCRETE.get(str(config.get("beta_schedule")))
    if name is None:
        return None
    path = {"name": name, "steps": int(config.get("num_train_timesteps", 1000)),
            "zero_terminal_snr": zero_snr}
    if name == "ddpm-cosine":
        return path
    return {**path, "beta_start": config.get("beta_start", 0.0001),
            "beta_end": config.get("beta_end", 0.02)}


def _path_of_alphas(scheduler: Any) -> Optional[Dict[str, Any]]:
    """The same from the levels of a scheduler whose config has betas that we have no name for."""
    config, alphas = getattr(scheduler, "config", {}), getattr(scheduler, "alphas_cumprod", None)
    if alphas is None or path_of_config(config) is not None:
        return None
    return {"name": "table", "alphas_cumprod": [float(alpha) for alpha in alphas]}


def check_path(solver: Solver, path: Optional[Dict[str, Any]]) -> None:
    """Refuses a solver for another path than the network's, where that is known."""
    if path is None:
        return
    schedule = Schedule(path)
    if not is_same_path(schedule, solver.schedule):
        raise Error(f"solver {solver.name} is for the path {_said(solver.schedule)}, the "
                    f"pipeline's network for {_said(schedule)}; fit or distil one for that")


def _said(schedule: Schedule) -> str:
    """A path as users write it."""
    described = schedule.describe()
    numbers = [f"{key}={value:g}" for key, value in described.items()
               if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return ":".join([schedule.name, *([",".join(numbers)] if numbers else [])])


def ends_without_signal(config: Any) -> bool:
    """Whether the betas of this config are rescaled so; a noise prediction is refused then."""
    if not config.get("rescale_betas_zero_snr"):
        return False
    if (config.get("prediction_type") or "epsilon") == "epsilon":
        raise Error("the pipeline's schedule ends without signal (rescale_betas_zero_snr), where "
                    "its network's noise prediction does not determine the data")
    return True


def _levels(schedule: Any) -> Optional[int]:
    description = schedule.describe()
    if description["name"] == "table":
        return len(description["alphas_cumprod"])
    return int(description["steps"]) if "steps" in description else None


def network_time(schedule: Any, t: float, levels: int) -> float:
    """How networks in diffusers count time: levels * sigma on flow paths, the index otherwise."""
    if schedule.name == "fm-ot":
        return levels * (1 - t)
    own = _levels(schedule)
    if {"start", "end", "denoise"} & set(schedule.describe()):
        raise Error(f"pipelines run whole paths, and the solver's is a part of one, "
                    f"{schedule.describe()}")
    if own is None:
        raise Error("networks of diffusers do not count time as the schedule "
                    f"{schedule.name} does; solvers for fm-ot, the ddpm schedules and tables of "
                    "alphas_cumprod can be run")
    if own != levels:
        raise Error(f"the solver's schedule has {own} levels, the pipeline's network {levels}")
    return max(levels * (1 - t) - 1, 0.0)


def our_time(schedule: Any, time: float, levels: int) -> float:
    return 1 - time / levels if schedule.name == "fm-ot" else 1 - (time + 1) / levels


def default_count(sigmas: Any) -> int:
    """Flux always passes these; other values would be dropped."""
    values = np.asarray(sigmas, dtype=np.float64)
    if not np.allclose(values, np.linspace(1, 1 / len(values), len(values))):
        raise Error("a solver has sigmas of its own; do not pass any")
    return len(values)


def __getattr__(name: str) -> Any:
    """LearningScheduler is made of parts of this module, so it is imported when asked for."""
    if name in ("LearningScheduler", "accelerate"):
        from bespoke import learning_scheduler
        return getattr(learning_scheduler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
