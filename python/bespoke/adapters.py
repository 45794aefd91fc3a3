"""Modules of other libraries, called as Bespoke calls a network: forward(x, time, *conditions).

Each adapter is told the names of the conditions, which are those of the module's own arguments.
"""

import inspect

import torch


class DiffusersUNet(torch.nn.Module):
    """A UNet2DModel or UNet2DConditionModel of diffusers as forward(x, t, *conditions) -> tensor.

    `arguments` names the keyword argument that each condition becomes, in order. The prediction is
    taken from the output's `sample`, whether an attribute, a dict's entry or a tuple's first.
    """

    def __init__(self, module, arguments=("encoder_hidden_states",)):
        super().__init__()
        self.module = module
        self.arguments = tuple(arguments)

    def forward(self, x, t, *conditions):
        """The prediction at x and t, with the conditions as the keyword arguments named."""
        output = self.module(x, t, **_named(self.arguments, conditions))
        return prediction_of(output)


class DiffusersSDXL(torch.nn.Module):
    """The UNet of Stable Diffusion XL, which takes pooled text and sizes in a dict of their own.

    Where `time_ids` is not among the arguments they are those of an uncropped image of `size`,
    height and width in pixels.
    """

    ADDED = ("text_embeds", "time_ids")

    def __init__(self, module, arguments=("encoder_hidden_states", "text_embeds"),
                 size=(1024, 1024)):
        super().__init__()
        self.module = module
        self.arguments = tuple(arguments)
        self.register_buffer("time_ids", torch.tensor([*size, 0.0, 0.0, *size]))

    def forward(self, x, t, *conditions):
        """The prediction at x and t, with the conditions as the keyword arguments named."""
        named = _named(self.arguments, conditions)
        added = {name: named.pop(name) for name in self.ADDED if name in named}
        if "time_ids" not in added:
            added["time_ids"] = self.time_ids.to(x.dtype).expand(x.shape[0], -1)
        return prediction_of(self.module(x, t, added_cond_kwargs=added, **named))


class DiffusersSD3(torch.nn.Module):
    """The transformer of Stable Diffusion 3: velocities, at 1000 (1 - t).

    It predicts noise - data, so the sign is turned: prediction="velocity", schedule="fm-ot",
    time="data-to-noise:scale=1000".
    """

    def __init__(self, module, arguments=("encoder_hidden_states", "pooled_projections")):
        super().__init__()
        self.module = module
        self.arguments = tuple(arguments)

    def forward(self, x, t, *conditions):
        """The prediction at x and t, with the conditions as the keyword arguments named."""
        output = self.module(hidden_states=x, timestep=t, return_dict=False,
                             **_named(self.arguments, conditions))
        return -prediction_of(output)


class DiffusersFlux(torch.nn.Module):
    """The transformer of Flux: velocities of latents [batch, channels, height, width], at 1 - t.

    It takes latents in tokens of 2x2 and predicts noise - data: both are turned back, so
    prediction="velocity", schedule="fm-ot", time="data-to-noise". `guidance` is what networks with
    distilled guidance are given.
    """

    def __init__(self, module, arguments=("encoder_hidden_states", "pooled_projections"),
                 guidance=3.5):
        super().__init__()
        self.module = module
        self.arguments = tuple(arguments)
        distilled = getattr(getattr(module, "config", None), "guidance_embeds", False)
        self.guidance = float(guidance) if distilled else None

    def forward(self, x, t, *conditions):
        """The prediction at x and t, with the conditions as the keyword arguments named."""
        named = _named(self.arguments, conditions)
        batch, channels, height, width = x.shape
        tokens = x.reshape(batch, channels, height // 2, 2, width // 2, 2)
        tokens = tokens.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, 4 * channels)
        if self.guidance is not None:
            named["guidance"] = torch.full_like(t, self.guidance)
        output = self.module(hidden_states=tokens, timestep=t, return_dict=False,
                             img_ids=self._places(height // 2, width // 2, x),
                             txt_ids=x.new_zeros(named["encoder_hidden_states"].shape[1], 3),
                             **named)
        found = prediction_of(output).reshape(batch, height // 2, width // 2, channels, 2, 2)
        return -found.permute(0, 3, 1, 4, 2, 5).reshape(x.shape)

    @staticmethod
    def _places(rows, columns, like):
        """(0, row, column) of every token."""
        row = torch.arange(rows, dtype=like.dtype, device=like.device)
        column = torch.arange(columns, dtype=like.dtype, device=like.device)
        row, column = row[:, None].expand(rows, columns), column[None].expand(rows, columns)
        return torch.stack([torch.zeros_like(row), row, column], -1).reshape(-1, 3)


def prediction_of(output):
    """The tensor in what a diffusers-like module returns."""
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "sample"):
        return output.sample
    return output["sample"] if isinstance(output, dict) else output[0]


def adapt(module, adapter, conditions):
    """`module` through `adapter`: None, "diffusers" or a callable that returns a module."""
    if adapter == "diffusers":
        return _of_diffusers(module, [condition["name"] for condition in conditions])
    if adapter is None:
        return module
    if not callable(adapter):
        raise ValueError(f'adapter: is "diffusers" or a callable, found {adapter!r}')
    return adapter(module)


def _of_diffusers(module, names):
    """The adapter that the module's own arguments ask for."""
    known = inspect.signature(module.forward).parameters
    if "img_ids" in known:
        return DiffusersFlux(module, _arguments(module, names, known))
    if "pooled_projections" in known:
        return DiffusersSD3(module, _arguments(module, names, known))
    if "text_embeds" in names and "added_cond_kwargs" in known:
        return DiffusersSDXL(module, _arguments(module, names, [*known, *DiffusersSDXL.ADDED]))
    return DiffusersUNet(module, _arguments(module, names, known))


def _arguments(module, names, known):
    """A condition is passed by its name; a first one of another name as encoder_hidden_states."""
    found = []
    for i, name in enumerate(names):
        if i == 0 and name not in known:
            name = "encoder_hidden_states"
        if name not in known:
            raise ValueError(f"conditions[{i}]: {type(module).__name__}.forward has no argument "
                             f"'{name}'; name the condition after the argument it is")
        found.append(name)
    return found


def _named(arguments, conditions):
    if len(conditions) > len(arguments):
        raise ValueError(f"{len(conditions)} conditions, but only these arguments are named: "
                         f"{', '.join(arguments)}")
    return dict(zip(arguments, conditions))
