"""Tests of bespoke.export_model. BESPOKE_BINARY, where it is set, is the built command line."""

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PACKAGE = Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PACKAGE))

from bespoke import DiffusersUNet, ExportError, compiling, export_model, plain_ops  # noqa: E402
from bespoke.adapters import DiffusersSDXL, adapt  # noqa: E402
from bespoke.card import check_card, network_time  # noqa: E402
from bespoke.command import main  # noqa: E402
from bespoke.graph import operators  # noqa: E402
from bespoke.schedule import alpha_sigma, check_schedule  # noqa: E402

FLOW = {"sample_shape": [6], "prediction": "velocity", "schedule": "fm-ot",
        "time": "noise-to-data"}


class Plain(nn.Module):
    """A small flow network that can be scripted."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(7, 6)

    def forward(self, x, t):
        return torch.tanh(self.layer(torch.cat([x, t.unsqueeze(1)], 1)))


class Unscriptable(Plain):
    """The same, with an argument list TorchScript does not take, and a tensor made on the way."""

    def forward(self, *arguments):
        x, t = arguments
        wave = torch.arange(6, dtype=torch.float32, device=x.device)
        return super().forward(x, t) + torch.sin(wave * t[:, None])


class ClassConditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)

    def forward(self, x, t, y):
        return x * t.unsqueeze(1) + self.table(y)


class Gaussian(nn.Module):
    """The velocity whose samples are N(mean, deviation^2), on x_t = t x_1 + (1 - t) x_0."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.mean = nn.Parameter(torch.tensor(mean))
        self.variance = nn.Parameter(torch.tensor(deviation) ** 2)

    def forward(self, x, t):
        s = t.unsqueeze(1)
        total = s * s * self.variance + (1 - s) * (1 - s)
        rate = s * self.variance - (1 - s)
        return self.mean + rate / total * (x - s * self.mean)


class CountedDown(nn.Module):
    """A network of t as one of 1000 (1 - t)."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, t):
        return self.module(x, 1 - t / 1000)


class FixedBatch(nn.Module):
    def forward(self, x, t):
        size = int(x.shape[0])  # a trace keeps the number
        return (x.reshape(size, -1) + t.reshape(size, 1)).reshape(size, *x.shape[1:])


class Branches(nn.Module):
    def forward(self, *arguments):
        x, t = arguments
        return x if float(t.max()) > 0.9 else -x


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.time = nn.Linear(1, 16)

    def forward(self, x, t):
        return self.encoder(x + self.time(t.unsqueeze(1)).unsqueeze(1))


class Attention(nn.Module):
    def forward(self, x, t):
        return F.scaled_dot_product_attention(x, x, x) + t.reshape(-1, 1, 1)


attention_by_name = None  # as after `from torch.nn.functional import ...`


class AttentionByName(nn.Module):
    def forward(self, x, t):
        return attention_by_name(x, x, x) + t.reshape(-1, 1, 1)


class Output:
    def __init__(self, sample):
        self.sample = sample


class FakeUNet(nn.Module):
    """Called and answering as a diffusers UNet."""

    def __init__(self, wrap):
        super().__init__()
        self.mix = nn.Linear(5, 4)
        self.wrap = wrap

    def forward(self, sample, timestep, encoder_hidden_states=None, class_labels=None):
        text = self.mix(encoder_hidden_states).mean(1)
        shift = text + class_labels.unsqueeze(1) if class_labels is not None else text
        return self.wrap(sample + timestep.reshape(-1, 1, 1, 1) / 1000 + shift[:, :, None, None])


class FakeSDXL(nn.Module):
    """Called as the UNet of Stable Diffusion XL."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(5, 4)

    def forward(self, sample, timestep, encoder_hidden_states, class_labels=None,
                added_cond_kwargs=None):
        shift = self.mix(encoder_hidden_states).mean(1) + added_cond_kwargs["text_embeds"]
        shift = shift * added_cond_kwargs["time_ids"].sum(1, keepdim=True) / 1000
        return Output(sample * timestep.reshape(-1, 1, 1, 1) / 1000 + shift[:, :, None, None])


class FakeSD3(nn.Module):
    """Called as the transformer of Stable Diffusion 3; it predicts noise - data."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(5, 4)

    def forward(self, hidden_states, encoder_hidden_states=None, pooled_projections=None,
                timestep=None, return_dict=True):
        shift = self.mix(encoder_hidden_states).mean(1) + pooled_projections
        return (hidden_states * timestep.reshape(-1, 1, 1, 1) / 1000 + shift[:, :, None, None],)


class FakeFlux(nn.Module):
    """Called as the transformer of Flux: tokens [batch, places, 4 channels] and their places."""

    def __init__(self, guidance_embeds=True):
        super().__init__()
        self.mix = nn.Linear(5, 16)
        self.config = types.SimpleNamespace(guidance_embeds=guidance_embeds)

    def forward(self, hidden_states, encoder_hidden_states=None, pooled_projections=None,
                timestep=None, img_ids=None, txt_ids=None, guidance=None, return_dict=True):
        text = encoder_hidden_states + txt_ids.sum(1)[None, :, None]  # of as many words
        shift = self.mix(text).mean(1) + pooled_projections
        if guidance is not None:
            shift = shift * guidance[:, None]
        places = img_ids[:, 1] + 10 * img_ids[:, 2] + img_ids[:, 0]
        return (hidden_states * timestep.reshape(-1, 1, 1) + shift[:, None]
                + places[:, None],)


def build_plain():
    torch.manual_seed(0)
    return Plain()


def build_number():
    return 3


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.path = self.folder / "model.json"
        torch.manual_seed(0)

    def export(self, module, **options):
        return export_model(module, self.path, **{"quiet": True, **FLOW, **options})

    def card(self):
        return json.loads(self.path.read_text())

    def assert_nothing_written(self):
        self.assertEqual(list(self.folder.iterdir()), [])

    def assert_refused(self, module, *parts, **options):
        with self.assertRaises(ExportError) as caught, warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            self.export(module, **options)
        for part in parts:
            self.assertIn(part, str(caught.exception))
        self.assert_nothing_written()


class Graph(nn.Module):
    """Samples of nodes [3, 2] and edges [3, 3, 1], with which nodes are there, and a class."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, nodes, edges, time, there, y):
        near = edges.squeeze(-1) @ nodes * there[:, :, None]
        return self.layer(near) + y[:, None, None], edges * time[:, None, None, None]


