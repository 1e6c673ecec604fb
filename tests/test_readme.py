"""README shows what the commands print."""

import tomllib
from pathlib import Path

import pytest

from analysis.__main__ import main
from sweep.driver import run
from sweep.spec import parse_spec, read_spec

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.slow
def test_the_table_of_the_demo_is_the_one_shown(tmp_path, capsys):
    run(ROOT / "examples" / "quickstart.toml", store=tmp_path / "store", engine="local", workers=2)
    assert main([str(tmp_path / "store")]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if " 0.9 " in line]
    assert len(rows) == 4
    for row in rows:
        assert row.strip() in README


def test_the_spec_shown_is_the_one_of_the_demo():
    text = README.split("```toml\n")[1].split("```")[0]
    assert parse_spec(tomllib.loads(text)) == read_spec(ROOT / "examples" / "quickstart.toml")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_good_spec(path):
    assert read_spec(path).cells()


@pytest.mark.parametrize(
    "name", ["docs/quickstart.png", "docs/distances.md", "docs/model.md", "cluster.yaml"]
)
def test_what_the_readme_points_to_is_there(name):
    assert name in README
    assert (ROOT / name).exists()
