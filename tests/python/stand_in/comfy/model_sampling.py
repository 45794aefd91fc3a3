"""How models of ComfyUI take noise: kinds of prediction, and kinds of time."""

import torch


def _column(sigma, like):
    return sigma.reshape(-1, *[1] * (like.dim() - 1))


class EPS:
    sigma_data = 1.0

    def calculate_input(self, sigma, noise):
        return noise / (_column(sigma, noise) ** 2 + 1).sqrt()

    def calculate_denoised(self, sigma, model_output, model_input):
        return model_input - _column(sigma, model_input) * model_output


class V_PREDICTION(EPS):
    def calculate_denoised(self, sigma, model_output, model_input):
        sigma = _column(sigma, model_input)
        return (model_input / (sigma ** 2 + 1)
                - model_output * sigma / (sigma ** 2 + 1).sqrt())


class EDM(V_PREDICTION):
    pass


class X0(EPS):
    def calculate_denoised(self, sigma, model_output, model_input):
        return model_output


class IMG_TO_IMG(X0):
    pass


class CONST:
    def calculate_input(self, sigma, noise):
        return noise

    def calculate_denoised(self, sigma, model_output, model_input):
        return model_input - _column(sigma, model_input) * model_output


class ModelSamplingDiscrete(torch.nn.Module):
    def __init__(self, zsnr=False):
        super().__init__()
        self.zsnr = zsnr
        betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, 1000, dtype=torch.float64) ** 2
        alphas = torch.cumprod(1 - betas, 0)
        self.sigmas = ((1 - alphas) / alphas).sqrt().float()

    @property
    def sigma_min(self):
        return self.sigmas[0]

    @property
    def sigma_max(self):
        return self.sigmas[-1]

    def timestep(self, sigma):
        return (sigma.log() - self.sigmas.log()[:, None]).abs().argmin(0)


class ModelSamplingDiscreteEDM(ModelSamplingDiscrete):
    def timestep(self, sigma):
        return sigma.log() / 4


class ModelSamplingDiscreteFlow(ModelSamplingDiscrete):
    def __init__(self, shift=3.0):
        torch.nn.Module.__init__(self)
        levels = torch.arange(1, 1001) / 1000
        self.sigmas = shift * levels / (1 + (shift - 1) * levels)

    def timestep(self, sigma):
        return 1000 * sigma
