"""Tests of the ComfyUI nodes, with ComfyUI's own model_sampling where it can be imported."""

import asyncio
import gc
import importlib.util
import json
import shutil
import sys
import types
import unittest
import unittest.mock
from pathlib import Path

try:
    import numpy as np
    import torch

    import bespoke._core  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = Path(__file__).resolve().parent


def own_model_sampling():
    """ComfyUI's, where it can be imported; all else of it is the stand-in's."""
    try:
        import comfy.model_sampling as found
    except ImportError:
        return None
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "comfy"]:
            del sys.modules[name]
    return found


REAL = own_model_sampling()
sys.path.insert(0, str(HERE / "stand_in"))
if REAL is not None:
    sys.modules["comfy.model_sampling"] = REAL

import comfy.model_sampling as kinds
import comfy.samplers
import comfy.utils
import folder_paths
from bespoke import Error, Schedule, Solver
from bespoke.k_diffusion import sigmas_of
from mixtures import Mixture

FOLDER = HERE.parents[1] / "integrations" / "comfyui"
SIZE = (2, 2, 2)
MODEL = Mixture(np.array([[0.9, -0.4, 0.2, 0.5, 0.1, 0.0, -0.6, 0.3],
                          [-0.5, 0.6, -0.3, 0.1, 0.7, -0.2, 0.4, -0.9]]), [0.3, 0.4])


