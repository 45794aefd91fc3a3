"""Turns a PyTorch module into a file and a model card that Bespoke reads."""

import copy
import functools
import hashlib
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import List, NamedTuple

import torch

from bespoke import checks, compiling
from bespoke.adapters import adapt
from bespoke.card import (PACKAGE, SCRIPT, check_card, check_decoder, check_sound, has_parts,
                          returned_shapes)
from bespoke.examples import decoder_inputs, network_inputs
from bespoke.files import move_into_place
from bespoke.graph import follow_device, operators
from bespoke.plain_ops import MISSING_IN_1_13, WITHOUT_DERIVATIVE, plain_operators

METHODS = ["auto", "script", "trace"]
OPTIONS = ["method", "half", "overwrite", "strict", "adapter", "decoder", "tolerance", "quiet",
           "device", "dtype"]

_SUFFIXES = {SCRIPT: ".pt", PACKAGE: ".pt2"}
_DONE = {"script": "scripted", "trace": "traced"}
_TOLERANCE = 1e-4
_HINT = ("a trace keeps the batch size and the branches of its example: take sizes from the "
         "inputs, leave out what is random, or write the module so that torch.jit.script takes it")
_PACKAGE_HINT = ("compiled code keeps the branches of its example: take sizes from the inputs, and "
                 "leave out what is random")

# A trace is made with a batch that no check uses, so that a fixed batch size shows.
_TRACED_TIMES = (0.2, 0.5, 0.8)
# Our times of each checked batch: single samples over the whole range, both ends in one batch, and
# a time of its own for each of five samples.
_CHECKED_TIMES = ((0.0,), (0.35,), (0.65,), (1.0,), (0.0, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0))


class ExportError(RuntimeError):
    """The module cannot be exported, or what was exported is not the module."""


class Export(NamedTuple):
    """What export_model wrote."""

    card: Path
    weights: Path
    method: str  # "script", "trace" or "compile"
    difference: float  # the largest seen to the eager module, relative to the largest output
    operators: List[str]  # those that LibTorch 1.13 lacks or cannot differentiate


