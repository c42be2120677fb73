"""Objects wait for the list of what interprets them, and no longer than that can be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest

from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.share import Share
from services._kit.kube.client import ApiError, ApiResource
from services._rules.interpreter.configuration import CUSTOMIZATION, WEBHOOKS
from services.detector import kind_watch as watching
from services.detector.kind_watch import PLURALS, Watching
from services.detector.objects.template_bytes import Templates
from services.detector.state import POLICY_KINDS, DetectorState, Key

KEPT = ObjectKey("", "configmaps", "a", "c")
VERBS = ("list", "watch", "delete", "create")
PLURAL = {CUSTOMIZATION: "resourceinterpretercustomizations", WEBHOOKS: "resourceinterpreterwebhookconfigurations"}


def served(group: str, kind: str, plural: str) -> ApiResource:
    return ApiResource(group=group, version="v1alpha1", kind=kind, name=plural, namespaced=True, verbs=VERBS)


class Plane:
    """A control plane with one Deployment and no policies; some kinds it does not serve, some it keeps to itself."""

    server = "https://control-plane"
    limits = Limits()

    def __init__(self, *interpreters: str, forbidden: str = "") -> None:
        self.share = Share()
        self.resources = [served("policy.karmada.io", kind, PLURALS[kind]) for kind in POLICY_KINDS]
        self.resources += [served("config.karmada.io", kind, PLURAL[kind]) for kind in interpreters]
        self.forbidden = forbidden

    async def discover(self, *, left_out: set[str]) -> list[ApiResource]:
        return list(self.resources)

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        if self.forbidden and path.endswith(PLURAL[self.forbidden]):
            raise ApiError(403, "Forbidden", "not for you")
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": []})

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[list[Any]]:
        await asyncio.Event().wait()
        yield []


class Ground:
    """A detector's watches of a control plane."""

    def __init__(self, plane: Plane) -> None:
        self.state = DetectorState()
        self.key = ObjectKey("apps", "deployments", "default", "nginx")
        self.state.templates[self.key] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx"}}
        self.marked: set[Key] = set()
        self.changed = asyncio.Event()
        self.watching = Watching(plane, self.state, self._mark, period=0.01)  # type: ignore[arg-type] # all that is used

    def _mark(self, keys: Iterable[Key]) -> None:
        self.marked.update(keys)
        self.changed.set()

    async def until_decided(self) -> None:
        self.watching.start()
        async with asyncio.timeout(60):
            while self.key not in self.marked:
                self.changed.clear()
                await self.changed.wait()


@pytest.mark.parametrize("interpreters", [(), (CUSTOMIZATION,), (CUSTOMIZATION, WEBHOOKS)])
async def test_kinds_that_are_not_served_are_not_waited_for(interpreters: tuple[str, ...]) -> None:
    ground = Ground(Plane(*interpreters))
    await ground.until_decided()
    assert ground.state.listed == {*POLICY_KINDS, *interpreters}
    assert ground.state.unlisted == {CUSTOMIZATION, WEBHOOKS} - {*interpreters}
    await ground.watching.stop()


async def test_forbidden_kind_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_PATIENCE", 1.0)
    ground = Ground(Plane(CUSTOMIZATION, WEBHOOKS, forbidden=CUSTOMIZATION))
    await ground.until_decided()
    assert ground.state.unlisted == {CUSTOMIZATION}
    await ground.watching.stop()


async def test_kind_served_later_is_listed() -> None:
    plane = Plane(WEBHOOKS)
    ground = Ground(plane)
    await ground.until_decided()
    key = PolicyKey(CUSTOMIZATION, "", "widgets")
    ground.state.policy_facts[key] = PolicyChanged(key=key, uid="u", manifest=msgspec.Raw(b"{}"))
    plane.resources.append(served("config.karmada.io", CUSTOMIZATION, PLURAL[CUSTOMIZATION]))
    async with asyncio.timeout(60):
        while key not in ground.marked:
            ground.changed.clear()
            await ground.changed.wait()
    assert CUSTOMIZATION in ground.state.listed
    assert not ground.state.unlisted
    await ground.watching.stop()


def test_template_read_from_the_cache_is_a_copy() -> None:
    kept = Templates()
    kept[KEPT] = {"kind": "ConfigMap", "metadata": {"name": "c", "labels": {"a": "b"}}}
    found = kept[KEPT]
    found["metadata"]["labels"]["a"] = "changed"
    assert kept[KEPT]["metadata"]["labels"] == {"a": "b"}
    assert KEPT in kept
    assert list(kept) == [KEPT]
    del kept[KEPT]
    assert kept.get(KEPT) is None
    assert not kept