class Parts(Folder):
    GRAPH = {"sample_shape": {"nodes": [3, 2], "edges": [3, 3, 1]},
             "conditions": [{"name": "there", "shape": [3]}, {"name": "y", "classes": 3}],
             "error_mask": {"nodes": "there"}}

    def test_a_sample_may_be_several_tensors(self):
        arguments = [torch.randn(4, 3, 2), torch.randn(4, 3, 3, 1), torch.rand(4),
                     torch.ones(4, 3), torch.arange(4) % 3]
        for method in ("script", "trace"):
            module = Graph()
            export = self.export(module, method=method, overwrite=True, **self.GRAPH)
            found = torch.jit.load(str(export.weights))(*arguments)
            for output, expected in zip(found, module(*arguments)):
                torch.testing.assert_close(output, expected)
        card = self.card()
        self.assertEqual(list(card["sample_shape"].items()),
                         [("nodes", [3, 2]), ("edges", [3, 3, 1])])
        self.assertEqual(card["error_mask"], {"nodes": "there"})

    def test_every_part_is_checked(self):
        def refused(change, *parts, **options):
            class Changed(nn.Module):
                def forward(self, nodes, edges, time, there, y):
                    return change(nodes, edges, time)
            self.assert_refused(Changed(), *parts, **{**self.GRAPH, "method": "trace", **options})
        refused(lambda nodes, edges, time: nodes, "Tensor instead of a tuple of 2 tensors")
        refused(lambda nodes, edges, time: (nodes,), "tuple instead of a tuple of 2 tensors")
        refused(lambda nodes, edges, time: (edges, nodes), "[1, 3, 3, 1] where [1, 3, 2]")
        refused(lambda nodes, edges, time: (nodes, edges[:, :2]), "[1, 2, 3, 1] where [1, 3, 3, 1]")
        refused(lambda nodes, edges, time: (nodes, edges / 0), "not finite")
        refused(lambda nodes, edges, time: (nodes, edges.mul_(2)), "changes its inputs")
        refused(lambda nodes, edges, time: (nodes, edges * (2 if time[0] > 0.5 else 1)),
                "the traced module differs", "batch 1, time 0.6")
        refused(lambda nodes, edges, time: [nodes][0].sum(5), "time [0.0] fails when it is called")

    def test_cards_of_parts_are_checked(self):
        def check(expected, **changes):
            with self.assertRaises(ValueError) as caught:
                check_card({**FLOW, **self.GRAPH, **changes})
            self.assertIn(expected, str(caught.exception))
        check_card({**FLOW, **self.GRAPH})
        check_card({**FLOW, **self.GRAPH, "layout": "channels-first",
                    "error_mask": {"edges": "edges.safetensors", "nodes": "not there"}})
        check("sample_shape: must have at least one part", sample_shape={}, error_mask="there")
        for name in ("", "noise", "a\nb"):
            check("sample_shape: a part cannot be called", sample_shape={name: [3]})
        check("sample_shape.nodes[0]: is 0", sample_shape={"nodes": [0]})
        check("sample_shape: is too large", sample_shape={"nodes": [2 ** 39], "more": [2 ** 39, 2]})
        for mask in ("there", {}, ["there"]):
            check("error_mask: of samples of several parts is an object", error_mask=mask)
        check('error_mask: "node" is no part', error_mask={"node": "there"})
        check("error_mask.edges: must be a condition", error_mask={"edges": "y"})
        for key, value in (("layout", "channels-last"), ("extra_channels", 2),
                           ("sample_rate", 8000), ("format", "aotinductor")):
            check("samples of several parts are those of a TorchScript model", **{key: value})
        with self.assertRaisesRegex(ValueError, "decoder: goes with samples of one tensor"):
            self.export(Plain(), decoder=nn.Linear(6, 6), **self.GRAPH)
        self.assert_nothing_written()
        with self.assertRaisesRegex(ValueError, "error_mask: must be a text"):
            check_card({**FLOW, "error_mask": {"nodes": "there"}})


