"""A guider and what it hands to samplers."""

import torch


class Sampler:
    def sample(self):
        pass


class CFGGuider:
    def __init__(self, model_patcher):
        self.model_patcher = model_patcher
        self.model_options = {}
        self.cfg = 1.0

    def set_conds(self, positive, negative):
        self.conds = {"positive": positive, "negative": negative}

    def set_cfg(self, cfg):
        self.cfg = cfg

    def __call__(self, x, timestep, model_options={}, seed=None):
        assert "transformer_options" in model_options
        with_prompt, without = (self.inner_model.apply_model(x, timestep, self.conds[name])
                                for name in ("positive", "negative"))
        return without + self.cfg * (with_prompt - without)

    def sample(self, noise, latent_image, sampler, sigmas, denoise_mask=None, callback=None,
               disable_pbar=False, seed=None):
        self.inner_model = self.model_patcher.model
        extra = {"model_options": {"transformer_options": {"sample_sigmas": sigmas}}, "seed": seed}
        try:
            with torch.inference_mode():
                return sampler.sample(self, sigmas, extra, callback, noise, latent_image,
                                      denoise_mask, disable_pbar)
        finally:
            del self.inner_model
