"""The command bespoke-export."""

import argparse
import importlib
import json
import os
import sys

import torch

from bespoke.card import CONVENTIONS, FORMATS, PREDICTION_ALIASES, PREDICTIONS
from bespoke.checks import parse_spec, unique_keys
from bespoke.compiling import DEVICES, DTYPES
from bespoke.exporting import METHODS, ExportError, export_model

USAGE, BAD_INPUT = 2, 3

DESCRIPTION = """\
Write a PyTorch model as TorchScript, or compiled, with a model card beside it, for Bespoke.

Examples:
  bespoke-export my_package.my_module:build_model --sample-shape 3,32,32 \\
      --prediction velocity --schedule fm-ot --time noise-to-data \\
      --cond y:classes=10,null=10 --weights state.pt -o out/model.json
  bespoke-export unet:build --sample-shape 4,64,64 --prediction noise \\
      --schedule ddpm-scaled-linear --time index:levels=1000 --adapter diffusers \\
      --cond encoder_hidden_states:shape=77x768,null=zeros --half -o out/sd.json
  bespoke-export my_module:build_model --card card.json -o out/model.json
  bespoke-export my_module:build_model --card out/model.json --format aotinductor \\
      --device cuda --dtype bf16 -o out/compiled.json

Exit codes: 0 done, 2 usage, 3 bad input (the model, the card or the files).
"""


def main(arguments=None):
    """Runs the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        fields = _fields(options)
        decoder = _decoder(options, fields.pop("decoder", None))
        module = _build(options.model)
        if options.weights:
            _load_weights(module, options.weights)
        export = export_model(
            module, options.output, method=options.method, half=options.half,
            overwrite=options.overwrite, strict=options.strict, adapter=options.adapter,
            decoder=decoder, tolerance=options.tolerance, device=options.device,
            dtype=options.dtype, **fields)
    except (ValueError, ExportError, OSError) as error:
        print(f"bespoke-export: {error}", file=sys.stderr)
        return BAD_INPUT
    print(export.card)
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="bespoke-export", description=DESCRIPTION,
                                     usage="bespoke-export MODULE:FUNCTION -o CARD.json [options]",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", metavar="MODULE:FUNCTION", type=_reference,
        help="called without arguments, gives the torch.nn.Module; the current folder is searched")
    add("-o", "--output", required=True, metavar="CARD.json", help="the card; weights go beside it")
    add("--card", metavar="FILE", help="a JSON file with the card's keys; a flag wins over it")
    add("--sample-shape", type=_sizes, metavar="3,32,32", help="sizes without the batch")
    add("--prediction", choices=PREDICTIONS, help="what the network predicts",
        type=lambda text: PREDICTION_ALIASES.get(text, text))
    add("--schedule", metavar="NAME[:KEY=VALUE,...]", help="e.g. fm-ot, vp:B=20,b=0.1, table:FILE")
    add("--time", metavar="CONVENTION[:KEY=VALUE,...]",
        help=f"{', '.join(CONVENTIONS)}; options scale, levels, integer: index:levels=1000")
    add("--cond", action="append", type=_condition, metavar="NAME:KEY=VALUE,...",
        help="classes=10,null=10, or shape=77x768,dtype=float32,null=zeros; may be repeated")
    add("--value-range", type=_pair, metavar="LEAST,MOST",
        help="of the data, as --value-range=-1,1; that is the default")
    add("--input-scaling", choices=["none", "edm"], help="what x is multiplied by for the network")
    add("--sample-rate", type=int, metavar="HZ", help="of audio")
    for key in ("name", "licence", "source"):
        add(f"--{key}", help="written into the card")
    add("--weights", metavar="FILE", help="a state_dict to load into the module")
    add("--adapter", choices=["diffusers"], help="how a module of another library is called")
    add("--decoder", metavar="MODULE:FUNCTION", type=_reference,
        help="the module that decodes latents; scale, shift, ... are those of the card's 'decoder'")
    add("--method", choices=METHODS, default="auto", help="default auto: script, else trace")
    add("--format", choices=FORMATS,
        help="default torchscript; aotinductor compiles, for one device and type")
    add("--device", choices=DEVICES, help="of aotinductor; default cuda where there is a GPU")
    add("--dtype", choices=list(DTYPES), help="of aotinductor; default fp32")
    add("--tolerance", type=float,
        help="largest relative difference to the eager module; default 1e-4, more for narrow types "
             "of aotinductor")
    add("--half", action="store_true", help="store the parameters in float16")
    add("--strict", action="store_true", help="refuse operators that LibTorch 1.13 lacks")
    add("--overwrite", action="store_true", help="replace files that are there")
    return parser


def _reference(text):
    module, colon, function = text.partition(":")
    if not (module and colon and function):
        raise argparse.ArgumentTypeError(f"is written MODULE:FUNCTION, found '{text}'")
    return module, function


def _sizes(text):
    try:
        return [int(size) for size in text.replace("x", ",").split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"sizes are written 3,32,32, found '{text}'") from None


def _pair(text):
    try:
        least, most = (float(end) for end in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"is written LEAST,MOST, found '{text}'") from None
    return [least, most]


def _condition(text):
    try:
        name, options = parse_spec(text, "--cond")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if "shape" in options:
        options["shape"] = _sizes(str(options["shape"]))
    return {"name": name, **options}


def _fields(options):
    """The card's keys: the flags, and those of --card for which there is no flag."""
    fields = _read_card(options.card) if options.card else {}
    if options.format and options.format != fields.get("format"):
        fields.pop("weights", None)  # the name of a file of another format
    flags = {"format": options.format, "sample_shape": options.sample_shape,
             "prediction": options.prediction, "schedule": options.schedule,
             "time": options.time, "conditions": options.cond,
             "value_range": options.value_range, "input_scaling": options.input_scaling,
             "sample_rate": options.sample_rate, "name": options.name,
             "licence": options.licence, "source": options.source}
    fields.update((key, value) for key, value in flags.items() if value is not None)
    return fields


def _read_card(path):
    """The keys of a card file, without the hash of weights that are written anew."""
    with open(path, encoding="utf-8") as file:
        try:
            fields = json.load(file, object_pairs_hook=unique_keys)
        except ValueError as error:
            raise ValueError(f"{path}: a card is one JSON object; {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{path}: must be an object, found {fields!r}")
    return {key: value for key, value in fields.items() if key != "weights_sha256"}


def _decoder(options, card):
    """export_model's decoder, from --decoder and the card's key of that name."""
    if options.decoder is None:
        if card is not None:
            raise ValueError("decoder: the card has one, so --decoder MODULE:FUNCTION is needed")
        return None
    if card is not None and not isinstance(card, dict):
        raise ValueError(f"decoder: must be an object, found {card!r}")
    kept = {key: value for key, value in (card or {}).items()
            if key not in ("weights", "weights_sha256")}
    return {**kept, "module": _build(options.decoder)}


def _build(reference):
    module_name, function_name = reference
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot find {module_name}:{function_name} ({error})") from error
    finally:
        sys.path.pop(0)
    module = function()
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"{module_name}:{function_name} must return a torch.nn.Module, "
                         f"it returned {type(module).__name__}")
    return module


def _load_weights(module, path):
    """Loads a state_dict, read without running what a pickle may hold."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as a state_dict ({error})") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path}: must hold a state_dict, found {type(state).__name__}")
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path}: does not fit the module ({error})") from error
