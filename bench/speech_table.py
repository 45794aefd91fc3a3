#!/usr/bin/env python3
"""The published table for audio, with a model that fills gaps in speech: SNR of latents and of
waveforms, spectral flux at the joints and what a recogniser hears, by NFE, for solvers with and
without guidance and for speakers that the model knows and does not.

    build/release/teachers/spoken_digits --recordings recordings.zip -o speech
    python3 bench/speech_table.py --model speech --speech speech --judge recogniser -o table

Leaves table/w1/seen.md and so on. What was stopped goes on with the same command; what was finished
is not made again."""

import argparse
import os
import subprocess
import sys


def run(command, output=None):
    print("$ " + " ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE if output else None, text=True)
    if done.returncode != 0:
        sys.exit(f"speech_table: exit code {done.returncode}")
    if output:
        with open(output + ".part", "w") as file:
            file.write(done.stdout)
        os.replace(output + ".part", output)


def distill(options, model, folder, name, *how):
    """The path of the solvers, once they are there for every NFE."""
    run_folder = os.path.join(folder, name)
    family = "bst" if "bst" in how else "bns"
    begun = os.path.exists(os.path.join(run_folder, "options.json"))
    run([options.bespoke, "distill", *model, "--pairs", os.path.join(folder, "pairs"), "--nfe",
         options.nfe, *how, "-o", run_folder] + ["--resume"] * begun)
    return os.path.join(run_folder, family + ".solver.json")


def table_of(options, weight):
    folder = os.path.join(options.output, "w" + weight)
    os.makedirs(folder, exist_ok=True)
    model = ["--model", options.model, "--guidance", weight, "--batch", str(options.batch),
             *options.more]
    run([options.bespoke, "pairs", *model, "--utterances", os.path.join(options.speech, "train"),
         "--count", str(options.samples), "--validation", "64", "--trajectories",
         "--tolerance", options.tolerance, "-o", os.path.join(folder, "pairs")])
    solvers = ["euler", "midpoint", "best",
               distill(options, model, folder, "bst", "--family", "bst", "--calls",
                       str(options.calls // 2)),
               distill(options, model, folder, "fit", "--method", "fit"),
               distill(options, model, folder, "bns", "--calls", str(options.calls))]
    for speakers in ["seen", "unseen"]:
        page = os.path.join(folder, speakers + ".md")
        if os.path.exists(page):
            continue
        run([options.bespoke, "compare", *model, "--utterances",
             os.path.join(options.speech, speakers), "--seed", "5", "--count", str(options.count),
             "--tolerance", options.tolerance, "--nfe", options.nfe, "--solvers",
             ",".join(solvers), "--judge", options.judge, "--format", "md", "--sounds",
             os.path.join(folder, speakers + "-sounds")], page)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bespoke", default="bespoke", help="the program")
    parser.add_argument("--model", default="speech", help="name or card")
    parser.add_argument("--speech", required=True, help="what spoken_digits wrote")
    parser.add_argument("--judge", required=True, help="folder of the recogniser")
    parser.add_argument("--guidance", nargs="+", default=["0", "1"])
    parser.add_argument("--nfe", default="4-20+4")
    parser.add_argument("--samples", type=int, default=96, help="to learn from")
    parser.add_argument("--calls", type=int, default=40000, help="to spend on a solver; half on BST")
    parser.add_argument("--count", type=int, default=128, help="gaps to compare on")
    parser.add_argument("--tolerance", default="1e-6")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[],
                        help="options for every command, such as --device cuda; must come last")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    for weight in options.guidance:
        table_of(options, weight)


if __name__ == "__main__":
    main()
