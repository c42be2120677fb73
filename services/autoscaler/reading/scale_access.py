"""Reads and writes the scale of objects of the control plane, as few times as what is known of them allows."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.kube.api import BadAnswer
from services._kit.kube.client import JSON_PATCH, ApiError, KubeClient, Unreachable, encode, resource_path

_DISCOVERY_SECONDS: Final = 30.0
_TRIES: Final = 5
_CONFLICT: Final = 409
_LOOK_FIRST: Final = frozenset({400, 403, 405, _CONFLICT, 415, 422})
"""Answers to a conditional change: other replicas, none written in the scale, or one who may not, or cannot, do it."""
_MOST_KNOWN: Final = 50_000


class Scale(Struct, frozen=True):
    """Replicas that a template asks for, and the selector of its pods."""

    replicas: int
    selector: str


class _Spec(Struct):
    replicas: int | None = None


class _Status(Struct):
    selector: str | None = None


class _Scale(Struct):
    spec: _Spec | None = None
    status: _Status | None = None


class Moved(Exception):
    """The replicas are not those that a decision was made from; the message has both."""


class Scales:
    """The scale of templates; one that was read counts until the template changes."""

    def __init__(self, control: KubeClient) -> None:
        self._control = control
        self._known: dict[ObjectKey, tuple[tuple[str, int], Scale]] = {}
        self._plurals: dict[tuple[str, str], str] = {}
        self._discovered = float("-inf")
        self._discovering = asyncio.Lock()

    def known(self, key: ObjectKey, uid: str, generation: int) -> Scale | None:
        """The scale of a template of which the log knows uid and generation, unless it has to be read."""
        known = self._known.get(key)
        return known[1] if known is not None and generation and known[0] == (uid, generation) else None

    async def read(self, key: ObjectKey, api_version: str, uid: str, generation: int) -> Scale:
        """Read the scale of a template of this uid and generation; raises ApiError and Unreachable."""
        found = _scale(await self._control.get(scale_path(key, api_version)))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = ((uid, generation), found)
        return found

    async def present(self, key: ObjectKey, api_version: str) -> int:
        """The replicas that a template has at this moment; raises as `read`."""
        return _scale(await self._control.get(scale_path(key, api_version))).replicas

    async def place(self, api_version: str, kind: str, namespace: str, name: str) -> ObjectKey | None:
        """The key of an object by the name of its kind; None where no such kind is served. Raises as `read`."""
        plural = self._plurals.get((api_version, kind))
        if plural is None:
            await self._discover()
            plural = self._plurals.get((api_version, kind))
        group = api_version.rpartition("/")[0]
        return ObjectKey(group, plural, namespace, name) if plural is not None else None

    async def write(self, key: ObjectKey, api_version: str, replicas: int, before: int | None = None) -> bool:
        """Set the replicas of a template; whether that changed them.

        With `before`, only if it has those, which takes one request; raises Moved otherwise, and ApiError and
        Unreachable.
        """
        path = scale_path(key, api_version)
        known = self._known.pop(key, None)
        if before is not None and (changed := await self._replace(path, before, replicas)) is not None:
            if known is not None and changed.replicas == replicas and changed.selector:
                # Nothing of the template but its replicas is another one, if the log's next generation is this one.
                uid, generation = known[0]
                self._known[key] = ((uid, generation + 1), changed)
            return True
        return await self._compare_and_write(path, replicas, before)

    async def _replace(self, path: str, before: int, replicas: int) -> Scale | None:
        """Set replicas where they are `before`, in one request; None where it has to be looked at first."""
        steps = [
            {"op": "test", "path": "/spec/replicas", "value": before},
            {"op": "replace", "path": "/spec/replicas", "value": replicas},
        ]
        try:
            return _scale(await self._control.patch(path, encode(steps), JSON_PATCH))
        except ApiError as error:
            if error.status not in _LOOK_FIRST:
                raise
            return None

    async def _compare_and_write(self, path: str, replicas: int, before: int | None) -> bool:
        for attempt in range(_TRIES):
            scale = await self._control.get(path)
            present = _scale(scale).replicas
            if before is not None and present not in (before, replicas):
                raise Moved(f"the target has {present} replicas by now, the decision was made from {before}")
            if present == replicas:
                return False
            scale["spec"] = {**(scale.get("spec") or {}), "replicas": replicas}
            try:
                await self._control.update(path, scale)
            except ApiError as error:
                if error.status != _CONFLICT or attempt == _TRIES - 1:
                    raise
                continue
            return True
        raise Unreachable(f"{path} was changed by others {_TRIES} times in a row")

    async def _discover(self) -> None:
        """Read which kinds there are, not more often than every half a minute."""
        async with self._discovering:
            now = asyncio.get_running_loop().time()
            if now - self._discovered < _DISCOVERY_SECONDS:
                return
            resources = await self._control.discover(preferred=False)
            self._discovered = now
            self._plurals = {(item.api_version, item.kind): item.name for item in resources}


def _scale(manifest: Manifest) -> Scale:
    try:
        found = msgspec.convert(manifest, _Scale)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"it is not the scale of an object: {error}") from error
    replicas = found.spec.replicas if found.spec is not None else None
    selector = found.status.selector if found.status is not None else None
    return Scale(max(replicas or 0, 0), selector or "")


def scale_path(key: ObjectKey, api_version: str) -> str:
    """Where the scale of an object is, in the control plane as in members."""
    version = api_version.rpartition("/")[2]
    return resource_path(key.group, version, key.resource, key.namespace, key.name, "scale")
