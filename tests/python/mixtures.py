"""Models whose predictions are known in closed form, for the tests of the package."""

import numpy as np


class Mixture:
    """The mean of N(mean_k, deviation_k^2 I) over k, [components, dimension] means."""

    def __init__(self, means, deviations):
        self.means = np.asarray(means, dtype=np.float64)
        self.deviations = np.asarray(deviations, dtype=np.float64)

    def predict(self, alpha, sigma, x):
        """(D, E), the data and the noise prediction of x = alpha x_1 + sigma noise."""
        size = x.shape[1]
        alpha, sigma = alpha[:, None], sigma[:, None]
        variance = alpha ** 2 * self.deviations ** 2 + sigma ** 2
        y = x[:, None, :] - alpha[:, :, None] * self.means
        weight = -0.5 * size * np.log(variance) - (y ** 2).sum(2) / (2 * variance)
        weight = np.exp(weight - weight.max(1, keepdims=True))
        weight = (weight / weight.sum(1, keepdims=True))[:, :, None]
        gain = (alpha * self.deviations ** 2 / variance)[:, :, None]
        data = (weight * (self.means + gain * y)).sum(1)
        noise = (weight * (sigma / variance)[:, :, None] * y).sum(1)
        return data, noise

    def field(self, schedule, prediction="velocity"):
        """field(t, x) on a schedule of bespoke."""
        def field(t, x):
            alpha = np.array([schedule.alpha(float(s)) for s in t])
            sigma = np.array([schedule.sigma(float(s)) for s in t])
            data, noise = self.predict(alpha, sigma, np.asarray(x, dtype=np.float64))
            return self.output(schedule, prediction, t, alpha, sigma, data, noise).astype(x.dtype)
        return field

    @staticmethod
    def output(schedule, prediction, t, alpha, sigma, data, noise):
        alpha, sigma = alpha[:, None], sigma[:, None]
        if prediction == "data":
            return data
        if prediction == "noise":
            return noise
        if prediction == "v":
            return alpha * noise - sigma * data
        if prediction == "score":
            return -noise / sigma
        step = 1e-6  # the velocity by differences of the schedule: no formula of ours
        low, high = np.clip(t - step, 0, 1), np.clip(t + step, 0, 1)
        slope = [np.array([(f(float(b)) - f(float(a))) / (b - a) for a, b in zip(low, high)])
                 for f in (schedule.alpha, schedule.sigma)]
        return slope[0][:, None] * data + slope[1][:, None] * noise


class Numbers(Mixture):
    """Samples whose numbers are independent, each of a mixture: a sample holds many cases."""

    def predict(self, alpha, sigma, x):
        each = x.shape[1]
        found = super().predict(np.repeat(alpha, each), np.repeat(sigma, each), x.reshape(-1, 1))
        return tuple(part.reshape(x.shape) for part in found)


NUMBERS = Numbers([[0.7], [-0.5]], [0.2, 0.3])


def two_gaussians(t, x):
    """The velocity on FM-OT of numbers all near 1 or all near -1, deviation 0.2; any array type."""
    s = t.reshape((-1,) + (1,) * (len(x.shape) - 1))
    variance = 0.04 * s * s + (1 - s) * (1 - s)
    total = x.reshape((x.shape[0], -1)).sum(1).reshape(s.shape)
    argument = s * total / variance
    mean = argument.tanh() if hasattr(argument, "tanh") else np.tanh(argument)
    return mean + (0.04 * s - (1 - s)) / variance * (x - s * mean)


class Counted:
    """A field that counts the samples it is asked about, and can do something at some call."""

    def __init__(self, function, at=None, action=None):
        self.function = function
        self.calls = 0
        self.largest = 0
        self.at = at
        self.action = action

    def __call__(self, t, x, **conditions):
        self.calls += x.shape[0]
        self.largest = max(self.largest, x.shape[0])
        if self.at is not None and self.calls >= self.at:
            self.at = None
            self.action()
        return self.function(t, x, **conditions)
