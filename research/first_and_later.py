#!/usr/bin/env python3
"""Draws the README's picture: what a pipeline of diffusers draws once its scheduler learns.

    python3 research/first_and_later.py -o docs/pictures/first-and-later.png

models/cifar10-eps-vp in a DDPMPipeline: the first image, from which the scheduler learns, and later
ones in 8 steps, beside those of hundreds of steps and of diffusers' own schedulers in 8. All rows are
from the same noise.
"""

import argparse
from pathlib import Path

import diffusers
import torch
from PIL import Image, ImageDraw, ImageFont

import bespoke
from diffusers_proof import pipelines, psnr

TILE, GAP, LABEL, HEAD = 80, 4, 250, 8


def drawn(case, scheduler, seeds, steps):
    case.pipe.scheduler = scheduler
    return case.draw(seeds, steps)


def rows_of(case, images, reference):
    """[(label, images)], the first image alone in its row."""
    first, later = range(1), range(1, 1 + images)
    truth = drawn(case, case.reference(), later, reference)
    bespoke.accelerate(case.pipe, steps=8, samples=1)
    learning = case.pipe.scheduler
    one = drawn(case, learning, first, 8)
    evaluations = len(learning.timesteps)
    rows = [(f"first image: {evaluations} evaluations,\nfrom which it learns", one, None),
            ("later images: 8 evaluations", drawn(case, learning, later, 8), truth),
            (f"the network's own: {reference} steps", truth, None)]
    theirs = case.schedulers("trailing")
    for name in ("DDIM", "DPM++(2M)"):
        rows.append((f"diffusers' {name}: 8 steps", drawn(case, theirs[name], later, 8), truth))
    return [(label if expected is None else f"{label}\n{psnr(found, expected):.1f} dB", found)
            for label, found, expected in rows]


def picture(rows):
    count = max(len(images) for _, images in rows)
    width, height = LABEL + count * (TILE + GAP), HEAD + len(rows) * (TILE + GAP)
    sheet = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(sheet)
    try:
        font = ImageFont.truetype("DejaVuSans.ttf", 15)
    except OSError:
        font = ImageFont.load_default()
    for row, (label, images) in enumerate(rows):
        top = HEAD + row * (TILE + GAP)
        pen.multiline_text((8, top + 20), label, fill="#333333", font=font, spacing=6)
        for column, image in enumerate(images):
            values = ((image + 1) * 127.5).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
            sheet.paste(Image.fromarray(values).resize((TILE, TILE), Image.NEAREST),
                        (LABEL + column * (TILE + GAP), top))
    return sheet


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--images", type=int, default=8, help="later ones")
    parser.add_argument("--reference", type=int, default=250, help="steps of the network's own")
    options = parser.parse_args()
    diffusers.utils.logging.set_verbosity_error()
    case = pipelines(None, torch.device("cpu"))["embedded"]()
    rows = rows_of(case, options.images, options.reference)
    for label, _ in rows:
        print(label.replace("\n", " "))
    picture(rows).convert("P", palette=Image.ADAPTIVE, colors=256).save(options.output,
                                                                        optimize=True)


if __name__ == "__main__":
    main()
