"""What users do meanwhile: create, change, scale and delete templates, policies, overrides and whole namespaces."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.manifest import Manifest
from tests.faults.chaos import objects
from tests.faults.chaos.endpoint import Answer, Endpoint
from tests.faults.chaos.ledger import Key, Ledger
from tests.faults.chaos.objects import KINDS, MEMBERS, PLACES, PREFIX, SHAPES, State

AT_ONCE: Final = 6
_TRIES: Final = 600
_PAUSE: Final = 0.2
_MOST: Final = 14
"""Templates of a namespace: more are not created."""


class Operation(Struct, frozen=True):
    """One step of the schedule: what, when after the start of the cycle, and what its choices are drawn from."""

    at: float
    what: str
    seed: int


_WEIGHTS: Final[Mapping[str, int]] = {
    "create": 30,
    "update": 26,
    "scale": 12,
    "label": 8,
    "delete": 14,
    "move": 4,
    "override": 4,
    "drift": 5,
    "delete-copy": 2,
    "delete-namespace": 1,
    "create-namespace": 1,
}


def schedule(chance: random.Random, seconds: float, rate: float) -> list[Operation]:
    """Operations of one cycle, in the order of their times."""
    whats = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=max(1, int(seconds * rate)))
    return sorted(
        (Operation(chance.uniform(0, seconds), what, chance.randrange(1 << 32)) for what in whats),
        key=lambda operation: operation.at,
    )


class Namespace(Struct):
    """A namespace of the run; `busy` counts the clients that work in it."""

    name: str
    open: bool = False
    busy: int = 0
    leaving: bool = False
    """Whether a client deletes it, from when it waits for the others on."""


class Clients:
    """Many users of one control plane; every write is entered into the ledger by what its answer said."""

    def __init__(self, control: Endpoint, members: Mapping[str, Endpoint], ledger: Ledger) -> None:
        self.ledger = ledger
        self.namespaces: dict[str, Namespace] = {}
        self.violations: list[str] = []
        self.done: Counter[str] = Counter()
        self._control = control
        self._members = members
        self._numbers = 0
        self._locks: dict[Key, asyncio.Lock] = {}
        self._names = 0

    async def begin(self) -> None:
        """The custom kind, and the first namespaces."""
        await self._insist("customresourcedefinitions", objects.definition())
        await self._insist("clusterpropagationpolicies", objects.definition_policy())
        for _ in range(2):
            await self.create_namespace()

    async def play(self, operations: list[Operation]) -> None:
        """Every operation at its time, some side by side."""
        free = asyncio.Semaphore(AT_ONCE)
        began = asyncio.get_running_loop().time()

        async def one(operation: Operation) -> None:
            await asyncio.sleep(max(0.0, began + operation.at - asyncio.get_running_loop().time()))
            async with free:
                await self.perform(operation)

        async with asyncio.TaskGroup() as group:
            for operation in operations:
                group.create_task(one(operation))

    async def perform(self, operation: Operation) -> None:
        """One operation on an object that its seed chooses among those there are."""
        chance = random.Random(operation.seed)
        if operation.what == "create-namespace":
            if sum(space.open for space in self.namespaces.values()) < 3:
                await self.create_namespace()
            return
        spaces = [space for space in self.namespaces.values() if space.open]
        if not spaces:
            return
        space = chance.choice(spaces)
        if operation.what == "delete-namespace":
            if len(spaces) > 1:
                await self.delete_namespace(space)
            return
        space.busy += 1
        try:
            await self._inside(operation.what, space.name, chance)
        finally:
            space.busy -= 1
        self.done[operation.what] += 1

    async def _inside(self, what: str, namespace: str, chance: random.Random) -> None:
        present = sorted(
            key
            for key, entry in self.ledger.entries.items()
            if key[1] == namespace and key[0] in KINDS and (entry.acknowledged or any(entry.unknown))
        )
        if what == "create" and len(present) < _MOST:
            self._names += 1
            kind = chance.choice(KINDS)
            await self._create(kind, namespace, f"{kind[:3]}-{self._names:05d}", self._new(kind, chance))
        elif what == "move":
            place = ",".join(chance.choice(PLACES))
            await self._change(("propagationpolicies", namespace, "moving"), lambda old: replace(old, value=place))
        elif what == "override":
            await self._override(namespace, chance)
        elif present and what in ("update", "scale", "label", "delete", "drift", "delete-copy"):
            key = chance.choice(present)
            match what:
                case "update":
                    value = self._value(key[0], chance)
                    await self._change(key, lambda old: replace(old, value=value))
                case "scale" if key[0] == "deployments":
                    times = chance.randint(1, 3)
                    await self._change(
                        key, lambda old: replace(old, replicas=times * (3 if old.shape == "divided" else 1))
                    )
                case "label":
                    team = chance.choice(("", "red", "green", "blue"))
                    await self._change(key, lambda old: replace(old, team=team))
                case "delete":
                    await self._delete(key)
                case "drift" | "delete-copy":
                    await self._interfere(what, key, chance)

    def _number(self) -> str:
        self._numbers += 1
        return str(self._numbers)

    def _value(self, kind: str, chance: random.Random) -> str:
        if kind == "deployments":
            return f"1.{chance.randint(10, 29)}.{chance.randint(0, 9)}"
        return f"{chance.randrange(16**6):06x}" * chance.choice((1, 1, 4, 200))

    def _new(self, kind: str, chance: random.Random) -> State:
        shape = chance.choice(SHAPES)
        replicas = chance.randint(1, 2) * (3 if shape == "divided" else 1) if kind == "deployments" else 0
        return State(self._number(), shape, self._value(kind, chance), replicas)

    async def create_namespace(self) -> None:
        """A new namespace, or one that was deleted before, with its policies."""
        closed = [
            space for space in self.namespaces.values() if not space.open and not space.busy and not space.leaving
        ]
        space = closed[0] if closed else Namespace(f"{PREFIX}{len(self.namespaces)}")
        self.namespaces[space.name] = space
        space.busy += 1
        try:
            await self._insist("namespaces", {**objects.head("namespaces"), "metadata": {"name": space.name}})
            for shape in SHAPES:
                state = State(self._number(), shape, "member1" if shape == "moving" else "")
                await self._create("propagationpolicies", space.name, shape, state, insist=True)
            space.open = True
        finally:
            space.busy -= 1
        self.done["create-namespace"] += 1

    async def delete_namespace(self, space: Namespace) -> None:
        """Delete one with all that is in it, and wait until it is gone."""
        space.open, space.leaving = False, True
        try:
            await self._left(space)
            for _ in range(_TRIES):
                answer = await self._control.ask("DELETE", objects.path("namespaces", "", space.name))
                if answer.status == 404:
                    break
                await asyncio.sleep(_PAUSE)
            else:
                self.violations.append(f"namespace {space.name} was not gone {_TRIES * _PAUSE:g} s after its deletion")
            self.ledger.forget(space.name)
        finally:
            space.leaving = False
        self.done["delete-namespace"] += 1

    async def _left(self, space: Namespace) -> None:
        """Wait until no client works in it."""
        while True:
            if not space.busy:
                return
            await asyncio.sleep(_PAUSE)

    async def _insist(self, kind: str, body: Manifest) -> None:
        """Create until the server says that it is there."""
        answer = Answer(0)
        for _ in range(_TRIES):
            answer = await self._control.ask("POST", objects.path(kind), body)
            if answer.done or answer.status == 409:
                return
            await asyncio.sleep(_PAUSE)
        self.violations.append(f"{kind} {body['metadata']['name']} could not be created: {answer.reason}")

    async def _create(self, kind: str, namespace: str, name: str, state: State, *, insist: bool = False) -> None:
        key = kind, namespace, name
        async with self._lock(key):
            if self.ledger.entry(key).acknowledged is not None:
                # Another client created it while this one waited.
                return
            body = objects.manifest(kind, namespace, name, state)
            for _ in range(_TRIES if insist else 1):
                answer = await self._control.ask("POST", objects.path(kind, namespace), body)
                if answer.status == 409 and self.ledger.entry(key).unknown:
                    # An earlier try came through after all.
                    self.ledger.acknowledged(key, state)
                    return
                # A kind or a namespace that is not served yet.
                self._enter(key, state, answer, expected=(404, 429))
                if answer.done:
                    return
                await asyncio.sleep(_PAUSE)

    async def _override(self, namespace: str, chance: random.Random) -> None:
        key = "overridepolicies", namespace, "mirror"
        entry = self.ledger.entry(key)
        value = chance.choice(("north", "south", "east", "west"))
        if entry.acknowledged is None and not any(entry.unknown):
            await self._create(*key, State(self._number(), value=value))
        elif chance.random() < 0.3:
            await self._delete(key)
        else:
            await self._change(key, lambda old: replace(old, value=value))

    async def _change(self, key: Key, change: Any) -> None:
        """Read, change and write back; a conflict begins again."""
        async with self._lock(key):
            for _ in range(20):
                found = await self._read(key)
                if found is None:
                    return
                state = replace(change(objects.state_of(key[0], found)), number=self._number())
                body = objects.manifest(*key, state, found)
                answer = await self._control.ask("PUT", objects.path(*key), body)
                if answer.status == 409:
                    continue
                self._enter(key, state, answer, expected=(404, 429))
                return

    async def _delete(self, key: Key) -> None:
        async with self._lock(key):
            for _ in range(20):
                found = await self._read(key)
                if found is None:
                    return
                seen = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
                options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": seen}
                answer = await self._control.ask(
                    "DELETE", objects.path(*key), {**options, "propagationPolicy": "Background"}
                )
                if answer.status == 409:
                    continue
                self._enter(key, None, answer, expected=(404, 429))
                return

    async def _read(self, key: Key) -> Manifest | None:
        """The object now, checked against the ledger; None when it is not there or cannot be read."""
        answer = await self._control.ask("GET", objects.path(*key))
        if answer.unknown or answer.status == 429:
            return None
        there = answer.done and "deletionTimestamp" not in answer.body["metadata"]
        state = objects.state_of(key[0], answer.body) if there else None
        if wrong := self.ledger.wrong(key, state):
            self.violations.append(wrong)
        return answer.body if there else None

    def _enter(self, key: Key, state: State | None, answer: Answer, expected: tuple[int, ...]) -> None:
        if answer.done:
            self.ledger.acknowledged(key, state)
        elif answer.unknown:
            self.ledger.unknown(key, state)
        else:
            self.ledger.counts["refused"] += 1
            if answer.status not in expected:
                self.violations.append(f"a write of {'/'.join(key)} was refused: {answer.reason}")

    async def _interfere(self, what: str, key: Key, chance: random.Random) -> None:
        """Somebody edits or deletes a copy in a member."""
        kind = key[0]
        member = chance.choice(MEMBERS)
        if what == "delete-copy":
            await self._members[member].ask("DELETE", objects.path(*key))
            return
        change: Manifest = {
            "configmaps": {"data": {"value": "by hand"}},
            "secrets": {"data": {"value": "Ynk="}},
            "gadgets": {"spec": {"value": "by hand"}},
            "deployments": {"spec": {"replicas": 7}},
        }[kind]
        await self._members[member].ask("PATCH", objects.path(*key), change, patch=True)

    def _lock(self, key: Key) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
