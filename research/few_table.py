#!/usr/bin/env python3
"""What one to four evaluations reach: solvers matched to each of the model's samples, and solvers
matched to their distribution as well, side by side.

Images by class, with a table, a picture and a JSON file for each row:

    python3 research/second_classifier.py --train train.zip --test test.zip -o heldout.pt
    python3 research/few_table.py --model cifar10-fm-ot --cond y=0-9 --features models/cifar10-features.pt \\
        --held-out heldout.pt --real test.zip -o few

Models that are told what to draw or to say, where judges find what was asked for:

    python3 research/few_table.py --model emoji-t2i --guidance 2 --samples-of "--prompts prompts.txt" \\
        --features judge-thing/features.pt --judge judge-thing --judge judge-colour -o few-emoji
    python3 research/few_table.py --model speech --guidance 1 --samples-of "--utterances speech/seen" \\
        --train-on "--utterances speech/train" --judge recogniser --nfe 2 4 -o few-speech

What was stopped goes on with the same command; what was finished is not made again. Distances are
those of Fréchet, to the model's own samples from the same noise and to real data: FD in the features
that took part, FD' in those that did not, and FD'' in another network's. Spread is the deviation of
features within a class and apart the distance of a sample to its nearest neighbour of the same class,
both in the last features named and beside those of the model's samples: 1 is as varied. Calls are all
that a solver cost, the model's own samples included; seconds are those of its own distillation."""

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import torch

from progressive_table import frechet, read_safetensors, spread, write_json
from second_classifier import read as read_pictures

COLUMNS = [("NFE", "nfe", "{:d}"), ("matched", "matched", "{}"), ("PSNR", "psnr", "{:.2f}"),
           ("FD", "fd", "{:.3f}"), ("FD'", "fd'", "{:.4f}"), ("FD''", "fd''", "{:.4f}"),
           ("FD to data", "fd to data", "{:.2f}"), ("FD' to data", "fd' to data", "{:.2f}"),
           ("FD'' to data", "fd'' to data", "{:.3f}"),
           ("spread", "spread", "{:.3f}"), ("apart", "apart", "{:.3f}"),
           ("agreement", "agreement", "{:.1%}"), ("calls", "calls", "{:,d}"),
           ("seconds", "seconds", "{:.0f}")]


