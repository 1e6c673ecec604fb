"""What is checked and what is sent before a job begins: versions, the store's path, files and sources."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweep.engines import jobs, package
from sweep.engines.job_main import lacks
from sweep.errors import EngineError, SpecError
from sweep.laws import parse_law
from tests.fake_head import STORE, FakeHead

NEEDS: Mapping[str, Any] = {"python": "3.11", "packages": {"numpy": ["2.4", "3"]}, "here": {}}


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


@pytest.mark.parametrize(
    ("needs", "fault"),
    [
        (
            {"python": "3.99"},
            r"the head runs Python 3\.\S+ \(.*\), Python 3.99 or newer is needed: start Ray",
        ),
        ({"packages": {"numpy": ["9", ""]}}, r"must have numpy 9 or newer, got [\d.]+: install requirements"),
        (
            {"packages": {"numpy": ["0.5", "1.0"]}},
            r"must have numpy 0.5 or newer but before 1.0, got [\d.]+: install",
        ),
        ({"packages": {"no-such": ["1.0", ""]}}, "must have no-such 1.0 or newer, got none: install req"),
    ],
)
def test_what_the_head_lacks_is_told_with_a_cure(needs: Mapping[str, Any], fault: str) -> None:
    faults, notes = lacks({**NEEDS, **needs})
    assert len(faults) == 1
    assert re.search(fault, faults[0])
    assert notes == []


def test_another_version_than_here_is_a_remark() -> None:
    faults, notes = lacks({**NEEDS, "here": {"numpy": "2.3.9"}})
    assert faults == []
    assert notes == [f"the head has numpy {np.__version__}, the submitter 2.3.9"]


def test_this_python_has_what_is_needed() -> None:
    assert lacks(package.requirements()) == ([], [])


def test_what_is_needed_is_read_as_the_standard_says(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["ray[default] <3, >=2.60", "pyyaml>=6", "plain", 'old>=1; python_version < "3"']
    monkeypatch.setattr(metadata, "requires", lambda _: [*lines, "pytest>=9; extra == 'dev'"])
    needed = package.requirements()
    assert needed["packages"] == {"ray": ["2.60", "3"], "pyyaml": ["6", ""], "plain": ["0", ""]}
    assert needed["python"] == "3.11"


def test_what_is_imported_has_to_do_for_a_project_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(package, "PROJECT", "no-such-package")
    needed = package.requirements()
    assert needed["packages"]["numpy"] == [np.__version__, ""]
    assert needed["python"] == "3.11"


def test_the_first_look_at_a_head_imports_the_standard_library_alone() -> None:
    others = {"numpy", "ray", "numba", "typer", "packaging"}
    code = f"import sys, sweep.engines.job_main; print(*{others} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("version", ["2.9.3", "3.0.0"])
def test_a_cluster_of_another_ray_is_refused(head: FakeHead, version: str) -> None:
    head.answers["/api/version"] = {"ray_version": version}
    with pytest.raises(EngineError, match=rf"must run Ray 2\.60 or newer, before 3, got {version}: start it"):
        jobs.check_ray(head.connect())


@pytest.mark.parametrize("place", ["runs/one", "./one", "~other/one", ""])
def test_a_relative_store_is_refused_before_anything_is_sent(
    head: FakeHead, place: str, tmp_path: Path
) -> None:
    dashboard = head.connect()
    with pytest.raises(ValueError, match="store must be an absolute path on the head, or begin with ~/, got"):
        jobs.submit(dashboard, tmp_path / "none.toml", store=place)
    with pytest.raises(SpecError, match="the spec file must be readable text"):
        jobs.submit(dashboard, tmp_path / "none.toml", store=STORE)
    assert len(head.asked) == 1


def test_files_that_a_spec_names_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for name in ("data/one.txt", "two.txt", "unnamed.txt"):
        Path(name).write_text("1\n3\n")
    Path("spec.toml").write_text(
        'G = ["trace(data/one.txt)", "exponential", "trace(\'two.txt\')", "lomax(beta=1.5)"]'
    )
    content = package.spec_package(Path("spec.toml"))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["data/one.txt", "requires.json", "spec.toml", "start.sh", "two.txt"]
        assert archive.read("data/one.txt") == b"1\n3\n"
    assert content == package.spec_package(Path("spec.toml"))


@pytest.mark.parametrize(
    "name", ["data/run=3/times.txt", "a=b.txt", "x,y.txt", "path=it.txt", " odd ", "a b"]
)
@pytest.mark.parametrize("text", ["trace({})", "law(trace({}), mean=2)", "renewal(trace({}), age=0.5)"])
def test_a_file_goes_along_whatever_its_name(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("1\n3\n")
    law = parse_law(f"trace('{name}')")
    for path in (f"'{name}'", f'"{name}"', str(law).removeprefix("trace(").removesuffix(")")):
        assert list(package.named_files({"G": [text.format(path)]})) == [name]


def test_a_file_outside_the_current_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("../one.txt").write_text("1\n")
    for name in ("../one.txt", str(tmp_path / "one.txt")):
        Path("spec.toml").write_text(f'G = "trace({name})"')
        with pytest.raises(ValueError, match=r"must lie below the current directory, got .*one.txt': copy"):
            package.spec_package(Path("spec.toml"))


@pytest.mark.parametrize("name", ["spec.toml", "requires.json", "start.sh", "./start.sh"])
def test_a_file_that_the_upload_would_replace_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("1\n3\n")
    Path("mine.toml").write_text(f'G = "trace({name})"')
    text = f"must not be called requires.json, spec.toml, start.sh, got {Path(name).as_posix()!r}: rename it"
    with pytest.raises(ValueError, match=re.escape(text)):
        package.spec_package(Path("mine.toml"))
    Path("data").mkdir()
    Path("data", name).write_text("1\n3\n")
    Path("mine.toml").write_text(f'G = "trace(data/{name})"')
    with zipfile.ZipFile(io.BytesIO(package.spec_package(Path("mine.toml")))) as archive:
        assert archive.read(f"data/{Path(name)}") == b"1\n3\n"


def test_too_large_an_upload_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: FakeHead
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(package, "UPLOAD_LIMIT", 1000)
    Path("one.txt").write_text("1\n" * 2000)
    Path("spec.toml").write_text('G = "trace(one.txt)"')
    with pytest.raises(
        ValueError, match=r"must have at most 0 MiB together, got 0 MiB, the largest one\.txt"
    ):
        package.spec_package(Path("spec.toml"))
    monkeypatch.setattr(jobs, "UPLOAD_LIMIT", 1000)
    with pytest.raises(ValueError, match="upload must have at most 1,000 bytes, got"):
        jobs.start(head.connect(), ["publish"], b"x" * 1001, {"sweep": "ask"})


def test_the_package_sent_is_this_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(package.code_package())) as archive:
        archive.extractall(tmp_path)
    code = "import sweep.driver, sweep.engines.fetch; print(sweep.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "sweep" / "__init__.py")
    assert set(json.loads((tmp_path / package.ORIGIN_FILE).read_text())) == {"commit", "modified"}
