#!/usr/bin/env python3
"""Trains small models of diffusers on CIFAR-10, for research/diffusers_proof.py and
research/learning_table.py to measure with.

    python3 research/diffusers_train.py --data cifar10.zip -o models      # seven minutes on one GPU
    python3 research/diffusers_train.py --data cifar10.zip -o models --only unet --size 16 \\
        --batch 64 --seconds 1200                                      # on two CPU cores

unet         a UNet2DModel that predicts v
conditional  a UNet2DConditionModel that predicts v, as of Stable Diffusion 2
transformer  an SD3Transformer2DModel that predicts flows
flux         a FluxTransformer2DModel that predicts flows

The last three draw images of 16x16, with the embeddings of ten classes in the place of prompts. The
archive has CLASS/NAME.jpg.
"""

import argparse
import io
import math
import time
import zipfile
from pathlib import Path

import numpy as np
import torch

LEVELS = 1000
CLASSES = 10  # and the null class, for guidance
TOKENS = 2
WIDTH = 64  # of embeddings


def unet(size):
    """6 million weights for images of 32x32, 1.6 million for smaller ones."""
    from diffusers import UNet2DModel
    return UNet2DModel(
        sample_size=size, in_channels=3, out_channels=3, layers_per_block=2,
        block_out_channels=(64, 128, 128) if size == 32 else (32, 64, 64), norm_num_groups=32,
        attention_head_dim=32,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))


def transformer():
    """7 million weights."""
    from diffusers import SD3Transformer2DModel
    return SD3Transformer2DModel(
        sample_size=16, patch_size=2, in_channels=3, out_channels=3, num_layers=6,
        attention_head_dim=64, num_attention_heads=3, joint_attention_dim=WIDTH,
        caption_projection_dim=192, pooled_projection_dim=WIDTH, pos_embed_max_size=16)


def conditional():
    """2 million weights."""
    from diffusers import UNet2DConditionModel
    return UNet2DConditionModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(64, 128), norm_num_groups=32, attention_head_dim=32,
        cross_attention_dim=WIDTH, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))


def flux():
    """6 million weights."""
    from diffusers import FluxTransformer2DModel
    return FluxTransformer2DModel(
        patch_size=1, in_channels=4 * 3, num_layers=2, num_single_layers=4, attention_head_dim=64,
        num_attention_heads=3, joint_attention_dim=WIDTH, pooled_projection_dim=WIDTH,
        guidance_embeds=False, axes_dims_rope=(16, 24, 24))


def prompt_embeddings():
    """Of each class and of the null class: [11, tokens, width], and pooled [11, width]."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(CLASSES + 1, TOKENS, WIDTH, generator=generator),
            torch.randn(CLASSES + 1, WIDTH, generator=generator))


def read_images(archives):
    """Images [count, 3, 32, 32] in bytes and classes, from archives CLASS/NAME.jpg or .png."""
    from PIL import Image
    images, names = [], []
    for archive in archives:
        with zipfile.ZipFile(archive) as opened:
            for name in sorted(opened.namelist()):
                if name.endswith((".jpg", ".png")):
                    picture = Image.open(io.BytesIO(opened.read(name))).convert("RGB")
                    images.append(np.asarray(picture))
                    names.append(name.split("/")[-2])
    classes = {name: k for k, name in enumerate(sorted(set(names)))}
    return (torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous(),
            torch.tensor([classes[name] for name in names]))


def shrunk(x, size):
    return torch.nn.functional.avg_pool2d(x, x.shape[-1] // size)


def alphas_of(betas):
    """alpha-bar of each level of noise."""
    return torch.cumprod(1 - betas, 0)


def v_loss(call, x, alphas):
    """Of v = sqrt(alpha) noise - sqrt(1 - alpha) x.

    Not of the noise: near pure noise a small error in the noise is a large one in the image, and
    after minutes of training images come out in one glaring colour.
    """
    alphas = alphas.to(x.device)
    time = torch.randint(LEVELS, (len(x),), device=x.device)
    alpha = alphas[time].reshape(-1, 1, 1, 1)
    noise = torch.randn_like(x)
    output = call(alpha.sqrt() * x + (1 - alpha).sqrt() * noise, time)
    return (output.float() - (alpha.sqrt() * noise - (1 - alpha).sqrt() * x)).square().mean()


def unet_scheduler(betas):
    """What a DDPMPipeline of the unet has."""
    from diffusers import DDPMScheduler
    return DDPMScheduler(num_train_timesteps=LEVELS, beta_schedule=betas, clip_sample=False,
                         prediction_type="v_prediction")


def unet_loss(scheduler):
    return lambda model, x, labels, ends: v_loss(
        lambda state, time: model(state, time).sample, shrunk(x, model.config.sample_size),
        scheduler.alphas_cumprod)


def conditional_loss(model, x, labels, ends):
    """With Stable Diffusion's betas; one class in ten is left out."""
    text = ends[0][without_some(labels)]
    return v_loss(lambda state, time: model(state, time, encoder_hidden_states=text).sample,
                  shrunk(x, 16),
                  alphas_of(torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, LEVELS) ** 2))


