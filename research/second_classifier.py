#!/usr/bin/env python3
"""A second classifier of CIFAR-10, by another recipe than the embedded one: another network (three
convolutions, group normalisation, max pooling), SGD instead of Adam, images as they are but for
flips. Its 96 features judge what was matched in those of the first.

    python3 research/second_classifier.py --train train-a.zip --train train-b.zip \
        --test test.zip -o heldout.pt

The archives hold a folder of pictures for each class. Minutes on two cores, seconds on a GPU."""

import argparse
import io
import zipfile

import numpy
import torch
from torch import nn


class Features(nn.Module):
    """Images [batch, 3, 32, 32] in [-1, 1] to [batch, 96]."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in (32, 64, 96):
            layers += [nn.Conv2d(channels, width, 5 if channels == 3 else 3, padding="same"),
                       nn.GroupNorm(8, width), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.body = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).mean([2, 3])


def read(archives):
    """Images, uint8 [count, 3, 32, 32], and their classes."""
    from PIL import Image  # only where there are pictures to read

    images, labels = [], []
    for archive in archives:
        with zipfile.ZipFile(archive) as file:
            names = [name for name in file.namelist() if name.lower().endswith((".jpg", ".png"))]
            for name in names:
                picture = Image.open(io.BytesIO(file.read(name))).convert("RGB")
                images.append(numpy.asarray(picture).transpose(2, 0, 1))
                labels.append(name.split("/")[-2])
    classes = sorted(set(labels))
    return (torch.from_numpy(numpy.stack(images)),
            torch.tensor([classes.index(label) for label in labels]))


def train(images, labels, epochs, device):
    features = Features().to(device)
    head = nn.Linear(96, int(labels.max()) + 1).to(device)
    parameters = [*features.parameters(), *head.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True,
                                weight_decay=5e-4)
    batch = 128
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, steps)
    for epoch in range(epochs):
        order = torch.randperm(len(images))
        for k in range(len(images) // batch):
            chosen = order[k * batch:(k + 1) * batch]
            x = images[chosen].to(device).float() / 127.5 - 1
            flips = torch.rand(batch, device=device) < 0.5
            x = torch.where(flips[:, None, None, None], x.flip(3), x)
            loss = nn.functional.cross_entropy(head(features(x)), labels[chosen].to(device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    return features.eval(), head.eval()


@torch.no_grad()
def part_right(features, head, images, labels, device):
    right = 0
    for x, y in zip(images.split(1000), labels.split(1000)):
        found = head(features(x.to(device).float() / 127.5 - 1)).argmax(1)
        right += int((found.cpu() == y).sum())
    return right / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="append", required=True, help="repeatable")
    parser.add_argument("--test", action="append", default=[], help="repeatable")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--count", type=int, help="use only so many images")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("-o", "--output", required=True, help="the TorchScript file to write")
    options = parser.parse_args()
    torch.manual_seed(0)
    images, labels = read(options.train)
    if options.count:
        chosen = torch.randperm(len(images))[:options.count]
        images, labels = images[chosen], labels[chosen]
    features, head = train(images, labels, options.epochs, options.device)
    if options.test:
        right = part_right(features, head, *read(options.test), options.device)
        print(f"{100 * right:.1f} % of the test set right")
    torch.jit.script(features.cpu()).save(options.output)


if __name__ == "__main__":
    main()
