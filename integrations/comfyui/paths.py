"""The path that a model of ComfyUI runs on, from its model_sampling."""

import comfy.model_sampling as kinds
from bespoke import Error, Schedule
from bespoke.field_differences import is_same_path


def is_flow(model_sampling):
    """Whether states are (1 - sigma) data + sigma noise: Flux, SD3, Wan, Qwen and their like."""
    return isinstance(model_sampling, kinds.CONST)


def path_of(model_sampling):
    """Its Schedule. An Error says which models there is none for."""
    if is_flow(model_sampling):
        return Schedule("fm-ot")
    if not _is_discrete(model_sampling):
        raise Error("Bespoke runs flows (Flux, SD3 ...) and discrete noise and v predictions "
                    f"(SD 1.5, SDXL ...) in ComfyUI; this model's sampling is of another kind, "
                    f"{' and '.join(kind.__name__ for kind in type(model_sampling).__bases__)}")
    if getattr(model_sampling, "zsnr", False):
        raise Error("this model's path ends without signal (zsnr), where its output does not "
                    "determine the image")
    sigmas = model_sampling.sigmas.double().cpu()
    return Schedule({"name": "table", "alphas_cumprod": (1 / (1 + sigmas ** 2)).tolist()})


def times_of(model_sampling):
    """How ComfyUI rounds the times of networks: discrete ones take the nearest level."""
    return "free" if is_flow(model_sampling) else f"integer:{len(model_sampling.sigmas)}"


def check_path(solver, model_sampling):
    """Refuses a solver for another kind of model."""
    if not is_same_path(path_of(model_sampling), solver.schedule):
        raise Error(f"solver {solver.name} is for the path {solver.schedule.name}, which is not "
                    "this model's; fit one with the node \"Fit Bespoke solver\"")


def _is_discrete(model_sampling):
    # Kinds that inherit from these but count time in another way have a timestep() of their own.
    return (isinstance(model_sampling, kinds.ModelSamplingDiscrete)
            and isinstance(model_sampling, kinds.EPS)
            and not isinstance(model_sampling, (kinds.EDM, kinds.IMG_TO_IMG))
            and type(model_sampling).timestep is kinds.ModelSamplingDiscrete.timestep)
