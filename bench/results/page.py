"""Records as Markdown, and the whole page of results."""

import textwrap

from results.charts import svg
from results.program import write_text
from results.records import Part

SUMMED_UP = 8  # evaluations
CLASSICAL = "best of the catalogue"
SHOWN = ("Euler", "Midpoint", CLASSICAL, "BST", "the fit", "BNS")

GROUPS = {
    "The demo": "",
    "Class-conditional images": "",
    "Text to image": "`emoji-t2i` draws in a latent space by prompts of things on colours that it "
                     "never saw together in training. Solvers are made for latents, from other "
                     "prompts than those that measure.",
    "Audio": "`speech` fills gaps in spoken digits, in the latent space of a codec "
             "([audio](guide/audio.md)).",
    "Guidance": "",
    "Variants": "",
    "Decibels for calls": "What `distill --calls N` finds for N calls of the model: its own "
                          "samples, fits, training and measurements. The small odd models are "
                          "those of [research/odd_models.py](../research/odd_models.py), trained "
                          "for 4,000 steps each.",
}

HEAD = """# Results

Written by `./dev results` from [measurements](results); every table is made by one command of
{version}, on {hardware}. To measure again:

    ./dev results --list
    ./dev results TABLE ... --device cuda

Figures are means over unseen samples ± their standard errors, against the model's own samples from
the same noise. The unseen samples took no part in making or choosing a solver. The best of the
catalogue is chosen at each number of evaluations (NFE), over all its methods and grids, on 24 other
samples. BST and BNS are found by the same method (`auto`, or `direct` where that is said), from the
same samples; BST is of base Midpoint, with w = 6.5 of base Euler. The fit is what BNS starts from.
Named solvers run on their default grid. Bold is the best of a column. Fréchet distances are of as
many samples as PSNR, from the same noise, which is few for 64 features: small ones show chance. What
was learnt on the way is in the [notebook](../research/experiments.md).
"""


def figure(cell, digits, bold):
    if not isinstance(cell, list):
        return cell
    value, error = cell
    if value is None:
        return "diverged"
    text = f"{value:.{digits}f}"
    text = f"**{text}**" if bold else text
    return f"{text} ± {error:.{digits}f}" if error is not None else text


def best_of(part, column):
    """The figure that stands out in a column; none where none is to."""
    values = [row[column][0] for row in part.rows
              if isinstance(row[column], list) and row[column][0] is not None]
    return None if not part.best or not values else (max if part.best == "most" else min)(values)


def table(part):
    columns = range(len(part.columns))
    best = [best_of(part, column) for column in columns]
    lines = ["| " + " | ".join(part.columns) + " |", "|" + "---|" * len(part.columns)]
    for row in part.rows:
        cells = [figure(row[i], part.digits, isinstance(row[i], list) and best[i] is not None and
                        row[i][0] == best[i]) for i in columns]
        lines.append("| " + " | ".join(cells) + " |")
    caption = part.caption if part.caption.endswith(".") else part.caption + ":"
    return wrapped(caption) + "\n\n" + "\n".join(lines)


def wrapped(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def section(record, pictures, where=""):
    """A table of the page; `where` says on what it was made, if not all were made there."""
    text = [f"### {record.title}", wrapped(record.about), *map(table, record.parts)]
    if record.quoted:
        text.append(textwrap.indent(record.quoted, "    "))
    text += [f"![{chart.upwards} by {chart.across}, of {', '.join(chart.series)}]"
             f"({pictures}/{chart.name}.svg)" for chart in record.charts]
    text.append(wrapped(f"{minutes(record.seconds)} in all{where}, {record.made} "
                        f"(`./dev results {record.name}`):"))
    text.append("\n".join("    " + command for command in record.commands))
    return "\n\n".join(text)


def needed(figures, quality, most):
    """How many evaluations a curve {NFE: dB} needs for a quality, linear between them."""
    last = None
    for nfe, value in sorted(figures.items()):
        if value is not None and value >= quality:
            if last is None:
                return f"≤ {nfe}"
            share = (quality - last[1]) / (value - last[1])
            return f"{last[0] + share * (nfe - last[0]):.1f}"
        if value is not None:
            last = (nfe, value)
    return f"> {most}"


def summary_row(record, part):
    """A model at 8 evaluations, and what the best of the catalogue needs for as much."""
    nfes = [int(column) for column in part.columns[1:]]
    curves = {row[0]: {nfe: cell[0] for nfe, cell in zip(nfes, row[1:]) if cell}
              for row in part.rows}
    if SUMMED_UP not in nfes or not {"BNS", CLASSICAL} <= set(curves):
        return None
    at = {row[0]: row[1 + nfes.index(SUMMED_UP)] for row in part.rows}
    which = part.caption.partition("; ")[2]
    return [record.title + (f", {which}" if which else ""),
            *(at.get(label, "") for label in SHOWN),
            needed(curves[CLASSICAL], at["BNS"][0], nfes[-1])]


def summary(records):
    """All curves of decibels at 8 evaluations; nothing where there are none."""
    rows = [summary_row(record, part) for record in records for part in record.parts
            if part.columns[0] == "NFE" and part.best == "most" and "waveforms" not in part.caption]
    rows = [row for row in rows if row]
    if not rows:
        return []
    part = Part(f"dB at {SUMMED_UP} evaluations (PSNR, of sounds SNR of latents), and how many the "
                "best of the catalogue needs for what BNS reaches with them",
                ["", *SHOWN, "best needs"], rows)
    return [f"## {SUMMED_UP} evaluations", table(part)]


def page(records):
    """The page of records in their order."""
    first = records[0]
    machines = list(dict.fromkeys(record.hardware for record in records))
    head, *rest = HEAD.format(version=first.version, hardware=" and ".join(machines)).split("\n\n")
    text = [head, *(part if part.startswith(" ") else wrapped(part) for part in rest)]
    text += summary(records)
    for group, about in GROUPS.items():
        some = [record for record in records if record.group == group]
        if some:
            text += [f"## {group}", *([wrapped(about)] if about else []),
                     *(section(record, "pictures/results",
                               f" on {record.hardware}" if len(machines) > 1 else "")
                       for record in some)]
    return "\n\n".join(text) + "\n"


def write_charts(records, folder):
    for record in records:
        for chart in record.charts:
            write_text(folder / f"{chart.name}.svg", svg(chart))
