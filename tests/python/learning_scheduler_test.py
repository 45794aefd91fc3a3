"""Tests of LearningScheduler: in the loop of a stand-in pipeline, and in diffusers' own pipelines
where it is installed. Expected samples come from hundreds of steps."""

import sys
import tempfile
import types
import unittest
import warnings
import weakref
from pathlib import Path

try:
    import numpy as np
    import torch
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

from bespoke import Error, accelerate
from bespoke.diffusers import BespokeScheduler, LearningScheduler
from bespoke.errors import DivergedError
from bespoke.schedule import PlainSchedule
from mixtures import NUMBERS as MODEL

KINDS = {"epsilon": "noise", "v_prediction": "v", "sample": "data"}
DDPM = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02,
        "num_train_timesteps": 1000}
FLOW = {"shift": 3.0, "num_train_timesteps": 1000}
SHAPE = (3, 8, 8)
FIRST = 53  # evaluations of a first image for 8 steps: whole levels fall together at the end


class Network:
    """As pipelines call it: (sample, timestep) -> output; it counts."""

    def __init__(self, schedule="ddpm-linear", prediction="noise"):
        self.schedule = PlainSchedule(schedule)
        self.field = MODEL.field(self.schedule, prediction)
        self.flow = schedule == "fm-ot"
        self.times = []

    def __call__(self, x, timestep):
        self.times.append(float(timestep))
        t = 1 - (float(timestep) + (not self.flow)) / 1000
        flat = self.field(np.full(len(x), t), x.double().reshape(len(x), -1).numpy())
        return torch.from_numpy(-flat if self.flow else flat).to(x.dtype).reshape(x.shape)


class Pipe:
    """What pipelines do."""

    def __init__(self, scheduler, network):
        self.scheduler = scheduler
        self.unet = network

    def __call__(self, noise, steps=8, guidance_scale=None, edit=None, stop=None, sigmas=None):
        if sigmas is not None:
            self.scheduler.set_timesteps(sigmas=sigmas, device="cpu", mu=0.7)
        else:
            self.scheduler.set_timesteps(steps, device="cpu")
        sample = noise * self.scheduler.init_noise_sigma
        for i, t in enumerate(self.scheduler.timesteps):
            output = self.unet(self.scheduler.scale_model_input(sample, t), t)
            sample = self.scheduler.step(output, t, sample, return_dict=False)[0]
            if edit is not None and i == 1:
                sample = edit(sample)
            if i == stop:
                raise KeyboardInterrupt
        return sample


def noise_like(seed, count=1, shape=SHAPE):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, *shape))).float()


def decibels(x, expected):
    return float((10 * torch.log10(4 / ((x - expected) ** 2).flatten(1).mean(1))).mean())


def learning(config=None, **options):
    return LearningScheduler.from_config(config or DDPM, **{"quiet": True, **options})


def exact(network, config, noise):
    return Pipe(learning(config, reference=160, steps=4), network)(noise)


