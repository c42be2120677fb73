"""Caches results of scripts and webhooks for pure decisions; a missing result raises ResultPending.

A decision that lacks a result raises ResultPending; its caller requests the result, puts it into the cache, and has the
key decided again. Kinds without customization are answered by the built-in interpretation, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, Operation, target_of
from services._rules.interpreter.configuration import EVERY, Target
from services._rules.interpreter.native.native_kinds import NativeInterpreter
from services._rules.interpreter.native.replicas import completed, wrong_count, wrong_request
from services._rules.secrets.secret_objects import is_secret

Customized = Callable[[str, str, Operation], bool]
"""Whether anything above the built-in level answers an operation for an apiVersion and kind."""

CAPACITY: Final = 64 << 20
_ASKED: Final = frozenset({Operation.REPLICA, Operation.COMPONENT, Operation.REVISE, Operation.DEPENDENCY})
_NOT_A_NUMBER: Final = -(2**31)
_encoder: Final = msgspec.json.Encoder(order="deterministic")


class InterpretationQuery(Struct, frozen=True):
    """An operation on an object, with its other arguments; `id` is the same for the same question."""

    id: bytes
    operation: Operation
    arguments: tuple[Any, ...]


class ResultPending(Exception):
    """A decision lacks the answers to these questions."""

    def __init__(self, questions: Sequence[InterpretationQuery]) -> None:
        super().__init__(f"{len(questions)} questions about objects are not answered yet")
        self.questions = tuple(questions)


class Answers:
    """Answers by question, at most `capacity` bytes of those that were used; others wait for the decision they serve.

    An answer counts for as long as the kind is interpreted in the same way (`changed`).
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._unused: dict[bytes, bytes | InterpretError] = {}
        self._used: dict[bytes, bytes | InterpretError] = {}
        self._size = 0
        self._changes: dict[Target, int] = {}
        self.revision = 0
        """Rises whenever something is interpreted in another way."""

    def changed(self, targets: Iterable[Target]) -> None:
        """Kinds are interpreted in another way from now on: what was answered about them counts no longer."""
        for target in targets:
            self.revision += 1
            self._changes[target] = self._changes.get(target, 0) + 1

    def question(self, operation: Operation, *arguments: Any) -> InterpretationQuery:
        """A question about the first argument, an object."""
        obj = arguments[0]
        revision = (self._changes.get(target_of(obj), 0), self._changes.get(EVERY, 0))
        digest = blake2b(_encoder.encode((operation, revision, arguments)), digest_size=16).digest()
        return InterpretationQuery(digest, operation, arguments)

    def find(self, question: InterpretationQuery) -> Any:
        """The answer, a copy of its own; raises the InterpretError that was put, ResultPending where there is none."""
        answer = self._unused.pop(question.id, None)
        if answer is None:
            answer = self._used.pop(question.id, None)
        if answer is None:
            raise ResultPending((question,))
        self._used[question.id] = answer
        self._shrink()
        if isinstance(answer, InterpretError):
            raise type(answer)(answer.what, answer.field)
        return msgspec.json.decode(answer)

    def __contains__(self, question: InterpretationQuery) -> bool:
        """Whether a question is answered."""
        return question.id in self._unused or question.id in self._used

    def put(self, question: InterpretationQuery, answer: object) -> None:
        """Remember an answer, or the InterpretError that was given instead."""
        self.drop(question)
        kept = answer if isinstance(answer, InterpretError) else _encoder.encode(answer)
        self._unused[question.id] = kept
        self._size += _weight(kept)
        self._shrink()

    def drop(self, question: InterpretationQuery) -> None:
        """Forget an answer: the next decision that needs it has it asked for again."""
        for answers in (self._unused, self._used):
            kept = answers.pop(question.id, None)
            if kept is not None:
                self._size -= _weight(kept)

    def _shrink(self) -> None:
        # What no decision has used yet stays longer: one that needs more than all this memory would never be made.
        while self._size > self._capacity and len(self._used) > 1:
            self._size -= _weight(self._used.pop(next(iter(self._used))))
        while self._size > 4 * self._capacity and len(self._unused) > 1:
            self._size -= _weight(self._unused.pop(next(iter(self._unused))))