class Table:
    def __init__(self, options):
        self.options = options
        self.folder = Path(options.output)
        self.known = {}  # features that many rows ask for
        wants_gpu = options.device != "cpu" and torch.cuda.is_available()
        self.device = torch.device("cuda" if wants_gpu else "cpu")
        named = [("fd", options.features), *zip(("fd'", "fd''"), options.held_out)]
        self.networks = {name: self.network(file) for name, file in named if file}

    def network(self, file):
        return torch.jit.load(file, map_location="cpu").float().eval().to(self.device)

    def bespoke(self, *words, output=False):
        command = [self.options.bespoke, *map(str, words), "--device", self.options.device,
                   "--dtype", self.options.dtype, "--batch", str(self.options.batch)]
        if self.options.guidance:
            command += ["--guidance", self.options.guidance]
        print("$ " + shlex.join(command), flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE if output else None, text=True)
        if done.returncode != 0:
            sys.exit(f"few_table: exit code {done.returncode}")
        return done.stdout

    def samples_of(self):
        """What says which samples: their conditions and their noise."""
        options = self.options
        words = ["--cond", options.cond] if options.cond else shlex.split(options.samples_of)
        return [*words, "--seed", options.seed, "--count", options.count]

    def solver(self, nfe, matched):
        """The file of the solvers, found once for every NFE, and what this one cost."""
        options, folder = self.options, self.folder / "solvers" / matched
        done = folder / "done.json"
        if not done.exists():
            how = ["--match", matched, *shlex.split(options.distill)]
            if matched != "samples":
                how += ["--features", options.features] if options.features else []
                how += shlex.split(options.match_options)
            begun = ["--resume"] if (folder / "options.json").exists() else []
            started = time.monotonic()
            self.bespoke("distill", "--model", options.model, *shlex.split(options.train_on),
                         "--nfe", ",".join(map(str, options.nfe)), *how, *begun, "-o", folder)
            write_json(done, {"seconds": time.monotonic() - started})
        file = folder / "bns.solver.json"
        solvers = json.loads(file.read_text())["solvers"]
        told = next(one for one in solvers if one["nfe"] == nfe)["provenance"]
        return file, {"calls": told["calls"], "seconds": told["seconds"]}

    def samples(self, name, *how):
        """Of the same noise and conditions whatever the solver: [count, ...]."""
        folder = self.folder / "samples" / name
        file = folder / "samples.safetensors"
        if not file.exists():
            self.bespoke("sample", "--model", self.options.model, *self.samples_of(), *how, "-o",
                         folder)
            for picture in folder.glob("*.png"):
                picture.unlink()
        return read_safetensors(file)["samples"].float()

    def truth(self):
        return self.samples("model", "--solver", "reference", "--tolerance",
                            self.options.tolerance)

    @torch.no_grad()
    def features(self, samples, name):
        network = self.networks[name]
        return torch.cat([network(part.to(self.device)).double().cpu()
                          for part in samples.split(1000)])

    def features_of(self, what, name):
        """Of the model's own samples or of real data: computed once."""
        if (what, name) not in self.known:
            samples = self.truth() if what == "model" else real_images(self.options.real)
            self.known[what, name] = self.features(samples, name)
        return self.known[what, name]

    def labels(self):
        """Which samples are of one class, in turn as --cond repeats."""
        return torch.arange(self.options.count) % (10 if self.options.cond else 1)

    def distances(self, samples):
        figures = {}
        for name in self.networks:
            found, wanted = self.features(samples, name), self.features_of("model", name)
            figures[name] = frechet(found, wanted)
            if self.options.real:
                figures[f"{name} to data"] = frechet(found, self.features_of("data", name))
            labels = self.labels()
            figures["spread"] = spread(found, labels) / spread(wanted, labels)
            figures["apart"] = apart(found, labels) / apart(wanted, labels)
        return figures

    def row(self, nfe, matched):
        """A row's figures, made once."""
        path = self.folder / "rows" / f"{matched}-{nfe}.json"
        if path.exists():
            return json.loads(path.read_text())
        solver, cost = self.solver(nfe, matched)
        figures = {"nfe": nfe, "matched": matched, **cost}
        if self.options.judge:
            figures.update(self.judged(solver, nfe))
        else:
            samples = self.samples(f"{matched}-{nfe}", "--solver", solver, "--nfe", nfe)
            errors = (samples.double() - self.truth().double()).flatten(1).square().mean(1)
            figures["psnr"] = (10 * torch.log10(4 / errors)).mean().item()
            figures.update(self.distances(samples))
        write_json(path, figures)
        return figures

    def judged(self, solver, nfe):
        judges = [word for folder in self.options.judge for word in ("--judge", folder)]
        features = ["--features", self.options.held_out[0]] if self.options.held_out else []
        found = json.loads(self.bespoke(
            "compare", "--model", self.options.model, *self.samples_of(), "--solvers", solver,
            "--nfe", nfe, "--tolerance", self.options.tolerance, *judges, *features, "--format",
            "json", output=True))
        rows = {row["solver"]: row for row in found}
        mine = next(row for name, row in rows.items() if name != "reference")
        return {"psnr": mine["psnr_db"], "agreement": mine["agreement"],
                "fd'": mine.get("fd_ref"),
                "model_agreement": rows.get("reference", {}).get("agreement")}

    def noise_of_distances(self):
        """What chance makes of a distance: two halves of the model's own samples."""
        half = self.options.count // 2
        found = {}
        for name in self.networks:
            features = self.features_of("model", name)
            found[name] = frechet(features[:half], features[half:])
            if self.options.real:
                found[f"{name} to data"] = frechet(features, self.features_of("data", name))
        return found

    def picture(self):
        """The first samples of every row under each other, the model's own first."""
        try:
            from PIL import Image
        except ImportError:
            print("few_table: no picture, for want of Pillow")
            return
        many = 20
        rows = [self.truth()[:many]]
        for nfe in self.options.nfe:
            for matched in self.options.matched:
                rows.append(self.samples(f"{matched}-{nfe}")[:many])
        bytes_of = ((torch.cat(rows).clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
        size = bytes_of.shape[-1]
        page = Image.new("RGB", (many * (size + 2), len(rows) * (size + 2)), "white")
        for k, image in enumerate(bytes_of):
            place = (k % many * (size + 2), k // many * (size + 2))
            page.paste(Image.fromarray(image.permute(1, 2, 0).numpy()), place)
        page.resize((page.width * 2, page.height * 2), Image.NEAREST).save(
            self.folder / "samples.png")


def real_images(sources):
    """In [-1, 1]: archives of pictures, or one .safetensors of "samples"."""
    if sources[0].endswith(".safetensors"):
        images = read_safetensors(sources[0])["samples"]
    else:
        images, _ = read_pictures(sources)
    return images.float() / 127.5 - 1 if images.dtype == torch.uint8 else images.float()


def apart(features, labels):
    """The mean distance of a sample to its nearest neighbour of the same class."""
    nearest = []
    for c in labels.unique():
        mine = features[labels == c]
        distances = torch.cdist(mine, mine)
        distances.fill_diagonal_(float("inf"))
        nearest.append(distances.min(1).values)
    return torch.cat(nearest).mean().item()


def write_table(table, rows):
    columns = [column for column in COLUMNS if any(row.get(column[1]) is not None for row in rows)]
    lines = ["| " + " | ".join(title for title, _, _ in columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [form.format(row[key]) if row.get(key) is not None else ""
                 for _, key, form in columns]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    if table.options.judge:
        text += f"\nOf the model's own samples {rows[0]['model_agreement']:.1%} agree.\n"
    elif table.networks:
        noise = table.noise_of_distances()
        text += "\nTwo halves of the model's samples: " + ", ".join(
            f"{key} {value:.4f}" for key, value in noise.items() if "data" not in key) + "."
        to_data = [f"{key} {value:.3f}" for key, value in noise.items() if "data" in key]
        text += f" The model's samples: {', '.join(to_data)}.\n" if to_data else "\n"
    (table.folder / "table.md").write_text(text)
    print(text, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bespoke", default="bespoke", help="the program")
    parser.add_argument("--model", default="cifar10-fm-ot", help="name or card")
    parser.add_argument("--cond", default="", help="classes, for images by class")
    parser.add_argument("--samples-of", default="", help="otherwise: options of sample and compare")
    parser.add_argument("--train-on", default="", help="options of distill that say on what")
    parser.add_argument("--guidance", default="")
    parser.add_argument("--features", help="TorchScript that takes part; default: plain numbers")
    parser.add_argument("--held-out", action="append", default=[],
                        help="TorchScript that takes none; twice at most")
    parser.add_argument("--judge", action="append", default=[], help="folder; repeatable")
    parser.add_argument("--real", action="append", default=[],
                        help="archives of pictures, or one .safetensors")
    parser.add_argument("--nfe", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--matched", nargs="+", default=["samples", "both"])
    parser.add_argument("--distill", default="", help="more options of every distillation")
    parser.add_argument("--match-options", default="", help="more options of those that match")
    parser.add_argument("--count", type=int, default=10000, help="samples that are measured")
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--tolerance", default="1e-4", help="of the model's own samples")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("-o", "--output", required=True)
    return parser.parse_args()


def main():
    table = Table(parse_arguments())
    options = table.options
    table.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for nfe in options.nfe:
        for matched in options.matched:
            rows.append(table.row(nfe, matched))
    write_table(table, rows)
    if options.cond and not options.judge:
        table.picture()


if __name__ == "__main__":
    main()
