"""Modules of other libraries, called as Bespoke calls a network: forward(x, time, *conditions)."""

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
        if len(conditions) > len(self.arguments):
            raise ValueError(f"{len(conditions)} conditions, but only these arguments are named: "
                             f"{', '.join(self.arguments)}")
        output = self.module(x, t, **dict(zip(self.arguments, conditions)))
        return prediction_of(output)


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
        return DiffusersUNet(module, _argument_names(module, conditions))
    if adapter is None:
        return module
    if not callable(adapter):
        raise ValueError(f'adapter: is "diffusers" or a callable, found {adapter!r}')
    return adapter(module)


def _argument_names(module, conditions):
    """A condition is passed by its name; a first one of another name as encoder_hidden_states."""
    known = inspect.signature(module.forward).parameters
    names = []
    for i, condition in enumerate(conditions):
        name = condition["name"]
        if i == 0 and name not in known:
            name = "encoder_hidden_states"
        if name not in known:
            raise ValueError(f"conditions[{i}]: {type(module).__name__}.forward has no argument "
                             f"'{name}'; name the condition after the argument it is")
        names.append(name)
    return names