def pack():
    """The folder as ComfyUI imports it: a package by its path."""
    spec = importlib.util.spec_from_file_location(
        "custom_nodes_bespoke", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


NODES = pack()
PATHS = sys.modules["custom_nodes_bespoke.paths"]
SAMPLING = sys.modules["custom_nodes_bespoke.sampling"]


def sampling(time, prediction, *arguments):
    return type("ModelSampling", (time, prediction), {})(*arguments)


class BaseModel:
    """Its network predicts data, noise, v or a flow of MODEL; conditions shift the data."""

    def __init__(self, model_sampling):
        self.model_sampling = model_sampling
        self.times = []
        self.batches = set()

    def apply_model(self, x, sigma, shift):
        self.batches.add(len(x))
        given = self.model_sampling.calculate_input(sigma, x)
        time = self.model_sampling.timestep(sigma).float()
        self.times.extend(time.tolist())
        output = self.network(given, time, sigma) + 0.1 * shift
        return self.model_sampling.calculate_denoised(sigma, output, x)

    def network(self, x, time, sigma):
        flat = x.double().reshape(len(x), -1).numpy()
        if isinstance(self.model_sampling, kinds.CONST):
            s = time.double().numpy() / 1000
            data, noise = MODEL.predict(1 - s, s, flat)
            found = noise - data
        else:
            level = self.model_sampling.sigmas.double().numpy()[time.long().numpy()]
            alpha = 1 / np.sqrt(1 + level ** 2)
            data, noise = MODEL.predict(alpha, alpha * level, flat)
            found = noise
            if isinstance(self.model_sampling, kinds.V_PREDICTION):
                found = alpha[:, None] * noise - (alpha * level)[:, None] * data
        return torch.from_numpy(found).reshape(x.shape).to(x)


class Patcher:
    def __init__(self, model_sampling):
        self.model = BaseModel(model_sampling)
        self.objects = {"model_sampling": model_sampling,
                        "latent_format": types.SimpleNamespace(latent_channels=SIZE[0])}

    def get_model_object(self, name):
        return self.objects[name]


def flow():
    return Patcher(sampling(kinds.ModelSamplingDiscreteFlow, kinds.CONST))


def discrete(prediction=kinds.EPS):
    return Patcher(sampling(kinds.ModelSamplingDiscrete, prediction))


def empty(count=2):
    return {"samples": torch.zeros(count, 4, *SIZE[1:])}


def guider_of(patcher, cfg=2.0):
    guider = comfy.samplers.CFGGuider(patcher)
    guider.set_conds(0.2, 0.1)
    guider.set_cfg(cfg)
    return guider


def drawn(patcher, sampler, sigmas, noise, latent=None, **options):
    """What SamplerCustom returns."""
    latent = torch.zeros_like(noise) if latent is None else latent
    return guider_of(patcher).sample(noise, latent, sampler, sigmas, seed=1, **options)


def many_steps(patcher, noise):
    """The model's own samples: midpoint steps in the space of sigmas."""
    guider = guider_of(patcher)
    guider.inner_model = patcher.model
    least, most = (float(end) for end in (patcher.model.model_sampling.sigma_min,
                                          patcher.model.model_sampling.sigma_max))
    levels = [*np.geomspace(most, least, 200), 0.0]
    x = noise * most if most > 1 else noise
    extra = {"model_options": {"transformer_options": {}}}

    def slope(y, level):
        sigma = torch.full((len(y),), max(level, least))
        return (y - guider(y, sigma, **extra)) / max(level, least)
    for level, after in zip(levels, levels[1:]):
        middle = (level + after) / 2
        x = x + (after - level) * slope(x + (middle - level) * slope(x, level), middle)
    return x


class Nodes(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(folder_paths.models_dir, ignore_errors=True)

    def node(self, name):
        self.assertIn(name, NODES.nodes.NODE_DISPLAY_NAME_MAPPINGS)
        node = NODES.nodes.NODE_CLASS_MAPPINGS[name]
        for kind, options in ((entry[0], entry[1:]) for entry in
                              node.INPUT_TYPES()["required"].values()):
            self.assertTrue(isinstance(kind, list) or kind.isupper())
            self.assertTrue(all(isinstance(option, dict) for option in options))
        self.assertTrue(hasattr(node, node.FUNCTION) and node.CATEGORY)
        return getattr(node(), node.FUNCTION)

    def fit(self, patcher, **options):
        options = {"latent_image": empty(), "steps": 6, "samples": 16, "calls": 0, "fit_seed": 1,
                   "save_as": "", **options}
        with torch.inference_mode():
            found = self.node("FitBespokeSolver")(patcher, 0.2, 0.1, 2.0, **options)
        return found["result"]

    def check_fit(self, patcher, least):
        sampler, sigmas, report = self.fit(patcher)
        self.assertIn("6 evaluations reach", report)
        self.assertEqual(len(sigmas), 7)
        noise = torch.randn(8, *SIZE, generator=torch.manual_seed(5))
        told = []
        found = drawn(patcher, sampler, sigmas, noise,
                      callback=lambda *step: told.append((step[0], step[3])))
        error = float((found - many_steps(patcher, noise)).square().mean())
        self.assertGreater(10 * np.log10(4 / error), least)
        self.assertEqual(told, [(i, 6) for i in range(6)])
        return sampler

    def test_flows_get_a_solver_of_their_own(self):
        patcher = flow()
        sampler = self.check_fit(patcher, 55)
        self.assertEqual(sampler.solver.schedule, Schedule("fm-ot"))
        self.assertLessEqual(max(patcher.model.batches), 8)

    def test_noise_and_v_predictions_on_whole_levels(self):
        for prediction in (kinds.EPS, kinds.V_PREDICTION):
            patcher = discrete(prediction)
            sampler = self.check_fit(patcher, 52)
            for t in sampler.solver.times[:-1]:
                self.assertAlmostEqual(1000 * t, round(1000 * t), places=6)

    def learnt(self, patcher, steps=6):
        sampler, sigmas = self.node("LearnBespokeSolver")(patcher, steps)
        self.assertEqual(len(sigmas), steps + 1)
        return sampler, sigmas

    def test_the_first_image_teaches_for_each_model_strength_and_shape(self):
        for patcher in (flow(), discrete(), discrete(kinds.V_PREDICTION)):
            sampler, sigmas = self.learnt(patcher)
            noise = torch.randn(8, *SIZE, generator=torch.manual_seed(5))
            counts = []

            def draw(noise=noise, model=patcher, cfg=2.0, sampler=sampler):
                before, told = len(model.model.times), []
                guider = guider_of(model, cfg)
                found = guider.sample(noise, torch.zeros_like(noise), sampler, sigmas, seed=1,
                                      callback=lambda *step: told.append((step[0], step[3])))
                taken = (len(model.model.times) - before) // (2 * len(noise))
                self.assertEqual(told, [(i, taken) for i in range(taken)])
                counts.append(taken)
                return found
            first = draw()
            exact = many_steps(patcher, noise)
            self.assertGreater(-10 * np.log10(float((first - exact).square().mean()) / 4), 45)
            found = draw()
            self.assertGreater(-10 * np.log10(float((found - exact).square().mean()) / 4), 40)
            draw(cfg=3.0)
            draw(torch.randn(8, 2, 1, 4))
            draw(model=type(patcher)(patcher.get_model_object("model_sampling")))
            again, _ = self.learnt(patcher)  # as when the node runs again
            draw(sampler=again)
            self.assertEqual(counts[1], 6)
            self.assertEqual(counts[5], 6)
            for count in (counts[0], *counts[2:5]):
                self.assertGreater(count, 40)
            if patcher.get_model_object("model_sampling").sigma_max > 1:
                for time in patcher.model.times:
                    self.assertEqual(time, round(time))

    def test_what_cannot_be_learnt_is_refused(self):
        patcher = flow()
        sampler, sigmas = self.learnt(patcher)
        noise = torch.randn(1, *SIZE)
        with self.assertRaisesRegex(Error, "cannot inpaint"):
            drawn(patcher, sampler, sigmas, noise, denoise_mask=torch.ones(1, 1, 2, 2))
        with self.assertRaisesRegex(Error, "not from an image"):
            drawn(patcher, sampler, sigmas, noise, latent=torch.ones(1, *SIZE))
        with self.assertRaisesRegex(Error, "take the SIGMAS of this node"):
            drawn(patcher, sampler, sigmas[2:], noise)

    def test_what_was_learnt_goes_with_its_model(self):
        class Slotted:
            __slots__ = ()

        def learning(sampler, model):
            wrap = types.SimpleNamespace(inner_model=model, cfg=2.0)
            return sampler._learning_for(wrap, flow().get_model_object("model_sampling"))
        # As where a model that is gone leaves its place in memory to the next one.
        with unittest.mock.patch.object(SAMPLING, "id", lambda model: 7, create=True):
            sampler = SAMPLING.LearningComfySampler(6)
            first, second = flow().model, flow().model
            of_first = learning(sampler, first)
            self.assertIs(learning(sampler, first), of_first)
            self.assertIsNot(learning(sampler, second), of_first)
            slotted = Slotted()
            self.assertIs(learning(sampler, slotted), learning(sampler, slotted))
        sampler = SAMPLING.LearningComfySampler(6)
        learning(sampler, first)
        del first
        gc.collect()
        of_second = learning(sampler, second)
        self.assertEqual([kept[1] for kept in sampler._learning.values()], [of_second])

    def test_every_input_has_a_tooltip(self):
        for name, node in NODES.nodes.NODE_CLASS_MAPPINGS.items():
            for key, given in node.INPUT_TYPES()["required"].items():
                self.assertTrue(len(given) == 2 and given[1].get("tooltip"), f"{name}: {key}")

    def test_no_input_is_drawn_anew_after_each_queue(self):
        for node in NODES.nodes.NODE_CLASS_MAPPINGS.values():
            inputs = node.INPUT_TYPES()["required"]
            self.assertFalse({"seed", "noise_seed"} & set(inputs))

    def test_no_more_images_at_once_than_the_latent_has(self):
        patcher = flow()
        self.fit(patcher, latent_image=empty(3), steps=3)
        self.assertLessEqual(max(patcher.model.batches), 3)

    def test_calls_go_beyond_the_fit_and_the_bar_moves(self):
        fitted, _, _ = self.fit(flow(), steps=4)
        better, _, report = self.fit(flow(), steps=4, calls=9000)
        self.assertGreater(better.solver.provenance["validation_psnr"],
                           fitted.solver.provenance["validation_psnr"])
        bar = comfy.utils.ProgressBar.last
        self.assertEqual(bar.total, 9000)
        self.assertGreater(bar.seen[-1], 1000)
        self.assertEqual(sorted(bar.seen), bar.seen)

    def test_a_guider_is_fitted_as_it_is(self):
        patcher = flow()
        with torch.inference_mode():
            found = self.node("FitBespokeSolverToGuider")(
                guider_of(patcher), latent_image=empty(), steps=6, samples=16, calls=0, fit_seed=1,
                save_as="")
        self.assertEqual(found["result"][0].solver.a, self.fit(flow())[0].solver.a)

    def test_solvers_are_saved_and_loaded(self):
        sampler, sigmas, _ = self.fit(flow(), steps=4, save_as="mine")
        self.assertIn("mine.solver.json",
                      NODES.nodes.NODE_CLASS_MAPPINGS["LoadBespokeSolver"].INPUT_TYPES()["required"]
                      ["file"][0])
        load = self.node("LoadBespokeSolver")
        again, same = load("mine.solver.json", 0)
        self.assertEqual(again.solver, sampler.solver)
        self.assertTrue(torch.equal(same, sigmas))
        with self.assertRaisesRegex(Error, "there is no other"):
            load("other.solver.json", 0)
        with self.assertRaisesRegex(Error, "without folders"):
            self.fit(flow(), steps=4, save_as="../mine")

    def test_a_start_scale_is_kept(self):
        solver = Solver.of([0, 0.5, 1], [1, 1], [[0.5], [0.5, 0.5]], start_scale=1.25)
        sampler = NODES.nodes.SolverSampler(solver)
        noise = torch.randn(2, *SIZE, generator=torch.manual_seed(5))
        patcher = flow()
        found = drawn(patcher, sampler, torch.tensor(sigmas_of(solver)), noise)
        guider = guider_of(patcher)
        guider.inner_model = patcher.model

        def field(t, x):
            level = 1 - t
            denoised = guider(x, level.float(), {"transformer_options": {}})
            return (denoised - x) / level.reshape(-1, 1, 1, 1)
        np.testing.assert_allclose(found, solver.sample(field, noise), atol=1e-5)

    def test_what_a_solver_cannot_do_is_refused(self):
        patcher = flow()
        solver = Solver.named("midpoint", 4)
        sampler, sigmas = NODES.nodes.outputs(solver)
        noise = torch.randn(2, *SIZE)
        with self.assertRaisesRegex(Error, "inpaint"):
            drawn(patcher, sampler, sigmas, noise, denoise_mask=torch.ones(2, 1, 2, 2))
        with self.assertRaisesRegex(Error, "empty latent"):
            drawn(patcher, sampler, sigmas, noise, latent=torch.ones_like(noise))
        with self.assertRaisesRegex(Error, "runs from noise"):
            drawn(patcher, sampler, sigmas, torch.zeros_like(noise))
        with self.assertRaisesRegex(Error, "sigmas of its own"):
            drawn(patcher, sampler, sigmas[2:], noise)
        with self.assertRaisesRegex(Error, "not this model's"):
            drawn(discrete(), sampler, sigmas, noise)


class Paths(unittest.TestCase):
    def test_paths_of_models(self):
        self.assertEqual(PATHS.path_of(flow().model.model_sampling), Schedule("fm-ot"))
        path = PATHS.path_of(discrete().model.model_sampling)
        scaled = Schedule("ddpm-scaled-linear")
        for t in (0.0, 0.3, 0.9):
            self.assertAlmostEqual(path.alpha(t), scaled.alpha(t), places=5)
        PATHS.check_path(Solver.named("euler", 4, schedule=scaled, prediction="noise"),
                         discrete().model.model_sampling)

    def test_other_models_are_refused(self):
        refused = [sampling(kinds.ModelSamplingDiscrete, kinds.EDM),
                   sampling(kinds.ModelSamplingDiscrete, kinds.IMG_TO_IMG),
                   sampling(kinds.ModelSamplingDiscreteEDM, kinds.EPS)]
        for model_sampling in refused:
            with self.assertRaisesRegex(Error, "of another kind"):
                PATHS.path_of(model_sampling)
        endless = sampling(kinds.ModelSamplingDiscrete, kinds.V_PREDICTION)
        endless.zsnr = True
        with self.assertRaisesRegex(Error, "zsnr"):
            PATHS.path_of(endless)


class Schemas(unittest.TestCase):
    """The nodes by ComfyUI's newer interface."""

    def setUp(self):
        extension = asyncio.run(NODES.comfy_entrypoint())
        self.nodes = {node.GET_SCHEMA().node_id: node
                      for node in asyncio.run(extension.get_node_list())}

    def test_they_say_what_the_older_nodes_say(self):
        self.assertEqual(set(self.nodes), set(NODES.nodes.NODE_CLASS_MAPPINGS))
        for node_id, node in self.nodes.items():
            schema, older = node.GET_SCHEMA(), NODES.nodes.NODE_CLASS_MAPPINGS[node_id]
            given = older.INPUT_TYPES()["required"]
            self.assertEqual([one.id for one in schema.inputs], list(given))
            self.assertEqual([one.io_type for one in schema.outputs], list(older.RETURN_TYPES))
            for described in (schema.description, schema.display_name, *(
                    one.tooltip for one in schema.outputs)):
                self.assertTrue(described, node_id)
            for one in schema.inputs:
                # Nothing called "seed": ComfyUI would draw it anew after each queue.
                self.assertNotIn(one.id, ("seed", "noise_seed"))

    def test_they_do_what_the_older_nodes_do(self):
        patcher = flow()
        found = self.nodes["LearnBespokeSolver"].execute(model=patcher, steps=6)
        older = NODES.nodes.LearnBespokeSolver().learn(patcher, 6)
        self.assertIs(found.result[0], older[0])
        np.testing.assert_array_equal(found.result[1].numpy(), older[1].numpy())

    def test_a_comfyui_without_schemas_gets_the_older_nodes(self):
        with unittest.mock.patch.dict(sys.modules, {"comfy_api": None, "comfy_api.latest": None,
                                                    "custom_nodes_bespoke.extension": None}):
            older = pack()
        self.assertFalse(hasattr(older, "comfy_entrypoint"))
        self.assertEqual(set(older.NODE_CLASS_MAPPINGS), set(self.nodes))

    def test_the_example_workflow_names_nodes_and_inputs_that_exist(self):
        files = sorted((FOLDER / "example_workflows").glob("*.json"))
        self.assertTrue(files)
        for file in files:
            workflow = json.loads(file.read_text(encoding="utf-8"))
            links = {link[0]: link for link in workflow["links"]}
            ours = [node for node in workflow["nodes"] if node["type"] in self.nodes]
            self.assertTrue(ours, file.name)
            for node in ours:
                schema = self.nodes[node["type"]].GET_SCHEMA()
                known = {one.id: one.io_type for one in schema.inputs}
                for wired in node["inputs"]:
                    self.assertEqual(wired["type"], known[wired["name"]])
                self.assertEqual([out["type"] for out in node["outputs"]],
                                 [out.io_type for out in schema.outputs])
                for out in node["outputs"]:
                    for link in out["links"]:
                        self.assertEqual(links[link][5], out["type"])


if __name__ == "__main__":
    unittest.main()
