"""Checks a file for `ray up` for what Ray itself overlooks: misspelt fields, counts, addresses."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

#: Fields of a provider, by its type; Ray takes any name, and ignores those it does not know.
PROVIDER_FIELDS: Mapping[str, frozenset[str]] = {
    "local": frozenset({"type", "head_ip", "worker_ips", "external_head_ip"}),
    "aws": frozenset(
        {
            "type",
            "region",
            "availability_zone",
            "cache_stopped_nodes",
            "use_internal_ips",
            "security_group",
            "key_pair",
            "cloudwatch",
            "disable_node_updaters",
            "aws_credentials",
        }
    ),
}
_HERE = ("localhost", "127.0.0.1", "0.0.0.0", "::1")


def check_cluster_file(config: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a cluster file, a sentence with its cure each.

    Ray's own check finds misspelt fields elsewhere; this one is for what it lets pass.

    Parameters
    ----------
    config
        The file, as YAML is read.

    Examples
    --------
    >>> provider = {"type": "local", "head_ip": "10.0.0.1", "worker_ip": ["10.0.0.2"]}
    >>> check_cluster_file({"provider": provider})[0]
    'provider.worker_ip is unknown: did you mean worker_ips?'
    """
    provider = config.get("provider")
    if not isinstance(provider, Mapping) or "type" not in provider:
        return ["provider must name its type: `local` for machines of your own, `aws`, …"]
    faults = [*_unknown(provider), *_starts(config)]
    return [*faults, *_local(config, provider)] if provider["type"] == "local" else faults


def _unknown(provider: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of the provider that nothing reads."""
    known = PROVIDER_FIELDS.get(provider["type"])
    for name in provider if known is not None else ():
        if name not in (known or ()):
            close = difflib.get_close_matches(str(name), sorted(known or ()), 1)
            cure = f"did you mean {close[0]}?" if close else f"it takes {', '.join(sorted(known or ()))}"
            yield f"provider.{name} is unknown: {cure}"


def _local(config: Mapping[str, Any], provider: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with machines that are listed by address."""
    head, workers = provider.get("head_ip"), provider.get("worker_ips")
    if not head or not isinstance(workers, list):
        yield "provider must have head_ip and a list worker_ips (empty if the head works alone)"
        return
    count = len(workers)
    if head in _HERE:
        yield f"provider.head_ip must be an address that the workers can reach, got {head!r}"
    if head in workers:
        yield f"worker_ips must not hold head_ip, got {head!r} among them: the head works as well"
    if len(set(workers)) < count:
        yield "worker_ips must differ, got one twice: a machine runs one Ray"
    for name in ("min_workers", "max_workers"):
        given = config.get(name)
        if given != count:
            what = "none, which means 0" if given is None and name == "min_workers" else repr(given)
            yield f"{name} must be {count}, the number of worker_ips, got {what}"


def _starts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the commands that start Ray."""
    heads = [line for line in config.get("head_start_ray_commands", []) if "ray start" in line]
    workers = [line for line in config.get("worker_start_ray_commands", []) if "ray start" in line]
    for line in heads:
        if "--head" not in line:
            yield "head_start_ray_commands must start Ray with --head"
        if "--autoscaling-config" not in line:
            yield "head_start_ray_commands must pass --autoscaling-config, or the head starts no workers"
        if "--dashboard-host=0.0.0.0" in line:
            yield (
                "head_start_ray_commands must not open the dashboard to the network: "
                "use --dashboard-host=127.0.0.1 and a tunnel (`ray dashboard`)"
            )
    for line in workers:
        if "$RAY_HEAD_IP" not in line:
            yield "worker_start_ray_commands must join --address=$RAY_HEAD_IP:6379"
    modes = {"RAY_AUTH_MODE=token" in line for line in (*heads, *workers)}
    if modes == {True, False}:
        yield "RAY_AUTH_MODE=token must be set for head and workers alike, or they do not find each other"
