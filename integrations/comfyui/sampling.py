"""Samplers, as ComfyUI calls them: one runs a solver, one fits a solver instead of sampling."""

import comfy.samplers
import comfy.utils
import torch
from bespoke import Error, Problem
from bespoke.k_diffusion import LearningSampler, sample_bespoke
from bespoke.references import reference_to

from .paths import check_path, is_flow, path_of, times_of

CALLS_OF_A_FIT = 80  # a sample, roughly: for the progress bar


class SolverSampler(comfy.samplers.Sampler):
    """Runs a solver from pure noise."""

    def __init__(self, solver):
        self.solver = solver

    def sample(self, model_wrap, sigmas, extra_args, callback, noise, latent_image=None,
               denoise_mask=None, disable_pbar=False):
        check_path(self.solver, model_wrap.inner_model.model_sampling)
        _check_start(noise, latent_image, denoise_mask)
        steps = len(sigmas) - 1

        def tell(step):
            callback(step["i"], step["denoised"], step["x"], steps)
        # The start is made of the raw noise, so a start scale other than 1 is kept.
        return sample_bespoke(model_wrap, noise * float(sigmas[0]), sigmas, extra_args,
                              None if callback is None else tell, solver=self.solver)


class FittingSampler(comfy.samplers.Sampler):
    """Finds a solver for the model that it is to sample from: with its guider, as it is loaded."""

    def __init__(self, steps, samples, calls, batch, seed):
        self.steps = steps
        self.samples = samples
        self.calls = calls
        self.batch = batch
        self.seed = seed
        self.result = None

    def sample(self, model_wrap, sigmas, extra_args, callback, noise, latent_image=None,
               denoise_mask=None, disable_pbar=False):
        if denoise_mask is not None:
            raise Error("a solver is fitted to whole images; leave the noise mask out")
        model_sampling = model_wrap.inner_model.model_sampling
        field = GuidedField(model_wrap, extra_args, model_sampling)
        generator = torch.Generator().manual_seed(self.seed)
        start = torch.randn((self.samples, *noise.shape[1:]), generator=generator).to(noise)
        problem = Problem(field, start, prediction="velocity" if field.flow else "noise",
                          schedule=field.schedule, batch=self.batch, tolerance=1e-3)
        problem.together = True  # conditions with a range of time look at one time alone
        expected = self.calls or CALLS_OF_A_FIT * self.samples
        bar = comfy.utils.ProgressBar(expected)
        options = {"times": times_of(model_sampling),
                   "progress": lambda what, calls: bar.update_absolute(min(calls, expected))}
        self.result = (problem.distill(self.steps, calls=self.calls, **options) if self.calls else
                       problem.fit(self.steps, **options))
        return noise


class LearningComfySampler(comfy.samplers.Sampler):
    """Learns from the first images it draws, for each model, conditioning strength and shape."""

    def __init__(self, steps):
        self.steps = steps
        self._learning = {}  # a reference to the model, and what was learnt for it

    def sample(self, model_wrap, sigmas, extra_args, callback, noise, latent_image=None,
               denoise_mask=None, disable_pbar=False):
        _check_start(noise, latent_image, denoise_mask)
        model_sampling = model_wrap.inner_model.model_sampling
        highest = float(model_sampling.sigma_max)
        if float(sigmas[0]) < 0.9 * highest or float(sigmas[-1]) != 0:
            raise Error(f"the sigmas run from {float(sigmas[0]):.4g} to {float(sigmas[-1]):.4g}; "
                        f"a solver is learnt for the whole way, from {highest:.4g} to 0: take the "
                        "SIGMAS of this node")
        own = torch.linspace(highest, 0, self.steps + 1)
        learning = self._learning_for(model_wrap, model_sampling)
        total = learning.evaluations(noise, own)

        def tell(step):
            callback(step["i"], step["denoised"], step["x"], total)
        return learning(model_wrap, noise * highest, own, extra_args,
                        None if callback is None else tell)

    def _learning_for(self, model_wrap, model_sampling):
        patcher, model = getattr(model_wrap, "model_patcher", None), model_wrap.inner_model
        key = (id(model), getattr(patcher, "patches_uuid", None), getattr(model_wrap, "cfg", None))
        # A model that is gone leaves its id to another one, for which nothing was learnt.
        self._learning = {known: kept for known, kept in self._learning.items()
                          if kept[0]() is not None}
        found, learning = self._learning.get(key, (None, None))
        if found is None or found() is not model:
            learning = LearningSampler(schedule=path_of(model_sampling).describe(),
                                       times=times_of(model_sampling))
            self._learning[key] = reference_to(model), learning
        return learning


class GuidedField:
    """What the guider answers, as Bespoke asks: field(t, x)."""

    def __init__(self, model_wrap, extra_args, model_sampling):
        self.flow = is_flow(model_sampling)
        self.schedule = path_of(model_sampling)
        self._model = model_wrap
        self._extra_args = extra_args
        self._least = float(model_sampling.sigma_min)

    def __call__(self, t, x):
        times = t.tolist()
        ends = [row for row in range(1, len(times) + 1)
                if row == len(times) or times[row] != times[row - 1]]
        begins = [0, *ends[:-1]]
        return torch.cat([self._at(times[begin], x[begin:end])
                          for begin, end in zip(begins, ends)])

    def _at(self, time, x):
        """The velocity of flows, the noise prediction otherwise; one time for all."""
        alpha, sigma = self.schedule.alpha(time), self.schedule.sigma(time)
        scale = 1.0 if self.flow else alpha
        level = max(sigma / scale, self._least)
        given = x / scale
        levels = torch.full((len(x),), level, dtype=x.dtype, device=x.device)
        slope = (given - self._model(given, levels, **self._extra_args).to(x)) / level
        return -slope if self.flow else slope


def _check_start(noise, latent_image, denoise_mask):
    if denoise_mask is not None:
        raise Error("a distilled solver cannot inpaint: its next state is made of the noise and "
                    "the outputs alone; use another sampler for masks")
    if latent_image is not None and torch.count_nonzero(latent_image) > 0:
        raise Error("a distilled solver runs from noise alone, not from an image; give an empty "
                    "latent")
    if torch.count_nonzero(noise) == 0:
        raise Error("a distilled solver runs from noise; let the sampler node add it")
