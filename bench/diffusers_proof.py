#!/usr/bin/env python3
"""What fit_pipeline gains inside pipelines of diffusers, beside diffusers' own schedulers.

    python3 bench/diffusers_proof.py --models models      # of bench/diffusers_train.py

Prints a table of PSNR for a UNet2DModel in a DDPMPipeline and for an SD3Transformer2DModel in a
StableDiffusion3Pipeline. Each scheduler of diffusers has the better of its spacings of steps.
"""

import argparse
import math
from pathlib import Path

import diffusers
import torch

import bespoke
from bespoke.diffusers import BespokeScheduler
from bespoke.pipelines import fit_pipeline
from diffusers_train import CLASSES, prompt_embeddings


class NoisePipeline:
    """The DDPMPipeline and how it is called."""

    name = "UNet2DModel in a DDPMPipeline"
    spacings = ("linspace", "trailing")

    def __init__(self, models):
        network = diffusers.UNet2DModel.from_pretrained(models / "unet", use_safetensors=False)
        self.base = diffusers.DDPMScheduler(clip_sample=False)
        self.pipe = diffusers.DDPMPipeline(network.eval(), self.base)
        self.pipe.set_progress_bar_config(disable=True)

    def fit(self, samples, **options):
        self.pipe.scheduler = self.base
        return fit_pipeline(self.pipe, samples=samples, **options)

    def draw(self, seeds, steps, spacing=None):
        """Images [count, ...] from -1 to 1."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        if isinstance(self.pipe.scheduler, BespokeScheduler):
            images = self.pipe(batch_size=len(seeds), generator=generators,
                               num_inference_steps=steps, output_type="np").images
            return 2 * torch.from_numpy(images).permute(0, 3, 1, 2) - 1
        noise = [torch.randn(3, 32, 32, generator=generator) for generator in generators]
        return self.loop(torch.stack(noise), steps)

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
        config = {**self.base.config, "timestep_spacing": spacing}

        def made(kind, **options):
            return getattr(diffusers, kind).from_config({**config, **options})
        return {"DDIM": made("DDIMScheduler", set_alpha_to_one=True),
                "DPM++(2M)": made("DPMSolverMultistepScheduler"),
                "DPM++(2M) Karras": made("DPMSolverMultistepScheduler", use_karras_sigmas=True),
                "UniPC": made("UniPCMultistepScheduler"),
                "Euler": made("EulerDiscreteScheduler")}

    def reference(self):
        """A scheduler to take many steps with."""
        return self.schedulers("linspace")["DPM++(2M)"]


class FlowPipeline:
    """The StableDiffusion3Pipeline and how it is called."""

    name = "SD3Transformer2DModel in a StableDiffusion3Pipeline"
    spacings = ("own", "trailing")

    def __init__(self, models, guidance=1.0):
        network = diffusers.SD3Transformer2DModel.from_pretrained(models / "transformer",
                                                                  use_safetensors=False)
        self.base = diffusers.FlowMatchEulerDiscreteScheduler()
        self.pipe = diffusers.StableDiffusion3Pipeline(
            network.eval(), self.base, vae=None, text_encoder=None, tokenizer=None,
            text_encoder_2=None, tokenizer_2=None, text_encoder_3=None, tokenizer_3=None)
        self.pipe.set_progress_bar_config(disable=True)
        self.shared = {"guidance_scale": guidance, "output_type": "latent", "height": 128,
                       "width": 128}

    def prompts(self, seeds):
        """One class after another."""
        text, pooled = prompt_embeddings()
        chosen = [seed % CLASSES for seed in seeds]
        null = [CLASSES] * len(seeds)
        return {"prompt_embeds": text[chosen], "pooled_prompt_embeds": pooled[chosen],
                "negative_prompt_embeds": text[null], "negative_pooled_prompt_embeds": pooled[null]}

    def fit(self, samples, **options):
        self.pipe.scheduler = self.base
        return fit_pipeline(self.pipe, samples=samples, conditions=self.prompts(range(samples)),
                            **self.shared, **options)

    def draw(self, seeds, steps, spacing=None):
        """Latents [count, ...]."""
        noise = [torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(seed))
                 for seed in seeds]
        own = {} if spacing != "trailing" else {"sigmas": [1 - k / steps for k in range(steps)]}
        return self.pipe(latents=torch.stack(noise), num_inference_steps=steps,
                         **self.prompts(seeds), **self.shared, **own).images

    def schedulers(self, spacing):
        """Those of diffusers that take flows, by name; DDIM is Euler here."""
        flow = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
        found = {"Euler": diffusers.FlowMatchEulerDiscreteScheduler(),
                 "Euler Karras": diffusers.FlowMatchEulerDiscreteScheduler(use_karras_sigmas=True)}
        if spacing == "own":
            found.update({"DPM++(2M)": diffusers.DPMSolverMultistepScheduler(**flow),
                          "UniPC": diffusers.UniPCMultistepScheduler(**flow)})
        return found

    def reference(self):
        """A scheduler to take many steps with."""
        return diffusers.FlowMatchHeunDiscreteScheduler()


def psnr(found, expected):
    """In dB, of values from -1 to 1."""
    return 10 * math.log10(4 / float((found - expected).double().square().mean()))


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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--models", type=Path, required=True, help="what bench/diffusers_train.py wrote")
    add("--only", choices=["noise", "flow"], help="one of the two")
    add("--guidance", type=float, default=1.0, help="guidance_scale of the flow; 1 is none")
    add("--steps", type=int, nargs="+", default=[4, 6, 8, 12])
    add("--images", type=int, default=32, help="to measure on")
    add("--samples", type=int, default=16, help="to learn from")
    add("--calls", type=int, default=5000, help="of the network, for each number of steps")
    add("--reference", type=int, default=250, help="steps; the table is against twice as many")
    options = parser.parse_args()
    diffusers.utils.logging.set_verbosity_error()
    print(f"bespoke-solvers {bespoke.__version__}, diffusers {diffusers.__version__}, "
          f"PyTorch {torch.__version__}")
    cases = {"noise": lambda: NoisePipeline(options.models),
             "flow": lambda: FlowPipeline(options.models, options.guidance)}
    for name, make in cases.items():
        if options.only in (None, name):
            measured(make(), options.steps, options.images, options.samples, options.calls,
                     options.reference)


if __name__ == "__main__":
    main()
