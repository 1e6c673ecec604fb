"""Three poison cells among a thousand: `python -m tests.verification.trial_poison`.

One ends its worker, one always raises, one eats memory. Only those three are not done, by name, and the
command exits 1.
"""

from __future__ import annotations

import json
from collections import Counter

import sweep
from tests.verification.trial_runs import (
    PLAIN,
    executed,
    must,
    must_be_gone,
    start,
    tables,
    trial,
    wait_for,
    workers_of,
    write_spec,
)

SIZES = range(10, 1010)
DEEDS = {"123": "exit_at_once", "456": "raise_always", "789": "allocate"}
TABLES = tables(
    "poison", 13, {**PLAIN, "N": list(SIZES), "lam": [0.7]}, horizon=2.0, times=3, levels=3, replicas=2
)


def main() -> None:
    """Run the sweep, and once more without the poison."""
    with trial("three poison cells in 1000") as (show, folder):
        spec, store = write_spec(folder, TABLES), folder / "store"
        driver = start(spec, store, TRIAL_DEEDS=json.dumps(DEEDS))
        crew = []
        wait_for(lambda: workers_of(driver.pid), driver)
        crew.extend(workers_of(driver.pid))
        code = driver.wait()
        must_be_gone(crew)
        must(code == 1, f"exit code {code}: {(folder / 'output.txt').read_text()[-2000:]}")
        cells = sweep.load(store)["cells"].to_dataset().squeeze(["d", "lam", "G"])
        status = dict(zip(cells.N.values.tolist(), cells.status.values.tolist(), strict=True))
        left = {str(N): what for N, what in status.items() if what != "done"}
        must(left.keys() == DEEDS.keys(), f"not done: {left}")
        for N, deed in DEEDS.items():
            at = cells.sel(N=int(N))
            show(
                f"N = {N}: {deed}",
                f"{left[N]} after {int(at.attempts)} attempts: {str(at.error.values)[:60]}",
            )
        must(left["123"] == "quarantined", "what kills its worker is quarantined")
        must({left["456"], left["789"]} == {"failed"}, "what raises has failed")
        counts = Counter(executed(folder))
        show("tasks executed", f"{counts.total()}, most often {counts.most_common(1)[0][1]} × one of them")
        again = start(spec, store)
        must(again.wait() == 0, "without the poison the run ends well")
        must(set(sweep.load(store)["cells"].status.values.ravel()) == {"done"}, "then all is done")
        show("without the poison", "those three alone are computed, and all is done")


if __name__ == "__main__":
    main()
