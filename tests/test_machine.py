"""What a process may use is read from its control groups, of either version, wherever they are mounted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweep.machine import LEAST_MEMORY, available_memory, cpus, memory, offer_as_victim

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
V2 = "30 29 0:27 {within} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw"
V1 = "{id} 29 0:3 {within} /sys/fs/cgroup/{name} rw,nosuid shared:9 - cgroup cgroup rw,{name}"


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def machine(root: Path, mounts: str, groups: str, **files: str) -> Path:
    """Lay out /proc and /sys below `root`; "__" in a file's name stands for "/", "_" for "."."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(f"22 1 0:2 / / rw - ext4 /dev/sda rw\n{mounts}\n")
    (root / "proc/self/cgroup").write_text(groups + "\n")
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/").replace("-", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("20000 100000", 1),
        ("1600000 100000", 8),
    ],
)
def test_a_quota_of_version_2_is_rounded_up(tmp_path: Path, quota: str, count: int) -> None:
    root = machine(tmp_path, V2.format(within="/"), "0::/job", **{"job__cpu-max": quota})
    assert cpus(root) == count


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    files = {
        "user__cpu-max": "300000 100000",
        "user__job__cpu-max": "max 100000",
        "user__memory-max": str(2**30),
        "user__job__memory-max": str(2**31),
        "other__cpu-max": "100000 100000",
        "other__memory-max": "4096",
    }
    root = machine(tmp_path, V2.format(within="/"), "0::/user/job", **files)
    assert cpus(root) == 3
    assert memory(root) == 2**30


@pytest.mark.parametrize(("quota", "count"), [("-1", 8), ("250000", 3)])
def test_version_1_has_a_mount_for_each_controller(tmp_path: Path, quota: str, count: int) -> None:
    mounts = "\n".join(
        V1.format(id=i, within="/", name=name) for i, name in enumerate(["cpu,cpuacct", "memory"])
    )
    files = {
        "cpu,cpuacct__job__cpu-cfs_quota_us": quota,
        "cpu,cpuacct__job__cpu-cfs_period_us": "100000",
        "memory__memory-limit_in_bytes": "9223372036854771712",
        "memory__job__memory-limit_in_bytes": str(2**29),
    }
    root = machine(tmp_path, mounts, "3:cpu,cpuacct:/job\n2:memory:/job\n1:cpuset:/elsewhere", **files)
    assert cpus(root) == count
    assert memory(root) == 2**29


@pytest.mark.parametrize("within", ["/", "/docker/abc"])
def test_in_a_container_the_mount_shows_the_group_itself(tmp_path: Path, within: str) -> None:
    mounts = V1.format(id=1, within="/docker/abc", name="cpu") + "\n" + V2.format(within=within)
    root = machine(
        tmp_path,
        mounts,
        "4:cpu:/docker/abc\n0::/" if within == "/" else "4:cpu:/other\n0::/docker/abc",
        **{"cpu__cpu-cfs_quota_us": "400000", "cpu__cpu-cfs_period_us": "100000", "memory-max": str(2**30)},
    )
    assert cpus(root) == 4
    assert memory(root) == 2**30


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    assert cpus(tmp_path) == 8
    assert memory(tmp_path) == PHYSICAL
    assert 0 < available_memory(tmp_path) <= PHYSICAL


def test_a_limit_beyond_the_machine_is_no_limit(tmp_path: Path) -> None:
    root = machine(tmp_path, V2.format(within="/"), "0::/", **{"memory-max": str(2**60)})
    assert memory(root) == PHYSICAL


@pytest.mark.parametrize(
    ("current", "cache", "available"), [(2**28, 0, 2**28), (2**28, 2**27, 2**28 + 2**27), (2**30, 0, 0)]
)
def test_memory_in_use_is_not_available_but_for_inactive_file_pages(
    tmp_path: Path, current: int, cache: int, available: int
) -> None:
    files = {
        "job__memory-max": str(2**29),
        "job__memory-current": str(current),
        "job__memory-stat": f"anon 7\ninactive_file {cache}",
    }
    root = machine(tmp_path, V2.format(within="/"), "0::/job", **files)
    assert available_memory(root) == available


def test_a_machine_without_such_a_file_offers_no_victim(tmp_path: Path) -> None:
    offer_as_victim(tmp_path)
    (tmp_path / "proc/self").mkdir(parents=True)
    offer_as_victim(tmp_path)
    assert (tmp_path / "proc/self/oom_score_adj").read_text() == "500"


def test_allocation_beyond_the_limit_is_a_memory_error_and_libraries_always_fit() -> None:
    code = (
        "from sweep.machine import limit_memory; limit_memory(1)\n"
        "import numpy; numpy.ones({size} // 8); print('fits')"
    )
    fits = [sys.executable, "-c", code.format(size=LEAST_MEMORY // 2)]
    assert subprocess.run(fits, check=True, capture_output=True, text=True).stdout == "fits\n"
    exceeds = [sys.executable, "-c", code.format(size=LEAST_MEMORY)]
    assert "MemoryError" in subprocess.run(exceeds, check=False, capture_output=True, text=True).stderr
