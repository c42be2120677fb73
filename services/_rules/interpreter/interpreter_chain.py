"""Chains interpreters in order: the first that offers an operation for a kind answers (reference 03 §5.2)."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import (
    AGGREGATE_STATUS,
    INTERPRET_COMPONENT,
    INTERPRET_DEPENDENCY,
    INTERPRET_HEALTH,
    INTERPRET_REPLICA,
    INTERPRET_STATUS,
    RETAIN,
    REVISE_REPLICA,
    InterpretError,
)
from services._rules.interpreter.native.dependencies import Reference, validate_references
from services._rules.interpreter.native.prune import REMOVE_JOB_TTL, prune
from services._rules.interpreter.native.replicas import Replicas, completed
from services._rules.interpreter.native.workload_statuses import Items


class Interpreter(Protocol):
    """One level of interpretation: which operations it offers for which kinds, and the operations."""

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether this level answers an operation for a kind."""
        ...

    def get_replicas(self, obj: Manifest, *, quota: bool = False) -> Replicas:
        """Replicas and what each of them requires."""
        ...

    def get_components(self, obj: Manifest) -> list[dict[str, Any]]:
        """Components of a workload of several pod templates."""
        ...

    def revise_replica(self, obj: Manifest, replicas: int) -> Manifest:
        """The object with another number of replicas."""
        ...

    def retain(self, desired: Manifest, observed: Manifest) -> Manifest:
        """The object to write over the observed one."""
        ...

    def aggregate_status(self, obj: Manifest, items: Items, *, now: str) -> Manifest:
        """The template with the status that the members' reports add up to."""
        ...

    def get_dependencies(self, obj: Manifest) -> list[Reference]:
        """References to the objects that must accompany this one."""
        ...

    def reflect_status(self, obj: Manifest) -> Any:
        """The status to collect, None where there is nothing to collect."""
        ...

    def interpret_health(self, obj: Manifest) -> bool:
        """Whether a member's object does what it should."""
        ...


class InterpreterChain:
    """Levels asked in order; the answer or error of the first that offers the operation is final."""

    def __init__(self, levels: Sequence[Interpreter]) -> None:
        self._levels = tuple(levels)

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether any level answers an operation for a kind."""
        return any(level.hook_enabled(api_version, kind, operation) for level in self._levels)

    def _level(self, obj: Manifest, operation: str) -> Interpreter:
        api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
        for level in self._levels:
            if level.hook_enabled(api_version, kind, operation):
                return level
        raise InterpretError(
            f"no interpreter offers {operation} for {api_version} {kind}: "
            "define it in a ResourceInterpreterCustomization"
        )

    def get_replicas(self, obj: Manifest, *, quota: bool = False) -> Replicas:
        """Replicas and what each of them requires; `quota` adds namespace and priority class."""
        found = self._level(obj, INTERPRET_REPLICA).get_replicas(obj, quota=quota)
        return completed(obj, found, quota=quota)

    def get_components(self, obj: Manifest) -> list[dict[str, Any]]:
        """Components of a workload of several pod templates."""
        return self._level(obj, INTERPRET_COMPONENT).get_components(obj)

    def revise_replica(self, obj: Manifest, replicas: int) -> Manifest:
        """The object with another number of replicas."""
        return self._level(obj, REVISE_REPLICA).revise_replica(obj, replicas)

    def retain(self, desired: Manifest, observed: Manifest) -> Manifest:
        """The object to write over the observed one."""
        return self._level(desired, RETAIN).retain(desired, observed)

    def aggregate_status(self, obj: Manifest, items: Items, *, now: str) -> Manifest:
        """The template with the status that the members' reports add up to."""
        return self._level(obj, AGGREGATE_STATUS).aggregate_status(obj, items, now=now)

    def get_dependencies(self, obj: Manifest) -> list[Reference]:
        """References to the objects that must accompany this one, validated whichever level names them."""
        references = self._level(obj, INTERPRET_DEPENDENCY).get_dependencies(obj)
        validate_references(references)
        return references

    def reflect_status(self, obj: Manifest) -> Any:
        """The status to collect, None where there is nothing to collect."""
        return self._level(obj, INTERPRET_STATUS).reflect_status(obj)

    def interpret_health(self, obj: Manifest) -> bool:
        """Whether a member's object does what it should."""
        return self._level(obj, INTERPRET_HEALTH).interpret_health(obj)

    def prune(self, obj: Manifest, hooks: Collection[str] = (REMOVE_JOB_TTL,)) -> Manifest:
        """The object without what servers wrote into it; the same at every level."""
        return prune(obj, hooks)


def interpret_chain(levels: Sequence[Interpreter]) -> InterpreterChain:
    """A chain of levels, the strongest first; the built-in one belongs at the end."""
    return InterpreterChain(levels)
