"""The few exceptions of our own; arguments of the wrong value or type raise ValueError and TypeError."""

from __future__ import annotations

from collections.abc import Sequence


class SpecError(ValueError):
    """A spec that cannot be run; `errors` lists every fault, one sentence each."""

    def __init__(self, source: str, errors: Sequence[str]) -> None:
        self.source = source
        self.errors = tuple(errors)
        count = f"{len(self.errors)} error{'s' if len(self.errors) > 1 else ''}"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {line}" for line in self.errors))


class StoreError(Exception):
    """The store cannot be used as asked: it is damaged, of another sweep, or not a store at all."""


class MismatchError(StoreError):
    """What was named is no store, or one of another sweep: bad input, not trouble with the disk."""


class LockError(StoreError):
    """Another live process writes to the store; `owner` names it."""

    def __init__(self, message: str, owner: str) -> None:
        self.owner = owner
        super().__init__(message)


class EngineError(Exception):
    """The engine itself failed (no worker starts, the cluster is gone), whatever the tasks were."""


class AccuracyError(ArithmeticError):
    """A solver could not reach the tolerance; `reached` is the error estimate it stopped at."""

    def __init__(self, message: str, reached: float) -> None:
        self.reached = reached
        super().__init__(message)
