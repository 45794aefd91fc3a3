"""Every table of docs/results.md: what it runs, and what it makes of the answers."""

import re
from dataclasses import dataclass, replace

from results import models
from results.records import Chart, Part, Record

LABELS = {"euler": "Euler", "midpoint": "Midpoint", "dpm++2m": "DPM++(2M)", "unipc2-bh2": "UniPC-2",
          "best": "best of the catalogue", "bst": "BST", "fit": "the fit", "bns": "BNS"}

FEATURES = 64  # of cifar10-features: a distance needs more samples than that


@dataclass(frozen=True)
class Sizes:
    """How much is spent: on the GPU, on a CPU for a test."""

    nfe: str = "4-20+2"
    samples: int = 96  # to learn from
    choosing: int = 32  # to choose among iterates
    calls: int = 30000  # of a BNS distillation, without the samples
    bst_calls: int = 15000
    count: int = 256  # to measure by, for which no solver was made or chosen
    budgets: tuple = (100, 200, 400, 1000, 3000, 10000, 30000)
    classical: tuple = ("euler", "midpoint", "dpm++2m", "unipc2-bh2", "best")
    tolerance: str = ""  # of references, instead of the model's

    def evaluations(self):
        first, last, step = map(int, re.match(r"(\d+)-(\d+)\+(\d+)", self.nfe).groups())
        return list(range(first, last + 1, step))


QUICK = Sizes("4-8+4", 16, 8, 2400, 400, 8, (100, 800), ("euler", "midpoint"), "1e-3")
# Of networks of ten times the weights, for which minutes of a GPU must do.
LARGE = Sizes(samples=64, choosing=24, calls=12000, bst_calls=4000, count=128,
              classical=("euler", "midpoint", "best"))


def label_of(solver):
    """What a solver of a comparison is called here: files after the distillation they are of."""
    return LABELS.get(solver, LABELS.get(solver.split("/")[0], solver.split("/")[0])
                      if ".solver.json" in solver else solver)


def tolerance_of(model, sizes):
    return sizes.tolerance or model.tolerance


def make_pairs(program, model, sizes):
    program.pairs(*model.options(), "--count", sizes.samples, "--validation", sizes.choosing,
                  "--tolerance", tolerance_of(model, sizes), *model.learnt)


def compared(program, model, sizes, name, solvers, nfe, which="", distances=False):
    """Rows by label, on unseen noise of seed 5, and the names of the best of the catalogue."""
    features = model.features if distances else ()
    rows, messages = program.compare(
        name, *model.options(), *model.unseen[which], "--seed", 5, "--count", sizes.count,
        "--tolerance", tolerance_of(model, sizes), "--nfe", nfe, *features,
        *(("--space", "decoded") if model.decoded else ()), "--solvers", ",".join(solvers))
    chosen = dict(re.findall(r"best at (\d+) NFE is (\S+)", messages))
    return [row for row in rows if row["solver"] != "reference"], chosen


def cell(row, quantity="psnr_db"):
    """[figure, standard error]; distances have none."""
    error = quantity.replace("_db", "_error_db")
    return [row.get(quantity), row.get(error) if error != quantity else None]


def by_evaluations(rows, nfes, quantity, caption, best="most"):
    """A part with a row for each solver and a column for each number of evaluations."""
    found = {}
    for row in rows:
        found.setdefault(label_of(row["solver"]), {})[row["nfe"]] = cell(row, quantity)
    return Part(caption, ["NFE", *map(str, nfes)],
                [[label, *(cells.get(nfe, "") for nfe in nfes)] for label, cells in found.items()],
                best, 2 if best == "least" else 1)


def chart_of(part, name, upwards, logarithmic=""):
    across = [int(column) for column in part.columns[1:]]
    series = {row[0]: [[x, value[0]] for x, value in zip(across, row[1:]) if value]
              for row in part.rows}
    return Chart(name, "evaluations of the model", upwards, series, logarithmic)


def calls_of(summary):
    """All that a distillation spent on a solver."""
    return sum(summary.get(key, 0) for key in ("reference_forwards", "screening_forwards",
                                               "forwards", "validation_forwards"))


def spending(program, nfes, chosen):
    """What was spent on each solver, and which of the catalogue was best."""
    rows = []
    for nfe in nfes:
        row = [str(nfe), chosen.get(str(nfe), "")]
        for name in ("bst", "fit", "bns"):
            summary = program.summary(name, nfe)
            row.append(f"{calls_of(summary):,}, {summary['seconds']:.1f} s")
        rows.append(row)
    return Part("Which is the best of the catalogue, and what the others cost: calls of the model "
                "beside its own samples, which all share, and seconds.",
                ["NFE", "best of the catalogue", "BST", "the fit", "BNS"], rows)