def _weight(kept: bytes | InterpretError) -> int:
    return 200 + (len(kept) if isinstance(kept, bytes) else len(kept.what))


class CachedInterpreter(NativeInterpreter):
    """The built-in interpretation, and for customized kinds the cached results.

    Replicas, components, dependencies and the setting of replicas come from the cache; callers request other operations
    themselves. All four raise InterpretError and ResultPending.
    """

    def __init__(self, customized: Customized, answers: Answers) -> None:
        self._customized = customized
        self._answers = answers
        # Most objects are of kinds without customization: checking that must cost nothing.
        self._known: dict[tuple[str, str, str], bool] = {}
        self._known_at = 0

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether an operation is offered for a kind."""
        return super().hook_enabled(api_version, kind, operation) or (
            operation in _ASKED and self._above(api_version, kind, operation)
        )

    def _above(self, api_version: str, kind: str, operation: Operation) -> bool:
        if self._known_at != self._answers.revision:
            self._known_at = self._answers.revision
            self._known.clear()
        place = (api_version, kind, operation)
        known = self._known.get(place)
        if known is None:
            # Results for a Secret may quote it, and it has no replicas.
            known = self._known[place] = not is_secret(api_version, kind) and self._customized(*place)
        return known

    def interpret(self, operation: Operation, obj: Manifest, *arguments: Any) -> Any:
        """The result of an operation; raises InterpretError also for an answer that cannot be meant."""
        if operation not in _ASKED or not self._above(*target_of(obj), operation):
            return super().interpret(operation, obj, *arguments)
        if operation == Operation.REPLICA:
            replicas, requirements = self._find(operation, obj)
            _check_size(obj, operation, replicas, requirements)
            return completed(obj, (replicas, requirements), *arguments)
        found = self._find(operation, obj, *arguments)
        if operation == Operation.REVISE:
            _check_same(obj, found)
            return found
        if operation == Operation.DEPENDENCY:
            return found or []
        for component in found:
            replicas, requirements = component.get("replicas", 0), component.get("replicaRequirements")
            _check_size(obj, operation, replicas, requirements, f"component {component.get('name')!r}: ")
        return found

    def _find(self, operation: Operation, *arguments: Any) -> Any:
        return self._answers.find(self._answers.question(operation, *arguments))


def _check_size(
    obj: Manifest, operation: Operation, replicas: object, requirements: dict[str, Any] | None, whose: str = ""
) -> None:
    """Raises InterpretError unless an answer is a size that a workload can have."""
    why = wrong_count(replicas)
    if replicas == _NOT_A_NUMBER:
        why += " (a number that is none, or does not fit into 32 bits, counts as this one)"
    if why:
        raise InterpretError(f"{operation} answered {whose}replicas: {why}; {_mend(obj)}")
    why = wrong_request(requirements)
    if why:
        raise InterpretError(f"{operation} answered {whose}{why}; {_mend(obj)}")


def _check_same(obj: Manifest, revised: Manifest) -> None:
    """Raises InterpretError unless an answer is the object that was asked about."""
    for name in ("apiVersion", "kind"):
        if revised.get(name) != obj.get(name):
            raise _another(obj, name, revised.get(name))
    metadata, before = revised.get("metadata"), obj["metadata"]
    if type(metadata) is not dict:
        raise _another(obj, "metadata", None)
    for name in ("name", "namespace"):
        if (metadata.get(name) or "") != (before.get(name) or ""):
            raise _another(obj, f"metadata.{name}", metadata.get(name))
    for name in ("labels", "annotations"):
        texts = metadata.get(name)
        if texts is not None and not (type(texts) is dict and all(type(value) is str for value in texts.values())):
            raise InterpretError(
                f"{Operation.REVISE} answered with values that are no texts; {_mend(obj)}", f"metadata.{name}"
            )


def _another(obj: Manifest, field: str, found: object) -> InterpretError:
    return InterpretError(f"{Operation.REVISE} answered with {found!r}, not the object's own; {_mend(obj)}", field)


def _mend(obj: Manifest) -> str:
    return f"mend what customizes {obj.get('apiVersion')} {obj.get('kind')}"