class Learns(unittest.TestCase):
    def test_every_prediction_is_learnt_and_saved(self):
        for kind, prediction in KINDS.items():
            network, config = Network(prediction=prediction), {**DDPM, "prediction_type": kind}
            pipe = Pipe(learning(config, samples=1), network)
            first = pipe(noise_like(1))
            self.assertEqual(len(network.times), FIRST, kind)
            self.assertGreater(decibels(first, exact(network, config, noise_like(1))), 50)
            network.times.clear()
            later = pipe(noise_like(2, 4))
            self.assertEqual(len(network.times), 8)
            self.assertEqual(network.times, [round(time) for time in network.times])
            self.assertFalse(pipe.scheduler.timesteps.is_floating_point())
            expected = exact(network, config, noise_like(2, 4))
            self.assertGreater(decibels(later, expected), 40)
            with tempfile.TemporaryDirectory() as folder:
                pipe.scheduler.save_pretrained(folder)
                for kept in (BespokeScheduler, LearningScheduler):
                    again = Pipe(kept.from_pretrained(folder), network)
                    self.assertIsInstance(again.scheduler, BespokeScheduler)
                    # Coefficients on raw outputs may be large, and float32 shows.
                    np.testing.assert_allclose(again(noise_like(2, 4)), later, atol=2e-2)
                    self.assertLess(abs(decibels(again(noise_like(2, 4)), expected)
                                        - decibels(later, expected)), 1)

    def test_flows_with_the_sigmas_that_flux_passes(self):
        network = Network("fm-ot", "velocity")
        pipe = Pipe(learning(FLOW, samples=1, steps=4), network)
        sigmas = np.linspace(1, 1 / 4, 4)
        pipe(noise_like(1), sigmas=sigmas)
        for time in network.times:  # bfloat16 can say them, as Flux casts them
            self.assertEqual(float(torch.tensor(time).bfloat16()), time)
        found = pipe(noise_like(2, 4), sigmas=sigmas)
        self.assertGreater(decibels(found, exact(network, FLOW, noise_like(2, 4))), 28)
        saved = Pipe(pipe.scheduler.learnt(), network)
        np.testing.assert_allclose(saved(noise_like(2, 4), sigmas=sigmas), found, atol=1e-3)
        with self.assertRaisesRegex(Error, "sigmas of its own"):
            pipe(noise_like(1), sigmas=[1.0, 0.5, 0.2, 0.1])

    def test_other_schedules(self):
        cosine = {"beta_schedule": "squaredcos_cap_v2", "prediction_type": "v_prediction"}
        scaled = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}
        betas = np.linspace(1e-4, 0.02, 1000).tolist()
        for config, network in ((cosine, Network("ddpm-cosine", "v")),
                                (scaled, Network("ddpm-scaled-linear")),
                                ({"trained_betas": betas, "beta_schedule": "linear"}, Network())):
            pipe = Pipe(learning(config, samples=1, steps=6), network)
            first = pipe(noise_like(1))
            self.assertGreater(decibels(first, exact(network, config, noise_like(1))), 45)
        for config, message in (({**DDPM, "beta_schedule": "sigmoid"}, "is 'sigmoid'"),
                                ({**DDPM, "rescale_betas_zero_snr": True}, "without signal"),
                                ({"sigma_data": 0.5, "sigma_max": 80}, "EDM's kind"),
                                ({**DDPM, "prediction_type": "score"}, "'score'")):
            with self.assertRaisesRegex(Error, message):
                learning(config)

    def test_clipped_predictions_stay_clipped(self):
        class Clipping(Network):
            def __call__(self, x, timestep):
                output = super().__call__(x, timestep).double()
                t = 1 - (float(timestep) + 1) / 1000
                alpha, sigma = self.schedule.alpha(t), self.schedule.sigma(t)
                data = self.bound((x.double() - sigma * output) / alpha)
                return ((x.double() - alpha * data) / sigma).to(x)

            def bound(self, data):
                if not self.dynamic:
                    return data.clamp(-0.5, 0.5)
                most = data.abs().flatten(1).quantile(0.8, dim=1).clamp(1.0, 1.2)
                most = most.reshape(-1, 1, 1, 1)
                return torch.maximum(torch.minimum(data, most), -most) / most
        for dynamic, config in ((False, {"clip_sample": True, "clip_sample_range": 0.5}),
                                (True, {"thresholding": True, "dynamic_thresholding_ratio": 0.8,
                                        "sample_max_value": 1.2})):
            by_hand = Clipping()
            by_hand.dynamic = dynamic
            pipes = [Pipe(learning({**DDPM, **config}, samples=1, steps=5), Network()),
                     Pipe(learning(DDPM, samples=1, steps=5), by_hand)]
            for seed in (1, 2):
                by_config, expected = (pipe(2 * noise_like(seed)) for pipe in pipes)
                np.testing.assert_allclose(by_config, expected, atol=1e-3)
            saved = Pipe(pipes[0].scheduler.learnt(), Network())
            np.testing.assert_allclose(saved(2 * noise_like(2), 5), by_config, atol=1e-3)
            self.assertFalse(saved.scheduler.config.get("clip_sample"))
            self.assertEqual(bool(saved.scheduler.config.get("thresholding")), dynamic)
            again = learning(saved.scheduler.config, samples=1, steps=5)
            self.assertEqual(again._field.clip, pipes[0].scheduler._field.clip)

    def test_several_numbers_of_steps_from_one_image(self):
        network = Network()
        pipe = Pipe(learning(steps=(4, 6, 8), samples=1), network)
        pipe(noise_like(1), 6)
        self.assertLess(len(network.times), 30 + 3 * 18 + 1)
        for asked, taken in ((4, 4), (6, 6), (8, 8), (50, 8), (5, 4), (2, 4)):
            network.times.clear()
            pipe(noise_like(2), asked)
            self.assertEqual(len(network.times), taken, asked)
        self.assertEqual(sorted(pipe.scheduler.quality), [4, 6, 8])
        asked = Pipe(learning(steps=None, samples=1), network)
        asked(noise_like(1), 5)
        network.times.clear()
        asked(noise_like(1), 5)
        self.assertEqual(len(network.times), 5)

    def test_it_goes_on_learning_until_more_gain_nothing(self):
        network = Network()
        pipe = Pipe(learning(), network)
        counts = []
        for seed in range(8):
            network.times.clear()
            pipe(noise_like(seed))
            counts.append(len(network.times))
        self.assertEqual(counts[0], FIRST)
        self.assertEqual(counts[1], FIRST - 8)  # what it misses unseen, and one fit
        self.assertEqual(counts[-1], 8)
        self.assertFalse(pipe.scheduler.learning)
        quality = pipe.scheduler.quality[8]
        self.assertTrue(quality.measured)
        found = decibels(pipe(noise_like(20, 6)), exact(network, DDPM, noise_like(20, 6)))
        self.assertLess(abs(quality.decibels - found), 5)
        pipe.scheduler.relearn()
        self.assertTrue(pipe.scheduler.learning)
        with self.assertRaisesRegex(Error, "nothing is learnt yet"):
            pipe.scheduler.save_pretrained("nowhere")

    def test_another_guidance_or_network_is_learnt_anew(self):
        network, other = Network(), Network()
        pipe = Pipe(learning(samples=1), network)

        def taken(guidance, unet=network):
            pipe.unet = unet
            unet.times.clear()
            pipe(noise_like(1), guidance_scale=guidance)
            return len(unet.times)
        self.assertEqual([taken(7.5), taken(7.0), taken(3.0), taken(7.5), taken(3.5)],
                         [FIRST, 8, FIRST, 8, 8])
        self.assertEqual([taken(7.5, other), taken(7.5, other), taken(7.5)], [FIRST, 8, 8])
        self.assertEqual(pipe.scheduler.learnt().config.guidance_range, [6.5, 8.5])

    def test_a_network_at_the_address_of_one_that_is_gone_is_learnt_anew(self):
        pipe = Pipe(learning(samples=1, steps=4), None)
        addresses = set()
        for _ in range(6):
            pipe.unet = None
            pipe.unet = Network()
            addresses.add(id(pipe.unet))
            pipe(noise_like(1), 4)
            self.assertGreater(len(pipe.unet.times), 4)
        self.assertLess(len(addresses), 6)  # one did come to lie where another was

    def test_networks_that_cannot_be_referred_to_weakly_are_known_again(self):
        class Slotted:
            __slots__ = ("call",)

            def __call__(self, x, timestep):
                return self.call(x, timestep)

        pipe = Pipe(learning(samples=1, steps=4), Slotted())
        network = pipe.unet.call = Network()
        counts = []
        for _ in range(2):
            network.times.clear()
            pipe(noise_like(1), 4)
            counts.append(len(network.times))
        self.assertEqual(counts[1], 4)
        self.assertGreater(counts[0], 4)

    def test_networks_are_not_kept_alive(self):
        pipe = Pipe(learning(samples=1, steps=4), Network())
        pipe(noise_like(1), 4)
        gone = weakref.ref(pipe.unet)
        pipe.unet = None
        self.assertIsNone(gone())
        self.assertEqual(pipe.scheduler.learnt().config.guidance_range, None)

    def test_another_shape_is_noticed(self):
        pipe = Pipe(learning(samples=1), Network())
        pipe(noise_like(1))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            pipe(noise_like(1, shape=(3, 8, 16)))
        self.assertIn(r"draws (3, 8, 16) now; call scheduler.relearn()",
                      " ".join(str(one.message) for one in seen))

    def test_what_cannot_be_is_refused_and_nothing_is_learnt(self):
        network = Network()
        pipe = Pipe(learning(), network)
        with self.assertRaises(KeyboardInterrupt):
            pipe(noise_like(1), stop=40)
        with self.assertRaisesRegex(Error, "edited between steps"):
            pipe(noise_like(1), edit=lambda x: x + 1e-3)
        pipe.unet = lambda x, t: network(x, t) * (np.nan if float(t) < 300 else 1)
        with self.assertRaisesRegex(DivergedError, "nothing was learnt"):
            pipe(noise_like(1))
        pipe.unet = lambda x, t: network(x, t)[:, :1]
        with self.assertRaisesRegex(Error, "has the shape"):
            pipe(noise_like(1))
        self.assertTrue(pipe.scheduler.learning)
        scheduler = pipe.scheduler
        with self.assertRaisesRegex(Error, "use strength 1"):
            scheduler.set_begin_index(2)
        with self.assertRaisesRegex(Error, "do not pass timesteps"):
            scheduler.set_timesteps(timesteps=[999, 500])
        with self.assertRaisesRegex(Error, "call set_timesteps"):
            learning().step(noise_like(1), 999, noise_like(1))
        scheduler.set_timesteps(8)
        with self.assertRaisesRegex(Error, "asked its network about time 500 instead of 999"):
            scheduler.step(noise_like(1), 500, noise_like(1))
        pipe.unet = network
        sample = pipe(noise_like(1), edit=lambda x: x.clone())
        with self.assertRaisesRegex(Error, "steps were taken"):
            scheduler.step(sample, 0, sample)

    def test_half_precision_and_learned_variances(self):
        network = Network()
        pipe = Pipe(learning(samples=1), lambda x, t: torch.cat([network(x, t), x], 1))
        expected = exact(network, DDPM, noise_like(2, 2))
        self.assertEqual(pipe(noise_like(1).bfloat16()).dtype, torch.bfloat16)
        found = pipe(noise_like(2, 2).bfloat16())
        self.assertGreater(decibels(found.double(), expected), 25)

    def test_it_says_what_it_does(self):
        import contextlib
        import io
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            pipe = Pipe(learning(samples=1, quiet=False), Network())
            pipe(noise_like(1))
            pipe(noise_like(1), 50)
        lines = said.getvalue().splitlines()
        self.assertEqual(lines[0], f"bespoke: drawing with {FIRST} evaluations to learn 8-step "
                                   "sampling; later ones take 8")
        self.assertRegex(lines[1], r"^bespoke: learnt; 8 steps: \d+ dB or more "
                                   r"\(estimated by leaving out parts; its steps tell different "
                                   r"things\), for a range of 2$")
        self.assertEqual(lines[2:], ["bespoke: num_inference_steps is 50; taking the 8 that are "
                                     "learnt"])

    def test_estimates_under_guidance_are_doubted(self):
        doubted = "an estimate from the sample itself; under guidance mostly too high"
        for guidance, doubt in ((7.5, doubted), (1.0, ""), (None, "")):
            pipe = Pipe(learning(steps=4), Network())
            pipe(noise_like(1), 4, guidance_scale=guidance)
            self.assertEqual(pipe.scheduler.quality[4].doubt, doubt)
            pipe(noise_like(2), 4, guidance_scale=guidance)
            self.assertTrue(pipe.scheduler.quality[4].measured)
            self.assertEqual(pipe.scheduler.quality[4].doubt, "")
        for says_so, doubt in ((True, doubted), (False, "")):
            pipe = Pipe(learning(steps=4), Network())
            pipe.do_classifier_free_guidance = says_so
            pipe(noise_like(1), 4, guidance_scale=7.5)
            self.assertEqual(pipe.scheduler.quality[4].doubt, doubt)
        pipe = Pipe(learning(steps=4), Network())
        pipe.transformer = types.SimpleNamespace(
            config=types.SimpleNamespace(guidance_embeds=True))  # as Flux, told its guidance
        pipe(noise_like(1), 4, guidance_scale=3.5)
        self.assertEqual(pipe.scheduler.quality[4].doubt, "")

    def test_accelerate(self):
        class Scheduler:
            config = DDPM
        pipe = accelerate(Pipe(Scheduler(), Network()), steps=6, quiet=True)
        self.assertIsInstance(pipe.scheduler, LearningScheduler)
        pipe(noise_like(1))
        with self.assertRaisesRegex(Error, "a pipeline of diffusers, found int"):
            accelerate(3)


