"""Tests of bespoke.diffusers: in the loop of a stand-in pipeline, and in diffusers' own pipelines
where it is installed, with tiny random networks.

Every expected sample comes from Solver.sample, which knows nothing of schedulers.
"""

import json
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

try:
    import numpy as np
    import torch

    import bespoke._core  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

warnings.filterwarnings("ignore")
try:
    import diffusers
    REAL = hasattr(diffusers, "DiffusionPipeline")
except ImportError:
    sys.path.insert(0, str(Path(__file__).resolve().parent / "stand_in"))
    import diffusers
    REAL = False

import bespoke
from bespoke import Error, Schedule, Solver, export
from bespoke.adapters import DiffusersFlux
from bespoke.diffusers import BespokeScheduler
from mixtures import Mixture, two_gaussians

MEANS = Mixture(np.array([[0.9, -0.4, 0.2, 0.5, 0.1, 0.0, -0.6, 0.3],
                          [-0.5, 0.6, -0.3, 0.1, 0.7, -0.2, 0.4, -0.9]]), [0.3, 0.4])
KINDS = {"epsilon": "noise", "v_prediction": "v", "sample": "data"}


def network(schedule, prediction):
    """A network as pipelines call it: (sample [b, 2, 2, 2], timestep) -> output."""
    field = MEANS.field(schedule, prediction)

    def output(x, timestep):
        t = np.full(len(x), 1 - (float(timestep) + 1) / 1000)
        flat = field(t, x.double().reshape(len(x), -1).numpy())
        return torch.from_numpy(flat).to(x.dtype).reshape(x.shape)
    return output


def flow_network(x, timestep):
    """The same for flows: dx/dsigma, at 1000 sigma."""
    t = torch.full((len(x),), 1 - float(timestep) / 1000, dtype=x.dtype)
    return -two_gaussians(t, x)


def pipeline(scheduler, call, noise, steps, scales=True, edit=None, sigmas=None, **extra):
    """What pipelines do."""
    if sigmas is not None:
        scheduler.set_timesteps(sigmas=sigmas, device="cpu", mu=0.7)
    else:
        scheduler.set_timesteps(steps, device="cpu")
    sample = noise * scheduler.init_noise_sigma if scales else noise
    for i, t in enumerate(scheduler.timesteps):
        output = call(scheduler.scale_model_input(sample, t), t)
        sample = scheduler.step(output, t, sample, **extra, return_dict=False)[0]
        if edit is not None and i == 1:
            sample = edit(sample)
    return sample


def noise_like(seed, count=3):
    return torch.from_numpy(bespoke.noise((count, 2, 2, 2), seed=seed)).double()