def quantities(model, distances):
    if model.sound:
        return [("snr_latent_db", "SNR of the latents in the filled spans, dB", "most"),
                ("snr_decoded_db", "SNR of the waveforms in the filled spans, dB", "most")]
    space = "decoded images" if model.decoded else "samples"
    found = [("psnr_db", f"PSNR of {space}, dB (peak-to-peak 2)", "most")]
    if distances:
        found.append(("fd_ref", "Fréchet distance to the model's own samples, in the 64 features "
                      "of `cifar10-features`", "least"))
    return found


class Curves:
    """Quality against the number of evaluations: BST and BNS by the same method from the same
    samples, what BNS starts from (the fit), and the solvers of the catalogue."""

    def __init__(self, model):
        self.model, self.name = model, model.name
        self.group = ("Text to image" if model.decoded else "Audio" if model.sound else
                      "Class-conditional images")

    def measure(self, program, sizes):
        model = self.model
        nfes = sizes.evaluations()
        make_pairs(program, model, sizes)
        how = (*model.options(), "--pairs", "pairs", "--nfe", sizes.nfe)
        solvers = [*sizes.classical,
                   program.distill("bst", *how, "--family", model.scale_time, "--calls",
                                   sizes.bst_calls),
                   program.distill("fit", *how, "--method", "fit"),
                   program.distill("bns", *how, "--calls", sizes.calls)]
        distances = bool(model.features) and sizes.count > FEATURES
        parts, charts = [], []
        for place, which in enumerate(model.unseen):
            rows, chosen = compared(program, model, sizes, f"compare-{place}", solvers, sizes.nfe,
                                    which, distances)
            for quantity, caption, best in quantities(model, distances):
                words = f"{caption}; {which}" if which else caption
                parts.append(by_evaluations(rows, nfes, quantity, words, best))
                if quantity != "snr_decoded_db":
                    name = "-".join(word for word in (self.name, quantity.split("_")[0],
                                                      str(place) if place else "") if word)
                    charts.append(chart_of(parts[-1], name, "dB" if best == "most" else "FD",
                                           "" if best == "most" else "y"))
        parts.append(spending(program, nfes, chosen))
        about = (f"Solvers learn from {sizes.samples} of the model's own samples and are chosen by "
                 f"{sizes.choosing} others; {sizes.count} unseen ones of seed 5 measure. "
                 f"References at {tolerance_of(model, sizes)}.")
        return Record(self.name, model.title, self.group, about, parts, charts)


class Constraints:
    """What it costs to hold a solver to what a pipeline does."""

    group = "Variants"
    kinds = {"none": (), "--start-scale 1": ("--start-scale", "1"),
             "--times integer": ("--times", "integer"), "--times bf16": ("--times", "bf16")}

    def __init__(self, model):
        self.model = model
        self.name = f"constraints-{model.name}"

    def measure(self, program, sizes):
        make_pairs(program, self.model, sizes)
        files = {kind: program.distill(f"solver-{place}", *self.model.options(), "--pairs", "pairs",
                                       "--nfe", 8, "--calls", sizes.calls, *words)
                 for place, (kind, words) in enumerate(self.kinds.items())}
        rows, _ = compared(program, self.model, sizes, "compare", files.values(), 8)
        found = {row["solver"]: cell(row) for row in rows}
        part = Part("PSNR of samples, dB (peak-to-peak 2); 8 evaluations",
                    ["constraint", "PSNR", "calls"],
                    [[f"`{kind}`" if kind != "none" else kind, found[file],
                      f"{calls_of(program.summary(f'solver-{place}', 8)):,}"]
                     for place, (kind, file) in enumerate(files.items())])
        return Record(self.name, f"Constraints, `{self.model.name}`", self.group,
                      samples_told(self.model, sizes), [part])


def samples_told(model, sizes):
    return (f"{sizes.samples} samples to learn from, {sizes.choosing} to choose by, {sizes.count} "
            f"unseen ones of seed 5. References at {tolerance_of(model, sizes)}.")