class Exporting(Folder):
    def test_a_scripted_module_gives_the_eager_outputs(self):
        module = Plain()
        export = self.export(module)
        self.assertEqual(export.method, "script")
        x, t = torch.randn(9, 6), torch.rand(9)
        loaded = torch.jit.load(str(export.weights))
        torch.testing.assert_close(loaded(x, t), module(x, t))

    def test_what_cannot_be_scripted_is_traced_and_said(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            export = self.export(Unscriptable(), quiet=False)
        self.assertEqual(export.method, "trace")
        self.assertIn("traced", said.getvalue())

    def test_scripting_alone_says_why_it_fails(self):
        self.assert_refused(Unscriptable(), "torch.jit.script fails", method="script")

    def test_a_trace_follows_the_device_of_its_inputs(self):
        export = self.export(Unscriptable())
        self.assertIn("prim::device", operators(torch.jit.load(str(export.weights))))
        self.assertNotIn('"cpu"', torch.jit.load(str(export.weights)).code)

    def test_the_module_given_is_left_as_it_was(self):
        module = Plain().double().train()
        self.export(module, half=True)
        self.assertTrue(module.training)
        self.assertTrue(all(p.requires_grad and p.dtype == torch.double
                            for p in module.parameters()))

    def test_dropout_is_off(self):
        self.export(nn.Sequential(Unary(), nn.Dropout(0.5)), adapter=FirstArgument)

    def test_a_fixed_batch_size_is_refused(self):
        self.assert_refused(FixedBatch(), "batch 1", "time", method="trace")

    def test_a_fixed_branch_is_refused(self):
        self.assert_refused(Branches(), "traced module", "time 1.0", "differs", method="trace")

    def test_outputs_are_checked(self):
        self.assert_refused(Returning(lambda x: (x, x)), "tuple instead of a tensor")
        self.assert_refused(Returning(lambda x: x[:, :3]), "shape [1, 3] where [1, 6]")
        self.assert_refused(Returning(lambda x: x / 0), "not finite")
        self.assert_refused(Returning(lambda x: x.mul_(2)), "changes its inputs")
        self.assert_refused(Returning(lambda x: x @ x), "fails when it is called as the card says")

    def test_the_card_and_the_hash_are_right(self):
        export = self.export(Plain(), name="small", licence="CC0", value_range=(0, 1),
                             input_scaling="edm", sample_rate=16000)
        digest = hashlib.sha256(export.weights.read_bytes()).hexdigest()
        self.assertEqual(self.card(), {
            "format": "torchscript", "name": "small", "licence": "CC0", "sample_shape": [6],
            "prediction": "velocity", "schedule": {"name": "fm-ot"},
            "time": {"convention": "noise-to-data"}, "value_range": [0, 1],
            "input_scaling": "edm", "sample_rate": 16000, "weights": "model.pt",
            "weights_sha256": digest})

    def test_what_networks_return_and_are_given(self):
        """Channels at the end, a learned variance and no time."""
        class Odd(nn.Module):
            def forward(self, x):
                return torch.cat([0.5 * x, x], 3)
        self.export(Odd(), sample_shape=[2, 3, 3], prediction="eps", layout="channels-last",
                    extra_channels=2, time="none", clip={"quantile": 0.99, "cap": 1.5},
                    schedule={"name": "table", "betas": [0.1, 0.2, 0.3]})
        card = self.card()
        self.assertEqual((card["prediction"], card["layout"], card["extra_channels"]),
                         ("noise", "channels-last", 2))
        self.assertEqual(card["time"], {"convention": "none"})
        self.assertEqual(card["clip"], {"quantile": 0.99, "cap": 1.5})

    def test_extra_channels_are_counted(self):
        self.assert_refused(Returning(lambda x: torch.cat([x, x], 1)), "where [1, 9] is needed",
                            extra_channels=3)

    def test_masks_are_conditions_that_are_tensors(self):
        known = [{"name": "m", "shape": [6]}, {"name": "y", "classes": 3}]
        for mask in ("m", "not m", "mask.safetensors"):
            self.assertEqual(check_card({**FLOW, "conditions": known, "error_mask": mask})[
                "error_mask"], mask)
        for mask in ("y", "n", "not y"):
            with self.assertRaisesRegex(ValueError, "error_mask"):
                check_card({**FLOW, "conditions": known, "error_mask": mask})

    def test_files_that_are_replaced_keep_their_modes_and_links(self):
        behind = self.folder / "behind.json"
        behind.write_text("{}")
        behind.chmod(0o600)
        self.path.symlink_to("behind.json")
        weights = self.folder / "model.pt"
        weights.write_text("")
        weights.chmod(0o640)
        self.export(Plain(), overwrite=True)
        self.assertTrue(self.path.is_symlink())
        self.assertEqual(json.loads(behind.read_text())["weights"], "model.pt")
        self.assertEqual([path.stat().st_mode & 0o777 for path in (behind, weights)],
                         [0o600, 0o640])

    def test_half_weights_are_stored_and_checked_in_half(self):
        export = self.export(Plain(), half=True)
        stored = torch.jit.load(str(export.weights))
        self.assertTrue(all(p.dtype == torch.half for p in stored.parameters()))
        self.assertLess(export.difference, 1e-5)

    def test_classes_and_tensors_are_passed_in_order(self):
        self.export(ClassConditional(), conditions=[{"name": "y", "classes": 10, "null": 10}])
        self.assertEqual(self.card()["conditions"], [{"name": "y", "classes": 10, "null": 10}])

    def test_a_decoder_is_exported_beside_the_model(self):
        decoder = nn.Sequential(nn.Linear(6, 12), nn.Unflatten(1, (3, 4)))
        self.export(Plain(), decoder={"module": decoder, "scale": 0.5, "shift": 0.25})
        card = self.card()["decoder"]
        digest = hashlib.sha256((self.folder / "model-decoder.pt").read_bytes()).hexdigest()
        self.assertEqual(card, {"weights": "model-decoder.pt", "weights_sha256": digest,
                                "scale": 0.5, "shift": 0.25, "sample_shape": [3, 4]})

    def test_a_wrong_decoder_leaves_nothing(self):
        self.assert_refused(Plain(), "shape [1, 12] where [1, 3, 4]",
                            decoder={"module": nn.Linear(6, 12), "sample_shape": [3, 4]})

    def test_files_are_replaced_only_when_asked(self):
        self.export(Plain())
        before = self.path.read_text()
        with self.assertRaisesRegex(FileExistsError, "overwrite=True"):
            self.export(Plain())
        self.assertEqual(self.path.read_text(), before)
        self.export(Plain(), overwrite=True)
        self.assertNotEqual(self.path.read_text(), before)

    def test_a_failed_write_keeps_the_old_files(self):
        self.export(Plain())
        before = {file.name: file.read_bytes() for file in self.folder.iterdir()}
        with mock.patch("torch.jit.save", side_effect=OSError("disk full")):
            with self.assertRaisesRegex(OSError, "disk full"):
                self.export(Plain(), overwrite=True)
        self.assertEqual({file.name: file.read_bytes() for file in self.folder.iterdir()}, before)


class Unary(nn.Module):
    def forward(self, x):
        return x * 2


class FirstArgument(nn.Module):
    """An adapter for modules of x alone."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, t):
        return self.module(x)


class Returning(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, t):
        return self.function(x)


class Times(unittest.TestCase):
    def test_every_convention_has_its_range(self):
        ends = {
            "noise-to-data": (0, 1),
            "noise-to-data:scale=999": (0, 999),
            "data-to-noise:scale=1000": (1000, 0),
            "index:levels=1000": (999, 0),
            "index:levels=50,integer=true": (49, 0),
            "sigma": (80, 0.002),
            "log-sigma": (math.log(80) / 4, math.log(0.002) / 4),
        }
        for time, (noise, data) in ends.items():
            card = check_card({**FLOW, "schedule": "edm", "time": time})
            self.assertAlmostEqual(network_time(card, 0.0), noise)
            self.assertAlmostEqual(network_time(card, 1.0), data)

    def test_infinite_noise_is_kept_finite(self):
        with self.assertRaisesRegex(ValueError, "time.convention: sigma / alpha is infinite"):
            check_card({**FLOW, "time": "sigma"})
        card = {**FLOW, "schedule": {"name": "fm-ot"}, "time": {"convention": "sigma"}}
        self.assertEqual(network_time(card, 0.0), 1000)
        self.assertAlmostEqual(network_time(card, 0.2), 4)

    def test_integer_times_are_passed_as_int64(self):
        seen = []

        class Recorder(nn.Module):
            def forward(self, x, t):
                seen.append(t)
                return x

        with tempfile.TemporaryDirectory() as folder:
            export_model(Recorder(), Path(folder) / "m.json", quiet=True, method="trace",
                         **{**FLOW, "time": "index:levels=10,integer=true"})
        self.assertTrue(all(t.dtype == torch.int64 for t in seen))
        self.assertEqual({int(value) for t in seen for value in t} - set(range(10)), set())


class Schedules(unittest.TestCase):
    def test_schedules_keep_their_promise(self):
        for name in ("fm-ot", "cosine", "vp", "ddpm-linear", "ddpm-scaled-linear", "ddpm-cosine"):
            schedule = check_schedule(name)
            ratios = [sigma / max(alpha, 1e-9) for alpha, sigma in
                      (alpha_sigma(schedule, t / 10) for t in range(11))]
            self.assertEqual(ratios, sorted(ratios, reverse=True))
            self.assertAlmostEqual(ratios[-1], 0)
            if name != "fm-ot":
                alpha, sigma = alpha_sigma(schedule, 0.3)
                self.assertAlmostEqual(alpha ** 2 + sigma ** 2, 1)

    def test_a_discrete_schedule_passes_through_its_levels(self):
        betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, 1000, dtype=torch.double) ** 2
        products = torch.cumprod(1 - betas, 0)
        alpha, _ = alpha_sigma(check_schedule("ddpm-scaled-linear"), 1 - 500 / 1000)
        self.assertAlmostEqual(alpha ** 2, products[499].item(), places=12)


class Errors(Folder):
    def assert_error(self, expected, **changes):
        fields = {key: value for key, value in {**FLOW, **changes}.items() if value is not None}
        with self.assertRaises(ValueError) as caught:
            export_model(Plain(), self.path, **fields)
        self.assertIn(expected, str(caught.exception))
        self.assert_nothing_written()

    def test_every_mistake_names_its_key(self):
        self.assert_error("did you mean 'schedule'?", scedule="fm-ot")
        self.assert_error("did you mean 'overwrite'?", overwritten=True)
        self.assert_error('key "time" is missing', time=None)
        self.assert_error("sample_shape[1]: is 0", sample_shape=[3, 0])
        self.assert_error("sample_shape: must be a list", sample_shape=3)
        self.assert_error("did you mean 'velocity'?", prediction="velocit")
        self.assert_error("did you mean 'fm-ot'?", schedule="fmot")
        self.assert_error("did you mean 'sigma_max'?", schedule={"name": "edm", "sigmamax": 80})
        self.assert_error("needs 0 < b < B", schedule="vp:B=1,b=2")
        self.assert_error("must fall strictly",
                          schedule={"name": "table", "alphas_cumprod": [0.5, 0.9]})
        self.assert_error("time.levels", time="index")
        self.assert_error("time.levels", time={"convention": "sigma", "levels": 10})
        self.assert_error("time.integer", time="sigma:integer=true")
        self.assert_error("time.scale: must not be 0", time="sigma:scale=0")
        self.assert_error("value_range", value_range=[1, -1])
        self.assert_error("conditions[0]", conditions=[{"name": "y"}])
        self.assert_error("did you mean 'classes'?", conditions=[{"name": "y", "clases": 3}])
        self.assert_error("there twice", conditions=[{"name": "y", "classes": 3}] * 2)
        self.assert_error("conditions[0].name", conditions=[{"name": "a=b", "classes": 3}])
        self.assert_error("conditions[0].dtype",
                          conditions=[{"name": "y", "shape": [3], "dtype": "float16"}])
        self.assert_error("conditions[0].null",
                          conditions=[{"name": "y", "shape": [3], "null": "none"}])
        self.assert_error("input_scaling", input_scaling="sometimes")
        self.assert_error("sample_rate: must be a whole number", sample_rate=44100.5)
        for rate in (1, 99, 1000001):
            self.assert_error(f"sample_rate: is {rate}, it must be from 100 to 1000000",
                              sample_rate=rate)
        self.assert_error("sample_rate: is for audio", sample_rate=8000, sample_shape=[3, 2, 6])
        for name in ("y ", " y", "y\n", "a\u202eb", "guidance w"):
            self.assert_error("conditions[0].name", conditions=[{"name": name, "classes": 3}])
        self.assert_error("is the only class", conditions=[{"name": "y", "classes": 1, "null": 0}])
        self.assert_error("time.levels: is 100, the schedule has 1000 levels",
                          schedule="ddpm-linear", time="index:levels=100")
        self.assert_error("weights: is a file name", weights="../model.pt")
        self.assert_error("method", method="compile")
        self.assert_error("adapter", adapter="keras")
        for scale in (0, 9e18, -1e-7):
            self.assert_error("decoder.scale: must be from 1e-06 to 1e+06 in size",
                              decoder={"module": nn.Linear(6, 6), "scale": scale})
        self.assert_error("decoder.shift: must be at most 1e+06 in size",
                          decoder={"module": nn.Linear(6, 6), "shift": -2e6})
        self.assert_error("decoder: must be a torch.nn.Module", decoder=3)

    def test_only_modules_are_exported(self):
        with self.assertRaisesRegex(ValueError, "must give a torch.nn.Module"):
            export_model(lambda x, t: x, self.path, **FLOW)


class Packages(Folder):
    """What is decided before anything is compiled, as in a PyTorch that can."""

    def setUp(self):
        super().setUp()
        for patch in (mock.patch.object(torch, "__version__", "2.11.0+cu130"),
                      mock.patch.object(torch.cuda, "is_available", lambda: False)):
            patch.start()
            self.addCleanup(patch.stop)

    def assert_error(self, expected, module=None, **options):
        with self.assertRaises(ValueError) as caught:
            self.export(module or Plain(), **{"format": "aotinductor", **options})
        self.assertIn(expected, str(caught.exception))
        self.assert_nothing_written()

    def test_every_mistake_names_its_option(self):
        self.assert_error("did you mean 'aotinductor'?", format="aotinducter")
        self.assert_error("did you mean 'bf16'?", dtype="bf1")
        self.assert_error("unknown device 'tpu'", device="tpu")
        self.assert_error("device: a package for cuda is compiled where", device="cuda")
        self.assert_error("ends in .pt2, found 'model.pt'", weights="model.pt")
        for key, value in (("half", True), ("strict", True), ("method", "trace")):
            self.assert_error(f"{key}: goes with the format torchscript", **{key: value})
        for key, value in (("device", "cpu"), ("dtype", "bf16")):
            self.assert_error(f"{key}: goes with the format aotinductor", format="torchscript",
                              **{key: value})

    def test_an_old_pytorch_is_refused(self):
        for version in ("1.13.1", "2.8.0+cpu"):
            with mock.patch.object(torch, "__version__", version):
                self.assert_error(f"needs PyTorch 2.9 or later, this is {version}")

    def test_a_torchscript_module_cannot_be_compiled(self):
        self.assert_error("give the torch.nn.Module that it was made from",
                          torch.jit.script(Plain()))

    def test_the_target_is_chosen_by_what_is_there(self):
        self.assertEqual(compiling.check_target(None, None), ("cpu", "fp32"))
        with mock.patch.object(torch.cuda, "is_available", lambda: True):
            self.assertEqual(compiling.check_target(None, "bf16"), ("cuda", "bf16"))
            self.assertEqual(compiling.check_target("cpu", None), ("cpu", "fp32"))

    def test_inputs_are_put_as_the_network_gets_them(self):
        target = compiling.Target("cpu", "bf16")
        self.assertEqual(target.put(torch.ones(2)).dtype, torch.bfloat16)
        self.assertEqual(target.put(torch.ones(2).long()).dtype, torch.int64)

    def test_arguments_are_described_without_their_batch(self):
        metadata = compiling._metadata(Plain(), ["x", "time", "y"],
                                       (torch.zeros(2, 3, 8), torch.zeros(2).bfloat16(),
                                        torch.zeros(2).long()), compiling.Target("cpu", "bf16"))
        self.assertEqual(metadata["bespoke_arguments"], "x float32 3x8,time bfloat16,y int64")

    def test_a_package_that_crashes_takes_no_one_with_it(self):
        crashing = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
        with mock.patch.object(compiling, "_LOAD", crashing), \
                mock.patch.object(compiling, "write_package", lambda *_: None), \
                mock.patch.object(compiling, "products_of", lambda _: contextlib.nullcontext()):
            self.assert_refused(Plain(), "crashes when it is loaded (SIGSEGV)",
                                "set CXX to another", format="aotinductor")

    def test_a_package_that_is_not_the_module_is_refused(self):
        def write(module, example, path, names, target):
            self.assertEqual(names, ["x", "time"])
            Path(path).write_bytes(b"compiled")

        module = Plain()
        with mock.patch.object(compiling, "write_package", write), \
                mock.patch.object(compiling, "products_of", lambda _: contextlib.nullcontext()):
            with mock.patch.object(compiling, "load_package", lambda _: lambda x, t: -x):
                self.assert_refused(module, "the package differs", format="aotinductor")
            with mock.patch.object(compiling, "load_package", lambda _: module):
                export = self.export(module, format="aotinductor")
        self.assertEqual((export.method, export.weights.name), ("compile", "model.pt2"))
        self.assertEqual(self.card()["format"], "aotinductor")
        self.assertEqual(self.card()["weights_sha256"], hashlib.sha256(b"compiled").hexdigest())


def exact_attention(q, k, v, allowed=None, bias=None, scale=None):
    """Attention in float64 by its definition, a row of the result at a time."""
    q, k, v = q.double(), k.double(), v.double()
    weights = torch.einsum("bhle,bhse->bhls", q, k)
    weights = torch.exp(weights * (scale or 1 / math.sqrt(q.shape[-1]))
                        + (0 if bias is None else bias.double()))
    if allowed is not None:
        weights = weights * allowed
    return torch.einsum("bhls,bhse->bhle", weights / weights.sum(-1, keepdim=True), v)


class PlainOperators(Folder):
    def setUp(self):
        super().setUp()
        self.q, self.k, self.v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))

    def assert_attention(self, expected, **options):
        for function in (plain_ops.scaled_dot_product_attention,
                         torch.jit.script(plain_ops.scaled_dot_product_attention)):
            output = function(self.q, self.k, self.v, **options)
            torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-6)

    def test_attention_is_its_definition(self):
        q, k, v = self.q, self.k, self.v
        self.assert_attention(exact_attention(q, k, v))
        self.assert_attention(exact_attention(q, k, v), dropout_p=0.5)
        self.assert_attention(exact_attention(q, k, v, scale=0.3), scale=0.3)
        bias = torch.randn(5, 7)
        self.assert_attention(exact_attention(q, k, v, bias=bias), attn_mask=bias)
        allowed = (torch.rand(2, 1, 5, 7) > 0.5) | (torch.arange(7) == 0)
        self.assert_attention(exact_attention(q, k, v, allowed), attn_mask=allowed)
        causal = torch.arange(5)[:, None] >= torch.arange(7)[None]
        self.assert_attention(exact_attention(q, k, v, causal), is_causal=True)

    def test_grouped_queries_share_keys(self):
        k, v = self.k[:, :2], self.v[:, :2]
        expected = exact_attention(self.q, k[:, [0, 0, 1, 1]], v[:, [0, 0, 1, 1]])
        self.k, self.v = k, v
        self.assert_attention(expected, enable_gqa=True)

    def test_rms_norm_is_its_definition(self):
        x, weight = torch.randn(3, 4, 5), torch.randn(4, 5)
        root = torch.sqrt((x.double() ** 2).sum((1, 2), keepdim=True) / 20 + 1e-3)
        torch.testing.assert_close(plain_ops.rms_norm(x, [4, 5], weight, 1e-3).double(),
                                   x.double() / root * weight, rtol=1e-5, atol=1e-6)

    def test_fused_attention_is_replaced_and_restored(self):
        def fused(query, key, value):
            return exact_attention(query[:, None], key[:, None], value[:, None])[:, 0].float()

        fused = getattr(F, "scaled_dot_product_attention", fused)
        for module, method in itertools.product((Attention(), AttentionByName()),
                                                ("script", "trace")):
            with mock.patch.object(F, "scaled_dot_product_attention", fused, create=True), \
                    mock.patch.dict(globals(), attention_by_name=fused):
                export = self.export(module, sample_shape=[5, 8], method=method, overwrite=True,
                                     strict=True)
                self.assertIs(F.scaled_dot_product_attention, fused)
                self.assertIs(attention_by_name, fused)
            names = operators(torch.jit.load(str(export.weights)))
            self.assertIn("aten::softmax", names)
            self.assertNotIn("aten::scaled_dot_product_attention", names)

    def test_everything_is_restored_after_an_error(self):
        before = (nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward,
                  torch.jit._recursive.concrete_type_store)
        with self.assertRaises(KeyError), plain_ops.plain_operators(Transformer()):
            self.assertIsNot(nn.MultiheadAttention.forward, before[0])
            raise KeyError
        self.assertEqual((nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward,
                          torch.jit._recursive.concrete_type_store), before)

    def test_transformers_are_exported_without_their_fast_path(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.script(Transformer().eval())  # leaves the fast path in TorchScript's caches
            for method in ("script", "trace"):
                export = self.export(Transformer(), sample_shape=[5, 16], method=method,
                                     overwrite=True, strict=True)
                names = operators(torch.jit.load(str(export.weights)))
                self.assertEqual(names & plain_ops.WITHOUT_DERIVATIVE, set())
                self.assertEqual(export.operators, [])
            names = operators(torch.jit.script(Transformer().eval()))
        self.assertIn("aten::_transformer_encoder_layer_fwd", names)

    def test_operators_that_stay_are_named(self):
        module = Transformer().eval().requires_grad_(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scripted = torch.jit.script(module)
        # What is TorchScript already is beyond replacing.
        with self.assertWarnsRegex(UserWarning, "no derivative.*_transformer_encoder_layer_fwd"):
            export = self.export(scripted, sample_shape=[5, 16])
        self.assertIn("aten::_transformer_encoder_layer_fwd", export.operators)
        self.path = self.folder / "other" / "model.json"
        with self.assertRaisesRegex(ExportError, "_transformer_encoder_layer_fwd"):
            self.export(scripted, sample_shape=[5, 16], strict=True)


class Diffusers(Folder):
    FIELDS = {"sample_shape": [4, 2, 2], "prediction": "noise", "schedule": "ddpm-scaled-linear",
              "time": "index:levels=1000"}
    TEXT = {"name": "text", "shape": [3, 5], "null": "zeros"}

    def test_the_sample_is_taken_out_of_any_output(self):
        for wrap in (Output, lambda x: (x, None), lambda x: {"sample": x}, lambda x: x):
            self.export(DiffusersUNet(FakeUNet(wrap)), overwrite=True, conditions=[self.TEXT],
                        **self.FIELDS)
        self.assertEqual(self.card()["conditions"], [{**self.TEXT, "dtype": "float32"}])

    def test_conditions_become_keyword_arguments(self):
        labels = {"name": "class_labels", "classes": 3}
        unet = FakeUNet(Output)
        export = self.export(unet, adapter="diffusers", conditions=[self.TEXT, labels],
                             **self.FIELDS)
        x, t = torch.randn(2, 4, 2, 2), torch.rand(2)
        text, y = torch.randn(2, 3, 5), torch.arange(2)
        torch.testing.assert_close(torch.jit.load(str(export.weights))(x, t, text, y),
                                   unet(x, t, text, y).sample)

    def test_a_condition_that_is_no_argument_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"conditions\[1\].*no argument 'size'"):
            self.export(FakeUNet(Output), adapter="diffusers", **self.FIELDS,
                        conditions=[self.TEXT, {"name": "size", "classes": 3}])


class LatentModels(Folder):
    """Stable Diffusion XL, Stable Diffusion 3 and Flux, through the adapter that they ask for."""

    TEXT = {"name": "encoder_hidden_states", "shape": [3, 5], "null": "zeros"}
    FLOW = {"sample_shape": [4, 2, 4], "prediction": "velocity", "schedule": "fm-ot"}

    def exported(self, module, pooled, size, time, **fields):
        """The file read back, with a batch to call it with."""
        conditions = [self.TEXT, {"name": pooled, "shape": [size], "null": "zeros"}]
        export = self.export(module, adapter="diffusers", conditions=conditions, time=time,
                             **{**self.FLOW, **fields})
        arguments = (torch.randn(2, 4, 2, 4), torch.rand(2), torch.randn(2, 3, 5),
                     torch.randn(2, size))
        return torch.jit.load(str(export.weights))(*arguments), arguments

    def test_sdxl_with_the_sizes_of_a_whole_image(self):
        module = FakeSDXL()
        found, (x, t, text, pooled) = self.exported(
            module, "text_embeds", 4, "index:levels=1000", prediction="noise",
            schedule="ddpm-scaled-linear")
        sizes = torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024]]).repeat(2, 1)
        expected = module(x, t, text, added_cond_kwargs={"text_embeds": pooled,
                                                         "time_ids": sizes}).sample
        torch.testing.assert_close(found, expected)
        other = DiffusersSDXL(module, size=(512, 768))
        self.assertEqual(other.time_ids.tolist(), [512, 768, 0, 0, 512, 768])

    def test_sdxl_with_sizes_as_a_condition(self):
        module = FakeSDXL()
        conditions = [self.TEXT, {"name": "text_embeds", "shape": [4], "null": "zeros"},
                      {"name": "time_ids", "shape": [6]}]
        adapted = adapt(module, "diffusers", conditions)
        x, t, text, pooled, sizes = (torch.randn(2, 4, 2, 4), torch.rand(2), torch.randn(2, 3, 5),
                                     torch.randn(2, 4), torch.rand(2, 6))
        expected = module(x, t, text, added_cond_kwargs={"text_embeds": pooled,
                                                         "time_ids": sizes}).sample
        torch.testing.assert_close(adapted(x, t, text, pooled, sizes), expected)

    def test_sd3_with_the_sign_turned(self):
        module = FakeSD3()
        found, (x, t, text, pooled) = self.exported(module, "pooled_projections", 4,
                                                    "data-to-noise:scale=1000")
        torch.testing.assert_close(found, -module(x, text, pooled, t)[0])

    def test_flux_in_tokens_of_two_by_two(self):
        for distilled in (True, False):
            module = FakeFlux(distilled)
            found, (x, t, text, pooled) = self.exported(module, "pooled_projections", 16,
                                                        "data-to-noise", overwrite=True)
            shift = module.mix(text).mean(1) + pooled
            shift = (3.5 if distilled else 1) * shift.reshape(2, 4, 2, 2)
            expected = t.reshape(-1, 1, 1, 1) * x
            for row, column in itertools.product(range(1), range(2)):
                rows, columns = slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2)
                expected[:, :, rows, columns] += shift + row + 10 * column
            torch.testing.assert_close(found, -expected)

    def test_sixteen_bit_weights_are_neither_widened_nor_copied(self):
        seen, module = [], FakeSD3().bfloat16()
        module.mix.register_forward_pre_hook(
            lambda mix, inputs: seen.append((inputs[0].dtype, mix.weight.data_ptr())))
        export = self.export(module, adapter="diffusers", half=True, time="data-to-noise",
                             conditions=[self.TEXT, {"name": "pooled_projections", "shape": [4],
                                                     "null": "zeros"}], **self.FLOW)
        self.assertEqual(set(seen), {(torch.bfloat16, module.mix.weight.data_ptr())})
        stored = torch.jit.load(str(export.weights))
        self.assertEqual({p.dtype for p in stored.parameters()}, {torch.bfloat16})
        self.assertTrue(all(map(torch.equal, stored.parameters(), module.parameters())))
        self.assertTrue(module.training and module.mix.weight.requires_grad)

    def test_weights_of_the_right_type_are_shared_with_the_module(self):
        class Watched(Plain):
            def forward(self, x, t):
                seen.append(self.layer.weight.data_ptr())
                return super().forward(x, t)
        seen = []
        module = Watched()
        self.export(module, method="trace")
        self.assertEqual(set(seen), {module.layer.weight.data_ptr()})
        self.assertTrue(module.training and module.layer.weight.requires_grad)


class Command(Folder):
    MODEL = "export_model_test:build_plain"
    FLAGS = ["--sample-shape", "6", "--prediction", "velocity", "--schedule", "fm-ot",
             "--time", "noise-to-data"]

    def run_command(self, *arguments):
        """(exit code, stdout and stderr)."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            with mock.patch.object(sys, "path", [str(Path(__file__).parent), *sys.path]):
                try:
                    code = main([*arguments, "-o", str(self.path)])
                except SystemExit as stop:
                    code = stop.code
        return code, said.getvalue()

    def test_flags_give_the_card(self):
        code, said = self.run_command(self.MODEL, *self.FLAGS, "--value-range=-2,2",
                                      "--sample-rate", "8000")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.card()["value_range"], [-2, 2])
        self.assertEqual(self.card()["sample_rate"], 8000)

    def test_weights_are_loaded(self):
        module = Plain()
        state = self.folder / "state.pt"
        torch.save(module.state_dict(), state)
        code, said = self.run_command(self.MODEL, *self.FLAGS, "--weights", str(state))
        self.assertEqual(code, 0, said)
        stored = torch.jit.load(str(self.folder / "model.pt"))
        torch.testing.assert_close(stored.layer.weight, module.layer.weight.detach())

    def test_a_card_gives_the_fields_and_flags_win_over_it(self):
        self.assertEqual(self.run_command(self.MODEL, *self.FLAGS)[0], 0)
        written = self.path.rename(self.folder / "card.json")
        code, said = self.run_command(self.MODEL, "--card", str(written), "--schedule", "cosine",
                                      "--overwrite")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.card()["schedule"], {"name": "cosine"})

    def test_a_card_with_a_key_twice_is_refused(self):
        written = self.folder / "card.json"
        for text in ('{"prediction": "noise", "prediction": "velocity"}',
                     '{"time": {"convention": "sigma", "scale": 2, "scale": 3}}', "[", "\xff"):
            written.write_text(text, encoding="latin-1")
            code, said = self.run_command(self.MODEL, *self.FLAGS, "--card", str(written))
            self.assertEqual(code, 3, said)
            self.assertIn(f"{written}: a card is one JSON object; ", said)
            self.assertNotIn("Traceback", said)
            if text.startswith("{"):
                self.assertIn(" is there twice", said)

    def test_a_decoder_of_pictures_has_no_sample_rate(self):
        decoder = nn.Sequential(nn.Linear(6, 12), nn.Unflatten(1, (1, 3, 4)))
        with self.assertRaisesRegex(ValueError, r"sample_rate: is for audio.*found \[1, 3, 4\]"):
            export_model(build_plain(), self.path, quiet=True, **FLOW, sample_rate=8000,
                         decoder=decoder)
        self.assert_nothing_written()

    def test_a_format_wins_over_the_card_and_its_file_name(self):
        self.assertEqual(self.run_command(self.MODEL, *self.FLAGS)[0], 0)
        written = self.path.rename(self.folder / "card.json")
        with mock.patch.object(torch, "__version__", "2.8.0"):
            code, said = self.run_command(self.MODEL, "--card", str(written), "--format",
                                          "aotinductor", "--overwrite")
        self.assertEqual(code, 3, said)
        self.assertIn("needs PyTorch 2.9", said)

    def test_predictions_have_the_names_of_others_too(self):
        code, said = self.run_command(self.MODEL, *self.FLAGS, "--prediction", "eps")
        self.assertEqual(code, 0, said)
        self.assertEqual(json.loads(self.path.read_text())["prediction"], "noise")

    def test_exit_codes(self):
        for code, part, arguments in (
                (2, "MODULE:FUNCTION", ["no_colon", *self.FLAGS]),
                (2, "invalid choice", [self.MODEL, *self.FLAGS, "--prediction", "x"]),
                (2, "KEY=VALUE", [self.MODEL, *self.FLAGS, "--cond", "y:10"]),
                (3, "cannot find", ["no_such_module:build", *self.FLAGS]),
                (3, "must return", ["export_model_test:build_number", *self.FLAGS]),
                (3, "is missing", [self.MODEL]),
                (3, "did you mean 'fm-ot'", [self.MODEL, *self.FLAGS, "--schedule", "fm-to"]),
                (3, "conditions", [self.MODEL, *self.FLAGS, "--cond", "y:classes=0"]),
                (3, "No such file", [self.MODEL, "--card", str(self.folder / "none.json")]),
                (3, "No such file", [self.MODEL, *self.FLAGS, "--weights", "none.pt"])):
            found, said = self.run_command(*arguments)
            self.assertEqual(found, code, said)
            self.assertIn(part, said)
            self.assertNotIn("Traceback", said)

    def test_the_module_runs_as_a_command(self):
        result = subprocess.run(
            [sys.executable, "-m", "bespoke.export_model", "--help"], text=True,
            capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        self.assertIn("Examples:", result.stdout.split("positional arguments")[0])
        self.assertNotIn("bespoke", result.stderr)  # no warning of a module imported twice


def read_safetensors(path):
    """{name: float32 tensor}: 8 bytes of length, a JSON header, raw data."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + length + begin:8 + length + end])
        tensors[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(entry["shape"])
    return tensors


def midpoint(field, x, steps):
    """The midpoint method on uniform times from 0 to 1."""
    step = 1 / steps
    for i in range(steps):
        t = torch.full([x.shape[0]], i * step)
        x = x + step * field(x + step / 2 * field(x, t), t + step / 2)
    return x


@unittest.skipUnless(os.environ.get("BESPOKE_BINARY"), "BESPOKE_BINARY is not set")
class WithTheBinary(Folder):
    GAUSSIAN = [0.5, -0.25, 0.0], [0.2, 0.6, 1.5]

    def bespoke(self, command, *arguments):
        """Runs a command on the exported model; what it printed to stderr where it failed."""
        done = subprocess.run([os.environ["BESPOKE_BINARY"], command, "--model", self.path,
                               "--device", "cpu", *arguments], capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def samples(self):
        """Midpoint samples of the exported model, and the noise they began as."""
        out = self.folder / "samples"
        self.assertEqual(self.bespoke("sample", "--solver", "midpoint", "--nfe", "8",
                                      "--count", "4", "-o", out), "")
        return read_safetensors(out / "samples.safetensors")

    def assert_same_samples(self, own_time, **options):
        """Midpoint samples of the exported Gaussian, from the binary and from Python."""
        self.export(Gaussian(*self.GAUSSIAN), sample_shape=[3], **options)
        tensors = self.samples()
        stored = torch.jit.load(str(self.folder / "model.pt")).float()
        with torch.no_grad():
            expected = midpoint(lambda x, t: stored(x, own_time(t)), tensors["noise"], 4)
        torch.testing.assert_close(tensors["samples"], expected, rtol=1e-5, atol=1e-5)
        self.assertGreater((tensors["samples"] - tensors["noise"]).abs().max(), 0.1)

    def test_bespoke_samples_what_python_scripted(self):
        self.assert_same_samples(lambda t: t)

    def test_bespoke_samples_half_weights_and_traces(self):
        self.assert_same_samples(lambda t: t, half=True, method="trace")

    def test_bespoke_samples_what_python_exported_in_parts(self):
        class Two(nn.Module):
            def forward(self, nodes, edges, t):
                return -nodes * t[:, None], 0.5 * edges + nodes[:, None, :]

        def joined(x, t):
            nodes, edges = Two()(x[:, :2], x[:, 2:].reshape(-1, 3, 2), t)
            return torch.cat([nodes, edges.flatten(1)], 1)
        self.export(Two(), sample_shape={"nodes": [2], "edges": [3, 2]})
        tensors = self.samples()
        expected = midpoint(joined, tensors["noise"], 4)
        torch.testing.assert_close(tensors["nodes"], expected[:, :2], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(tensors["edges"].flatten(1), expected[:, 2:], rtol=1e-5,
                                   atol=1e-5)

    def test_bespoke_samples_and_distils_what_python_compiled(self):
        module = Gaussian(*self.GAUSSIAN)
        try:
            self.export(module, sample_shape=[3], format="aotinductor", device="cpu")
        except ValueError as error:
            self.skipTest(str(error))
        refused = self.bespoke("check")
        if "needs LibTorch" in refused:
            self.skipTest(refused.strip())
        tensors = self.samples()
        with torch.no_grad():
            expected = midpoint(module, tensors["noise"], 4)
        torch.testing.assert_close(tensors["samples"], expected, rtol=1e-5, atol=1e-5)
        self.assertEqual(self.bespoke("distill", "--nfe", "4", "-o", self.folder / "run"), "")
        self.assertIn("is compiled and has none", self.bespoke(
            "distill", "--nfe", "4", "--method", "adam", "-o", self.folder / "adam"))
        self.assertIn("was compiled for fp32 on cpu",
                      self.bespoke("sample", "--dtype", "fp64", "-o", self.folder / "wide"))

    def test_bespoke_counts_time_as_the_card_says(self):
        self.assert_same_samples(lambda t: 1000 * (1 - t), time="data-to-noise:scale=1000",
                                 adapter=CountedDown)


if __name__ == "__main__":
    unittest.main()
