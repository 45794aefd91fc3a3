#!/usr/bin/env python3
"""What fit_pipeline gains inside pipelines of diffusers, beside diffusers' own schedulers.

    python3 research/diffusers_proof.py embedded                      # models/cifar10-eps-vp
    python3 research/diffusers_proof.py unet flow --models models     # of diffusers_train.py

Prints a table of PSNR for each: a network that comes with the sources and a UNet2DModel in a
DDPMPipeline, networks of Stable Diffusion's kinds and Flux's in their pipelines. Each scheduler of
diffusers has the best of its spacings of steps, DPM++ and UniPC with either of their last sigmas.
"""

import argparse
import math
import types
from pathlib import Path

import diffusers
import torch

import bespoke
from bespoke.diffusers import BespokeScheduler, LearningScheduler
from bespoke.pipelines import fit_pipeline
from diffusers_train import CLASSES, LEVELS, prompt_embeddings


class EmbeddedNetwork(torch.nn.Module):
    """models/cifar10-eps-vp as a DDPMPipeline calls its network, without a class."""

    def __init__(self, device):
        super().__init__()
        path = Path(__file__).resolve().parents[1] / "models" / "cifar10-eps-vp.pt"
        self.network = torch.jit.load(str(path), map_location=device).float()
        self.config = types.SimpleNamespace(sample_size=32, in_channels=3)
        self.dtype, self.device = torch.float32, device

    def forward(self, x, timestep):
        t = (1 - (timestep + 1) / LEVELS).to(x).expand(len(x))
        none = torch.full((len(x),), CLASSES, device=x.device)
        return types.SimpleNamespace(sample=self.network(x, t, none))


def of_discrete_paths(base, spacing):
    """The schedulers of diffusers in the place of this one, by name."""
    def made(kind, **options):
        return getattr(diffusers, kind).from_config(base.config, timestep_spacing=spacing,
                                                    **options)
    return {"DDIM": made("DDIMScheduler", set_alpha_to_one=True),
            "DPM++(2M)": made("DPMSolverMultistepScheduler"),
            "DPM++(2M) Karras": made("DPMSolverMultistepScheduler", use_karras_sigmas=True),
            "DPM++(2M), sigma_min": made("DPMSolverMultistepScheduler",
                                         final_sigmas_type="sigma_min"),
            "UniPC": made("UniPCMultistepScheduler"),
            "UniPC, sigma_min": made("UniPCMultistepScheduler", final_sigmas_type="sigma_min"),
            "Euler": made("EulerDiscreteScheduler")}


