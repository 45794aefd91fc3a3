#!/usr/bin/env python3
"""What the ComfyUI nodes gain inside ComfyUI, beside its own samplers and schedulers.

    PYTHONPATH=ComfyUI python3 research/comfyui_proof.py --cpu

The model is models/cifar10-eps-vp as a checkpoint of noise predictions on discrete levels, with a
class in the place of a prompt; guider, patcher, samplers and sigmas are ComfyUI's.
"""

import importlib.util
import math
import sys
import types
from pathlib import Path

import comfy.options

comfy.options.enable_args_parsing()  # ComfyUI's own, such as --cpu

import comfy.conds
import comfy.latent_formats
import comfy.model_base
import comfy.model_patcher
import comfy.sample
import comfy.samplers
import torch

SOURCES = Path(__file__).resolve().parents[1]
LEVELS, NULL_CLASS, CLASS = 1000, 10, 3
SAMPLERS = ["euler", "ddim", "heun", "dpmpp_2m", "uni_pc_bh2", "lms", "ipndm", "deis"]
SCHEDULERS = ["normal", "karras", "sgm_uniform", "beta", "simple"]
IMAGES, STEPS, SAMPLES, CFG, REFERENCE = 8, 8, 16, 2.0, 250


class Network(torch.nn.Module):
    """The embedded network as ComfyUI calls a diffusion model."""

    dtype = torch.float32

    def __init__(self):
        super().__init__()
        self.network = torch.jit.load(str(SOURCES / "models/cifar10-eps-vp.pt")).float()

    def forward(self, x, timestep, context=None, **others):
        return self.network(x, (1 - (timestep + 1) / LEVELS).to(x), context[:, 0, 0].long())


class Pixels(comfy.latent_formats.LatentFormat):
    """No autoencoder."""

    latent_channels = 3
    scale_factor = 1.0


class Model(comfy.model_base.BaseModel):
    """A checkpoint's place."""

    def __init__(self):
        config = types.SimpleNamespace(
            unet_config={"disable_unet_model_creation": True}, latent_format=Pixels(),
            manual_cast_dtype=None, memory_usage_factor=1.0, custom_operations=None,
            optimizations={}, sampling_settings={"beta_schedule": "sqrt_linear",  # linear betas
                                                 "linear_start": 1e-4, "linear_end": 0.02})
        super().__init__(config)
        self.diffusion_model = Network()

    def extra_conds(self, **conditions):
        return {"c_crossattn": comfy.conds.CONDCrossAttn(conditions["cross_attn"])}


def nodes():
    """The custom nodes, imported as ComfyUI does it."""
    folder = SOURCES / "integrations/comfyui"
    spec = importlib.util.spec_from_file_location("bespoke_nodes", folder / "__init__.py",
                                                  submodule_search_locations=[str(folder)])
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.nodes.NODE_CLASS_MAPPINGS  # those of the newer interface have schemas alone


def prompt(label):
    return [[torch.full((1, 1, 1), float(label)), {}]]


def main():
    cpu = torch.device("cpu")
    patcher = comfy.model_patcher.ModelPatcher(Model(), cpu, cpu)
    levels = patcher.get_model_object("model_sampling")
    noise = torch.randn(IMAGES, 3, 32, 32, generator=torch.manual_seed(5))
    ends = prompt(CLASS), prompt(NULL_CLASS)

    def drawn(sampler, sigmas):
        return comfy.sample.sample_custom(patcher, noise, CFG, sampler, sigmas, *ends,
                                          torch.zeros_like(noise), disable_pbar=True, seed=1)

    def named(name, scheduler, steps):
        return drawn(comfy.samplers.sampler_object(name),
                     comfy.samplers.calculate_sigmas(levels, scheduler, steps))

    truth = named("dpmpp_2m", "karras", REFERENCE)

    def psnr(images):
        return 10 * math.log10(4 / float((images - truth).double().square().mean()))

    print(f"{IMAGES} images, cfg {CFG:g}; {REFERENCE // 2} steps of dpmpp_2m, karras are "
          f"{psnr(named('dpmpp_2m', 'karras', REFERENCE // 2)):.1f} dB from the {REFERENCE} that "
          f"the table is against\n\n| {STEPS} steps | {' | '.join(SCHEDULERS)} |\n"
          f"|---|{'---|' * len(SCHEDULERS)}", flush=True)
    for name in SAMPLERS:
        row = (f"{psnr(named(name, scheduler, STEPS)):.1f}" for scheduler in SCHEDULERS)
        print(f"| {name} | {' | '.join(row)} |", flush=True)
    fit = nodes()["FitBespokeSolver"]()
    latent = {"samples": torch.zeros(IMAGES, 3, 32, 32)}
    for calls in (0, 5000):
        sampler, sigmas, report = fit.fit(patcher, *ends, CFG, latent_image=latent, steps=STEPS,
                                          samples=SAMPLES, calls=calls, fit_seed=3,
                                          save_as="")["result"]
        print(f"\nFit Bespoke solver, calls {calls}: {psnr(drawn(sampler, sigmas)):.1f} dB. "
              f"On its own: {report}", flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