class GuidanceRange:
    """One solver for all weights of guidance in a range, by the weight of the sample."""

    group = "Guidance"

    def __init__(self, model, nfe):
        self.model, self.nfe = model, nfe
        self.name = f"range-{model.card}"

    def measure(self, program, sizes):
        sizes = replace(sizes, samples=max(sizes.samples, 4 * sizes.choosing))
        make_pairs(program, self.model, sizes)
        file = program.distill("bns", *self.model.options(), "--pairs", "pairs", "--nfe", self.nfe,
                               "--calls", sizes.calls)
        names = [name for name in sizes.classical if name in ("euler", "midpoint", "best")]
        rows, _ = compared(program, self.model, sizes, "compare", [*names, file], self.nfe)
        bins = [key for key in rows[0] if key.startswith("psnr_db_w_")]
        named = [key[len("psnr_db_w_"):].replace("_", " ") for key in bins]
        table = [[str(row["nfe"]), label_of(row["solver"]), *(cell(row, key) for key in bins),
                  cell(row)]
                 for row in sorted(rows, key=lambda row: row["nfe"])]
        space = "decoded images" if self.model.decoded else "samples"
        part = Part(f"PSNR of {space}, dB (peak-to-peak 2), by w", ["NFE", "solver", *named, "all"],
                    table)
        weights = self.model.guidance.replace("-", " to ")
        return Record(self.name, f"One solver for w from {weights}, `{self.model.card}`",
                      self.group, samples_told(self.model, sizes), [part])