class DdpmPipeline:
    """The DDPMPipeline and how it is called."""

    spacings = ("linspace", "trailing", "leading")

    def __init__(self, network, name, base):
        self.name = name
        self.base = base
        self.pipe = diffusers.DDPMPipeline(network.eval(), self.base)
        self.pipe.set_progress_bar_config(disable=True)

    def fit(self, samples, **options):
        self.pipe.scheduler = self.base
        return fit_pipeline(self.pipe, samples=samples, **options)

    def draw(self, seeds, steps, spacing=None):
        """Images [count, ...] from -1 to 1."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        if isinstance(self.pipe.scheduler, (BespokeScheduler, LearningScheduler)):
            images = self.pipe(batch_size=len(seeds), generator=generators,
                               num_inference_steps=steps, output_type="np").images
            return 2 * torch.from_numpy(images).permute(0, 3, 1, 2) - 1
        size = self.pipe.unet.config.sample_size
        noise = [torch.randn(3, size, size, generator=generator) for generator in generators]
        return self.loop(torch.stack(noise).to(self.pipe.device), steps).cpu()

    @torch.no_grad()
    def loop(self, noise, steps):
        """The same for any scheduler: DDPMPipeline runs neither UniPC nor Euler as they want it."""
        scheduler = self.pipe.scheduler
        scheduler.set_timesteps(steps)
        x = noise * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            output = self.pipe.unet(scheduler.scale_model_input(x, t), t).sample
            x = scheduler.step(output, t, x).prev_sample
        return x.clamp(-1, 1)

    def schedulers(self, spacing):
        """Those of diffusers, by name."""
        return of_discrete_paths(self.base, spacing)

    def reference(self):
        """A scheduler to take many steps with."""
        return self.schedulers("linspace")["DPM++(2M)"]


class PromptedPipeline:
    """A pipeline that is told embeddings of classes for prompts, and how it is called."""

    def __init__(self, name, base, pipe, guidance):
        self.name, self.base, self.pipe = name, base, pipe
        self.pipe.set_progress_bar_config(disable=True)
        self.shared = {"guidance_scale": guidance, "output_type": "latent", "height": 128,
                       "width": 128}

    def embeddings(self, seeds):
        """Of one class after another, and of none, each with the pooled ones."""
        text, pooled = (table.to(self.pipe.device) for table in prompt_embeddings())
        chosen, null = [seed % CLASSES for seed in seeds], [CLASSES] * len(seeds)
        return (text[chosen], pooled[chosen]), (text[null], pooled[null])

    def prompts(self, seeds):
        (text, pooled), (null, null_pooled) = self.embeddings(seeds)
        return {"prompt_embeds": text, "pooled_prompt_embeds": pooled,
                "negative_prompt_embeds": null, "negative_pooled_prompt_embeds": null_pooled}

    def noise(self, seeds):
        """As the pipeline takes its latents."""
        return torch.stack([torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(seed))
                            for seed in seeds]).to(self.pipe.device)

    def fit(self, samples, **options):
        self.pipe.scheduler = self.base
        return fit_pipeline(self.pipe, samples=samples, conditions=self.prompts(range(samples)),
                            **self.shared, **options)

    def draw(self, seeds, steps, spacing=None):
        """Latents [count, ...]."""
        return self.pipe(latents=self.noise(seeds), num_inference_steps=steps,
                         **self.prompts(seeds), **self.shared,
                         **self.own_times(steps, spacing)).images.cpu()

    def own_times(self, steps, spacing):
        """What the pipeline is given where the spacing is not the scheduler's."""
        return {}


class StableDiffusion(PromptedPipeline):
    """The StableDiffusionPipeline, which predicts v as of Stable Diffusion 2."""

    spacings = ("linspace", "trailing", "leading")

    def __init__(self, models, guidance=3.0):
        network = diffusers.UNet2DConditionModel.from_pretrained(models / "conditional",
                                                                 use_safetensors=False)
        base = diffusers.DDIMScheduler(
            beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, clip_sample=False,
            set_alpha_to_one=False, steps_offset=1, prediction_type="v_prediction")
        pipe = diffusers.StableDiffusionPipeline(
            vae=None, text_encoder=None, tokenizer=None, unet=network.eval(), scheduler=base,
            safety_checker=None, feature_extractor=None, requires_safety_checker=False)
        super().__init__(f"UNet2DConditionModel in a StableDiffusionPipeline, guidance_scale "
                         f"{guidance:g}", base, pipe, guidance)

    def prompts(self, seeds):
        (text, _), (null, _) = self.embeddings(seeds)
        return {"prompt_embeds": text, "negative_prompt_embeds": null}

    def schedulers(self, spacing):
        """Those of diffusers, by name."""
        return of_discrete_paths(self.base, spacing)

    def reference(self):
        """A scheduler to take many steps with."""
        return self.schedulers("linspace")["DPM++(2M)"]