def export_model(module, path, *, method="auto", half=False, overwrite=False, strict=False,
                 adapter=None, decoder=None, tolerance=None, quiet=False, device=None, dtype=None,
                 **fields):
    """Writes the model card `path` and, beside it, `module` as a file; returns an Export.

    fields     the card's keys (docs/reference/model-card.md): sample_shape, prediction, schedule
               and time are needed; the last two may be text, "vp:B=20,b=0.1",
               "index:levels=1000"; format is "torchscript" unless it is given, or
               "aotinductor", compiled
    method     "script", "trace", or "auto": script, and trace where scripting fails
    half       store the parameters in 16 bits: float16, or bfloat16 where they have it already
    overwrite  replace files that are there
    strict     refuse, rather than warn about, operators that LibTorch 1.13 lacks
    adapter    "diffusers", or a callable that makes of `module` one called (x, time, *conditions)
    decoder    for latents: a module, or {"module": ..., "scale": ..., "shift": ...,
               "sample_shape": ..., "value_range": ...}; decoded = decoder(z / scale + shift)
    tolerance  largest difference to the eager module, relative to its largest output; 1e-4, and
               more for narrow types of compiled models
    device     of a compiled model: "cuda" or "cpu"; cuda where there is a GPU
    dtype      of a compiled model: "fp32", which is the default, "tf32", "fp64", "bf16", "fp16"

    The module is exported in eval mode, on the CPU, in float32, without gradients, and stays as it
    was; weights are shared with it or converted one by one. With `half`, one whose parameters are
    all float16 or bfloat16 already is exported in that type. A compiled one is on its device and
    of its type, and runs with those alone; its decoder is TorchScript.
    ValueError: the card is wrong, before any work. ExportError: the module cannot be exported as
    it is. Neither leaves a file.
    """
    card = {"format": SCRIPT, **check_card(fields, OPTIONS)}
    checks.choice(method, METHODS, "method", "method")
    target = _check_format(card["format"], module, {"device": device, "dtype": dtype},
                           {"method": method != "auto", "half": half, "strict": strict})
    decoder_module, decoder_card = _split_decoder(decoder)
    checks.require(not (decoder_module and has_parts(card)), "decoder",
                   "goes with samples of one tensor, and sample_shape has several parts")
    check_sound(card, decoder_card.get("sample_shape", [] if decoder_module else
                                       card["sample_shape"]))
    adapted = adapt(_require_module(module, "module"), adapter, card.get("conditions", []))
    module = _require_module(adapted, "adapter")
    path = Path(path)
    files = _file_names(path, card, decoder_module is not None)
    if not overwrite:
        _refuse_existing([path, *files])
    exporter = _Exporter(method, half, strict, tolerance, quiet)

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bespoke-export-", dir=path.parent) as scratch:
        ready = [Path(scratch) / file.name for file in (*files, path)]
        inputs = functools.partial(network_inputs, card)
        if target:
            export = exporter.write_package(module, ready[0], inputs, card, target)
        else:
            export = exporter.write(module, ready[0], inputs, returned_shapes(card))
        card = {**card, "weights": files[0].name, "weights_sha256": _sha256(ready[0])}
        if decoder_module is not None:
            card["decoder"] = exporter.write_decoder(decoder_module, decoder_card, ready[1], card)
            check_sound(card, card["decoder"]["sample_shape"])
        ready[-1].write_text(_card_text(card), encoding="utf-8")
        # The card last: whoever finds it finds what it names.
        for made, final in zip(ready, (*files, path)):
            move_into_place(made, final)
    exporter.say(f"wrote {path} and {', '.join(file.name for file in files)}")
    return export._replace(card=path, weights=files[0])


class _Batch(NamedTuple):
    """Arguments of a module and what it gives for them before it is exported."""

    arguments: tuple
    outputs: list  # a tensor for each part of a sample
    parts: int  # how many of the arguments, the first, are a sample

    def where(self, sample=None):
        """Words for the batch and the network's own time of one sample, or of all."""
        size = f"batch {len(self.arguments[0])}"
        if len(self.arguments) == self.parts:
            return size
        times = self.arguments[self.parts].tolist()
        return f"{size}, time {times if sample is None else times[sample]}"


class _Bar(NamedTuple):
    """What an exported module must pass: how far it may be off, and what to do where it is more."""

    tolerance: float
    hint: str


