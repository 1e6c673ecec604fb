"""The doctor finds a sound machine sound, and names each fault that is put there, with its cure."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections import namedtuple
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sweep import doctor
from sweep.doctor import FAULT, OK, WARNING, Finding, examine
from sweep.errors import StoreError

ROOT = Path(__file__).parent.parent
#: Modules of packages that come with another: numba, jinja2, nbclient and ipykernel.
PART_OF = {"llvmlite", "markupsafe", "traitlets", "IPython"}
#: Packages by a module that has another name.
NAMES = {"yaml": "pyyaml"}
Usage = namedtuple("Usage", "total used free")


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def the(check: object) -> Finding:
    """The one finding of a check."""
    [finding] = check()  # type: ignore[operator]
    assert isinstance(finding, Finding)
    return finding


def test_this_machine_is_sound_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    found = by_name(examine(tmp_path / "store" / "new"))
    assert list(found) == [
        *["versions", "CPUs", "memory", "kernel cache", "workers", "thread pools"],
        *["disk space", "disk", "locking"],
    ]
    assert {name for name, finding in found.items() if finding.level == FAULT} == set()
    assert all(bool(finding.cure) == (finding.level != OK) for finding in found.values())
    assert "MB/s" in found["disk"].text
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


# ------------------------------------------------------------------------------------------- machine


@pytest.mark.parametrize(
    ("needs", "level", "text"),
    [
        (["numpy>=1"], OK, "Python 3."),
        (["no-such-package>=2", "numpy>=1"], FAULT, "not installed: no-such-package>=2"),
        (["numpy<1"], WARNING, "other versions than tested: numpy"),
        (['no-such-package; extra == "dev"'], OK, "Python 3."),
    ],
)
def test_packages_are_held_to_what_the_project_needs(
    monkeypatch: pytest.MonkeyPatch, needs: list[str], level: str, text: str
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: needs)
    finding = the(doctor._versions)
    assert (finding.level, finding.text[: len(text)]) == (level, text)


def test_every_package_that_is_imported_is_declared() -> None:
    known = {*sys.stdlib_module_names, "sweep", "analysis", *PART_OF}
    text = "\n".join(file.read_text("utf-8") for part in ("sweep", "analysis") for file in sources(part))
    found = re.findall(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?$)", text, re.MULTILINE)
    imported = {module for names in found for module in names if module} - known
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    declared = {Requirement(line).name.lower() for line in listed}
    assert "packaging" in imported
    assert {NAMES.get(module, module).lower() for module in imported} <= declared


def sources(part: str) -> Iterable[Path]:
    return sorted((ROOT / part).rglob("*.py"))


def test_a_project_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep.engines.package.PROJECT", "no-such-package")
    assert the(doctor._versions).level == WARNING


def test_a_busy_machine_and_little_memory_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 192)
    monkeypatch.setattr(doctor, "cpus", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 0.0, 0.0))
    assert the(doctor._cpus).text.startswith("2 of 192 may be used")
    assert the(doctor._cpus).level == OK
    monkeypatch.setattr(os, "getloadavg", lambda: (300.0, 0.0, 0.0))
    assert the(doctor._cpus).level == WARNING
    for free, level, cure in [
        (8.0, OK, ""),
        (1.5, WARNING, "use --workers 1"),
        (0.5, FAULT, "end what else"),
    ]:
        monkeypatch.setattr(doctor, "available_memory", lambda free=free: int(free * 2**30))
        finding = the(doctor._memory)
        assert finding.level == level
        assert finding.cure.startswith(cure)


def test_a_kernel_cache_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert the(doctor._kernel_cache).level == OK
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert the(doctor._kernel_cache).text.endswith(f"kept in {tmp_path / 'cache'}")
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    finding = the(doctor._kernel_cache)
    assert (finding.level, finding.cure[:20]) == (FAULT, "set NUMBA_CACHE_DIR ")


def test_workers_that_do_not_start_or_fail_or_are_slow_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        finding = the(doctor._workers)
        assert (finding.name, finding.level) == ("workers", FAULT)
        assert "ended before they were ready" in finding.text
    with monkeypatch.context() as patch:
        patch.setattr(
            doctor, "Task", lambda **given: doctor_task(**given | {"function": "sweep.doctor:none"})
        )
        finding = the(doctor._workers)
        assert finding.level == FAULT
        assert finding.text.startswith("AttributeError")
    monkeypatch.setattr(doctor, "_SLOW_START", 0.0)
    assert by_name(list(doctor._workers()))["workers"].level == WARNING


doctor_task = doctor.Task


def test_a_library_that_starts_threads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor,
        "Task",
        lambda **given: doctor_task(**given | {"function": "tests.test_doctor:three_threads"}),
    )
    finding = by_name(list(doctor._workers()))["thread pools"]
    assert (finding.level, finding.text) == (WARNING, "a matrix product starts 3 threads in a worker")


def three_threads(*_: object) -> dict[str, object]:
    """What a library that ignores its settings would have the probe return."""
    import numpy as np

    return {"threads": np.array(3)}


# ---------------------------------------------------------------------------------------------- disk


@pytest.mark.parametrize(("free", "level"), [(10**12, OK), (10**8, WARNING), (10**6, FAULT)])
def test_little_room_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, level: str) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    assert by_name(list(doctor._disk(tmp_path)))["disk space"].level == level


def test_few_files_left_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_FEW_FILES", 2**62)
    finding = by_name(list(doctor._disk(tmp_path)))["disk space"]
    if os.statvfs(tmp_path).f_files:  # else the disk makes files as it needs them
        assert finding.level == WARNING
        assert finding.text.endswith("more files")


def test_a_disk_that_is_slow_full_false_or_forbidden_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "_SLOW_SHARD", 0.0)
        assert doctor._writing(tmp_path).level == WARNING

    def full(path: Path, _: bytes) -> None:
        raise StoreError(f"{path} cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(doctor, "write_file", full)
        assert doctor._writing(tmp_path).text.endswith("cannot be written")
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "write_file", lambda path, content: path.write_bytes(content[:-1]))
        assert doctor._writing(tmp_path).text == "what was written is read otherwise"

    def forbidden(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "mkdtemp", forbidden)
    finding = by_name(list(doctor._disk(tmp_path)))["disk"]
    assert (finding.level, finding.cure) == (FAULT, "choose another --store")
    assert "Permission denied" in finding.text


def test_a_disk_without_locks_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_links(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", no_links)
        finding = doctor._locking(tmp_path)
        assert finding.level == FAULT
        assert "Operation not supported" in finding.text
    assert doctor._locking(tmp_path).level == OK
    monkeypatch.setattr("sweep.lock._made", lambda *_: True)
    assert doctor._locking(tmp_path).text == "two writers got the same lock"