class FlowPipeline(PromptedPipeline):
    """What the pipelines on flow paths share."""

    spacings = ("own", "trailing")

    def own_times(self, steps, spacing):
        return {} if spacing != "trailing" else {"sigmas": [1 - k / steps for k in range(steps)]}

    def schedulers(self, spacing):
        """Those of diffusers that take flows, by name; DDIM is Euler here."""
        euler = diffusers.FlowMatchEulerDiscreteScheduler
        found = {"Euler": euler(), "Euler, shift 3": euler(shift=3.0),
                 "Euler Karras": euler(use_karras_sigmas=True)}
        if spacing == "own":
            found.update(multistep_of_flows(lambda kind: getattr(diffusers, kind)))
        return found

    def reference(self):
        """A scheduler to take many steps with."""
        return diffusers.FlowMatchHeunDiscreteScheduler()


class StableDiffusion3(FlowPipeline):
    """The StableDiffusion3Pipeline."""

    def __init__(self, models, guidance=1.0):
        network = diffusers.SD3Transformer2DModel.from_pretrained(models / "transformer",
                                                                  use_safetensors=False)
        base = diffusers.FlowMatchEulerDiscreteScheduler()
        pipe = diffusers.StableDiffusion3Pipeline(
            network.eval(), base, vae=None, text_encoder=None, tokenizer=None,
            text_encoder_2=None, tokenizer_2=None, text_encoder_3=None, tokenizer_3=None)
        super().__init__(f"SD3Transformer2DModel in a StableDiffusion3Pipeline, guidance_scale "
                         f"{guidance:g}", base, pipe, guidance)


class Flux(FlowPipeline):
    """The FluxPipeline, whose latents are packed and whose times are shifted."""

    def __init__(self, models):
        network = diffusers.FluxTransformer2DModel.from_pretrained(models / "flux",
                                                                   use_safetensors=False)
        base = diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0)
        pipe = diffusers.FluxPipeline(base, vae=None, text_encoder=None, tokenizer=None,
                                      text_encoder_2=None, tokenizer_2=None,
                                      transformer=network.eval())
        super().__init__("FluxTransformer2DModel in a FluxPipeline", base, pipe, 1.0)

    def prompts(self, seeds):
        (text, pooled), _ = self.embeddings(seeds)
        return {"prompt_embeds": text, "pooled_prompt_embeds": pooled}

    def noise(self, seeds):
        latents = super().noise(seeds)
        return self.pipe._pack_latents(latents, *latents.shape)

    def schedulers(self, spacing):
        """Those that the pipeline takes, and others made to be taken, shifted too."""
        found = {"Euler": diffusers.FlowMatchEulerDiscreteScheduler(),
                 "Euler, its own shift": diffusers.FlowMatchEulerDiscreteScheduler.from_config(
                     self.base.config)}
        if spacing == "own":
            found.update(multistep_of_flows(counting_sigmas))
        return found

    def reference(self):
        """A scheduler to take many steps with."""
        return counting_sigmas("FlowMatchHeunDiscreteScheduler")()


def multistep_of_flows(kind_of):
    """DPM++ and UniPC on flow paths, by name, with two shifts and either of their last sigmas."""
    return {f"{name}, shift {shift:g}{', sigma_min' * (last == 'sigma_min')}": kind_of(kind)(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift,
        final_sigmas_type=last)
            for name, kind in (("DPM++(2M)", "DPMSolverMultistepScheduler"),
                               ("UniPC", "UniPCMultistepScheduler"))
            for shift in (1.0, 3.0) for last in ("zero", "sigma_min")}


def counting_sigmas(kind):
    """A scheduler of diffusers for a pipeline that gives sigmas: it takes their number from them."""
    scheduler = getattr(diffusers, kind)

    class Counting(scheduler):
        def set_timesteps(self, num_inference_steps=None, device=None, sigmas=None, mu=None):
            count = num_inference_steps if sigmas is None else len(sigmas)
            scheduler.set_timesteps(self, count, device)
    Counting.__name__ = kind
    return Counting


def psnr(found, expected):
    """In dB, of values from -1 to 1; of what is not finite, minus infinity."""
    error = float((found - expected).double().square().mean())
    return 10 * math.log10(4 / error) if math.isfinite(error) else -math.inf