def flow_loss(call, x, labels):
    """Of noise - x, with times as Stable Diffusion 3 draws them; one class in ten is left out."""
    x = shrunk(x, 16)
    sigma = torch.randn(len(x), device=x.device).sigmoid()
    noise = torch.randn_like(x)
    level = sigma.reshape(-1, 1, 1, 1)
    output = call((1 - level) * x + level * noise, sigma, without_some(labels))
    return (output.float() - (noise - x)).square().mean()


def transformer_loss(model, x, labels, ends):
    return flow_loss(lambda state, sigma, told: model(
        state, encoder_hidden_states=ends[0][told], pooled_projections=ends[1][told],
        timestep=LEVELS * sigma).sample, x, labels)


def flux_loss(model, x, labels, ends):
    """On squares of 2x2 as one token each, as FluxPipeline packs them."""
    from diffusers import FluxPipeline

    def call(state, sigma, told):
        packed = FluxPipeline._pack_latents(state, *state.shape)
        places = FluxPipeline._prepare_latent_image_ids(1, 8, 8, state.device, state.dtype)
        output = model(packed, timestep=sigma, encoder_hidden_states=ends[0][told],
                       pooled_projections=ends[1][told], img_ids=places,
                       txt_ids=torch.zeros(TOKENS, 3, device=state.device)).sample
        return FluxPipeline._unpack_latents(output, 128, 128, 8)
    return flow_loss(call, x, labels)


def without_some(labels):
    """The null class for one in ten."""
    return torch.where(torch.rand(len(labels), device=labels.device) < 0.1,
                       torch.full_like(labels, CLASSES), labels)


def train(model, loss_of, images, labels, seconds, batch, rate, folder):
    """Trains for so many seconds and saves the moving average of the weights."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model.to(device).train()
    images, labels = images.to(device), labels.to(device)
    ends = [end.to(device) for end in prompt_embeddings()]
    weights = [weight for weight in model.parameters()]
    average = [weight.detach().clone() for weight in weights]
    optimizer = torch.optim.AdamW(weights, lr=rate, betas=(0.9, 0.99), weight_decay=0.01)
    began, shown, steps, total = time.monotonic(), 0.0, 0, 0.0

    def save():
        kept = [weight.detach().clone() for weight in weights]
        with torch.no_grad():
            for weight, mean in zip(weights, average):
                weight.copy_(mean)
            model.save_pretrained(folder, safe_serialization=False)
            for weight, mine in zip(weights, kept):
                weight.copy_(mine)

    save()
    while True:
        past = (time.monotonic() - began) / seconds
        if past >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (steps + 1) / 200) * (0.02 + 0.98 * math.cos(
                past * math.pi / 2) ** 2)
        chosen = torch.randint(len(images), (batch,), device=device)
        x = images[chosen].float() / 127.5 - 1
        x = torch.where(torch.rand(batch, 1, 1, 1, device=device) < 0.5, x.flip(3), x)
        # The last part in float32: bfloat16 is too coarse to learn small corrections.
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda" and past < 0.6):
            loss = loss_of(model, x, labels[chosen], ends)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        steps += 1
        with torch.no_grad():
            torch._foreach_mul_(average, min(0.9995, (1 + steps) / (10 + steps)))
            torch._foreach_add_(average, weights,
                                alpha=1 - min(0.9995, (1 + steps) / (10 + steps)))
        total = loss.detach() if steps == 1 else 0.99 * total + 0.01 * loss.detach()
        if time.monotonic() - began - shown > 10:
            shown = time.monotonic() - began
            print(f"{folder.name}: {steps} steps, {shown:.0f} s, loss {float(total):.4f}",
                  flush=True)
            save()
    save()
    print(f"{folder.name}: {steps} steps of {batch} images, loss {float(total):.4f}, "
          f"{sum(weight.numel() for weight in weights):,} weights", flush=True)


KINDS = ("unet", "conditional", "transformer", "flux")


def run_training(images, labels, out, seconds, batch, kinds=KINDS, size=32, betas="linear"):
    """Each kind of model for so many seconds."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    makers = {"unet": lambda: unet(size).to(memory_format=torch.channels_last),
              "conditional": lambda: conditional().to(memory_format=torch.channels_last),
              "transformer": transformer, "flux": flux}
    scheduler = unet_scheduler(betas)
    losses = {"unet": unet_loss(scheduler), "conditional": conditional_loss,
              "transformer": transformer_loss, "flux": flux_loss}
    for kind in kinds:
        convolutional = kind in ("unet", "conditional")
        train(makers[kind](), losses[kind], images, labels, seconds,
              batch if convolutional else 2 * batch, 5e-4 if convolutional else 6e-4,
              Path(out) / kind)
        if kind == "unet":
            scheduler.save_pretrained(Path(out) / kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, help="archives of CLASS/NAME.jpg")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=110, help="for each model")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="some of them")
    parser.add_argument("--size", type=int, choices=[16, 32], default=32, help="of UNet's images")
    parser.add_argument("--betas", choices=["linear", "squaredcos_cap_v2"], default="linear",
                        help="the schedule that UNet's noise follows")
    options = parser.parse_args()
    run_training(*read_images(options.data), options.out, options.seconds, options.batch,
                 options.only, options.size, options.betas)


if __name__ == "__main__":
    main()