class Steps(unittest.TestCase):
    def setUp(self):
        self.schedule = Schedule("ddpm-linear")
        self.noise = noise_like(1)

    def solver(self, nfe=6, prediction="noise", name="dpm++2m/karras"):
        return Solver.named(name, nfe, schedule=self.schedule, prediction=prediction)

    def expected(self, solver, prediction, noise=None):
        noise = self.noise if noise is None else noise
        field = MEANS.field(self.schedule, prediction)
        flat = solver.sample(field, noise.reshape(len(noise), -1).numpy(), prediction=prediction)
        return torch.from_numpy(flat).reshape(noise.shape)

    def test_every_prediction_runs_in_a_pipelines_loop(self):
        for kind, prediction in KINDS.items():
            solver = self.solver(prediction=prediction)
            scheduler = BespokeScheduler.from_solvers(solver, {"prediction_type": kind})
            found = pipeline(scheduler, network(self.schedule, prediction), self.noise, 6)
            expected = self.expected(solver, prediction)
            # In the basis of data predictions coefficients are large, and float32 shows.
            atol = 2e-3 if kind == "sample" else 2e-4
            np.testing.assert_allclose(found, expected, atol=atol, err_msg=kind)
            self.assertEqual(len(scheduler.sigmas), 7)
            self.assertTrue(scheduler.timesteps.is_floating_point())

    def test_flows_with_the_sigmas_that_flux_passes(self):
        result = bespoke.fit(two_gaussians, noise_like(2, 24).numpy(), nfe=4,
                             start_scale=1, progress=False)
        scheduler = BespokeScheduler.from_solvers(result, {"shift": 3.0})
        found = pipeline(scheduler, flow_network, self.noise, 4, scales=False,
                         sigmas=np.linspace(1, 1 / 4, 4))
        expected = result.solver.sample(two_gaussians, self.noise)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        with self.assertRaisesRegex(Error, "sigmas of its own"):
            pipeline(scheduler, flow_network, self.noise, 4, sigmas=[1.0, 0.5, 0.2, 0.1])

    def test_the_solver_is_chosen_by_its_evaluations(self):
        solvers = [self.solver(4), self.solver(6)]
        scheduler = BespokeScheduler.from_solvers(solvers)
        call = network(self.schedule, "noise")
        for solver in solvers:
            found = pipeline(scheduler, call, self.noise, solver.nfe)
            np.testing.assert_allclose(found, self.expected(solver, "noise"), atol=2e-4)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "both.solver.json"
            bespoke.save_solvers(path, solvers)
            from_file = BespokeScheduler.from_solvers(path)
        for solver in solvers:
            np.testing.assert_array_equal(pipeline(from_file, call, self.noise, solver.nfe),
                                          pipeline(scheduler, call, self.noise, solver.nfe))
        with self.assertRaisesRegex(Error, "is 50; this scheduler holds solvers for 4, 6"):
            scheduler.set_timesteps(50)
        with self.assertRaisesRegex(Error, "same number"):
            BespokeScheduler.from_solvers([solvers[0], solvers[0]])

    def test_noise_that_was_not_scaled_is_noticed(self):
        solver = self.solver()
        self.assertNotEqual(solver.start_scale, 1)
        scheduler = BespokeScheduler.from_solvers(solver)
        call = network(self.schedule, "noise")
        with self.assertRaisesRegex(Error, "did not multiply its noise"):
            pipeline(scheduler, call, self.noise, 6, scales=False)
        pipeline(scheduler, call, self.noise, 6)
        with self.assertRaisesRegex(Error, "did not multiply its noise"):
            pipeline(scheduler, call, self.noise, 6, scales=False)

    def test_a_scale_asked_for_too_early_is_refused_where_it_is_not_known(self):
        scheduler = BespokeScheduler.from_solvers([self.solver(4, name="euler/karras"),
                                                   self.solver(6, name="euler")])
        with self.assertRaisesRegex(Error, "before it says how many steps"):
            scheduler.init_noise_sigma

    def test_guidance_outside_the_range_is_refused(self):
        class Guided:
            def __init__(self, scheduler):
                self.scheduler = scheduler

            def __call__(self, guidance_scale):
                def inside_a_helper():
                    self.scheduler.set_timesteps(2)
                inside_a_helper()

        def pipe(guidance, **options):
            solver = Solver.of([0, 0.5, 1], [1, 1], [[0.5], [0.5, 0.5]], guidance=guidance)
            return Guided(BespokeScheduler.from_solvers(solver, {"shift": 1.0}, **options))
        ranged = pipe("0-4")
        ranged(1.0)
        ranged(5)
        with self.assertRaisesRegex(Error, "guidance_scale is 7.5; solver solver is for 1 to 5"):
            ranged(7.5)
        again = Guided(BespokeScheduler.from_config(ranged.scheduler.config))
        with self.assertRaisesRegex(Error, "for 1 to 5"):
            again(0.5)
        pipe(1.5)(2.5)
        with self.assertRaisesRegex(Error, "is for 2.5: fit one"):
            pipe(1.5)(2.6)
        pipe(1.5, guidance_range=(2, 3))(2.6)
        pipe(0.0)(7.5)  # a file that does not say
        pipe("0:1,0.5:3")(7.5)

    def test_edited_states_are_refused_and_copies_are_not(self):
        scheduler = BespokeScheduler.from_solvers(self.solver())
        call = network(self.schedule, "noise")
        with self.assertRaisesRegex(Error, "edited between steps"):
            pipeline(scheduler, call, self.noise, 6, edit=lambda x: x + 1e-3)
        found = pipeline(scheduler, call, self.noise, 6, edit=lambda x: x.clone().float().double())
        np.testing.assert_allclose(found, self.expected(self.solver(), "noise"), atol=2e-4)

    def test_no_run_begins_in_the_middle_or_goes_on_after_the_end(self):
        scheduler = BespokeScheduler.from_solvers(self.solver())
        with self.assertRaisesRegex(Error, "strength 1"):
            scheduler.set_begin_index(2)
        scheduler.set_begin_index(0)
        self.assertEqual(scheduler.begin_index, 0)
        sample = pipeline(scheduler, network(self.schedule, "noise"), self.noise, 6)
        self.assertEqual(scheduler.step_index, 6)
        with self.assertRaisesRegex(Error, "all 6 steps were taken"):
            scheduler.step(sample, 0, sample)
        with self.assertRaisesRegex(Error, "times of its own"):
            scheduler.set_timesteps(timesteps=[999, 500])

    def test_learned_variances_are_left_out(self):
        solver = self.solver()
        scheduler = BespokeScheduler.from_solvers(solver)
        call = network(self.schedule, "noise")
        found = pipeline(scheduler, lambda x, t: torch.cat([call(x, t), x], 1), self.noise, 6)
        np.testing.assert_allclose(found, self.expected(solver, "noise"), atol=2e-4)
        with self.assertRaisesRegex(Error, "has the shape"):
            pipeline(scheduler, lambda x, t: call(x, t)[:, :1], self.noise, 6)

    def test_half_precision_states_do_not_add_up_their_rounding(self):
        solver = self.solver()
        scheduler = BespokeScheduler.from_solvers(solver)
        call = network(self.schedule, "noise")
        found = pipeline(scheduler, call, self.noise.half(), 6)
        self.assertEqual(found.dtype, torch.float16)
        np.testing.assert_allclose(found.double(), self.expected(solver, "noise"), atol=2e-2)

    def test_repeated_times_are_counted_not_looked_up(self):
        solver = self.solver(6, name="heun")
        self.assertLess(len(set(solver.times)), len(solver.times))
        scheduler = BespokeScheduler.from_solvers(solver)
        found = pipeline(scheduler, network(self.schedule, "noise"), self.noise, 6)
        np.testing.assert_allclose(found, self.expected(solver, "noise"), atol=2e-4)

    def test_extras_of_other_schedulers_are_taken(self):
        scheduler = BespokeScheduler.from_solvers(self.solver())
        pipeline(scheduler, network(self.schedule, "noise"), self.noise, 6, eta=0.0,
                 use_clipped_model_output=None, generator=None)
        self.assertEqual(scheduler.order, 1)
        self.assertEqual(len(scheduler), 1000)

    def test_noise_is_added_as_in_training(self):
        scheduler = BespokeScheduler.from_solvers(self.solver())
        alphas = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
        x, noise = noise_like(3), noise_like(4)
        found = scheduler.add_noise(x, noise, torch.tensor([0, 500, 999]))
        for row, index in enumerate((0, 500, 999)):
            expected = alphas[index] ** 0.5 * x[row] + (1 - alphas[index]) ** 0.5 * noise[row]
            np.testing.assert_allclose(found[row], expected, rtol=1e-9)
        flow = BespokeScheduler.from_solvers(Solver.named("euler", 4))
        np.testing.assert_allclose(flow.scale_noise(x, torch.tensor([250.0] * 3), noise),
                                   0.75 * x + 0.25 * noise)

    def test_configs_go_both_ways(self):
        theirs = {"prediction_type": "epsilon", "beta_start": 1e-4, "beta_end": 0.02,
                  "beta_schedule": "linear", "clip_sample": True, "steps_offset": 1,
                  "num_train_timesteps": 1000}
        scheduler = BespokeScheduler.from_solvers(self.solver(), theirs)
        self.assertEqual(scheduler.config.beta_end, 0.02)
        self.assertNotIn("clip_sample", scheduler.config)
        with tempfile.TemporaryDirectory() as folder:
            scheduler.save_pretrained(folder)
            again = BespokeScheduler.from_pretrained(folder)
        call = network(self.schedule, "noise")
        np.testing.assert_array_equal(pipeline(again, call, self.noise, 6),
                                      pipeline(scheduler, call, self.noise, 6))
        empty = BespokeScheduler.from_config(theirs)
        with self.assertRaisesRegex(Error, "no solver at all"):
            empty.set_timesteps(8)

    def test_a_folder_written_without_diffusers_is_the_same_scheduler(self):
        solvers = [self.solver(), Solver.named("ddim", 4, schedule=self.schedule,
                                               prediction="noise")]
        scheduler = BespokeScheduler.from_solvers(solvers)
        call = network(self.schedule, "noise")
        with tempfile.TemporaryDirectory() as folder:
            export.write_diffusers(solvers, Path(folder) / "scheduler")
            again = BespokeScheduler.from_pretrained(Path(folder) / "scheduler")
            export.write_diffusers(Solver.named("euler", 4), folder)
            flow = BespokeScheduler.from_pretrained(folder)
        self.assertEqual(again.config.prediction_type, "epsilon")
        self.assertEqual(again.config.num_train_timesteps, 1000)
        for nfe in (4, 6):
            np.testing.assert_array_equal(pipeline(again, call, self.noise, nfe),
                                          pipeline(scheduler, call, self.noise, nfe))
        np.testing.assert_array_equal(
            pipeline(flow, flow_network, self.noise, 4),
            pipeline(BespokeScheduler.from_solvers(Solver.named("euler", 4)), flow_network,
                     self.noise, 4))
        with self.assertRaisesRegex(Error, "do not count time"):
            export.write_diffusers(Solver.named("ddim", 4, schedule="vp", prediction="noise"),
                                   "never")

    def test_what_does_not_go_together_is_refused(self):
        with self.assertRaisesRegex(Error, "does not go with the prediction_type"):
            BespokeScheduler.from_solvers(self.solver(), prediction_type="flow_prediction")
        with self.assertRaisesRegex(Error, "do not count time"):
            BespokeScheduler.from_solvers(Solver.named("euler", 4, schedule="vp",
                                                       prediction="noise"))
        with self.assertRaisesRegex(Error, "1000 levels, the pipeline's network 4000"):
            BespokeScheduler.from_solvers(self.solver(), {"num_train_timesteps": 4000})
        with self.assertRaisesRegex(Error, "prediction_type must be one of"):
            BespokeScheduler.from_solvers(self.solver(), prediction_type="eps")
        with self.assertRaisesRegex(Error, "at least one solver"):
            BespokeScheduler.from_solvers([])

    def test_solvers_of_another_path_are_refused(self):
        scaled = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012,
                  "prediction_type": "epsilon"}
        linear = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02}
        betas = {**linear, "trained_betas": np.linspace(1e-4, 0.02, 1000).tolist()}
        flow, uni = {"shift": 3.0}, {**linear, "prediction_type": "flow_prediction"}
        flowing = Solver.named("euler", 4)
        of_scaled = Solver.named("euler", 4, schedule="ddpm-scaled-linear", prediction="noise")
        for solver, config in ((self.solver(), linear), (self.solver(), betas), (flowing, flow),
                               (of_scaled, scaled), (flowing, uni)):
            made = BespokeScheduler.from_solvers(solver, config)
            BespokeScheduler.from_solvers(solver, made)  # in the place of itself
            BespokeScheduler.from_config(made.config)
        for solver, config in ((self.solver(), scaled), (of_scaled, linear), (of_scaled, betas),
                               (flowing, linear), (of_scaled, {**linear, "beta_end": 0.012}),
                               (self.solver(), {**linear, "prediction_type": "v_prediction",
                                                "rescale_betas_zero_snr": True})):
            with self.assertRaisesRegex(Error, "is for the path .*, the pipeline's network for "):
                BespokeScheduler.from_solvers(solver, config)
            with self.assertRaisesRegex(Error, "is for the path"):
                BespokeScheduler.from_config(config, solvers=[json.loads(solver.to_json())])
        for config in (flow, uni):
            with self.assertRaisesRegex(Error, "does not go with|is for the path"):
                BespokeScheduler.from_solvers(self.solver(), config)
        with self.assertRaisesRegex(Error, "EDM's kind"):
            BespokeScheduler.from_solvers(self.solver(), {"sigma_data": 0.5})

        class Levels:  # of a name that we do not know
            config = {"beta_schedule": "sigmoid"}
            alphas_cumprod = torch.tensor(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)))
        BespokeScheduler.from_solvers(self.solver(), Levels())
        with self.assertRaisesRegex(Error, "the pipeline's network for table"):
            BespokeScheduler.from_solvers(of_scaled, Levels())

    def test_another_prediction_is_warned_of(self):
        def said(prediction, kind, provenance=None):
            solver = Solver.of([0, 0.5, 1], [1, 1], [[0.5], [0.5, 0.5]], schedule=self.schedule,
                               prediction=prediction, name="mine", provenance=provenance)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                BespokeScheduler.from_solvers(solver, {"prediction_type": kind})
            return [str(one.message) for one in seen]
        self.assertEqual(said("data", "epsilon"),
                         ["solver mine was made for data prediction, this model has noise "
                          "prediction; fit one for this pipeline"])
        self.assertEqual(said("noise", "epsilon"), [])
        self.assertEqual(said("data", "epsilon", {"made_by": "catalogue"}), [])

    def test_what_the_replaced_scheduler_clips_is_clipped(self):
        def clipped(x, timestep):
            output = call(x, timestep).double()
            t = 1 - (float(timestep) + 1) / 1000
            alpha, sigma = self.schedule.alpha(t), self.schedule.sigma(t)
            data = ((x.double() - sigma * output) / alpha).clamp(-0.5, 0.5)
            return (x.double() - alpha * data) / sigma
        call, solver = network(self.schedule, "noise"), self.solver(name="ddim")
        by_hand = pipeline(BespokeScheduler.from_solvers(solver), clipped, self.noise, 6)
        plain = pipeline(BespokeScheduler.from_solvers(solver), call, self.noise, 6)
        self.assertGreater(float((by_hand - plain).abs().max()), 0.05)
        config = {"prediction_type": "epsilon", "clip_sample": True, "clip_sample_range": 0.5}
        made = BespokeScheduler.from_solvers(solver, config)
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            loaded = BespokeScheduler.from_pretrained(folder)
        in_its_place = BespokeScheduler.from_solvers(solver, made)
        by_config = BespokeScheduler.from_config(config, solvers=made.config.solvers)
        for scheduler in (made, loaded, in_its_place, by_config):
            found = pipeline(scheduler, call, self.noise, 6)
            np.testing.assert_allclose(found, by_hand, atol=1e-3)
        for scheduler in (BespokeScheduler.from_solvers(solver, config, clip=False),
                          BespokeScheduler.from_solvers(
                              Solver.of(solver.times, solver.a, solver.b, clip=(-9, 9),
                                        start_scale=solver.start_scale, schedule=self.schedule,
                                        prediction="noise"), config)):
            np.testing.assert_allclose(pipeline(scheduler, call, self.noise, 6), plain, atol=2e-3)

    def test_a_clip_that_a_solver_was_not_made_for_is_warned_of(self):
        def said(config, **options):
            solver = Solver.of([0, 0.5, 1], [1, 1], [[0.5], [0.5, 0.5]], schedule=self.schedule,
                               prediction="noise", name="mine")
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                BespokeScheduler.from_solvers(solver, {"prediction_type": "epsilon", **config},
                                              **options)
                BespokeScheduler.from_solvers(self.solver(), {"clip_sample": True})
            return [str(one.message) for one in seen]
        self.assertEqual(said({"clip_sample": True}),
                         ["solver mine was made for data that is not clipped, this run has data "
                          "clipped to [-1, 1]; fit one for this pipeline"])
        self.assertEqual(said({}), [])
        self.assertEqual(said({"clip_sample": True}, clip=False), [])
        self.assertEqual(said({"clip_sample": True}, clip=True), [])

    def test_thresholding_is_kept_for_the_way_back(self):
        theirs = {"prediction_type": "epsilon", "thresholding": True, "sample_max_value": 1.5,
                  "dynamic_thresholding_ratio": 0.9}
        made = BespokeScheduler.from_solvers(self.solver(), theirs)
        self.assertEqual({key: made.config[key] for key in theirs}, theirs)
        self.assertEqual(made._clip(self.solver()), bespoke.clip.Clip(-1, 1, 0.9, 1.5))


