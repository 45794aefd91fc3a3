"""The nodes: learn a solver from the first image, load one, or fit one to the workflow's model."""

import os

import comfy.sample
import comfy.samplers
import folder_paths
import torch
from bespoke import Error, Solver
from bespoke.k_diffusion import sigmas_of

from .sampling import FittingSampler, LearningComfySampler, SolverSampler

FOLDER = "bespoke_solvers"
CATEGORY = "sampling/custom_sampling/bespoke"
SAMPLER_TOOLTIPS = ("for SamplerCustom or SamplerCustomAdvanced",
                    "where the solver evaluates the model; it takes these sigmas alone")

folder_paths.add_model_folder_path(FOLDER, os.path.join(folder_paths.models_dir, FOLDER))


def outputs(solver):
    return SolverSampler(solver), torch.tensor(sigmas_of(solver), dtype=torch.float32)


class LoadBespokeSolver:
    """A solver file of models/bespoke_solvers as SAMPLER and SIGMAS."""

    CATEGORY = CATEGORY
    RETURN_TYPES = ("SAMPLER", "SIGMAS")
    FUNCTION = "load"
    DESCRIPTION = "Runs a solver that was found before, for the model that it was found for."
    OUTPUT_TOOLTIPS = SAMPLER_TOOLTIPS

    @classmethod
    def INPUT_TYPES(cls):
        """The files, and which of a file's solvers."""
        return {"required": {
            "file": (folder_paths.get_filename_list(FOLDER),
                     {"tooltip": f"a *.solver.json in models/{FOLDER}"}),
            "steps": ("INT", {"default": 0, "min": 0, "max": 1000,
                              "tooltip": "evaluations; 0 takes the file's only solver"})}}

    def load(self, file, steps):
        """Runs the node."""
        path = folder_paths.get_full_path(FOLDER, file)
        if path is None:
            raise Error(f"there is no {file} in models/{FOLDER}")
        return outputs(Solver.load(path, steps or None))


class LearnBespokeSolver:
    """Learns from the first image; later ones take few evaluations."""

    CATEGORY = CATEGORY
    RETURN_TYPES = ("SAMPLER", "SIGMAS")
    FUNCTION = "learn"
    DESCRIPTION = ("The first image is drawn by some 50 evaluations, from which the sampler learns "
                   "to draw later ones by few. It learns anew for another model, cfg or size.")
    OUTPUT_TOOLTIPS = ("for SamplerCustom", "its sigmas; the steps are the sampler's own")
    _samplers = {}  # by steps: what was learnt outlives a node that runs again

    @classmethod
    def INPUT_TYPES(cls):
        """The model, and how many evaluations later images take."""
        return {"required": {
            "model": ("MODEL", {"tooltip": "the model that SamplerCustom gets too"}),
            "steps": ("INT", {"default": 8, "min": 2, "max": 50,
                              "tooltip": "evaluations of every image after the first ones"})}}

    def learn(self, model, steps):
        """Runs the node."""
        sampler = self._samplers.setdefault(steps, LearningComfySampler(steps))
        highest = float(model.get_model_object("model_sampling").sigma_max)
        return sampler, torch.linspace(highest, 0, steps + 1)


_FIT_INPUTS = {
    "latent_image": ("LATENT", {"tooltip": "an empty latent of the size that you use; its batch "
                                           "is how many images the model gets at once"}),
    "steps": ("INT", {"default": 8, "min": 1, "max": 50, "tooltip": "evaluations of the solver"}),
    "samples": ("INT", {"default": 16, "min": 2, "max": 256,
                        "tooltip": "images to learn from, a quarter of them to measure by"}),
    "calls": ("INT", {"default": 0, "min": 0, "max": 1000000,
                      "tooltip": "evaluations to spend in all; 0 fits alone, which is enough "
                                 "for sixteen samples"}),
    "fit_seed": ("INT", {"default": 0, "min": 0, "max": 0xffffffffffffffff,
                         "tooltip": "of the noise to learn from"}),
    "save_as": ("STRING", {"default": "", "tooltip": "a name in models/bespoke_solvers; empty "
                                                     "keeps the solver in this workflow alone"})}