class _Exporter:
    """How modules are exported, with the options that hold for the model and its decoder."""

    def __init__(self, method, half, strict, tolerance, quiet):
        self.method, self.half, self.strict = method, half, strict
        self.tolerance, self.quiet = tolerance, quiet

    def say(self, text):
        if not self.quiet:
            print(f"bespoke-export: {text}", file=sys.stderr)

    def write(self, module, path, inputs, shapes):
        """Exports `module` to `path`, called with `inputs`; the Export's paths are `path`.

        inputs(times) makes the arguments for a batch of our times; `shapes` are those of its
        outputs without the batch, None where any will do.
        """
        module, dtype = _prepare(module, self.half)
        inputs = functools.partial(_in_type, inputs, dtype)
        with torch.no_grad(), warnings.catch_warnings():
            # PyTorch 2.9 calls TorchScript deprecated; it is what LibTorch 1.13 to 2 all read.
            warnings.filterwarnings("ignore", ".*torch.jit", DeprecationWarning)
            batches = [_eager(module, inputs(times), shapes) for times in _CHECKED_TIMES]
            exported, method = self._compile(module, inputs(_TRACED_TIMES))
            bar = self._bar(_TOLERANCE, _HINT)
            difference = _compare(exported, batches, f"the {_DONE[method]} module", bar)
            found = self._scan(exported)
            _save(exported, path, self.half, dtype)
            loaded = torch.jit.load(str(path), map_location="cpu").to(dtype)
            _compare(loaded, batches, "the file written", bar)
        self.say(f"{type(module).__name__} {_DONE[method]}; largest relative difference to the "
                 f"eager module {difference:.1e}")
        return Export(path, path, method, difference, found)

    def write_package(self, module, path, inputs, card, target):
        """Compiles `module` to `path` for a compiling.Target; the rest is as of write."""
        timed = [] if card["time"]["convention"] == "none" else ["time"]
        names = ["x", *timed, *(each["name"] for each in card.get("conditions", []))]
        bar = self._bar(compiling.TOLERANCES[target.dtype], _PACKAGE_HINT)
        tuned = [i / compiling.TUNED_BATCH for i in range(compiling.TUNED_BATCH)]
        module = _prepare(module, False)[0].to(target.device, compiling.DTYPES[target.dtype])

        def placed(times):
            return tuple(target.put(value) for value in inputs(times))

        with torch.no_grad(), compiling.products_of(target):
            batches = [_eager(module, placed(times), returned_shapes(card))
                       for times in _CHECKED_TIMES]
            try:
                compiling.write_package(module, placed(tuned), path, names, target)
                package = compiling.load_package(path)
            except Exception as error:
                raise ExportError(f"the module cannot be compiled: {_brief(error)}") from error
            difference = _compare(package, batches, "the package", bar)
        self.say(f"{type(module).__name__} compiled for {target.dtype} on {target.device}; largest "
                 f"relative difference to the eager module {difference:.1e}")
        return Export(path, path, "compile", difference, [])

    def write_decoder(self, module, card, path, model_card):
        """Exports the decoder of `model_card`'s samples to `path`; returns its card."""
        inputs = functools.partial(decoder_inputs, model_card["sample_shape"], card)
        shape = card.get("sample_shape")
        self.write(module, path, inputs, [shape])
        if shape is None:
            with torch.no_grad():
                decoded = torch.jit.load(str(path), map_location="cpu").float()(*inputs([0.5]))
            shape = list(decoded.shape[1:])
        return {"weights": path.name, "weights_sha256": _sha256(path), **card,
                "sample_shape": shape}

    def _bar(self, usual_tolerance, hint):
        return _Bar(usual_tolerance if self.tolerance is None else self.tolerance, hint)

    def _compile(self, module, example):
        """(TorchScript module, "script" or "trace")."""
        with plain_operators(module):
            if self.method != "trace":
                try:
                    return torch.jit.script(module), "script"
                except Exception as error:  # the compiler raises what it likes
                    reason = _brief(error)
                if self.method == "script":
                    raise ExportError(f"torch.jit.script fails: {reason}; try method=\"trace\"")
                self.say(f"torch.jit.script fails ({reason}), so the module is traced")
            try:
                traced = torch.jit.trace(module, example, check_trace=False)
            except Exception as error:
                raise ExportError(f"torch.jit.trace fails: {_brief(error)}") from error
        for name in follow_device(traced):
            warnings.warn(f"the trace of {name} fixes tensors to the CPU; it will not run on a GPU")
        return traced, "trace"

    def _scan(self, exported):
        """Operators that would fail elsewhere; a warning says which, or an error if strict."""
        present = operators(exported)
        problems = []
        for names, why in ((MISSING_IN_1_13, "LibTorch 1.13 lacks"),
                           (WITHOUT_DERIVATIVE, "have no derivative, so nothing can be trained "
                                                "through the model:")):
            found = sorted(name for name in present & names)
            if found:
                problems.append((found, f"operators that {why} {', '.join(found)}"))
        message = "the module holds " + " and ".join(text for _, text in problems)
        if problems and self.strict:
            raise ExportError(f"{message}; write it without them")
        if problems:
            warnings.warn(message)
        return [name for found, _ in problems for name in found]


