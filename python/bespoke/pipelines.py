"""A pipeline of diffusers as a callable: its own network calls, at states and times we choose.

A scheduler decides the next state (what `step` returns) and the next time (`timesteps`). So one
ordinary call of a pipeline, in a thread that waits in `step`, answers as many questions as asked:
with its own conditions, guidance, offloading and compiled modules.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from diffusers import ConfigMixin, SchedulerMixin
from diffusers.configuration_utils import register_to_config
from diffusers.schedulers.scheduling_utils import SchedulerOutput

from bespoke import checks
from bespoke.clip import Clip
from bespoke.diffusers import (PREDICTIONS, BespokeScheduler, ends_without_signal,
                               guidance_of_caller, network_time, own_part)
from bespoke.errors import Error
from bespoke.problem import Problem, StartScale
from bespoke.results import Evaluations, Results, checked_nfes
from bespoke.progress import ProgressLike
from bespoke.solver import Schedule
from bespoke.starting_noise import noise as starting_noise

QUESTIONS = 10000  # of one pipeline call, before the next is begun
# What pipelines read of a scheduler's config.
ORACLE_KEYS = ("num_train_timesteps", "shift", "use_dynamic_shifting", "base_shift", "max_shift",
               "base_image_seq_len", "max_image_seq_len")

__all__ = ["fit_pipeline"]


class _Stop(BaseException):
    """Ends a pipeline call from inside."""


class OracleScheduler(SchedulerMixin, ConfigMixin):
    """Lets each thread's pipeline call wait for the states and times it is asked about."""

    order = 1

    @register_to_config
    def __init__(self, num_train_timesteps: int = 1000, shift: float = 1.0,
                 use_dynamic_shifting: bool = False, base_shift: float = 0.5,
                 max_shift: float = 1.15, base_image_seq_len: int = 256,
                 max_image_seq_len: int = 4096) -> None:
        self.here = threading.local()
        self.scale_was_read = False
        self.guidance_scale: Optional[float] = None  # of the pipeline's last call

    @property
    def init_noise_sigma(self) -> float:
        """Noise stays as it is; that it was asked for is noted."""
        self.scale_was_read = True
        return 1.0

    @property
    def timesteps(self) -> torch.Tensor:
        """Of this thread's call. The next is written while the pipeline waits."""
        return self.here.call.timesteps

    def set_timesteps(self, num_inference_steps: Optional[int] = None, device: Any = None,
                      timesteps: Any = None, sigmas: Any = None, mu: Optional[float] = None,
                      **ignored: Any) -> None:
        """As many as there may be questions; which they are is not known yet."""
        self.here.call.timesteps = torch.ones(QUESTIONS, device=device)
        self.guidance_scale = guidance_of_caller()

    def set_begin_index(self, begin_index: int = 0) -> None:
        """Every call begins at its beginning."""

    def scale_model_input(self, sample: torch.Tensor, timestep: Any = None) -> torch.Tensor:
        """Networks get the state as it is."""
        return sample

    def step(self, model_output: torch.Tensor, timestep: Any, sample: torch.Tensor,
             generator: Any = None, eta: float = 0.0,
             use_clipped_model_output: Optional[bool] = None, return_dict: bool = True,
             **ignored: Any) -> Union[SchedulerOutput, Tuple[torch.Tensor]]:
        """Answers with the output, and waits for the next state."""
        state = self.here.call.next_state(model_output, float(timestep), sample)
        return SchedulerOutput(prev_sample=state) if return_dict else (state,)


