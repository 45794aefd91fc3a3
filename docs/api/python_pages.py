"""Writes docs/reference/python: a page for each module of the Python package that users import from,
with the signatures and docstrings of its public names. The sources are read and not imported, so
that neither PyTorch nor the compiled module is needed.

    python3 docs/api/python_pages.py [FOLDER]
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "bespoke"
WIDTH = 100  # of a signature on one line

# Names that a module has from elsewhere: of the compiled module, and those imported when asked for.
DEFINED_IN = {("_core", "Schedule"): ("schedule", "PlainSchedule"),
              ("diffusers", "LearningScheduler"): ("learning_scheduler", "LearningScheduler")}


def parsed(module):
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def assigned(tree, name):
    """The value that a module gives to a name, or None."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    return None


def public_names():
    """{module: {name that users write: (prefix, node)}}, the modules in order."""
    package = parsed("__init__")
    home = assigned(package, "_HOME")
    names = [("bespoke", home[name], name) for name in assigned(package, "__all__")]
    for file in sorted(PACKAGE.glob("[a-z]*.py")):
        names += [(f"bespoke.{file.stem}", file.stem, name)
                  for name in assigned(parsed(file.stem), "__all__") or []]
    modules = {}
    for prefix, module, name in names:
        home_of, written = DEFINED_IN.get((module, name), (module, name))
        modules.setdefault(home_of, {}).setdefault(name, (prefix, definition(home_of, written)))
    return {module: modules[module] for module in sorted(modules)}


def definition(module, name):
    """The class or function of this name, where a module defines it."""
    for node in parsed(module).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
    raise LookupError(f"{module}.py defines no {name}")


def decorators(node):
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def members(node):
    """The public methods and properties of a class; of overloads the one that does it."""
    return [member for member in getattr(node, "body", [])
            if isinstance(member, ast.FunctionDef) and "overload" not in decorators(member)
            and not any(name.endswith(".setter") for name in decorators(member))
            and (not member.name.startswith("_") or member.name == "__call__")]


def documented(module, names):
    """(what it is called, node) of all that must have a docstring: a module, its public names and
    their public members."""
    yield module, parsed(module)
    for name, (_, node) in names.items():
        yield f"{module}.{name}", node
        for member in members(node):
            yield f"{module}.{name}.{member.name}", member


def constant(module, name):
    """What a module's constant is worth, wherever it has it from; the name if that is no literal."""
    tree = parsed(module)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bespoke."):
            if name in {alias.name for alias in node.names}:
                return constant(node.module.split(".", 1)[1], name)
    value = assigned(tree, name)
    return name if value is None else repr(value)


def annotation(node):
    return ast.unparse(node).replace("'", "")


def parameter(module, argument, default=None, stars=""):
    """One argument as a signature shows it."""
    text = stars + argument.arg
    if argument.annotation is not None:
        text += f": {annotation(argument.annotation)}"
    if default is None:
        return text
    value = constant(module, default.id) if isinstance(default, ast.Name) else ast.unparse(default)
    equals = "=" if argument.annotation is None else " = "
    return f"{text}{equals}{value}".replace("'", '"')


def parameters(module, function):
    """All arguments of a function, in order."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    shown = [parameter(module, *pair) for pair in zip(plain, defaults)]
    if given.vararg is not None:
        shown.append(parameter(module, given.vararg, stars="*"))
    elif given.kwonlyargs:
        shown.append("*")
    shown += [parameter(module, *pair) for pair in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg is not None:
        shown.append(parameter(module, given.kwarg, stars="**"))
    return shown


def signature(module, called, function, drop_first):
    """How a function is called: on one line where that fits, else an argument a line. `drop_first`
    leaves out self or cls."""
    shown = parameters(module, function)[drop_first:]
    returns = f" -> {annotation(function.returns)}" if function.returns else ""
    returns = "" if returns == " -> None" else returns
    line = f"{called}({', '.join(shown)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{called}(\n    " + ",\n    ".join(shown) + f"\n){returns}"


def fields(module, node):
    """The annotated fields of a class, as its source has them, comments included."""
    lines = (PACKAGE / f"{module}.py").read_text(encoding="utf-8").splitlines()
    return [lines[member.lineno - 1].strip() for member in node.body
            if isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_")]


def docstring(node):
    """The docstring, with its examples indented as they are in the source."""
    first, _, rest = ast.get_docstring(node, clean=False).partition("\n")
    margin = " " * node.body[0].col_offset
    return "\n".join([first, re.sub(f"^{margin}", "", rest, flags=re.MULTILINE)]).strip()


def prose(text):
    """A docstring as Markdown: lists of arguments and examples become blocks of code."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if re.match(r"\w+ {2,}\S", paragraph):
            paragraphs.append(f"```text\n{paragraph}\n```")
        elif paragraph.startswith("    "):
            code = re.sub("^    ", "", paragraph, flags=re.MULTILINE)
            paragraphs.append(f"```{'text' if '<=' in code else 'python'}\n{code}\n```")
        else:
            paragraphs.append(re.sub(r"(?<!`)([*<])", r"\\\1", paragraph))
    return "\n\n".join(paragraphs)


def section(module, name, prefix, node):
    """What a page says of one public name."""
    called = f"{prefix}.{name}"
    parts = [f"## {name}"]
    is_class = isinstance(node, ast.ClassDef)
    made = next((member for member in node.body if is_class and
                 isinstance(member, ast.FunctionDef) and member.name == "__init__"), None)
    if not is_class or made is not None:
        parts.append(f"```python\n{signature(module, called, made or node, int(is_class))}\n```")
    parts.append(prose(docstring(node)))
    if is_class and fields(module, node):
        parts.append("```python\n" + "\n".join(fields(module, node)) + "\n```")
    for member in members(node):
        # A property is read, and a call of the object is written without a name.
        receiver = name
        if "classmethod" not in decorators(member):
            receiver = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
        written = receiver if member.name == "__call__" else f"{receiver}.{member.name}"
        if "property" in decorators(member):
            line = f"{written}: {annotation(member.returns)}"
        else:
            line = signature(module, written, member, 1)
        parts += [f"### {name}.{member.name}", f"```python\n{line}\n```",
                  prose(docstring(member))]
    return "\n\n".join(parts)


def first_sentence(node):
    """A docstring up to its first full stop."""
    text = prose(docstring(node)).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.:]) (?=[A-Z`])", text)[0].rstrip(":")


def pages():
    """The text of every page by its name."""
    written = "Written by `./dev docs` from the docstrings."
    rows, texts = [], {}
    for module, names in public_names().items():
        texts[f"{module}.md"] = "\n\n".join(
            [f"# bespoke.{module}", written, prose(docstring(parsed(module))),
             *(section(module, name, *place) for name, place in names.items())]) + "\n"
        rows += [(f"{prefix}.{name}", f"{module}.md#{name.lower()}", first_sentence(node))
                 for name, (prefix, node) in names.items()]
    table = [f"| [`{called}`]({page}) | {says} |" for called, page, says in sorted(rows)]
    texts["README.md"] = "\n".join(
        ["# The Python package, name by name", "",
         f"{written} [The guide](../../guide/python.md) shows how these are used together.", "",
         "| name | what it is |", "|---|---|", *table]) + "\n"
    return texts


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for page in folder.glob("*.md"):
        if page.name not in texts:
            page.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference" / "python")