def _require_module(module, what):
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"{what}: must give a torch.nn.Module, found {type(module).__name__}")
    return module


def _check_format(name, module, compiled, scripted):
    """The compiling.Target of a package, None for TorchScript.

    compiled  options that go with a package alone, and scripted those that go with TorchScript
              alone: by name, None or false where they were not given
    """
    stray, owner = (scripted, SCRIPT) if name == PACKAGE else (compiled, PACKAGE)
    for key, value in stray.items():
        checks.require(not value, key, f"goes with the format {owner}")
    if name != PACKAGE:
        return None
    compiling.check_module(module)
    return compiling.check_target(**compiled)


def _split_decoder(decoder):
    """(module or None, its card) from what the user gave."""
    if decoder is None or isinstance(decoder, torch.nn.Module):
        return decoder, {}
    checks.require(isinstance(decoder, dict) and "module" in decoder, "decoder",
                   'must be a torch.nn.Module, or an object with one as "module"')
    rest = {key: value for key, value in decoder.items() if key != "module"}
    return _require_module(decoder["module"], "decoder.module"), check_decoder(rest)


def _file_names(path, card, with_decoder):
    """The weights' path and, if there is one, the decoder's."""
    checks.require(path.suffix == ".json", "path", f"the card's name ends in .json, found {path}")
    suffix = _SUFFIXES[card["format"]]
    name = card.get("weights", path.stem + suffix)
    checks.require(Path(name).name == name and name.endswith(suffix), "weights",
                   f"is a file name beside the card that ends in {suffix}, found '{name}'")
    files = [path.with_name(name)]
    decoder = path.with_name(name[:-len(suffix)] + "-decoder" + _SUFFIXES[SCRIPT])
    return [*files, decoder] if with_decoder else files


def _refuse_existing(paths):
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} is there already; overwrite=True (--overwrite) "
                                  "replaces it")


def _prepare(module, half):
    """(A module to export, what it computes in): eval, CPU, no gradients.

    Its tensors are the module's own where they need no conversion, and are converted one by one
    otherwise: to float32, and with `half` to float16 values. Modules whose parameters have 16 bits
    already stay as they are with `half`, so that a large one is never there in float32.
    """
    dtype = _narrow_type(module) if half else None
    kept = {}
    for parameter in module.parameters():
        value = _converted(parameter.detach(), dtype)
        # Rounded before the checks, which then hold for the weights that are stored.
        value = value.half().float() if half and value.dtype == torch.float32 else value
        kept[id(parameter)] = torch.nn.Parameter(value, requires_grad=False)
    for buffer in module.buffers():
        kept[id(buffer)] = _converted(buffer.detach().clone(), dtype)
    try:
        module = copy.deepcopy(module, kept)
    except Exception as error:
        warnings.warn(f"{type(module).__name__} cannot be copied ({_brief(error)}); it is exported "
                      "in place and stays on the CPU, in eval mode, float32, without gradients")
        dtype = None
    module.eval().cpu().to(dtype or torch.float32)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
        if half and dtype is None:
            parameter.data = parameter.data.half().float()
    return module, dtype or torch.float32


def _narrow_type(module):
    """The 16-bit type that all parameters of a module have, if this PyTorch computes in it."""
    types = {parameter.dtype for parameter in module.parameters()}
    if len(types) != 1 or not types <= {torch.float16, torch.bfloat16}:
        return None
    dtype, = types
    try:
        torch.nn.functional.linear(torch.ones(2, 2, dtype=dtype), torch.ones(2, 2, dtype=dtype))
    except RuntimeError:  # float16 on the CPU, in older versions
        return None
    return dtype


def _converted(tensor, dtype):
    if not tensor.is_floating_point():
        return tensor.cpu()
    return tensor.to("cpu", dtype or torch.float32)


def _in_type(inputs, dtype, times):
    """The arguments for a batch of our times, as Bespoke gives them to a network of this type."""
    return tuple(value.to(dtype) if value.is_floating_point() else value
                 for value in inputs(times))


