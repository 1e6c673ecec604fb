"""The cluster files are what `ray up` takes, and our check finds what Ray overlooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sweep.engines.cluster_file import PROVIDER_FIELDS, check_cluster_file
from sweep.remote_cli import show_cluster_file

ROOT = Path(__file__).parent.parent
FILES = sorted(ROOT.glob("cluster*.yaml"))
Config = dict[str, Any]


def load(name: str = "cluster.yaml") -> Config:
    config: Config = yaml.safe_load((ROOT / name).read_text())
    return config


def test_there_is_a_file_for_own_machines_and_one_for_a_cloud() -> None:
    assert [load(file.name)["provider"]["type"] for file in FILES] == ["aws", "local"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_ray_and_we_accept_the_file(file: Path) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = load(file.name)
    assert check_cluster_file(config) == []
    validate_config(prepare_config(config))


def test_ray_refuses_a_misspelt_key() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = load()
    config["max_wrokers"] = config.pop("max_workers")
    with pytest.raises(Exception, match="max_wrokers"):
        validate_config(prepare_config(config))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_files_are_safe_by_default_and_pinned(file: Path) -> None:
    config = load(file.name)
    for role in ("head", "worker"):
        (start,) = [line for line in config[f"{role}_start_ray_commands"] if "ray start" in line]
        assert "RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0" in start
        assert "~/sweep/.venv/bin/ray start" in start
    (start,) = [line for line in config["head_start_ray_commands"] if "--head" in line]
    assert "--dashboard-host=127.0.0.1" in start
    assert "~/.ray/auth_token" in config["file_mounts"]
    assert any("make install" in line for line in config["setup_commands"])  # of requirements.lock
    for line in config.get("head_setup_commands", []):
        assert not re.search(r"pip install(?!.*==)", line)


def change(key: str, value: Any) -> Callable[[Config], None]:
    return lambda config: config.update({key: value})


def change_provider(key: str, value: Any) -> Callable[[Config], None]:
    return lambda config: config["provider"].update({key: value})


def change_command(role: str, value: Any) -> Callable[[Config], None]:
    return change(f"{role}_start_ray_commands", value)


def reword(role: str, old: str, new: str) -> Callable[[Config], None]:
    def apply(config: Config) -> None:
        key = f"{role}_start_ray_commands"
        config[key] = [line.replace(old, new) for line in config[key]]

    return apply


def change_one_worker(key: str, value: Any) -> Callable[[Config], None]:
    return lambda config: (
        config.update({"min_workers": 1, "max_workers": 1, key: value}),
        config["provider"].update(worker_ips=["a"]),
    )


def without_workers(config: Config) -> None:
    config.update(max_workers=0, worker_start_ray_commands=["ray stop"])
    del config["min_workers"]
    config["provider"]["worker_ips"] = []


def add_comments(config: Config) -> None:
    """As a shell skips them, with an apostrophe, which begins no text there."""
    for role in ("head", "worker"):
        key = f"{role}_start_ray_commands"
        config[key] = ["# ray start", *[f"{line}  # it's --dashboard-host=0.0.0.0" for line in config[key]]]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (change_provider("worker_ip", []), "provider.worker_ip is unknown: did you mean worker_ips?"),
        (change_provider("zone", "a"), "provider.zone is unknown: it takes external_head_ip, head_ip, type"),
        (
            change("min_workers", None),
            "min_workers must be 2, the number of worker_ips, got none, which means 0",
        ),
        (change("min_workers", 0), "min_workers must be 2, the number of worker_ips, got 0"),
        (change("max_workers", 5), "max_workers must be 2, the number of worker_ips, got 5"),
        (change_provider("head_ip", "127.0.0.1"), "head_ip must be an address that the workers can reach"),
        (change_provider("head_ip", "192.0.2.11"), "worker_ips must not hold head_ip, got '192.0.2.11'"),
        (change_provider("worker_ips", ["a", "a"]), "worker_ips must differ, got one twice"),
        (change_provider("worker_ips", ["a", " a"]), "worker_ips must differ, got one twice"),
        (change_provider("head_ip", "192.0.2.11 "), "worker_ips must not hold head_ip, got '192.0.2.11 '"),
        (
            change_provider("type", "Local"),
            "provider.type must be one that Ray has, got 'Local': did you mean local?",
        ),
        (change_one_worker("min_workers", True), "min_workers must be 1, the number of worker_ips, got True"),
        (change_one_worker("max_workers", True), "max_workers must be 1, the number of worker_ips, got True"),
        (change_command("head", []), "head_start_ray_commands must start Ray, got []: add `ray start`"),
        (
            change_command("head", ["ray stop", "# ray start --head"]),
            "head_start_ray_commands must start Ray, got ['ray stop', '# ray start --head']: add `ray start`",
        ),
        (
            change_command("worker", ["~/bin/ray stop"]),
            "worker_start_ray_commands must start Ray, got ['~/bin/ray stop']: add `ray start`",
        ),
        (change_provider("worker_ips", "a"), "provider must have head_ip and a list worker_ips"),
        (change("provider", {}), "provider must name its type"),
        (change("provider", None), "provider must name its type, got None: `local` for machines of your own"),
        (change_provider("type", ["local"]), "provider must name its type, got ['local']: `local` for mach"),
        (
            change_provider("worker_ips", [{"ip": "192.0.2.11"}, "192.0.2.12"]),
            "provider.worker_ips must hold an address as text, got {'ip': '192.0.2.11'}: write 192.0.2.11",
        ),
        (change_provider("head_ip", 10.5), "provider.head_ip must hold an address as text, got 10.5: write"),
        (change("max_workers", [2]), "max_workers must be 2, the number of worker_ips, got [2]"),
        (
            change_command("head", None),
            "head_start_ray_commands must be a list of commands, got None: write each as text after a dash",
        ),
        (change_command("head", "ray start --head"), "must be a list of commands, got 'ray start --head': w"),
        (
            change_command("worker", [6379]),
            "worker_start_ray_commands must be a list of commands, got [6379]",
        ),
        (reword("head", "=127.0.0.1", " 0.0.0.0"), "must not open the dashboard to the network: use"),
        (reword("head", "=127.0.0.1", "='0.0.0.0'"), "must not open the dashboard to the network: use"),
        (reword("head", "=127.0.0.1", "=::"), "must not open the dashboard to the network: use"),
        (reword("head", "=127.0.0.1", "=[::]"), "must not open the dashboard to the network: use"),
        (reword("head", "--head ", "# --head "), "head_start_ray_commands must start Ray with --head"),
        (
            change_command("head", ["bash -lc 'ulimit -n 9;ray  start --head --dashboard-host 0.0.0.0'"]),
            "must not open the dashboard to the network: use",
        ),
        (reword("head", "--head ", "--head-only "), "head_start_ray_commands must start Ray with --head"),
        (reword("worker", "$RAY_HEAD_IP", "$RAY_HEAD_IPS"), "must join --address=$RAY_HEAD_IP:6379"),
        (reword("head", "--head ", ""), "head_start_ray_commands must start Ray with --head"),
        (
            reword("head", "--autoscaling-config", "-c"),
            "must pass --autoscaling-config, or the head starts no",
        ),
        (reword("head", "=127.0.0.1", "=0.0.0.0"), "must not open the dashboard to the network: use"),
        (reword("worker", "$RAY_HEAD_IP", "head"), "worker_start_ray_commands must join --address=$RAY_HEAD"),
        (
            reword("worker", "RAY_AUTH_MODE=token", ""),
            "must be set for head and workers alike, or they do not",
        ),
    ],
)
def test_what_ray_overlooks_is_found(spoil: Callable[[Config], None], fault: str) -> None:
    config = load()
    spoil(config)
    faults = check_cluster_file(config)
    assert any(fault in line for line in faults), faults


@pytest.mark.parametrize(
    "alter",
    [
        reword("worker", "$RAY_HEAD_IP", "${RAY_HEAD_IP}"),
        reword("worker", "$RAY_HEAD_IP:6379", '"$RAY_HEAD_IP:6379"'),
        reword("worker", "--address=", "--address "),
        reword("head", "--dashboard-host=", "--dashboard-host "),
        reword("head", "--autoscaling-config=", "--autoscaling-config "),
        reword("head", "RAY_AUTH_MODE=token", "export RAY_AUTH_MODE='token';"),
        reword("head", "RAY_AUTH_MODE", "echo it's; RAY_AUTH_MODE"),
        reword("head", "--autoscaling", "--temp-dir=/a#b --autoscaling"),
        reword("head", "--autoscaling", "--temp-dir='/a #b' --autoscaling"),
        add_comments,
        change_command("head", ["bash ~/start_ray.sh"]),
        lambda config: config.pop("head_start_ray_commands"),
        lambda config: config.pop("worker_start_ray_commands"),
        without_workers,
    ],
)
def test_other_spellings_of_the_same_are_accepted(alter: Callable[[Config], None]) -> None:
    config = load()
    alter(config)
    assert config != load()
    assert check_cluster_file(config) == []


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner), max_leaves=5
)
COMMANDS = st.lists(st.text(st.sampled_from("ray start--head=$\"'\\ \u00a0\n;#{}0.:"))) | VALUES


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "provider": VALUES
            | st.fixed_dictionaries(
                {"type": st.just("local") | VALUES, "head_ip": st.just("a") | VALUES},
                optional={"worker_ips": st.lists(st.just("b") | VALUES) | VALUES, "region": VALUES},
            ),
            "min_workers": VALUES,
            "max_workers": VALUES,
            "head_start_ray_commands": COMMANDS,
            "worker_start_ray_commands": COMMANDS,
        },
    )
)
def test_values_of_any_type_are_told_in_one_line_each(config: Config) -> None:
    for fault in check_cluster_file(config):
        assert " must " in fault or " is unknown: " in fault


def test_the_command_tells_what_it_finds(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(show_cluster_file)
    good = CliRunner().invoke(app, [str(ROOT / "cluster.yaml")])
    assert (good.exit_code, good.stdout.split()[0]) == (0, "ok")
    file = tmp_path / "c.yaml"
    file.write_text((ROOT / "cluster.yaml").read_text().replace("min_workers: 2", "min_workers: 1"))
    bad = CliRunner().invoke(app, [str(file)])
    assert (bad.exit_code, bad.stdout) == (
        3,
        "fault   min_workers must be 2, the number of worker_ips, got 1\n",
    )
    for content in (b"a: [", b"a: \xff", b"a: 2026-99-99"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"cluster file must be readable YAML, got .*c\.yaml: "):
            show_cluster_file(file)


def test_a_provider_that_we_do_not_know_is_left_to_ray() -> None:
    assert "gcp" not in PROVIDER_FIELDS
    config = {**load(), "provider": {"type": "gcp", "anything": 1}}
    assert check_cluster_file(config) == []
