"""Checks a file for `ray up` for what Ray itself overlooks: misspelt fields, counts, addresses."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from sweep.wording import shown

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
#: Addresses by which a server listens on every network.
_EVERYWHERE = {"0.0.0.0", "::"}
#: A # within a word, which begins no comment.
_INNER_HASH = re.compile(r"(?<=[^\s;&|()\\])#")
#: What parts the words of a command.
_GAP = re.compile(r"[ \t\r\n]")
#: The variable that holds the head's address on a worker.
_HEAD_ADDRESS = re.compile(r"\$(RAY_HEAD_IP\b|\{RAY_HEAD_IP\})")


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
    kind = provider.get("type") if isinstance(provider, Mapping) else None
    if not isinstance(provider, Mapping) or not isinstance(kind, str):
        return [f"provider must name its type, got {shown(kind)}: `local` for machines of your own, `aws`, …"]
    faults = [*_unknown(provider), *_starts(config)]
    return [*faults, *_local(config, provider)] if kind == "local" else faults


def _unknown(provider: Mapping[str, Any]) -> Iterator[str]:
    """Yield a misspelt type, and the fields of the provider that nothing reads."""
    kind = provider["type"]
    known = PROVIDER_FIELDS.get(kind)
    if known is None and (close := difflib.get_close_matches(kind.strip().lower(), PROVIDER_FIELDS, 1)):
        yield f"provider.type must be one that Ray has, got {shown(kind)}: did you mean {close[0]}?"
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
    for name, address in (("head_ip", head), *(("worker_ips", worker) for worker in workers)):
        if not isinstance(address, str):
            yield f"provider.{name} must hold an address as text, got {shown(address)}: write 192.0.2.11"
            return
    count = len(workers)
    if head in _HERE:
        yield f"provider.head_ip must be an address that the workers can reach, got {head!r}"
    if head.strip() in (worker.strip() for worker in workers):
        yield f"worker_ips must not hold head_ip, got {head!r} among them: the head works as well"
    if len({worker.strip() for worker in workers}) < count:
        yield "worker_ips must differ, got one twice: a machine runs one Ray"
    for name in ("min_workers", "max_workers"):
        given = config.get(name)
        absent = given is None and name == "min_workers"
        if isinstance(given, bool) or (0 if absent else given) != count:
            what = "none, which means 0" if absent else shown(given)
            yield f"{name} must be {count}, the number of worker_ips, got {what}"


def _starts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the commands that start Ray."""
    starts: dict[str, list[list[str]]] = {"head": [], "worker": []}
    for role in starts:
        name = f"{role}_start_ray_commands"
        lines = config.get(name, [])
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            yield f"{name} must be a list of commands, got {shown(lines)}: write each as text after a dash"
            continue
        commands = list(map(_words, lines))
        starts[role] = [words for words in commands if _calls_ray(words, "start")]
        # Without the key Ray has commands of its own; those that are not known may be scripts that start it.
        idle = name in config and all(not words or _calls_ray(words, "stop") for words in commands)
        if idle and not starts[role] and (role == "head" or config.get("max_workers")):
            yield f"{name} must start Ray, got {shown(lines)}: add `ray start`"
    for words in starts["head"]:
        if "--head" not in words:
            yield "head_start_ray_commands must start Ray with --head"
        if not _values(words, "--autoscaling-config"):
            yield "head_start_ray_commands must pass --autoscaling-config, or the head starts no workers"
        if _EVERYWHERE.intersection(host.strip("[]") for host in _values(words, "--dashboard-host")):
            yield (
                "head_start_ray_commands must not open the dashboard to the network: "
                "use --dashboard-host=127.0.0.1 and a tunnel (`ray dashboard`)"
            )
    for words in starts["worker"]:
        if not any(map(_HEAD_ADDRESS.search, words)):
            yield "worker_start_ray_commands must join --address=$RAY_HEAD_IP:6379"
    modes = {"RAY_AUTH_MODE=token" in words for words in (*starts["head"], *starts["worker"])}
    if modes == {True, False}:
        yield "RAY_AUTH_MODE=token must be set for head and workers alike, or they do not find each other"


def _words(command: str) -> list[str]:
    """Return the words of a command as a shell reads it, those within a quoted command (`bash -c`) too."""
    lexer = shlex.shlex(_INNER_HASH.sub(r"\#", command), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # an apostrophe alone: the shell's own errors are not ours to tell
        return command.split()
    return [part for word in words for part in (_words(word) if _GAP.search(word) else [word])]


def _calls_ray(words: list[str], command: str) -> bool:
    return any(first.split("/")[-1] == "ray" and second == command for first, second in pairwise(words))


def _values(words: list[str], option: str) -> list[str]:
    """Return the values that an option is given, written with = or after a space."""
    joined = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
    return joined + [second for first, second in pairwise(words) if first == option]
