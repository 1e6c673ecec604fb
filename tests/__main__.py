"""Run every test, as `make test` does: those marked `alone` one after another, and the others meanwhile.

The first wait much, for processes and clusters. The others compute, a file on each CPU, at low priority, and
what they say follows at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest"]
ALONE = sorted(
    str(path) for path in Path(__file__).parent.rglob("test_*.py") if "mark.alone" in path.read_text()
)
OTHERS = ["-m", "not alone", "-n", "logical", "--maxprocesses", "8", "--dist", "loadfile"]


def main() -> int:
    """Return 0 if all pass."""
    with tempfile.TemporaryFile() as said:
        others = subprocess.Popen(
            ["nice", "-n", "19", *PYTEST, *OTHERS], stdout=said, stderr=subprocess.STDOUT
        )
        try:
            codes = [subprocess.call([*PYTEST, "-m", "alone", *ALONE]), others.wait()]
        finally:
            others.terminate()
            others.wait()
            said.seek(0)
            print(said.read().decode(), flush=True)
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
