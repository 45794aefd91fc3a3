"""Draws corridor.svg beside this file, the picture of docs/develop/architecture.md."""

from pathlib import Path

CORE = [("base", "errors, files, numbers"), ("path", "schedules, predictions"),
        ("solver", "NsSolver, catalogue"), ("run", "runs over any arrays"),
        ("distill", "fit, direct, Adam")]
TENSORS = [("tensor", "LibTorch's arrays"), ("model", "networks, fields"),
           ("sample", "sampler, reference"), ("io", "images, sounds"),
           ("recipe", "pairs, distil a model"), ("measure", "comparison, checks"),
           ("report", "tables, pages")]
BACK_ENDS = [("LibTorch", "tensor/tensor_arrays", "sample/tensor_field"),
             ("Python", "NumPy, PyTorch, JAX", "extension/python_arrays"),
             ("plain vectors", "run/plain_arrays", "tests, C++ without LibTorch")]
WIDTH, BOX, GAP, HEIGHT = 940, 128, 4, 44
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.name { font-weight: 600; }
rect { fill: #f6f8fa; stroke: #8c959f; rx: 6; }
.core rect { fill: #ddf4ff; stroke: #54aeff; }
.joint rect { fill: #fff8c5; stroke: #d4a72c; }
path { stroke: #8c959f; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .small { fill: #9198a1; }
  rect { fill: #161b22; stroke: #656c76; }
  .core rect { fill: #0c2d6b; stroke: #388bfd; } .joint rect { fill: #4b3900; stroke: #bb8009; }
  path { stroke: #656c76; }
}
"""


def box(x, y, width, name, lines, height=HEIGHT):
    middle = x + width / 2
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}"/>',
             f'<text class="name" x="{middle}" y="{y + 18}" text-anchor="middle">{name}</text>']
    parts += [f'<text class="small" x="{middle}" y="{y + 34 + 14 * k}" text-anchor="middle">{line}'
              "</text>" for k, line in enumerate(lines)]
    return "".join(parts)


def row(folders, y, kind):
    boxes = "".join(box(8 + k * (BOX + GAP), y, BOX, name, [what])
                    for k, (name, what) in enumerate(folders))
    return f'<g class="{kind}">{boxes}</g>'


def picture():
    run_x = 8 + 3 * (BOX + GAP)
    joint_y, ends_y, tensors_y = 120, 224, 330
    parts = ['<text x="8" y="24">bespoke::core: a folder includes only folders to its left</text>',
             row(CORE, 34, "core"),
             '<g class="joint">',
             box(run_x - 150, joint_y, 428, "Arrays and ArrayField",
                 ["some twenty operations on opaque arrays, samples first;",
                  "the velocities of states at times, for samples by number"], 60),
             "</g>",
             f'<path d="M {run_x + 64} 78 V {joint_y}"/>']
    for k, (name, *lines) in enumerate(BACK_ENDS):
        x = 8 + k * 306
        parts.append(box(x, ends_y, 292, name, lines, 60))
        parts.append(f'<path d="M {x + 146} {ends_y} V {ends_y - 22} H {run_x + 64} V {joint_y + 60}"/>')
    parts.append(f'<text x="8" y="{tensors_y - 10}">bespoke::bespoke: what touches tensors</text>')
    parts.append(row(TENSORS, tensors_y, "tensors"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 384" role="img" '
            f'aria-label="The folders of Bespoke and the joint between methods and arrays">'
            f"<style>{STYLE}</style>{''.join(parts)}</svg>\n")


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture(), encoding="utf-8")
