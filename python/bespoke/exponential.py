"""Exponential steps: the linear part of a path's ODE is exact, data predictions are interpolated.

With the signal-to-noise ratio rho = alpha / sigma, the ODE of every path is

    x(t) = sigma(t) / sigma(s) x(s) + sigma(t) * integral of D d rho from rho(s) to rho(t),

D the data prediction along the way. Between evaluations D is taken as the polynomial through them
in w = rho^(1/2) / (1 + rho^(1/2)), which is 0 at pure noise and 1 at the data: on paths of networks
D changes about evenly in it, and both ends are finite.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

STRETCH = 2.0
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(20)


class Node(NamedTuple):
    """A place on a path."""

    alpha: float
    sigma: float

    @property
    def warped(self) -> float:
        """w, 0 at pure noise and 1 at the data."""
        return warped(self.alpha, self.sigma)


def warped(alpha: float, sigma: float) -> float:
    """w = rho^(1/2) / (1 + rho^(1/2))."""
    root_alpha, root_sigma = alpha ** (1 / STRETCH), sigma ** (1 / STRETCH)
    return root_alpha / (root_alpha + root_sigma)


def warped_log_snr(log_snr: float) -> float:
    """w where log(alpha / sigma) is this."""
    return 1 / (1 + math.exp(-log_snr / STRETCH))


def log_snr_of_warped(w: float) -> float:
    """log(alpha / sigma) where w is this."""
    return STRETCH * (math.log(w) - math.log1p(-w))


def step_weights(start: Node, end: Node, known: Sequence[Node]) -> Tuple[float, List[float]]:
    """(s, w_0 ...): the state at `end` is s times that at `start` and sum_j w_j D(known[j])."""
    places = np.array([node.warped for node in known])
    if end.sigma == 0:
        return 0.0, _lagrange(places, np.array([1.0]))[:, 0].tolist()
    low, high = start.warped, end.warped
    at = low + (high - low) * (_POINTS + 1) / 2
    slope = STRETCH * at ** (STRETCH - 1) / (1 - at) ** (STRETCH + 1)  # d rho / d w
    measure = slope * _WEIGHTS * (high - low) / 2 * end.sigma
    return end.sigma / start.sigma, (_lagrange(places, at) @ measure).tolist()


def _lagrange(places: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The polynomials that are 1 at one place and 0 at the others, [places, at]."""
    values = np.ones((len(places), len(at)))
    for j, own in enumerate(places):
        for k, other in enumerate(places):
            if k != j:
                values[j] *= (at - other) / (own - other)
    return values
