"""Parameter sweeps of the N-server SQ(d) network and of its hydrodynamic limit."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sweep.kernel_cache import provide_kernel_cache

if TYPE_CHECKING:
    from sweep.diffusion.density import solve_diffusion as solve_diffusion
    from sweep.diffusion.particles import simulate_particles as simulate_particles
    from sweep.distances import prohorov as prohorov
    from sweep.distances import state_distance as state_distance
    from sweep.driver import run as run
    from sweep.fluid.invariant import invariant_state as invariant_state
    from sweep.fluid.transient import solve_fluid as solve_fluid
    from sweep.network.simulate import simulate as simulate
    from sweep.results import load as load

__version__ = "0.2.5"

# Public name -> module: resolved at first use, so that `import sweep` stays as fast as importing NumPy.
_HOMES = {
    "invariant_state": "sweep.fluid.invariant",
    "load": "sweep.results",
    "prohorov": "sweep.distances",
    "run": "sweep.driver",
    "simulate": "sweep.network.simulate",
    "simulate_particles": "sweep.diffusion.particles",
    "solve_diffusion": "sweep.diffusion.density",
    "solve_fluid": "sweep.fluid.transient",
    "state_distance": "sweep.distances",
}
__all__ = [
    "invariant_state",
    "load",
    "prohorov",
    "run",
    "simulate",
    "simulate_particles",
    "solve_diffusion",
    "solve_fluid",
    "state_distance",
]


# Kernels look for their cache when their modules are imported, which every way to them begins here.
provide_kernel_cache()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweep' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
