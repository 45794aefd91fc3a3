"""The paths x_t = alpha x_1 + sigma x_0 behind the names of schedules, t = 0 at the noise.

Each has point(t), time_at_log_snr(value), clipped to [0, 1], and source_std, the deviation of the
noise that samples start from.
"""

from __future__ import annotations

import bisect
import math
from typing import Any, List, NamedTuple, Sequence, Tuple

DENOISING_TIME = 0.01  # how much of [0, 1] the final denoising step of a part has


class Point(NamedTuple):
    """A schedule and its slopes at some time."""

    alpha: float
    sigma: float
    alpha_slope: float
    sigma_slope: float  # infinite where sigma leaves 0 as a root
    variance_rate: float  # sigma times its slope, finite even there

    @property
    def wronskian(self) -> float:
        """sigma alpha' - alpha sigma' > 0."""
        return self.sigma * self.alpha_slope - self.alpha * self.sigma_slope

    @property
    def log_snr(self) -> float:
        """log(alpha / sigma)."""
        if self.sigma == 0:
            return math.inf
        return math.log(self.alpha) - math.log(self.sigma) if self.alpha > 0 else -math.inf


def _clipped(t: float) -> float:
    return min(1.0, max(0.0, t))


class FmOt:
    """alpha = t, sigma = 1 - t."""

    source_std = 1.0

    def point(self, t: float) -> Point:
        return Point(t, 1 - t, 1.0, -1.0, t - 1)

    def time_at_log_snr(self, log_snr: float) -> float:
        return 1 / (1 + math.exp(-log_snr)) if log_snr > -700 else 0.0


class Cosine:
    """alpha = sin(pi t / 2), sigma = cos(pi t / 2)."""

    source_std = 1.0

    def point(self, t: float) -> Point:
        half = math.pi / 2
        # sin(pi / 2 (1 - t)) rather than cos(pi / 2 t): exactly zero at t = 1.
        alpha, sigma = math.sin(half * t), math.sin(half * (1 - t))
        slopes = half * math.cos(half * t), -half * math.cos(half * (1 - t))
        return Point(alpha, sigma, *slopes, sigma * slopes[1])

    def time_at_log_snr(self, log_snr: float) -> float:
        if log_snr > 0:
            return 1 - math.atan(math.exp(-log_snr)) / (math.pi / 2)
        return math.atan(math.exp(log_snr)) / (math.pi / 2)


class Edm:
    """alpha = 1, sigma from sigma_max to sigma_min, linear in t."""

    def __init__(self, sigma_max: float, sigma_min: float) -> None:
        self.source_std, self._least = sigma_max, sigma_min

    def point(self, t: float) -> Point:
        width = self.source_std - self._least
        sigma = self._least + width * (1 - t)
        return Point(1.0, sigma, 0.0, -width, -width * sigma)

    def time_at_log_snr(self, log_snr: float) -> float:
        if log_snr < -700:
            return 0.0
        return _clipped(1 - (math.exp(-log_snr) - self._least) / (self.source_std - self._least))


class Ve:
    """alpha = 1, sigma from sigma_max to sigma_min, linear in its logarithm."""

    def __init__(self, sigma_min: float, sigma_max: float) -> None:
        self._least, self.source_std = sigma_min, sigma_max
        self._span = math.log(sigma_max / sigma_min)

    def point(self, t: float) -> Point:
        sigma = self._least * math.exp(self._span * (1 - t))
        return Point(1.0, sigma, 0.0, -self._span * sigma, -self._span * sigma * sigma)

    def time_at_log_snr(self, log_snr: float) -> float:
        return _clipped(1 - (-log_snr - math.log(self._least)) / self._span)


class VePower:
    """Noise of deviation base^s in every moment of s = 1 - t, from none at the data."""

    def __init__(self, base: float) -> None:
        self._rate = 2 * math.log(base)
        self.source_std = self.point(0.0).sigma

    def point(self, t: float) -> Point:
        variance = math.expm1(self._rate * (1 - t)) / self._rate
        rate = -math.exp(self._rate * (1 - t)) / 2
        sigma = math.sqrt(variance)
        return Point(1.0, sigma, 0.0, rate / sigma if sigma > 0 else -math.inf, rate)

    def time_at_log_snr(self, log_snr: float) -> float:
        if log_snr < -300:
            return 0.0
        return _clipped(1 - math.log1p(self._rate * math.exp(-2 * log_snr)) / self._rate)


class VariancePreserving:
    """alpha^2 + sigma^2 = 1, given by log alpha."""

    source_std = 1.0

    def log_alpha(self, t: float) -> Tuple[float, float]:
        """And its slope."""
        raise NotImplementedError

    def time_at_depth(self, depth: float) -> float:
        """Where -log alpha is this."""
        raise NotImplementedError

    def point(self, t: float) -> Point:
        log_alpha, slope = self.log_alpha(t)
        # sigma^2 = -expm1(2 log alpha) keeps its digits where alpha is near one.
        alpha, variance = math.exp(log_alpha), -math.expm1(2 * log_alpha)
        sigma, rate = math.sqrt(variance), -alpha * alpha * slope
        return Point(alpha, sigma, alpha * slope, rate / sigma if sigma > 0 else -math.inf, rate)

    def time_at_log_snr(self, log_snr: float) -> float:
        if log_snr == -math.inf:
            return 0.0
        depth = 0.5 * math.log1p(math.exp(-2 * abs(log_snr))) + max(-log_snr, 0.0)
        return _clipped(self.time_at_depth(depth))