def _eager(module, arguments, shapes):
    """The _Batch of `arguments`, with the module's outputs checked."""
    where = f"{type(module).__name__} at {_Batch(arguments, [], len(shapes)).where()}"
    before = [argument.clone() for argument in arguments]
    try:
        outputs = _parts(module(*arguments), len(shapes))
    except Exception as error:
        raise ExportError(f"{where} fails when it is called as the card says: "
                          f"{_brief(error)}") from error
    if isinstance(outputs, str):
        raise ExportError(f"{where} returns {outputs}")
    for output, shape in zip(outputs, shapes):
        found = list(output.shape)
        wanted = [len(arguments[0]), *(found[1:] if shape is None else shape)]
        if found != wanted:
            raise ExportError(f"{where} returns shape {found} where {wanted} is needed")
        if not torch.isfinite(output).all():
            raise ExportError(f"{where} returns values that are not finite")
    if not all(map(torch.equal, before, arguments)):
        raise ExportError(f"{where} changes its inputs, which are the solver's; copy them first")
    return _Batch(arguments, [output.float() for output in outputs], len(shapes))


def _parts(returned, count):
    """The tensors that a module returned, or words for what else it returned."""
    if count == 1 and isinstance(returned, torch.Tensor):
        return [returned]
    if count == 1:
        return (f"{type(returned).__name__} instead of a tensor; an adapter can take the tensor "
                "out of it")
    tensors = list(returned) if isinstance(returned, (tuple, list)) else []
    if len(tensors) == count and all(isinstance(one, torch.Tensor) for one in tensors):
        return tensors
    return (f"{type(returned).__name__} instead of a tuple of {count} tensors, one for each part "
            "of sample_shape")


def _compare(exported, batches, what, bar):
    """The largest difference to the eager outputs, relative to the largest of each batch."""
    worst = 0.0
    for batch in batches:
        for output, expected in zip(_call(exported, batch, what, bar.hint), batch.outputs):
            scale = max(expected.abs().max().item(), 1e-30)
            differences = (output.float() - expected).abs().flatten(1).amax(1) / scale
            sample = int(differences.nan_to_num(float("inf")).argmax())
            difference = differences[sample].item()
            if not difference <= bar.tolerance:
                raise ExportError(
                    f"{what} differs from the eager one at {batch.where(sample)} by "
                    f"{difference:.2g} of its largest output, {bar.tolerance:g} is allowed; "
                    f"{bar.hint}")
            worst = max(worst, difference)
    return worst


def _call(exported, batch, what, hint):
    """The exported module's outputs for the batch, of the eager one's shapes."""
    try:
        outputs = _parts(exported(*batch.arguments), batch.parts)
    except Exception as error:
        raise ExportError(f"{what} fails at {batch.where()}: {_brief(error)}; {hint}") from error
    if isinstance(outputs, str):
        raise ExportError(f"{what} returns at {batch.where()} {outputs}; {hint}")
    for output, expected in zip(outputs, batch.outputs):
        if output.shape != expected.shape:
            raise ExportError(f"{what} returns {list(output.shape)} at {batch.where()} where the "
                              f"eager one returns {list(expected.shape)}; {hint}")
    return outputs


def _save(exported, path, half, dtype):
    # Back to float32 afterwards: the parameters may be those of the module itself.
    for parameter in exported.parameters() if half and dtype == torch.float32 else []:
        parameter.data = parameter.data.half()
    torch.jit.save(exported, str(path))
    exported.to(dtype)


def _card_text(card):
    """JSON with one key a line, as people write cards."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in card.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _brief(error):
    """One line of an error: TorchScript's are pages, of which one line says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error:" in line]
    line = (telling or lines or [""])[-1 if telling else 0]
    return f"{type(error).__name__}: {line}" if "Error" not in line else line
