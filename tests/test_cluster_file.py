"""cluster.yaml is what `ray up` takes, and its counts make sense."""

from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parent.parent / "cluster.yaml"


@pytest.fixture
def config():
    return yaml.safe_load(FILE.read_text())


def test_ray_accepts_the_file(config):
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


def test_ray_refuses_a_misspelt_key(config):
    from ray.autoscaler._private.util import prepare_config, validate_config

    config["max_wrokers"] = config.pop("max_workers")
    with pytest.raises(Exception, match="max_wrokers"):
        validate_config(prepare_config(config))


def test_every_worker_machine_starts(config):
    workers = len(config["provider"]["worker_ips"])
    assert config["min_workers"] == config["max_workers"] == workers
    assert set(config["provider"]) == {"type", "head_ip", "worker_ips"}


def test_the_dashboard_listens_on_loopback_only(config):
    (start,) = [line for line in config["head_start_ray_commands"] if "--head" in line]
    assert "--dashboard-host=127.0.0.1" in start
