#!/usr/bin/env python3
"""Small odd models with true cards, trained in minutes: what users bring that is no plain flow.

    python3 research/odd_models.py FOLDER [--only ve-score,no-time] [--steps 1500]

Each is a network of about 0.1 M weights that draws 1x12x12 pictures of bars and blobs, or small
graphs, values in [-1, 1]. The folder gets NAME.pt and NAME.json for each, and
NAME.conditions.safetensors where its conditions are tensors. research/wild.py measures them."""

import argparse
import json
import math
import os

import torch

SIZE = 12


def pictures(count, generator):
    """Bars and blobs on a dark ground, [count, 1, SIZE, SIZE]; some values are exactly -1 and 1."""
    axis = torch.linspace(-1, 1, SIZE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")

    def draw(low, high):
        return low + (high - low) * torch.rand(count, 1, 1, generator=generator)
    centre_x, centre_y, radius = draw(-.6, .6), draw(-.6, .6), draw(.2, .5)
    blob = 2.6 * torch.exp(-((x - centre_x) ** 2 + (y - centre_y) ** 2) / (2 * radius ** 2))
    angle, offset = draw(0, math.pi), draw(-.5, .5)
    distance = (x * torch.cos(angle) + y * torch.sin(angle) - offset).abs()
    bar = draw(.5, 2.4) * torch.sigmoid((.25 - distance) * 12)
    return (torch.maximum(blob, bar) - 1.2).clamp(-1, 1)[:, None]


NODES = 6


def graphs(count, generator):
    """Rings of points with their nearness: nodes [count, 6, 2], edges [count, 6, 6, 1], joined."""
    turn = 2 * math.pi * torch.rand(count, 1, generator=generator)
    angles = turn + torch.arange(NODES) * (2 * math.pi / NODES)
    radius = .3 + .5 * torch.rand(count, 1, generator=generator)
    points = torch.stack([angles.cos(), angles.sin()], 2) * radius[:, :, None]
    points = points + .05 * torch.randn(points.shape, generator=generator)
    distance = (points[:, :, None] - points[:, None]).norm(dim=3)
    return torch.cat([points.flatten(1), (1 - 2 * distance).tanh().flatten(1)], 1)


def rectangles(count, generator):
    """Masks [count, 1, SIZE, SIZE]: 1 in a rectangle at a corner, as padded samples have them."""
    sizes = torch.randint(5, SIZE + 1, (2, count, 1, 1, 1), generator=generator)
    at = torch.arange(SIZE)
    return ((at[:, None] < sizes[0]) & (at[None] < sizes[1])).float()


class Network(torch.nn.Module):
    """A residual network on the pixels, told Fourier features of its time, or nothing."""

    def __init__(self, channels=1, timed=True, fourier=0, levels=0, width=192):
        super().__init__()
        self.channels, self.timed = channels, timed
        features = 32
        self.register_buffer("frequencies", torch.randn(features // 2) * fourier if fourier
                             else 2 ** torch.linspace(-1, 5, features // 2))
        self.table = torch.nn.Embedding(max(levels, 1), features)
        self.levels = levels
        self.first = torch.nn.Linear(SIZE * SIZE + (features if timed else 0), width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, width),
                                torch.nn.SiLU(), torch.nn.Linear(width, width)) for _ in range(3))
        self.last = torch.nn.Linear(width, channels * SIZE * SIZE)

    def told(self, t):
        if self.levels > 0:
            return self.table(t)
        angles = t[:, None] * self.frequencies * (2 * math.pi)
        return torch.cat([angles.sin(), angles.cos()], 1)

    def forward(self, x, t):
        h = x.flatten(1)
        if self.timed:
            h = torch.cat([h, self.told(t)], 1)
        h = self.first(h)
        for block in self.blocks:
            h = h + block(h)
        return self.last(h).reshape(-1, self.channels, SIZE, SIZE)


class Levels:
    """A discrete path: index 0 has the least noise."""

    def __init__(self, betas):
        self.products = torch.cumprod(1 - betas.double(), 0).float()

    def draw(self, count, generator):
        index = torch.randint(0, len(self.products), (count,), generator=generator)
        alpha = self.products[index].sqrt()
        return index, alpha, (1 - self.products[index]).sqrt()


def linear_betas(steps, first, last):
    return torch.linspace(first, last, steps, dtype=torch.float64)


def cosine_betas(steps, least, most, offset=.008):
    def product(s):
        return torch.cos((s + offset) / (1 + offset) * math.pi / 2) ** 2
    s = torch.arange(steps + 1, dtype=torch.float64) / steps
    return (1 - product(s[1:]) / product(s[:-1])).clamp(least, most)


def column(values):
    return values[:, None, None, None]


class Scaled(torch.nn.Module):
    """A network that is given the index of a level."""

    def __init__(self, network, divisor):
        super().__init__()
        self.network, self.divisor = network, divisor

    def forward(self, x, t):
        return self.network(x, t / self.divisor)


class Score(torch.nn.Module):
    """The tutorial's: the network's output over the deviation of the noise."""

    def __init__(self, network, base):
        super().__init__()
        self.network, self.rate = network, 2 * math.log(base)

    def deviation(self, t):
        return torch.sqrt(torch.expm1(self.rate * t) / self.rate)

    def forward(self, x, t):
        deviation = column(self.deviation(t))
        return self.network(x / torch.sqrt(deviation ** 2 + .25), t) / deviation


class Masked(torch.nn.Module):
    """Sees the numbers that count alone; elsewhere it says what it likes."""

    def __init__(self):
        super().__init__()
        self.inner = Flat(2 * SIZE * SIZE, SIZE * SIZE)

    def forward(self, x, t, mask):
        both = torch.cat([(x * mask).flatten(1), mask.flatten(1)], 1)
        return self.inner(both, t).reshape(-1, 1, SIZE, SIZE)


class Graph(torch.nn.Module):
    """Of nodes and edges, both given and both returned."""

    def __init__(self):
        super().__init__()
        size = NODES * 2 + NODES * NODES
        self.inner = Flat(size, size)

    def forward(self, nodes, edges, t):
        out = self.inner(torch.cat([nodes.flatten(1), edges.flatten(1)], 1), t)
        return (out[:, :NODES * 2].reshape(-1, NODES, 2),
                out[:, NODES * 2:].reshape(-1, NODES, NODES, 1))


class Flat(torch.nn.Module):
    """A residual network on a vector of numbers, told Fourier features of its time."""

    def __init__(self, size, returned, width=192):
        super().__init__()
        self.register_buffer("frequencies", 2 ** torch.linspace(-1, 5, 16))
        self.first = torch.nn.Linear(size + 32, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, width),
                                torch.nn.SiLU(), torch.nn.Linear(width, width)) for _ in range(3))
        self.last = torch.nn.Linear(width, returned)

    def forward(self, x, t):
        angles = t[:, None] * self.frequencies * (2 * math.pi)
        h = self.first(torch.cat([x, angles.sin(), angles.cos()], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.last(h)


class Untimed(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        size = (x * x).mean([1, 2, 3], keepdim=True).sqrt()
        return self.network(x / (size + .1), size.flatten())


class ChannelsLast(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, t):
        return self.network(x.movedim(-1, 1), t).movedim(1, -1)


def train(module, loss, steps, batch=128, rate=2e-3, samples=pictures):
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(module.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
    average = [p.detach().clone() for p in module.parameters()]
    for step in range(steps):
        data = samples(batch, generator)
        noise = torch.randn(data.shape, generator=generator)
        optimizer.zero_grad()
        value = loss(data, noise, generator)
        value.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        for kept, p in zip(average, module.parameters()):
            kept.lerp_(p.detach(), max(.002, 1 / (step + 1)))
    with torch.no_grad():
        for kept, p in zip(average, module.parameters()):
            p.copy_(kept)
    return value.item()


def noise_loss(module, path):
    def loss(data, noise, generator):
        t, alpha, sigma = path.draw(len(data), generator)
        out = module(column(alpha) * data + column(sigma) * noise, t.float())
        return ((out[:, :1] - noise) ** 2).mean()
    return loss


def clipped(steps):
    """A noise predictor with hardly any signal at its last level: its sampler must clip."""
    module = Scaled(Network(), 300.0)
    value = train(module, noise_loss(module, Levels(cosine_betas(300, 1e-4, .9999))), steps)
    return module, value, (torch.randn(2, 1, SIZE, SIZE), torch.rand(2)), {
        "prediction": "noise", "clip": True,
        "schedule": {"name": "ddpm-cosine", "steps": 300, "beta_min": 1e-4, "beta_max": .9999},
        "time": {"convention": "index", "levels": 300}}


def ve_score(steps):
    """A score network on dx = 25^s dw, sampled from s = 1 to s = 0.001 as its tutorial does."""
    module = Score(Network(), 25.0)

    def loss(data, noise, generator):
        s = torch.rand(len(data), generator=generator) * .999 + .001
        deviation = column(module.deviation(s))
        return ((module(data + deviation * noise, s) * deviation + noise) ** 2).mean()
    return module, train(module, loss, steps), (torch.randn(2, 1, SIZE, SIZE), torch.rand(2) + .1), {
        "prediction": "score",
        "schedule": {"name": "ve-power", "sigma": 25, "end": .999, "denoise": True},
        "time": {"convention": "data-to-noise"}}


def truncated(steps):
    """Twenty levels that end at alpha_bar = 0.6: its sampler starts from noise all the same."""
    module = Scaled(Network(), 20.0)
    value = train(module, noise_loss(module, Levels(linear_betas(20, 1e-4, .05))), steps)
    return module, value, (torch.randn(2, 1, SIZE, SIZE), torch.rand(2)), {
        "prediction": "noise", "clip": True,
        "schedule": {"name": "ddpm-linear", "steps": 20, "beta_start": 1e-4, "beta_end": .05},
        "time": {"convention": "index", "levels": 20}}


def integer_time(steps):
    """A data predictor that looks its time up in a table."""
    module = Network(levels=100)
    path = Levels(linear_betas(100, 1e-3, .2))

    def loss(data, noise, generator):
        t, alpha, sigma = path.draw(len(data), generator)
        return ((module(column(alpha) * data + column(sigma) * noise, t) - data) ** 2).mean()
    return module, train(module, loss, steps), (torch.randn(2, 1, SIZE, SIZE), torch.tensor([3, 7])), {
        "prediction": "x0",
        "schedule": {"name": "ddpm-linear", "steps": 100, "beta_start": 1e-3, "beta_end": .2},
        "time": {"convention": "index", "levels": 100, "integer": True}}


def rough(steps):
    """A flow model that ripples in t: Fourier features of deviation 26."""
    module = Network(fourier=26)

    def loss(data, noise, generator):
        t = torch.rand(len(data), generator=generator)
        x = column(t) * data + column(1 - t) * noise
        return ((module(x, t) - (data - noise)) ** 2).mean()
    return module, train(module, loss, steps), (torch.randn(2, 1, SIZE, SIZE), torch.rand(2)), {
        "prediction": "velocity", "schedule": {"name": "fm-ot"},
        "time": {"convention": "noise-to-data"}}


def learned_variance(steps):
    """A noise predictor whose second half of channels is its variance."""
    module = Scaled(Network(channels=2), 1000.0)
    path = Levels(linear_betas(1000, 1e-4, .02))
    return module, train(module, noise_loss(module, path), steps), \
        (torch.randn(2, 1, SIZE, SIZE), torch.rand(2)), {
            "prediction": "eps", "extra_channels": 1, "schedule": {"name": "ddpm-linear"},
            "time": {"convention": "index", "levels": 1000}}


def no_time(steps):
    """A denoiser that sees for itself how much noise there is, on EDM's path down to 0.05."""
    module = Untimed(Network())

    def loss(data, noise, generator):
        level = torch.exp(torch.rand(len(data), generator=generator) * math.log(10 / .05)
                          + math.log(.05))
        weight = column((level ** 2 + .25) / (level * .5) ** 2)
        return (weight * (module(data + column(level) * noise) - data) ** 2).mean()
    return module, train(module, loss, steps), (torch.randn(2, 1, SIZE, SIZE),), {
        "prediction": "data",
        "schedule": {"name": "edm", "sigma_max": 10, "sigma_min": .05, "denoise": True},
        "time": {"convention": "none"}}


def channels_last(steps):
    """A v-model called on pictures with the channels at the end."""
    module = ChannelsLast(Network())

    def loss(data, noise, generator):
        t = torch.rand(len(data), generator=generator)
        alpha, sigma = column(torch.sin(t * math.pi / 2)), column(torch.cos(t * math.pi / 2))
        x = (alpha * data + sigma * noise).movedim(1, -1)
        return ((module(x, 1 - t).movedim(-1, 1) - (alpha * noise - sigma * data)) ** 2).mean()
    return module, train(module, loss, steps), (torch.randn(2, SIZE, SIZE, 1), torch.rand(2)), {
        "prediction": "v", "layout": "channels-last", "schedule": {"name": "cosine"},
        "time": {"convention": "data-to-noise"}}


def quadratic(steps):
    """Fifty levels with quadratic betas up to 0.5, as imputers of series have them."""
    module = Scaled(Network(), 50.0)
    betas = torch.linspace(1e-2, math.sqrt(.5), 50, dtype=torch.float64) ** 2
    return module, train(module, noise_loss(module, Levels(betas)), steps), \
        (torch.randn(2, 1, SIZE, SIZE), torch.rand(2)), {
            "prediction": "noise", "clip": True,
            "schedule": {"name": "ddpm-quadratic", "steps": 50, "beta_start": 1e-4,
                         "beta_end": .5},
            "time": {"convention": "index", "levels": 50}}


def masked(steps):
    """A flow model of padded pictures: what is outside a sample's rectangle does not count."""
    module = Masked()

    def loss(data, noise, generator):
        t = torch.rand(len(data), generator=generator)
        mask = rectangles(len(data), generator)
        out = module(column(t) * data + column(1 - t) * noise, t, mask)
        return (((out - (data - noise)) * mask) ** 2).sum() / mask.sum()
    masks = rectangles(64, torch.Generator().manual_seed(2))
    return module, train(module, loss, steps), \
        (torch.randn(2, 1, SIZE, SIZE), torch.rand(2), masks[:2]), {
            "prediction": "velocity", "schedule": {"name": "fm-ot"},
            "time": {"convention": "noise-to-data"},
            "conditions": [{"name": "mask", "shape": [1, SIZE, SIZE]}], "error_mask": "mask",
            "_conditions": {"mask": masks}}


def two_tensors(steps):
    """A flow model of graphs, whose samples are nodes and edges."""
    module = Graph()

    def loss(data, noise, generator):
        t = torch.rand(len(data), generator=generator)
        x = t[:, None] * data + (1 - t[:, None]) * noise
        nodes = x[:, :NODES * 2].reshape(-1, NODES, 2)
        found = module(nodes, x[:, NODES * 2:].reshape(-1, NODES, NODES, 1), t)
        return ((torch.cat([part.flatten(1) for part in found], 1) - (data - noise)) ** 2).mean()
    return module, train(module, loss, steps, samples=graphs), \
        (torch.randn(2, NODES, 2), torch.randn(2, NODES, NODES, 1), torch.rand(2)), {
            "sample_shape": {"nodes": [NODES, 2], "edges": [NODES, NODES, 1]},
            "prediction": "velocity", "schedule": {"name": "fm-ot"},
            "time": {"convention": "noise-to-data"}}


def write_tensors(path, tensors):
    """A safetensors file of float32 tensors, without a library."""
    header, blocks, begin = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [begin, begin + len(data)]}
        blocks.append(data)
        begin += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blocks))


MODELS = {"clipped": clipped, "ve-score": ve_score, "truncated": truncated,
          "integer-time": integer_time, "rough": rough, "learned-variance": learned_variance,
          "no-time": no_time, "channels-last": channels_last, "quadratic": quadratic,
          "masked": masked, "two-tensors": two_tensors}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--only", help="names with commas between; all of them otherwise")
    parser.add_argument("--steps", type=int, default=1500, help="of training")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.makedirs(options.folder, exist_ok=True)
    for name in options.only.split(",") if options.only else MODELS:
        torch.manual_seed(0)
        module, value, example, card = MODELS[name](options.steps)
        module.eval()
        torch.jit.trace(module, example).save(os.path.join(options.folder, name + ".pt"))
        conditions = card.pop("_conditions", {})
        if conditions:
            write_tensors(os.path.join(options.folder, name + ".conditions.safetensors"),
                          conditions)
        card = {"format": "torchscript", "name": name, "weights": name + ".pt",
                "sample_shape": [1, SIZE, SIZE], "value_range": [-1, 1], **card}
        with open(os.path.join(options.folder, name + ".json"), "w") as file:
            json.dump(card, file, indent=1)
        print(f"{name}: loss {value:.4f}", flush=True)


if __name__ == "__main__":
    main()