class _Call:
    """One call of the pipeline for some samples, in a thread of its own."""

    def __init__(self, pipe: Any, oracle: OracleScheduler, arguments: Dict[str, Any]) -> None:
        self.timesteps = torch.ones(0)
        self.example: Optional[torch.Tensor] = None  # of the pipeline's own states
        self._questions: "queue.Queue[Any]" = queue.Queue()
        self._answers: "queue.Queue[Any]" = queue.Queue()
        self._asked = 0
        self._expected: Optional[float] = None
        self._thread = threading.Thread(target=self._run, args=(pipe, oracle, arguments),
                                        daemon=True)
        self._thread.start()
        self._answer()  # about the pipeline's own noise, which every call begins with

    def ask(self, time: float, state: torch.Tensor) -> torch.Tensor:
        """The network's output at its own time."""
        assert self.example is not None
        self._questions.put((time, state.to(self.example)))
        return self._answer()

    @property
    def exhausted(self) -> bool:
        return self._asked + 1 >= QUESTIONS

    def close(self) -> None:
        self._questions.put(None)
        self._thread.join()

    def _answer(self) -> torch.Tensor:
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    # In the pipeline's thread

    def _run(self, pipe: Any, oracle: OracleScheduler, arguments: Dict[str, Any]) -> None:
        oracle.here.call = self
        try:
            pipe(**arguments)
            self._answers.put(Error("the pipeline ended by itself; it does not take its steps from "
                                    "its scheduler"))
        except _Stop:
            pass
        except BaseException as error:  # handed to whoever asked
            self._answers.put(error)

    def next_state(self, output: torch.Tensor, time: float,
                   sample: torch.Tensor) -> torch.Tensor:
        if self._expected is not None and abs(time - self._expected) > 1e-3 * (1 + abs(time)):
            raise Error(f"the pipeline asked its network about time {time:.6g} instead of "
                        f"{self._expected:.6g}: it keeps a copy of the timesteps, so give fit a "
                        "callable of your own")
        self.example = sample
        self._answers.put(own_part(output, sample).detach().clone())
        question = self._questions.get()
        if question is None:
            raise _Stop
        time, state = question
        self._asked += 1
        self.timesteps[self._asked] = time
        self._expected = float(self.timesteps[self._asked])
        return state


class PipelineField:
    """field(t, x, number) by way of a pipeline; samples are known by their numbers."""

    def __init__(self, pipe: Any, schedule: Schedule, conditions: Mapping[str, Sequence[Any]],
                 arguments: Mapping[str, Any]) -> None:
        self._pipe = pipe
        self._schedule = schedule
        self._conditions = dict(conditions)
        self._arguments = dict(arguments)
        self._calls: Dict[Tuple[int, ...], _Call] = {}
        self._sign = -1.0 if schedule.name == "fm-ot" else 1.0
        self._bar = dict(getattr(pipe, "_progress_bar_config", {}) or {})
        self.before = pipe.scheduler
        self.oracle = OracleScheduler(**{key: value for key, value in pipe.scheduler.config.items()
                                         if key in ORACLE_KEYS})
        self.begun = 0  # samples whose calls began, each with an evaluation of the pipeline's own
        pipe.scheduler = self.oracle
        if hasattr(pipe, "set_progress_bar_config"):
            pipe.set_progress_bar_config(disable=True)

    def __call__(self, t: torch.Tensor, x: torch.Tensor, number: List[int]) -> torch.Tensor:
        outputs = []
        for begin, end in _blocks(t.tolist(), number):
            call = self.call(tuple(number[begin:end]))
            time = network_time(self._schedule, float(t[begin]),
                                int(self.oracle.config.num_train_timesteps))
            outputs.append(self._sign * call.ask(time, x[begin:end]).to(x))
        return torch.cat(outputs)

    def call(self, samples: Tuple[int, ...]) -> _Call:
        """The call that waits for questions about these samples."""
        known = self._calls.get(samples)
        if known is not None and not known.exhausted:
            return known
        if known is not None:
            known.close()
        arguments: Dict[str, Any] = {**self._arguments, "num_inference_steps": QUESTIONS}
        for name, values in self._conditions.items():
            chosen = [values[k] for k in samples]
            arguments[name] = torch.stack(chosen) if torch.is_tensor(values) else chosen
        if not self._conditions:
            arguments["batch_size"] = len(samples)
        self._calls[samples] = _Call(self._pipe, self.oracle, arguments)
        self.begun += len(samples)
        return self._calls[samples]

    def close(self) -> None:
        """Gives the pipeline back as it was."""
        for call in self._calls.values():
            call.close()
        self._calls = {}
        self._pipe.scheduler = self.before
        if hasattr(self._pipe, "set_progress_bar_config"):
            self._pipe.set_progress_bar_config(**{"disable": False, **self._bar})