@unittest.skipUnless(REAL, "diffusers is not installed")
class RealPipelines(unittest.TestCase):
    def test_ddpm_and_ddim_learn_unmodified(self):
        torch.manual_seed(0)
        unet = diffusers.UNet2DModel(
            sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
            down_block_types=("DownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "UpBlock2D")).eval()
        counts = []
        unet.register_forward_hook(lambda *arguments: counts.append(1))
        for kind in (diffusers.DDPMPipeline, diffusers.DDIMPipeline):
            pipe = kind(unet, diffusers.DDPMScheduler(clip_sample=False))
            pipe.set_progress_bar_config(disable=True)
            accelerate(pipe, steps=6, quiet=True, samples=1)
            self.assertEqual(pipe.scheduler.config.beta_schedule, "linear")  # a default of theirs
            for evaluations in (47, 6):
                counts.clear()
                image = pipe(batch_size=2, num_inference_steps=6, output_type="np",
                             generator=torch.Generator().manual_seed(1)).images
                self.assertEqual(len(counts), evaluations)
                self.assertTrue(np.isfinite(image).all())
            with tempfile.TemporaryDirectory() as folder:
                pipe.save_pretrained(folder)
                again = diffusers.DDPMPipeline.from_pretrained(folder)
                self.assertIsInstance(again.scheduler, BespokeScheduler)


if __name__ == "__main__":
    unittest.main()
