"""Runs every block of Python in the guides, with stand-ins for the reader's own models."""

import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest
from pathlib import Path

try:
    import numpy as np
    import bespoke._core  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

from mixtures import two_gaussians

if importlib.util.find_spec("diffusers") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent / "stand_in"))
try:
    import matplotlib
    matplotlib.use("Agg")
except ImportError:
    matplotlib = None

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [ROOT / name for name in ("README.md", "docs/guide/python.md", "docs/guide/diffusers.md")]


def sections(guide):
    """(heading, blocks) of the guide's first and second level, in order."""
    for part in re.split(r"^##? ", guide.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            yield part.splitlines()[0], blocks


def my_network():
    """A stand-in with classes: a flow towards a mean that its labels decide."""
    class MyNetwork(torch.nn.Module):
        def forward(self, x, t, labels):
            assert x.dim() == 4 and t.shape == labels.shape == x.shape[:1]
            s = t.reshape(-1, 1, 1, 1).clamp(0, 1)
            return torch.tanh(labels.reshape(-1, 1, 1, 1) / 10 - x) * (1 + s)
    return MyNetwork


def noise_network(t, x):
    """A stand-in that predicts the noise on the VP path of standard normal data."""
    return bespoke.Schedule("vp").sigma(t) * x


def denoiser(x, sigma):
    """A stand-in on standard normal data."""
    return x / (1 + sigma[:, None] ** 2)


class Pipe:
    """A stand-in for a pipeline of diffusers: its loop, and what its call returns."""

    @classmethod
    def from_pretrained(cls, name, torch_dtype):
        return cls()

    def to(self, device):
        return self

    def __init__(self):
        config = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012,
                  "prediction_type": "epsilon", "num_train_timesteps": 1000}
        self.scheduler = types.SimpleNamespace(config=config)

    def __call__(self, prompt, num_inference_steps, guidance_scale=1.0):
        prompts = [prompt] if isinstance(prompt, str) else prompt
        self.scheduler.set_timesteps(num_inference_steps)
        x = torch.randn(len(prompts), 4, 8, 8) * self.scheduler.init_noise_sigma
        sigma = bespoke.Schedule("ddpm-scaled-linear").sigma
        for t in self.scheduler.timesteps:
            output = sigma(1 - (float(t) + 1) / 1000) * x + 0.01 * guidance_scale * torch.tanh(x)
            x = self.scheduler.step(output, t, x).prev_sample
        return types.SimpleNamespace(images=x)


def needs_torch(blocks):
    return any(word in block for block in blocks for word in ("torch", "diffusers", "pipe"))


class Guide(unittest.TestCase):
    def test_every_block_runs(self):
        before = os.getcwd()
        names = []
        for guide in GUIDES:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    for heading, blocks in sections(guide):
                        with self.subTest(heading):
                            self.run_section(guide, blocks)
                            names.append(heading)
                finally:
                    os.chdir(before)
        self.assertIn("In five lines", names)
        if torch is not None:
            self.assertIn("Pick your door", names)
            self.assertIn("Your own PyTorch model", names)
            self.assertIn("Faster Stable Diffusion in two lines", names)
            self.assertIn("More decibels from more calls", names)

    def run_section(self, guide, blocks):
        if torch is None and needs_torch(blocks):
            self.skipTest("PyTorch is not installed")
        space = {"bespoke": bespoke, "velocity": two_gaussians, "noise_network": noise_network,
                 "denoiser": denoiser}
        if torch is not None:
            import diffusers
            torch.manual_seed(0)
            space.update(MyNetwork=my_network(), pipe=Pipe())
            diffusers.StableDiffusionPipeline = Pipe
        for block in blocks:
            if ".plot()" in block and matplotlib is None:
                continue
            exec(compile(block, str(guide), "exec"), space)
        for name in ("samples", "images", "x"):
            if name in space:
                values = getattr(space[name], "images", space[name])
                self.assertTrue(np.isfinite(np.asarray(values)).all(), name)


if __name__ == "__main__":
    unittest.main()
