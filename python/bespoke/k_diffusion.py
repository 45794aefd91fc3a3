"""Solvers as a sampler of k-diffusion, for tools that hand a sampler a denoiser and sigmas.

    sigmas = bespoke.k_diffusion.sigmas_of(solver)
    x = torch.randn(...) * sigmas[0]
    x = bespoke.k_diffusion.sample_bespoke(denoiser, x, torch.tensor(sigmas), solver=solver)
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

import numpy as np

from bespoke.arrays import Array, arrays_of
from bespoke.errors import DivergedError, Error
from bespoke.solver import Solver


def sigmas_of(solver: Solver) -> List[float]:
    """Where the solver calls the denoiser, and where it ends: n + 1 numbers."""
    return solver.lower_to_sigmas().sigmas


def sample_bespoke(model: Callable[..., Array], x: Array, sigmas: Any,
                   extra_args: Optional[Mapping[str, Any]] = None,
                   callback: Optional[Callable[[Dict[str, Any]], None]] = None,
                   disable: Optional[bool] = None, *, solver: Solver) -> Array:
    """Called as every sample_* of k-diffusion, and the solver.

    model(x, sigma, **extra_args) is the denoiser, guided where it is to be; x is noise times
    sigmas[0]; `sigmas` are sigmas_of(solver), since a solver has times of its own. The callback is
    told the step, the sigma, the state and what was denoised.
    """
    lowered = solver.lower_to_sigmas()
    _check_sigmas(sigmas, lowered.sigmas)
    arrays = arrays_of(x, "x")
    start = arrays.state(x) * (lowered.start_scale / lowered.sigmas[0])
    state, slopes = start, []
    with arrays.no_grad():
        for i, sigma in enumerate(lowered.sigmas[:-1]):
            each = arrays.numbers([sigma] * int(x.shape[0]), start)
            given = arrays.cast(state, x)
            denoised = model(given, arrays.cast(each, x), **(extra_args or {}))
            if callback is not None:
                callback({"x": given, "i": i, "sigma": sigma, "sigma_hat": sigma,
                          "denoised": denoised})
            slopes.append((state - arrays.cast(denoised, state)) * (1 / sigma))
            state = arrays.combine([lowered.a[i], *lowered.b[i]], [start, *slopes], start)
            if not arrays.is_finite(state):
                raise DivergedError(f"the state is not finite after step {i + 1} of {solver.nfe} "
                                    f"(sigma = {sigma:.6g}); check that the solver was made for "
                                    "this model")
    return arrays.cast(state, x)


def _check_sigmas(given: Any, own: List[float]) -> None:
    values = np.asarray([float(sigma) for sigma in given])
    if len(values) != len(own) or not np.allclose(values, own, rtol=1e-3, atol=1e-4):
        raise Error(f"the solver has {len(own)} sigmas of its own, from {own[0]:.4g} to "
                    f"{own[-1]:.4g}; pass sigmas_of(solver)")