def _fitted(guider, latent_image, steps, samples, calls, fit_seed, save_as):
    latent = comfy.sample.fix_empty_latent_channels(guider.model_patcher, latent_image["samples"])
    sampler = FittingSampler(steps, samples, calls, batch=len(latent),
                             seed=fit_seed)
    highest = float(guider.model_patcher.get_model_object("model_sampling").sigma_max)
    guider.sample(torch.zeros_like(latent), torch.zeros_like(latent), sampler,
                  torch.tensor([highest, 0.0]), seed=fit_seed)
    result = sampler.result
    if save_as:
        result.solver.save(_saved_path(save_as))
    return {"ui": {"text": [str(result)]}, "result": (*outputs(result.solver), str(result))}


def _saved_path(name):
    folder = folder_paths.get_folder_paths(FOLDER)[0]
    if os.path.basename(name) != name:
        raise Error(f"save_as is a name without folders, found {name!r}")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name if name.endswith(".solver.json") else f"{name}.solver.json")


class _FitNode:
    """What the nodes that fit have in common."""

    CATEGORY = CATEGORY
    RETURN_TYPES = ("SAMPLER", "SIGMAS", "STRING")
    RETURN_NAMES = ("SAMPLER", "SIGMAS", "report")
    FUNCTION = "fit"
    OUTPUT_NODE = True
    DESCRIPTION = ("Finds a solver for the model with its prompts and guidance, by evaluations of "
                   "it alone. It runs once for the same inputs.")
    OUTPUT_TOOLTIPS = (*SAMPLER_TOOLTIPS, "how near it comes to the model's own images, and what "
                                          "it took")


class FitBespokeSolver(_FitNode):
    """Fits a solver to a model with its prompts and guidance."""

    @classmethod
    def INPUT_TYPES(cls):
        """As SamplerCustom has them, and how to fit."""
        return {"required": {
            "model": ("MODEL", {"tooltip": "as SamplerCustom gets it, with its LoRAs"}),
            "positive": ("CONDITIONING", {"tooltip": "the prompt, as SamplerCustom gets it"}),
            "negative": ("CONDITIONING", {"tooltip": "the negative prompt, likewise"}),
            "cfg": ("FLOAT", {"default": 5.0, "min": 0.0, "max": 100.0, "step": 0.1,
                              "tooltip": "the guidance that images are to be drawn with"}),
            **_FIT_INPUTS}}

    def fit(self, model, positive, negative, cfg, **options):
        """Runs the node."""
        guider = comfy.samplers.CFGGuider(model)
        guider.set_conds(positive, negative)
        guider.set_cfg(cfg)
        return _fitted(guider, **options)


class FitBespokeSolverToGuider(_FitNode):
    """The same for any guider: Flux with BasicGuider, DualCFGGuider ..."""

    @classmethod
    def INPUT_TYPES(cls):
        """As SamplerCustomAdvanced has them, and how to fit."""
        return {"required": {
            "guider": ("GUIDER", {"tooltip": "the guider that SamplerCustomAdvanced gets too"}),
            **_FIT_INPUTS}}

    def fit(self, guider, **options):
        """Runs the node."""
        return _fitted(guider, **options)


NODE_CLASS_MAPPINGS = {"LearnBespokeSolver": LearnBespokeSolver,
                       "LoadBespokeSolver": LoadBespokeSolver,
                       "FitBespokeSolver": FitBespokeSolver,
                       "FitBespokeSolverToGuider": FitBespokeSolverToGuider}
NODE_DISPLAY_NAME_MAPPINGS = {"LearnBespokeSolver": "Bespoke (learns from your first image)",
                              "LoadBespokeSolver": "Load Bespoke solver",
                              "FitBespokeSolver": "Fit Bespoke solver",
                              "FitBespokeSolverToGuider": "Fit Bespoke solver (guider)"}