class Vp(VariancePreserving):
    """Continuous, with betas from b to B."""

    def __init__(self, most: float, least: float) -> None:
        self._most, self._least = most, least

    def log_alpha(self, t: float) -> Tuple[float, float]:
        s, width = 1 - t, self._most - self._least
        return (-(s * s * width / 4 + s * self._least / 2), s * width / 2 + self._least / 2)

    def time_at_depth(self, depth: float) -> float:
        half, width = self._least / 2, self._most - self._least
        return 1 - 2 * depth / (half + math.sqrt(half * half + width * depth))


class Table(VariancePreserving):
    """Discrete: log alpha is linear between s = i / N and s = (i + 1) / N, with s = 1 - t.

    Towards a last level without signal alpha itself is.
    """

    def __init__(self, alphas_cumprod: Sequence[float]) -> None:
        self._logs: List[float] = [0.0, *(0.5 * math.log(alpha) if alpha > 0 else -math.inf
                                          for alpha in alphas_cumprod)]
        self._depths = [-log for log in self._logs]
        self._levels = len(alphas_cumprod)
        self._ends_at_noise = alphas_cumprod[-1] == 0

    def point(self, t: float) -> Point:
        if not self._is_beyond_logs(t):
            return super().point(t)
        slope = self._before_the_last() * self._levels
        alpha, rate = slope * t, -slope * slope * t
        sigma = math.sqrt(1 - alpha * alpha)
        return Point(alpha, sigma, slope, rate / sigma, rate)

    def log_alpha(self, t: float) -> Tuple[float, float]:
        position = self._levels * (1 - t)
        index = min(max(int(math.floor(position)), 0), self._levels - 1)
        slope = self._logs[index + 1] - self._logs[index]
        return self._logs[index] + (position - index) * slope, -self._levels * slope

    def time_at_depth(self, depth: float) -> float:
        if self._ends_at_noise and depth > self._depths[-2]:
            return math.exp(-depth) / (self._before_the_last() * self._levels)
        index = bisect.bisect_left(self._depths, depth, 1, self._levels) - 1
        slope = self._logs[index + 1] - self._logs[index]
        return 1 - (index + (-depth - self._logs[index]) / slope) / self._levels

    def _is_beyond_logs(self, t: float) -> bool:
        return self._ends_at_noise and self._levels * (1 - t) >= self._levels - 1

    def _before_the_last(self) -> float:
        return math.exp(self._logs[-2])


class Preconditioned:
    """The same alpha, and so many times the sigma of another path."""

    def __init__(self, base: Any, scale: float) -> None:
        self._base, self._scale = base, scale
        self.source_std = scale * base.source_std

    def point(self, t: float) -> Point:
        base, scale = self._base.point(t), self._scale
        return Point(base.alpha, scale * base.sigma, base.alpha_slope, scale * base.sigma_slope,
                     scale * scale * base.variance_rate)

    def time_at_log_snr(self, log_snr: float) -> float:
        return self._base.time_at_log_snr(log_snr + math.log(self._scale))


class Part:
    """The path from one time to another, with or without a last denoising step at its end."""

    def __init__(self, whole: Any, start: float, end: float, denoise: bool) -> None:
        self._whole, self._start, self._end, self._denoise = whole, start, end, denoise
        self.last_time = 1 - DENOISING_TIME if denoise else 1.0
        # Samplers start from unit noise, whatever the signal, and where the noise grows without
        # bound from that of the path.
        grows = whole.point(0.0).alpha == 1
        self.source_std = whole.point(start).sigma if grows else whole.source_std

    def point(self, t: float) -> Point:
        if t > self.last_time:
            return self._denoising(t)
        here = self._whole.point(self.trained_time(t))
        rate = (self._end - self._start) / self.last_time
        return Point(here.alpha, here.sigma, rate * here.alpha_slope, rate * here.sigma_slope,
                     rate * here.variance_rate)

    def time_at_log_snr(self, log_snr: float) -> float:
        end = self._whole.point(self._end)
        if self._denoise and log_snr > end.log_snr:
            left = 1 / (end.sigma * math.exp(min(log_snr, 700.0)) + 1 - end.alpha)
            return 1 - left * DENOISING_TIME
        share = (self._whole.time_at_log_snr(log_snr) - self._start) / (self._end - self._start)
        return _clipped(share) * self.last_time

    def trained_time(self, t: float) -> float:
        """On the whole path, exactly its own ends at the ends."""
        if t >= self.last_time:
            return self._end
        return self._start + (self._end - self._start) / self.last_time * t

    def _denoising(self, t: float) -> Point:
        """alpha and sigma are linear from what they are at the end to 1 and 0."""
        end, left = self._whole.point(self._end), (1 - t) / DENOISING_TIME
        sigma, slope = end.sigma * left, -end.sigma / DENOISING_TIME
        return Point(1 - (1 - end.alpha) * left, sigma, (1 - end.alpha) / DENOISING_TIME, slope,
                     sigma * slope)