@unittest.skipUnless(REAL, "diffusers is not installed")
class Pipelines(unittest.TestCase):
    """Unmodified pipelines of diffusers draw what the solver draws with their networks."""

    def setUp(self):
        torch.manual_seed(0)
        diffusers.utils.logging.set_verbosity_error()

    def unet(self):
        return diffusers.UNet2DModel(
            sample_size=8, in_channels=3, out_channels=3, layers_per_block=1,
            block_out_channels=(32, 64), norm_num_groups=8, attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D")).eval()

    def check_learning(self, pipe, network, scheduler, latents, **arguments):
        """A first call of many evaluations, then of 4: near it, and two images for each prompt."""
        calls = []
        hook = network.register_forward_hook(lambda *given: calls.append(1))
        self.addCleanup(hook.remove)
        pipe.scheduler = scheduler
        self.assertIs(bespoke.accelerate(pipe, steps=4, samples=1, quiet=True), pipe)
        images = []
        for least, most in ((36, 42), (4, 4)):
            calls.clear()
            images.append(pipe(latents=latents, num_inference_steps=4, output_type="latent",
                               **arguments).images)
            self.assertEqual(len(calls), len(pipe.scheduler.timesteps))
            self.assertTrue(least <= len(calls) <= most, len(calls))
        self.assertLess(float((images[1] - images[0]).norm() / images[0].norm()), 0.1)
        guided = arguments.get("guidance_scale", 1) > 1
        self.assertEqual("guidance" in pipe.scheduler.quality[4].doubt, guided)
        calls.clear()
        several = pipe(num_images_per_prompt=2, num_inference_steps=4, output_type="latent",
                       generator=torch.manual_seed(1), **arguments).images
        self.assertEqual((len(several), len(calls)), (2 * len(latents), 4))
        self.assertTrue(torch.isfinite(several).all())
        self.assertGreater(float((several[0] - several[1]).abs().max()), 0.1)
        learnt = pipe.scheduler.learnt()
        pipe.scheduler = learnt
        again = pipe(latents=latents, num_inference_steps=4, output_type="latent",
                     **arguments).images
        np.testing.assert_allclose(again, images[1], atol=1e-3 * float(images[1].abs().max()))

    def unconditional_field(self, unet):
        return lambda t, x: unet(x, (1000 * (1 - t) - 1).clamp(min=0)).sample

    def check_unconditional(self, kind):
        unet = self.unet()
        pipe = kind(unet, diffusers.DDPMScheduler(clip_sample=False))
        field = self.unconditional_field(unet)
        noise = torch.randn(2, 3, 8, 8, generator=torch.manual_seed(3))
        result = bespoke.fit(field, torch.randn(8, 3, 8, 8), nfe=4, prediction="noise",
                             schedule="ddpm-linear", start_scale=1, tolerance=1e-3,
                             progress=False)
        pipe.scheduler = BespokeScheduler.from_solvers(result, pipe.scheduler)
        pipe.set_progress_bar_config(disable=True)
        found = pipe(batch_size=2, generator=torch.manual_seed(3), num_inference_steps=4,
                     output_type="np").images
        expected = result.solver.sample(field, noise) / 2 + 0.5
        np.testing.assert_allclose(found, expected.clamp(0, 1).permute(0, 2, 3, 1), atol=1e-4)
        return pipe, found

    def test_ddpm_with_saving_and_loading(self):
        pipe, found = self.check_unconditional(diffusers.DDPMPipeline)
        with tempfile.TemporaryDirectory() as folder:
            pipe.save_pretrained(folder, safe_serialization=False)
            again = diffusers.DDPMPipeline.from_pretrained(folder, use_safetensors=False)
        self.assertIsInstance(again.scheduler, BespokeScheduler)
        again.set_progress_bar_config(disable=True)
        images = again(batch_size=2, generator=torch.manual_seed(3), num_inference_steps=4,
                       output_type="np").images
        np.testing.assert_allclose(images, found, atol=1e-6)
        back = diffusers.DDIMScheduler.from_config(pipe.scheduler.config)
        self.assertEqual(back.config.beta_end, 0.02)

    def test_ddim(self):
        self.check_unconditional(diffusers.DDIMPipeline)

    def test_stable_diffusion_with_guidance(self):
        unet = diffusers.UNet2DConditionModel(
            sample_size=8, in_channels=4, out_channels=4, layers_per_block=1,
            block_out_channels=(32, 64), norm_num_groups=8, cross_attention_dim=32,
            attention_head_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")).eval()
        vae = diffusers.AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4,
                                      block_out_channels=(32,), norm_num_groups=8)
        base = diffusers.DDIMScheduler(beta_start=0.00085, beta_end=0.012, clip_sample=False,
                                       beta_schedule="scaled_linear", steps_offset=1)
        pipe = diffusers.StableDiffusionPipeline(vae, None, None, unet, base, None, None,
                                                 requires_safety_checker=False)
        pipe.set_progress_bar_config(disable=True)
        prompt, negative = torch.randn(2, 7, 32), torch.randn(2, 7, 32)
        noise = torch.randn(2, 4, 8, 8)

        def guided(t, x, prompt, negative):
            index = 1000 * (1 - t) - 1
            given = unet(x, index, prompt).sample
            plain = unet(x, index, negative).sample
            return plain + 5.0 * (given - plain)
        solver = Solver.named("dpm++2m/karras", 5, schedule="ddpm-scaled-linear",
                              prediction="noise")
        pipe.scheduler = BespokeScheduler.from_solvers(solver, base)
        found = pipe(prompt_embeds=prompt, negative_prompt_embeds=negative, latents=noise,
                     guidance_scale=5.0, num_inference_steps=5, output_type="latent").images
        expected = solver.sample(guided, noise, conditions={"prompt": prompt,
                                                            "negative": negative})
        scale = expected.abs().max()
        np.testing.assert_allclose(found / scale, expected / scale, atol=1e-4)
        self.check_learning(pipe, unet, base, noise, prompt_embeds=prompt,
                            negative_prompt_embeds=negative, guidance_scale=5.0)

    def test_stable_diffusion_xl(self):
        unet = diffusers.UNet2DConditionModel(
            sample_size=8, in_channels=4, out_channels=4, layers_per_block=1,
            block_out_channels=(32, 64), norm_num_groups=8, cross_attention_dim=32,
            attention_head_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), addition_embed_type="text_time",
            addition_time_embed_dim=8, projection_class_embeddings_input_dim=6 * 8 + 32).eval()
        vae = diffusers.AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4,
                                      block_out_channels=(32,), norm_num_groups=8)
        base = diffusers.EulerDiscreteScheduler(beta_start=0.00085, beta_end=0.012,
                                                beta_schedule="scaled_linear")
        pipe = diffusers.StableDiffusionXLPipeline(vae, None, None, None, None, unet, base)
        pipe.set_progress_bar_config(disable=True)
        prompt, pooled = torch.randn(1, 7, 32), torch.randn(1, 32)
        noise = torch.randn(1, 4, 8, 8)
        sizes = torch.tensor([[8.0, 8, 0, 0, 8, 8]])

        def field(t, x):
            return unet(x, 1000 * (1 - t) - 1, prompt,
                        added_cond_kwargs={"text_embeds": pooled, "time_ids": sizes}).sample
        solver = Solver.named("unipc2-bh2/karras", 5, schedule="ddpm-scaled-linear",
                              prediction="noise")
        pipe.scheduler = BespokeScheduler.from_solvers(solver, base)
        found = pipe(prompt_embeds=prompt, pooled_prompt_embeds=pooled, latents=noise,
                     guidance_scale=1.0, num_inference_steps=5, output_type="latent", height=8,
                     width=8).images
        expected = solver.sample(field, noise)
        scale = expected.abs().max()
        np.testing.assert_allclose(found / scale, expected / scale, atol=1e-4)
        self.check_learning(pipe, unet, base, noise, prompt_embeds=prompt,
                            pooled_prompt_embeds=pooled, guidance_scale=1.0, height=8, width=8)

    def test_stable_diffusion_3(self):
        try:
            transformer = diffusers.SD3Transformer2DModel(
                sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=1,
                attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
                caption_projection_dim=32, pooled_projection_dim=32, pos_embed_max_size=8).eval()
            vae = diffusers.AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4,
                                          block_out_channels=(32,), norm_num_groups=8)
            pipe = diffusers.StableDiffusion3Pipeline(
                transformer, diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0), vae, None, None,
                None, None, None, None)
        except (AttributeError, ImportError, RuntimeError, TypeError) as error:
            self.skipTest(f"this diffusers makes no small Stable Diffusion 3: {error}")
        pipe.set_progress_bar_config(disable=True)
        prompt, pooled = torch.randn(1, 5, 32), torch.randn(1, 32)
        noise = torch.randn(1, 4, 8, 8)

        def field(t, x):
            return -transformer(hidden_states=x, timestep=1000 * (1 - t),
                                encoder_hidden_states=prompt, pooled_projections=pooled,
                                return_dict=False)[0]
        solver, base = Solver.named("ab2", 4), pipe.scheduler
        pipe.scheduler = BespokeScheduler.from_solvers(solver, base)
        found = pipe(prompt_embeds=prompt, pooled_prompt_embeds=pooled, latents=noise,
                     guidance_scale=1.0, num_inference_steps=4, output_type="latent", height=8,
                     width=8).images
        np.testing.assert_allclose(found, solver.sample(field, noise), atol=1e-4)
        self.check_learning(pipe, transformer, base, noise, prompt_embeds=prompt,
                            pooled_prompt_embeds=pooled, guidance_scale=1.0, height=8, width=8)

    def test_flux(self):
        try:
            transformer = diffusers.FluxTransformer2DModel(
                patch_size=1, in_channels=4, num_layers=1, num_single_layers=1,
                attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
                pooled_projection_dim=32, axes_dims_rope=[4, 4, 8]).eval()
            vae = diffusers.AutoencoderKL(in_channels=3, out_channels=3, latent_channels=1,
                                          block_out_channels=(4,), norm_num_groups=1)
            pipe = diffusers.FluxPipeline(diffusers.FlowMatchEulerDiscreteScheduler(), vae, None,
                                          None, None, None, transformer)
        except (AttributeError, ImportError, RuntimeError, TypeError) as error:
            self.skipTest(f"this diffusers makes no small Flux: {error}")
        pipe.set_progress_bar_config(disable=True)
        prompt, pooled = torch.randn(1, 5, 32), torch.randn(1, 32)
        noise = torch.randn(1, 16, 4)
        ids = pipe._prepare_latent_image_ids(1, *self.flux_grid(pipe), torch.device("cpu"),
                                             torch.float32)

        def field(t, x):
            return -transformer(hidden_states=x, timestep=1 - t, guidance=None,
                                pooled_projections=pooled, encoder_hidden_states=prompt,
                                txt_ids=torch.zeros(5, 3), img_ids=ids, return_dict=False)[0]
        solver, base = Solver.named("midpoint", 4), pipe.scheduler
        pipe.scheduler = BespokeScheduler.from_solvers(solver, base)
        found = pipe(prompt_embeds=prompt, pooled_prompt_embeds=pooled, latents=noise,
                     num_inference_steps=4, output_type="latent", height=8, width=8).images
        np.testing.assert_allclose(found, solver.sample(field, noise), atol=1e-4)
        self.check_learning(pipe, transformer, base, noise, prompt_embeds=prompt,
                            pooled_prompt_embeds=pooled, height=8, width=8)

    def test_flux_is_exported_as_its_pipeline_packs_latents(self):
        try:
            transformer = diffusers.FluxTransformer2DModel(
                patch_size=1, in_channels=16, num_layers=1, num_single_layers=1,
                attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
                pooled_projection_dim=32, axes_dims_rope=[4, 4, 8], guidance_embeds=True).eval()
        except (AttributeError, ImportError, RuntimeError, TypeError) as error:
            self.skipTest(f"this diffusers makes no small Flux: {error}")
        x, t = torch.randn(2, 4, 8, 8), torch.tensor([0.3, 0.8])
        text, pooled = torch.randn(2, 5, 32), torch.randn(2, 32)
        packed = diffusers.FluxPipeline._pack_latents(x, 2, 4, 8, 8)
        ids = diffusers.FluxPipeline._prepare_latent_image_ids(
            2, *self.flux_grid(diffusers.FluxPipeline), torch.device("cpu"), torch.float32)
        with torch.no_grad():
            found = DiffusersFlux(transformer)(x, t, text, pooled)
            expected = transformer(hidden_states=packed, timestep=t, img_ids=ids,
                                   txt_ids=torch.zeros(5, 3), guidance=torch.full((2,), 3.5),
                                   pooled_projections=pooled, encoder_hidden_states=text,
                                   return_dict=False)[0]
        packed_again = diffusers.FluxPipeline._pack_latents(-found, 2, 4, 8, 8)
        torch.testing.assert_close(packed_again, expected)

    @staticmethod
    def flux_grid(pipe):
        import inspect
        halved = "// 2" in inspect.getsource(pipe._prepare_latent_image_ids)
        return (8, 8) if halved else (4, 4)


if __name__ == "__main__":
    unittest.main()
