"""The notebooks run on stores they build themselves, and find what their kept outputs say."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from analysis.notebooks.execute import FOLDER, NAMES, executed, text_of

#: What each must have found.
FINDINGS = {
    "convergence": ("agrees with −1/2", "lack of fit p"),
    "tails": ("power law with γ", "geometric with ρ", "double exponential with r", "inconclusive"),
    "chaos": ("no dependence is seen", "too wide to tell 1/N"),
    "heavy_traffic": ("at m = ∞, limit 0.6112", "misfit"),
}


def test_every_notebook_is_named() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES) == sorted(FINDINGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_without_a_warning_and_finds_what_it_says(name: str, tmp_path: Path) -> None:
    fresh = executed(name, tmp_path)
    outputs = [output for cell in fresh.cells for output in cell.get("outputs", ())]
    assert not [one for one in outputs if one.output_type == "error" or one.get("name") == "stderr"]
    assert "Warning" not in text_of(fresh)
    assert re.search(r"\d+/\d+ replicas  [\d.]+/s", text_of(fresh))
    for finding in FINDINGS[name]:
        assert finding in text_of(fresh)
    assert (tmp_path / "out" / name / "results.nc").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_with_outputs_in_order_and_pictures(name: str) -> None:
    kept = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(kept)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    pictures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= (1 if name == "chaos" else 2)
    for finding in FINDINGS[name]:
        assert finding in text_of(kept)
    assert kept.cells[0].source.startswith("# ")


def test_an_unknown_notebook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name must be one of convergence, tails, chaos, heavy_traffic, got"):
        executed("nothing", tmp_path)