def of_diffusers(case, counts, seeds, truth):
    """{scheduler: {steps: PSNR}}, the better of its spacings."""
    rows = {}
    for spacing in case.spacings:
        for name, scheduler in case.schedulers(spacing).items():
            case.pipe.scheduler = scheduler
            row = rows.setdefault(name, {})
            for count in counts:
                value = psnr(case.draw(seeds, count, spacing), truth)
                row[count] = max(value, row.get(count, value))
    return rows


def measured(case, counts, images, samples, calls, steps):
    """Prints a table of one pipeline."""
    seeds = range(1000, 1000 + images)
    case.pipe.scheduler = case.reference()
    half, truth = (case.draw(seeds, count) for count in (steps, 2 * steps))
    print(f"\n{case.name}: {images} images; its own {steps} steps of "
          f"{type(case.pipe.scheduler).__name__} are {psnr(half, truth):.1f} dB from those of "
          f"{2 * steps}, which the table is against\n", flush=True)
    rows = of_diffusers(case, counts, seeds, truth)
    best = {count: max(row[count] for row in rows.values()) for count in counts}
    for name, budget in (("fit", None), (f"fit and direct, {calls:,} calls", calls)):
        results = case.fit(samples, num_inference_steps=counts, calls=budget, progress=False)
        rows[name] = {count: psnr(case.draw(seeds, count), truth) for count in counts}
        print(f"{name}: calls of the network {', '.join(str(result.calls) for result in results)}; "
              f"{results[0].reference_calls} of each for the pipeline's own samples, drawn once",
              flush=True)
    print(f"\n| scheduler | {' | '.join(map(str, counts))} |\n|---|{'---|' * len(counts)}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{row[count]:.1f}' for count in counts)} |")
    print(f"| above the best of diffusers | "
          f"{' | '.join(f'{row[count] - best[count]:+.1f}' for count in counts)} |", flush=True)


def pipelines(models, device, guidance=1.0):
    """What makes each case."""
    return {"embedded": lambda: DdpmPipeline(EmbeddedNetwork(device),
                                             "cifar10-eps-vp in a DDPMPipeline",
                                             diffusers.DDPMScheduler(clip_sample=False)),
            "unet": lambda: DdpmPipeline(
                diffusers.UNet2DModel.from_pretrained(models / "unet", use_safetensors=False),
                "UNet2DModel in a DDPMPipeline",
                diffusers.DDPMScheduler.from_pretrained(models / "unet")),
            "sd": lambda: StableDiffusion(models),
            "flow": lambda: StableDiffusion3(models, guidance), "flux": lambda: Flux(models)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("cases", nargs="+", choices=["embedded", "unet", "sd", "flow", "flux"])
    add("--models", type=Path, help="what research/diffusers_train.py wrote, for all but embedded")
    add("--guidance", type=float, default=1.0, help="guidance_scale of the flow; 1 is none")
    add("--steps", type=int, nargs="+", default=[4, 6, 8, 12])
    add("--images", type=int, default=16, help="to measure on")
    add("--samples", type=int, default=12, help="to learn from")
    add("--calls", type=int, default=5000, help="of the network, for each number of steps")
    add("--reference", type=int, default=125, help="steps; the table is against twice as many")
    add("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    diffusers.utils.logging.set_verbosity_error()
    print(f"bespoke-solvers {bespoke.__version__}, diffusers {diffusers.__version__}, "
          f"PyTorch {torch.__version__}")
    if options.models is None and options.cases != ["embedded"]:
        parser.error("all but embedded need --models")
    cases = pipelines(options.models, options.device, options.guidance)
    for name in options.cases:
        case = cases[name]()
        case.pipe.to(options.device)
        measured(case, options.steps, options.images, options.samples, options.calls,
                 options.reference)


if __name__ == "__main__":
    main()
