"""`import sweep` stays light."""

import subprocess
import sys

import pytest

import sweep

HEAVY = ("ray", "numba", "netCDF4", "xarray", "pandas", "scipy")


def test_importing_sweep_loads_no_heavy_library():
    code = f"import sys, sweep; print([name for name in {HEAVY} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_resolves():
    for name in sweep.__all__:
        assert callable(getattr(sweep, name))
        assert name in dir(sweep)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(AttributeError, match=r"no attribute 'simulat'; it offers .*simulate"):
        _ = sweep.simulat
