"""What a program prints on other processors than this one: with narrower vectors, or not compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

#: Environments of a program. NumPy warns where the processor lacks what it is told not to use.
NATIVE: Mapping[str, str] = {}
WITHOUT_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}
UNCOMPILED = {"NUMBA_DISABLE_JIT": "1"}
PLAIN_CODE = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}


def printed(program: str, *arguments: str, environment: Mapping[str, str] = NATIVE) -> str:
    """Run a program in a process of its own; return what it prints."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300.0,
    ).stdout