def fit_pipeline(pipe: Any, prompts: Optional[Sequence[str]] = None,
                 num_inference_steps: Evaluations = (4, 6, 8), *,
                 samples: int = 16, calls: Optional[int] = None, seed: int = 0,
                 conditions: Optional[Mapping[str, Sequence[Any]]] = None,
                 start_scale: Optional[StartScale] = None, times: str = "free",
                 held_out: Optional[int] = None, tolerance: float = 1e-3,
                 progress: ProgressLike = None, **arguments: Any) -> Results:
    """Finds solvers for a pipeline by its own calls, and sets pipe.scheduler to hold them.

    prompts      taken in turn for the samples; none for pipelines without a prompt.
    num_inference_steps  the numbers of evaluations to find solvers for.
    samples      of the pipeline, three quarters of them to learn from, an eighth to choose by and
                 an eighth to measure by (held_out, as bespoke.fit has it).
    calls        calls of the network to spend on each number of evaluations at most, those of the
                 samples, which all share, included; what fits leave goes into direct. Without it,
                 the fit alone.
    start_scale  1 for solvers that take the noise as it is, or "free"; by itself what suits the
                 pipeline: 1 where it does not multiply its noise by init_noise_sigma (DDPM, Stable
                 Diffusion 3, Flux).
    times        "free", or as the pipeline rounds them: "bf16" for flow pipelines in bfloat16
                 (Flux), "integer" for networks that take whole time steps alone.
    conditions   other arguments of the pipeline with an entry per sample, such as prompt_embeds.
    arguments    of the pipeline for all samples: guidance_scale, height, width ...

    Each of the pipeline's calls begins with an evaluation of its own noise; these are counted too.
    A guided evaluation counts once, since the pipeline makes it.

    The guidance_scale given here is what the solvers are for; the scheduler refuses others.
    """
    schedule = schedule_of_pipeline(pipe.scheduler)
    checks.whole_number(samples, "samples", 2)
    checks.whole_number(seed, "seed", 0)
    given = {name: _each(values, samples) for name, values in
             {**({"prompt": prompts} if prompts else {}), **(conditions or {})}.items()}
    field = PipelineField(pipe, schedule, given, arguments)
    try:
        problem = _problem(field, schedule, samples, seed, held_out, tolerance)
        counts = checked_nfes(num_inference_steps)
        scale = start_scale or ("free" if field.oracle.scale_was_read else 1)
        options: Dict[str, Any] = {"start_scale": scale, "times": times, "progress": progress}
        results = (problem.distill(counts, calls=calls, **options) if calls else
                   problem.fit(counts, **options))
    finally:
        field.close()
    guidance = field.oracle.guidance_scale
    pipe.scheduler = BespokeScheduler.from_solvers(
        results, field.before, guidance_range=None if guidance is None else (guidance, guidance))
    return results


def schedule_of_pipeline(scheduler: Any) -> Schedule:
    """The path of a pipeline's network, from the config of its scheduler."""
    config = scheduler.config
    betas = config.get("beta_schedule")
    if betas is None and ("shift" in config or "use_dynamic_shifting" in config):
        return Schedule("fm-ot")
    zero_snr = ends_without_signal(config)
    names = {"linear": "ddpm-linear", "scaled_linear": "ddpm-scaled-linear"}
    if betas in names and config.get("trained_betas") is None:
        return Schedule({"name": names[betas], "steps": int(config["num_train_timesteps"]),
                         "beta_start": config["beta_start"], "beta_end": config["beta_end"],
                         "zero_terminal_snr": zero_snr})
    alphas = getattr(scheduler, "alphas_cumprod", None)
    if alphas is None:
        raise Error(f"{type(scheduler).__name__} does not say which noise its network was trained "
                    "with; use a scheduler with betas, or one for flows")
    return Schedule({"name": "table", "alphas_cumprod": [float(a) for a in alphas]})


def _problem(field: PipelineField, schedule: Schedule, samples: int, seed: int,
             held_out: Optional[int], tolerance: float) -> Problem:
    example = field.call(tuple(range(samples))).example
    assert example is not None
    noise = torch.from_numpy(starting_noise(tuple(example.shape), seed)).to(example)
    kind = "flow_prediction" if schedule.name == "fm-ot" else str(
        field.before.config.get("prediction_type") or "epsilon")
    if kind not in PREDICTIONS:
        raise Error(f"the pipeline's prediction_type is {kind!r}; known are "
                    f"{', '.join(PREDICTIONS)}")
    problem = Problem(field, noise, prediction=PREDICTIONS[kind], schedule=schedule,
                      conditions={"number": list(range(samples))}, held_out=held_out,
                      tolerance=tolerance, clip=Clip.of_diffusers(field.before.config))
    problem.together = True  # a pipeline has one time for all its samples
    problem.extra_calls = lambda: field.begun
    return problem


def _each(values: Sequence[Any], samples: int) -> Any:
    """An entry per sample: prompts are taken in turn, tensors must have as many."""
    if torch.is_tensor(values):
        if len(values) != samples:
            raise Error(f"a condition has {len(values)} entries for {samples} samples")
        return values
    return [values[k % len(values)] for k in range(samples)]


def _blocks(times: List[float], numbers: List[int]) -> List[Tuple[int, int]]:
    """Runs of rows with one time and no sample twice."""
    blocks, begin = [], 0
    for row in range(1, len(numbers) + 1):
        if row == len(numbers) or times[row] != times[begin] or numbers[row] == numbers[begin]:
            blocks.append((begin, row))
            begin = row
    return blocks
