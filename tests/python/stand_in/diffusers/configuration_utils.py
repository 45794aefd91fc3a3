"""Configs that are read and written as diffusers does it, in a few lines."""

import functools
import inspect
import json
from pathlib import Path


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def register_to_config(init):
    @functools.wraps(init)
    def wrapped(self, *arguments, **keywords):
        bound = inspect.signature(init).bind(self, *arguments, **keywords)
        bound.apply_defaults()
        self.config = Config({key: value for key, value in bound.arguments.items()
                              if key != "self"})
        init(self, *arguments, **keywords)
    return wrapped


class ConfigMixin:
    config_name = "scheduler_config.json"

    @classmethod
    def from_config(cls, config, **keywords):
        known = set(inspect.signature(cls.__init__).parameters) - {"self"}
        given = {**config, **keywords}
        found = cls(**{key: value for key, value in given.items() if key in known})
        found.config.update({key: value for key, value in given.items() if key not in known})
        return found

    def save_pretrained(self, folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / self.config_name).write_text(json.dumps(self.config))

    @classmethod
    def from_pretrained(cls, folder):
        return cls.from_config(json.loads((Path(folder) / cls.config_name).read_text()))
