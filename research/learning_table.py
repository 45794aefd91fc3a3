#!/usr/bin/env python3
"""What LearningScheduler learns inside pipelines of diffusers, beside diffusers' own schedulers.

    python3 research/learning_table.py embedded                       # models/cifar10-eps-vp
    python3 research/learning_table.py unet sd flow flux --models models    # of diffusers_train.py

For each pipeline a table: PSNR by 4, 6 and 8 steps, learnt from 1, 2, 4 and 8 images, means over
sets of images with the least and the most, and the best of diffusers' schedulers over their
options. Images to measure on took no part.
"""

import argparse
from pathlib import Path

import diffusers
import torch

import bespoke
from diffusers_proof import of_diffusers, pipelines, psnr


def learnt(case, counts, images, truth, seeds):
    """{steps: PSNR} after one call that draws `images`, and the evaluations of that call."""
    bespoke.accelerate(case.pipe, steps=counts, samples=len(images), quiet=True)
    case.draw(images, counts[-1])
    evaluations = len(case.pipe.scheduler.timesteps)
    found = {count: psnr(case.draw(seeds, count), truth) for count in counts}
    told = {count: str(quality) for count, quality in case.pipe.scheduler.quality.items()}
    case.pipe.scheduler = case.base
    return found, evaluations, told


def range_of(values):
    mean = sum(values) / len(values)
    return f"{mean:.1f} ({min(values):.1f} to {max(values):.1f})"


def measured(case, options):
    """Prints the table of one pipeline."""
    seeds = range(1000, 1000 + options.images)
    case.pipe.scheduler = case.reference()
    half, truth = (case.draw(seeds, factor * options.reference) for factor in (1, 2))
    print(f"\n{case.name}: {options.images} images; its own {options.reference} steps of "
          f"{type(case.pipe.scheduler).__name__} are {psnr(half, truth):.1f} dB from those of "
          f"{2 * options.reference}, which the table is against", flush=True)
    theirs = of_diffusers(case, options.steps, seeds, truth)
    for name, row in theirs.items():
        print(f"{name}: {'; '.join(f'{count}: {row[count]:.1f}' for count in options.steps)}",
              flush=True)
    rows = {count: [] for count in options.steps}
    for size in options.learn:
        sets = [learnt(case, options.steps, range(size * k, size * (k + 1)), truth, seeds)
                for k in range(options.sets)]
        for count in options.steps:
            rows[count].append(range_of([found[count] for found, _, _ in sets]))
        print(f"learnt from {size}: "
              f"{'; '.join(f'{count}: {rows[count][-1]}' for count in options.steps)}; "
              f"{sets[0][1]} evaluations for all steps together; by its own "
              f"words {sets[0][2][options.steps[-1]]} at {options.steps[-1]}", flush=True)
    heads = [f"from {size}" for size in options.learn]
    print(f"\n| steps | {' | '.join(heads)} | best of diffusers |\n|---|{'---|' * len(heads)}---|")
    for count in options.steps:
        name, row = max(theirs.items(), key=lambda entry: entry[1][count])
        print(f"| {count} | {' | '.join(rows[count])} | {row[count]:.1f}, {name} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("cases", nargs="+", choices=["embedded", "unet", "sd", "flow", "flux"])
    add("--models", type=Path, help="what research/diffusers_train.py wrote, for all but embedded")
    add("--steps", type=int, nargs="+", default=[4, 6, 8])
    add("--learn", type=int, nargs="+", default=[1, 2, 4, 8], help="images to learn from")
    add("--sets", type=int, default=3, help="of images to learn from")
    add("--images", type=int, default=16, help="to measure on")
    add("--reference", type=int, default=250, help="steps; the table is against twice as many")
    add("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.models is None and options.cases != ["embedded"]:
        parser.error("all but embedded need --models")
    diffusers.utils.logging.set_verbosity_error()
    torch.backends.cudnn.allow_tf32 = False
    print(f"bespoke-solvers {bespoke.__version__}, diffusers {diffusers.__version__}, "
          f"PyTorch {torch.__version__}, {options.device}")
    for name in options.cases:
        case = pipelines(options.models, options.device)[name]()
        case.pipe.to(options.device)
        measured(case, options)


if __name__ == "__main__":
    main()
