"""The models that tables are about: how each is told what to draw, learnt from and measured by."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from results.program import Failure, write_text

MODELS = Path(__file__).resolve().parents[2] / "models"
PROMPTS = MODELS / "emoji-t2i-prompts.txt"
GAPS = MODELS / "speech-gaps"


@dataclass(frozen=True)
class Model:
    """A model as a table samples it."""

    name: str
    title: str
    card: str
    guidance: str = "0"
    learnt: tuple = ()  # conditions of what solvers learn from
    unseen: dict = field(default_factory=lambda: {"": ()})  # sets that measure, by what they are
    features: tuple = ()  # for Fréchet distances
    decoded: bool = False  # samples are latents, and measured as what a decoder makes of them
    sound: bool = False
    scale_time: str = "bst"  # the family; of base Euler where every Midpoint fails
    tolerance: str = "1e-6"
    prepare: object = None  # writes into a table's folder what the options above name

    def options(self):
        return ("--model", self.card, *(("--guidance", self.guidance) if self.guidance != "0"
                                        else ()))


def classes(count):
    return {"": ("--cond", f"y=0-{count - 1}")}


def write_prompts(folder):
    """Other prompts to learn from than to measure by, all of combinations not seen in training."""
    lines = PROMPTS.read_text().splitlines()
    write_text(folder / "learnt.txt", "\n".join(lines[-128:]) + "\n")
    write_text(folder / "unseen.txt", "\n".join(lines[:128]) + "\n")


def write_gaps(folder):
    """Half of the recordings that come with the model to learn from, the others to measure by."""
    lines = (GAPS / "manifest.jsonl").read_text().splitlines()
    for name, some in (("learnt", lines[0::2]), ("unseen", lines[1::2])):
        for line in some:
            (folder / name).mkdir(parents=True, exist_ok=True)
            file = json.loads(line)["file"]
            shutil.copyfile(GAPS / file, folder / name / file)
        write_text(folder / name / "manifest.jsonl", "\n".join(some) + "\n")


def prompts(guidance, tolerance="1e-6", scale_time="bst"):
    return Model(f"prompts-w{guidance}", f"Text to image, w = {guidance}", "emoji-t2i", guidance,
                 ("--prompts", "learnt.txt"), {"": ("--prompts", "unseen.txt")},
                 ("--features", "cifar10-features", "--features-size", "32"), True,
                 tolerance=tolerance, scale_time=scale_time, prepare=write_prompts)


def speech(guidance, recordings):
    """With the recordings that come with the model, or those that `spoken_digits` wrote."""
    title = f"Audio infilling, w = {guidance}"
    unseen = {"": ("--utterances", "unseen")}
    learnt, prepare = ("--utterances", "learnt"), write_gaps
    if recordings:
        unseen = {"speakers of the training": ("--utterances", str(recordings / "seen")),
                  "a speaker it never heard": ("--utterances", str(recordings / "unseen"))}
        learnt, prepare = ("--utterances", str(recordings / "train")), None
    return Model(f"speech-w{guidance}", title, "speech", guidance, learnt, unseen, sound=True,
                 tolerance="1e-5", prepare=prepare)


def embedded(name):
    titles = {"cifar10-fm-ot": "velocity on the FM-OT path",
              "cifar10-eps-vp": "noise on the VP path"}
    return Model(name, f"`{name}`: {titles[name]}, 3x32x32", name, unseen=classes(10),
                 features=("--features", "cifar10-features"))


def analytic():
    return Model("analytic", "An analytic mixture", "analytic:mixture:dim=16,components=4",
                 tolerance="1e-4")


def of_card(path):
    """A further model, from its card. Conditions that are tensors are read from
    NAME.conditions.safetensors beside NAME.json."""
    try:
        card = json.loads(path.read_text())
        shape = card["sample_shape"]
        schedule = card["schedule"]
        title = (f"`{path.stem}`: {card['prediction']} on the "
                 f"{schedule['name'] if isinstance(schedule, dict) else schedule} path, "
                 f"{'x'.join(map(str, shape))}")
        conditions = [one for one in card.get("conditions", []) if "classes" in one]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{path} is no model card: {error!r}")
    given = tuple(word for one in conditions
                  for word in ("--cond", f"{one['name']}=0-{one['classes'] - 1}"))
    beside = path.with_name(f"{path.stem}.conditions.safetensors")
    tensors = () if not beside.is_file() else tuple(
        word for one in card.get("conditions", []) if "classes" not in one
        for word in ("--cond", f"{one['name']}={beside.resolve()}:{one['name']}"))
    features = ()
    if len(shape) == 3 and shape[0] == 3:
        features = ("--features", "cifar10-features")
        features += () if shape[1:] == [32, 32] else ("--features-size", "32")
    return Model(f"card-{path.stem}", title, str(path.resolve()), learnt=tensors,
                 unseen={"": given + tensors}, features=features, tolerance="1e-5")
