"""Tests of bespoke.pipelines: solvers found through a pipeline's own calls.

A stand-in pipeline does what pipelines do, with a network known in closed form; where diffusers is
installed, its own DDPM and Stable Diffusion pipelines do.
"""

import sys
import threading
import types
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
from bespoke import Error, Schedule
from bespoke.clip import Clip
from bespoke.diffusers import BespokeScheduler
from bespoke.pipelines import fit_pipeline, schedule_of_pipeline
from mixtures import Counted, Mixture, two_gaussians

SIZE = (2, 2, 2)
MODEL = Mixture(np.array([[0.9, -0.4, 0.2, 0.5, 0.1, 0.0, -0.6, 0.3],
                          [-0.5, 0.6, -0.3, 0.1, 0.7, -0.2, 0.4, -0.9]]), [0.3, 0.4])
LINEAR = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02,
          "num_train_timesteps": 1000, "prediction_type": "epsilon"}
FLOW = {"shift": 3.0, "num_train_timesteps": 1000}


def noise_field(t, x):
    """The noise prediction on ddpm-linear, of torch tensors."""
    field = MODEL.field(Schedule("ddpm-linear"), "noise")
    flat = field(t.double().numpy(), x.double().reshape(len(x), -1).numpy())
    return torch.from_numpy(flat).reshape(x.shape).to(x)


class StandIn:
    """A pipeline: prompts are texts of numbers that shift what its network says."""

    def __init__(self, config, field, scales=True, copies=False):
        self.scheduler = types.SimpleNamespace(config=dict(config))
        self.field = field
        self.scales = scales
        self.copies = copies
        self.threads = set()
        self.flow = "shift" in config

    def __call__(self, prompt=None, batch_size=None, num_inference_steps=50, guidance_scale=1.0):
        self.threads.add(threading.current_thread())
        count = batch_size if prompt is None else len(prompt)
        shift = torch.zeros(count) if prompt is None else torch.tensor([float(p) for p in prompt])
        self.scheduler.set_timesteps(num_inference_steps, device="cpu")
        latents = torch.randn(count, *SIZE, dtype=torch.float64)
        if self.scales:
            latents = latents * self.scheduler.init_noise_sigma
        timesteps = self.scheduler.timesteps
        for t in (timesteps.clone() if self.copies else timesteps):
            ours = 1 - t / 1000 if self.flow else 1 - (t + 1) / 1000
            output = self.field(ours.double().expand(count), latents)
            output = output + (guidance_scale - 1) * 0.1 + shift.reshape(-1, 1, 1, 1)
            output = -output if self.flow else output
            latents = self.scheduler.step(output, t, latents, return_dict=False)[0]
        return latents