class GuidanceInside:
    """Network calls spent by a solver that guides itself, and by ordinary guided evaluations."""

    group = "Guidance"

    def __init__(self, model, steps):
        self.model, self.steps = model, steps
        self.name = f"guides-itself-{model.card}-w{model.guidance}"

    def measure(self, program, sizes):
        make_pairs(program, self.model, sizes)
        how = (*self.model.options(), "--pairs", "pairs")
        calls = 2 * self.steps
        runs = {
            f"{self.steps} ordinary guided evaluations":
                ("--nfe", self.steps, "--calls", sizes.calls // 2),
            f"{self.steps} steps, coefficients of their own for both velocities":
                ("--nfe", self.steps, "--network-calls", calls, "--calls", sizes.calls),
            "steps as many as do best": ("--network-calls", calls, "--calls", sizes.calls)}
        files = [program.distill(f"solver-{place}", *how, *words)
                 for place, words in enumerate(runs.values())]
        table = []
        for place, (label, file) in enumerate(zip(runs, files)):
            rows, _ = compared(program, self.model, sizes, f"compare-{place}", [file], self.steps)
            table.append([label, str(rows[0]["nfe"]), str(rows[0]["model_calls"]), cell(rows[0])])
        space = "decoded images" if self.model.decoded else "samples"
        part = Part(f"PSNR of {space}, dB (peak-to-peak 2)",
                    ["solver", "steps", "network calls", "PSNR"], table)
        return Record(self.name, f"Guidance inside the solver, `{self.model.card}`, w = "
                      f"{self.model.guidance}", self.group, samples_told(self.model, sizes), [part])


class Sigma0:
    """Preconditioned starts, and what is made of them."""

    group = "Guidance"

    def __init__(self, model, nfe):
        self.model, self.nfe = model, nfe
        self.name = f"sigma0-w{model.guidance}"

    def measure(self, program, sizes):
        make_pairs(program, self.model, sizes)
        table = []
        for start in ("euler", "midpoint"):
            row = [LABELS[start]]
            for sigma in (1, 2, 5):
                name = f"{start}-{sigma}"
                begun = start if sigma == 1 else f"{start}@sigma0={sigma}"
                file = program.distill(name, *self.model.options(), "--pairs", "pairs", "--nfe",
                                       self.nfe, "--init", begun, "--method", "direct", "--calls",
                                       sizes.bst_calls)
                rows, _ = compared(program, self.model, sizes, f"compare-{name}", [begun, file],
                                   self.nfe)
                row += [cell(one) for one in rows]
            table.append(row)
        columns = [f"sigma_0 = {sigma}, {when}" for sigma in (1, 2, 5) for when in ("start", "BNS")]
        part = Part(f"PSNR of decoded images, dB (peak-to-peak 2); {self.nfe} evaluations",
                    ["start", *columns], table)
        return Record(self.name, f"What sigma_0 is worth, w = {self.model.guidance}", self.group,
                      samples_told(self.model, sizes), [part])


class Demo:
    """What `./dev demo` prints: the front page quotes its table."""

    group, name = "The demo", "demo"

    def __init__(self, model):
        self.model = model

    def measure(self, program, _sizes):
        answer = program.run("demo", "demo", "-o", "out/demo", writes="out/demo")
        printed = answer["output"].strip()
        return Record(self.name, f"`./dev demo`, `{self.model.card}`", self.group,
                      "On the CPU, as a newcomer runs it.", [], quoted=printed)


class Calls:
    """What `distill --calls N` finds for N calls of the model, all in."""

    group = "Decibels for calls"
    nfe = 8

    def __init__(self, model):
        self.model = model
        self.name = f"calls-{model.name}"

    def measure(self, program, sizes):
        files = [program.distill(f"calls-{calls}", *self.model.options(), "--nfe", self.nfe,
                                 "--calls", calls, *self.model.learnt) for calls in sizes.budgets]
        best = sizes.classical[-1]
        rows, chosen = compared(program, self.model, sizes, "compare", [best, *files], self.nfe)
        spent = [calls_of(program.summary(f"calls-{calls}", self.nfe)) for calls in sizes.budgets]
        found = {row["solver"]: cell(row) for row in rows}
        part = Part("PSNR, dB (peak-to-peak 2), for calls of the model, all in", ["calls", "PSNR"],
                    [[chosen.get(str(self.nfe), label_of(best)), found[best]]] +
                    [[f"{calls:,}", found[file]] for calls, file in zip(spent, files)])
        points = [[calls, found[file][0]] for calls, file in zip(spent, files)]
        level = found[best][0]
        series = {label_of("bns"): points,
                  label_of(best): [[spent[0], level], [spent[-1], level]]}
        chart = Chart(self.name, "calls of the model, all in", "dB", series, "x")
        about = (f"{sizes.count} unseen samples of seed 5; one run for each budget, so one "
                 f"set of samples. References at {tolerance_of(self.model, sizes)}.")
        weight = f", w = {self.model.guidance}" if self.model.guidance != "0" else ""
        return Record(self.name, f"`{self.model.card}`{weight}, {self.nfe} evaluations", self.group,
                      about, [part], [chart])


class CallsByModel:
    """The same of many small models, a row for each."""

    group = "Decibels for calls"
    name = "calls-cards"
    nfe = 8
    budgets = (1000, 3000, 10000, 30000, 100000)

    def __init__(self, models):
        self.models, self.model = models, models[0]

    def row(self, program, model, sizes):
        name = model.name.removeprefix("card-")
        files = [program.distill(f"{name}-{calls}", *model.options(), "--nfe", self.nfe, "--calls",
                                 calls, *model.learnt) for calls in self.budgets]
        best = sizes.classical[-1]
        rows, _ = compared(program, model, sizes, f"compare-{name}", [best, *files], self.nfe)
        found = {row["solver"]: cell(row) for row in rows}
        return [f"`{name}`", *(found[solver] for solver in (best, *files))]

    def measure(self, program, sizes):
        columns = ["model", "best of the catalogue", *(f"{calls:,}" for calls in self.budgets)]
        first = self.row(program, self.model, sizes)
        commands = len(program.commands)
        others = [self.row(program, model, sizes) for model in self.models[1:]]
        del program.commands[commands:]
        part = Part("PSNR, dB (peak-to-peak is the card's range of values), for so many calls of the "
                    "model at most, all in", columns, [first, *others])
        about = (f"{sizes.count} unseen samples of seed 5; one run for each budget. References at "
                 f"{tolerance_of(self.model, sizes)}. The commands are those of the first model.")
        return Record(self.name, f"Small odd models, {self.nfe} evaluations", self.group, about,
                      [part])


def sizes_of(table, is_quick, nfe):
    """What is spent on a table; `nfe` changes its evaluations."""
    sizes = QUICK if is_quick else LARGE if table.name.startswith("card-") else Sizes()
    return replace(sizes, nfe=nfe) if nfe else sizes


def quick():
    """A table of each kind that an analytic model has, seconds of a CPU."""
    return [Curves(models.analytic()), Constraints(models.analytic()), Calls(models.analytic())]


def every(cards, recordings):
    """The tables in the order of the page. `cards` are of further models."""
    images = [models.embedded(name) for name in ("cifar10-fm-ot", "cifar10-eps-vp")]
    weak, strong = models.prompts("2"), models.prompts("6.5", "1e-5", "bst-rk1")
    guided = replace(images[0], guidance="2")
    return [Demo(images[0]), *map(Curves, images), *(Curves(models.of_card(card)) for card in cards),
            Curves(weak), Curves(strong),
            *(Curves(models.speech(w, recordings)) for w in ("1", "0")),
            GuidanceRange(replace(images[0], guidance="0-4"), "8"),
            GuidanceRange(replace(strong, guidance="0-6.5"), "8,12,16"),
            GuidanceInside(guided, 8), GuidanceInside(strong, 12),
            Sigma0(weak, 8), Sigma0(strong, 12),
            *map(Constraints, images),
            *map(Calls, [*images, weak]),
            *([CallsByModel([models.of_card(card) for card in cards])] if cards else [])]