class FitPipeline(unittest.TestCase):
    def expected(self, field, shifts, method, nfe, **options):
        noise = torch.from_numpy(bespoke.noise((len(shifts), *SIZE))).double()
        problem = bespoke.Problem(
            # The least index is 0, at t = 0.999.
            lambda t, x, shift: field(t.clamp(max=0.999), x) + shift.reshape(-1, 1, 1, 1), noise,
            tolerance=1e-3,
            conditions={"shift": torch.tensor(shifts)}, **options)
        problem.together = True
        return getattr(problem, method)(nfe, progress=False)

    def test_it_finds_what_a_callable_of_the_same_network_gives(self):
        pipe = StandIn(LINEAR, noise_field)
        before = pipe.scheduler
        results = fit_pipeline(pipe, ["0.0", "0.1", "-0.1"], (3, 4), samples=8, progress=False)
        shifts = [[0.0, 0.1, -0.1][k % 3] for k in range(8)]
        for result in results:
            alone = self.expected(noise_field, shifts, "fit", result.solver.nfe,
                                  prediction="noise", schedule="ddpm-linear")
            np.testing.assert_allclose(result.solver.a, alone.solver.a, rtol=1e-4)
            self.assertAlmostEqual(result.psnr, alone.psnr, delta=0.01)
            self.assertGreater(result.psnr, 25)
        self.assertIsInstance(pipe.scheduler, BespokeScheduler)
        self.assertIsNot(pipe.scheduler, before)
        images = pipe(prompt=["0.1"], num_inference_steps=4)
        self.assertTrue(torch.isfinite(images).all())
        self.assertTrue(all(not thread.is_alive() for thread in pipe.threads
                            if thread is not threading.current_thread()))

    def test_what_the_pipeline_clips_is_clipped(self):
        """As a network whose noise prediction is that of the clipped data."""
        path = Schedule("ddpm-linear")

        def clipped(t, x):
            t = float(t[0])
            alpha, sigma = path.alpha(t), path.sigma(t)
            data = (x - sigma * noise_field(torch.full((len(x),), t), x)) / alpha
            return (x - alpha * data.clamp(-0.5, 0.5)) / sigma
        clip = {"clip_sample": True, "clip_sample_range": 0.5}
        pipe, by_hand = StandIn({**LINEAR, **clip}, noise_field), StandIn(LINEAR, clipped)
        results = [fit_pipeline(one, ["0"], 4, samples=8, progress=False)[0]
                   for one in (pipe, by_hand)]
        self.assertEqual(results[0].solver.clip, Clip(-0.5, 0.5))
        self.assertIsNone(results[1].solver.clip)
        self.assertAlmostEqual(results[0].psnr, results[1].psnr, delta=0.3)
        torch.manual_seed(5)
        image = pipe(prompt=["0"], num_inference_steps=4)
        torch.manual_seed(5)
        by_hand.scheduler = BespokeScheduler.from_solvers(results[0].solver.of(
            results[0].solver.times, results[0].solver.a, results[0].solver.b,
            start_scale=results[0].solver.start_scale, schedule="ddpm-linear", prediction="noise"),
            LINEAR)
        np.testing.assert_allclose(image, by_hand(prompt=["0"], num_inference_steps=4), atol=1e-3)

    def test_pipelines_that_end_without_signal(self):
        config = {**LINEAR, "rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}
        path = schedule_of_pipeline(types.SimpleNamespace(config=config))
        self.assertEqual(path.alpha(0), 0)
        betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
        roots = torch.cumprod(1 - betas, 0).sqrt()  # as diffusers rescales them
        roots = (roots - roots[-1]) * roots[0] / (roots[0] - roots[-1])
        self.assertAlmostEqual(path.alpha(1 - 500 / 1000), float(roots[499]), places=10)

    def test_all_calls_of_the_network_are_counted(self):
        field = Counted(noise_field)
        results = fit_pipeline(StandIn(LINEAR, field), ["0"], (3, 4), samples=8, progress=False)
        once = results[0].reference_calls
        self.assertEqual(field.calls, sum(result.calls - once for result in results) + once)

    def test_direct_goes_on_where_calls_allow_it(self):
        pipe = StandIn(LINEAR, noise_field)
        fitted, = fit_pipeline(pipe, ["0"], 4, samples=24, progress=False)
        pipe = StandIn(LINEAR, noise_field)
        better, = fit_pipeline(pipe, ["0"], 4, samples=24, calls=6000, progress=False)
        self.assertGreater(better.iterations, 0)
        self.assertGreater(better.psnr, fitted.psnr)
        self.assertLess(better.calls, 6300)

    def test_flows_that_do_not_scale_their_noise_get_solvers_that_do_not_need_it(self):
        pipe = StandIn(FLOW, two_gaussians, scales=False)
        result, = fit_pipeline(pipe, ["0"], 4, samples=20, held_out=8, progress=False)
        self.assertEqual(result.solver.start_scale, 1)
        self.assertEqual(result.solver.schedule, Schedule("fm-ot"))
        pipe(prompt=["0", "0"], num_inference_steps=4)
        pipe = StandIn(FLOW, two_gaussians, scales=False)
        better, = fit_pipeline(pipe, ["0"], 4, samples=20, held_out=8, calls=9000, progress=False)
        self.assertEqual(better.solver.start_scale, 1)
        self.assertGreater(better.iterations, 0)
        self.assertGreater(better.psnr, result.psnr)

    def test_times_can_be_those_that_a_pipeline_in_bfloat16_has(self):
        def rounding(t, x):
            time = (1000 * (1 - t)).to(torch.bfloat16).to(t)
            return two_gaussians(1 - time / 1000, x)
        pipe = StandIn(FLOW, rounding, scales=False)
        result, = fit_pipeline(pipe, ["0"], 4, samples=16, calls=9000, times="bf16",
                               tolerance=1e-2, progress=False)
        for t in result.solver.times[:-1]:
            time = torch.tensor(1000 * (1 - t), dtype=torch.float64)
            self.assertAlmostEqual(float(time.to(torch.bfloat16)), float(time), places=9)
        self.assertGreater(result.iterations, 0)

    def test_arguments_reach_the_pipeline(self):
        plain, = fit_pipeline(StandIn(LINEAR, noise_field), ["0"], 3, samples=8, progress=False)
        guided, = fit_pipeline(StandIn(LINEAR, noise_field), ["0"], 3, samples=8, progress=False,
                               guidance_scale=2.0)
        shifted, = fit_pipeline(StandIn(LINEAR, noise_field), ["0.1"], 3, samples=8,
                                progress=False)
        self.assertNotEqual(plain.solver.a, guided.solver.a)
        np.testing.assert_allclose(guided.solver.a, shifted.solver.a, rtol=1e-6)

    def test_the_guidance_of_the_fit_is_kept_and_other_scales_are_refused(self):
        for given in ({"guidance_scale": 2.0}, {}):
            pipe = StandIn(LINEAR, noise_field)
            fit_pipeline(pipe, ["0"], 3, samples=8, progress=False, **given)
            pipe(prompt=["0"], num_inference_steps=3, **given)
            with self.assertRaisesRegex(Error, "guidance_scale is 3; solver bns is for"):
                pipe(prompt=["0"], num_inference_steps=3, guidance_scale=3.0)

    def test_the_pipeline_is_given_back_as_it_was(self):
        def fail():
            raise LookupError("no such adapter")

        def stop():
            raise KeyboardInterrupt
        for action, kind in ((fail, LookupError), (stop, KeyboardInterrupt)):
            pipe = StandIn(LINEAR, Counted(noise_field, 100, action))
            before = pipe.scheduler
            with self.assertRaises(kind):
                fit_pipeline(pipe, ["0"], 4, samples=8, progress=False)
            self.assertIs(pipe.scheduler, before)

    def test_pipelines_that_go_their_own_way_are_noticed(self):
        with self.assertRaisesRegex(Error, "keeps a copy of the timesteps"):
            fit_pipeline(StandIn(LINEAR, noise_field, copies=True), ["0"], 4, samples=8,
                         progress=False)

        class Deaf(StandIn):
            def __call__(self, **arguments):
                return None
        with self.assertRaisesRegex(Error, "ended by itself"):
            fit_pipeline(Deaf(LINEAR, noise_field), ["0"], 4, samples=8, progress=False)
        with self.assertRaisesRegex(Error, "at least 2"):
            fit_pipeline(StandIn(LINEAR, noise_field), ["0"], 4, samples=1, progress=False)

    def test_networks_that_answer_differently_are_refused_at_once(self):
        def dropping(t, x):
            return torch.nn.functional.dropout(noise_field(t, x), 0.1)
        pipe = StandIn(LINEAR, Counted(dropping))
        with self.assertRaisesRegex(Error, "answers the same call differently, by .*dropout off"):
            fit_pipeline(pipe, ["0"], 4, samples=8, progress=False)
        self.assertEqual(pipe.field.calls, 3 * 8)  # its own noise, and twice the same

    def test_paths_are_read_from_the_scheduler(self):
        def schedule(config, **more):
            return schedule_of_pipeline(types.SimpleNamespace(config=config, **more))
        self.assertEqual(schedule(LINEAR), Schedule("ddpm-linear"))
        self.assertEqual(schedule(FLOW), Schedule("fm-ot"))
        scaled = {**LINEAR, "beta_schedule": "scaled_linear", "beta_end": 0.012}
        self.assertEqual(schedule(scaled).describe()["beta_end"], 0.012)
        alphas = np.linspace(0.99, 0.01, 100)
        table = schedule({**LINEAR, "beta_schedule": "other"}, alphas_cumprod=alphas)
        self.assertAlmostEqual(table.alpha(0.5) ** 2, alphas[49], places=12)
        with self.assertRaisesRegex(Error, "without signal"):
            schedule({**LINEAR, "rescale_betas_zero_snr": True})
        with self.assertRaisesRegex(Error, "does not say which noise"):
            schedule({})


@unittest.skipUnless(REAL, "diffusers is not installed")
class Pipelines(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        diffusers.utils.logging.set_verbosity_error()

    def test_ddpm(self):
        unet = diffusers.UNet2DModel(
            sample_size=8, in_channels=3, out_channels=3, layers_per_block=1,
            block_out_channels=(32, 64), norm_num_groups=8, attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D")).eval()
        pipe = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler(clip_sample=False))
        result, = fit_pipeline(pipe, None, 4, samples=6, progress=False)
        problem = bespoke.Problem(
            lambda t, x: unet(x, (1000 * (1 - t) - 1).clamp(min=0)).sample,
            torch.from_numpy(bespoke.noise((6, 3, 8, 8))), prediction="noise",
            schedule="ddpm-linear", tolerance=1e-3)
        problem.together = True
        alone = problem.fit(4, start_scale=1, progress=False)
        np.testing.assert_allclose(result.solver.a, alone.solver.a, rtol=1e-2, atol=1e-3)
        self.assertAlmostEqual(result.psnr, alone.psnr, delta=0.1)
        pipe.set_progress_bar_config(disable=True)
        pipe(batch_size=1, num_inference_steps=4, output_type="np")

    def test_stable_diffusion(self):
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
        prompt, negative = torch.randn(6, 7, 32), torch.randn(6, 7, 32)
        result, = fit_pipeline(pipe, None, 4, samples=6, progress=False, guidance_scale=3.0,
                               output_type="latent",
                               conditions={"prompt_embeds": prompt,
                                           "negative_prompt_embeds": negative})

        def guided(t, x, prompt, negative):
            index = (1000 * (1 - t) - 1).clamp(min=0)
            given, plain = (unet(x, index, text).sample for text in (prompt, negative))
            return plain + 3.0 * (given - plain)
        problem = bespoke.Problem(
            guided, torch.from_numpy(bespoke.noise((6, 4, 8, 8))), prediction="noise",
            schedule="ddpm-scaled-linear", tolerance=1e-3,
            conditions={"prompt": prompt, "negative": negative})
        problem.together = True
        alone = problem.fit(4, progress=False)
        self.assertAlmostEqual(result.psnr, alone.psnr, delta=0.1)


if __name__ == "__main__":
    unittest.main()
