"""Keeps the interpreter configuration of users, folded from the log; returns the kinds that a change affects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from schemas.events.policy import PolicyChanged, PolicyDeleted, PolicyEvent
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import escape
from services._rules.interpreter.scripts.customizations import Customizations

CUSTOMIZATION: Final = "ResourceInterpreterCustomization"
WEBHOOKS: Final = "ResourceInterpreterWebhookConfiguration"
KINDS: Final = (CUSTOMIZATION, WEBHOOKS)
FILTERS: Final = tuple(f"policy.{escape(kind)}.>" for kind in KINDS)
"""Subjects of what is configured."""

Target: TypeAlias = tuple[str, str]
"""apiVersion and kind."""
Reinterpret: TypeAlias = Callable[[PolicyEvent], frozenset[Target]]
"""Takes in a fact; the kinds that are interpreted in another way from then on."""
EVERY: Final[Target] = ("*", "*")
"""Every kind may be interpreted in another way."""


class _Script(Struct, rename="camel"):
    lua_script: str | None = None


class _TargetShape(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


class _Spec(Struct):
    target: _TargetShape | None = None
    customizations: dict[str, _Script | None] | None = None


class _Customization(Struct):
    metadata: Manifest | None = None
    spec: _Spec | None = None


_SHAPES: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    CUSTOMIZATION: msgspec.json.Decoder(_Customization),
    # Its webhooks are decoded one by one where they are called.
    WEBHOOKS: msgspec.json.Decoder(Manifest),
}


class Configured:
    """Customizations and webhook configurations by name; `revision` rises with every change that means something."""

    def __init__(self) -> None:
        self._manifests: dict[PolicyKey, Manifest] = {}
        self._customizations = Customizations()
        self.revision = 0

    @property
    def customizations(self) -> Customizations:
        """Scripts by kind and operation."""
        return self._customizations

    @property
    def webhooks(self) -> Mapping[str, Manifest]:
        """Webhook configurations by name."""
        return MappingProxyType({key.name: found for key, found in self._manifests.items() if key.kind == WEBHOOKS})

    def take(self, event: PolicyEvent) -> frozenset[Target]:
        """Take in a fact; the kinds that are interpreted in another way from now on, empty for facts of other kinds."""
        if event.key.kind not in KINDS:
            return frozenset()
        before = self._manifests.pop(event.key, None)
        after: Manifest | None = None
        match event:
            case PolicyChanged():
                after = _read(event)
                self._manifests[event.key] = after
            case PolicyDeleted():
                pass
        if (before or {}).get("spec") == (after or {}).get("spec") and _webhooks(before) == _webhooks(after):
            return frozenset()
        self.revision += 1
        if event.key.kind == WEBHOOKS:
            # Its rules may have wildcards for groups, versions and kinds.
            return frozenset((EVERY,))
        self._customizations = Customizations(
            manifest for key, manifest in self._manifests.items() if key.kind == CUSTOMIZATION
        )
        return frozenset(target for target in (_target(before), _target(after)) if target is not None)


def customization_problem(manifest: Manifest) -> str | None:
    """What about its shape keeps a ResourceInterpreterCustomization from being read, None where nothing does."""
    try:
        msgspec.convert(manifest, _Customization)
    except msgspec.ValidationError as problem:
        return str(problem)
    return None


def _read(event: PolicyChanged) -> Manifest:
    """The manifest; an empty one, which configures nothing, where a control plane would refuse its shape."""
    try:
        _SHAPES[event.key.kind].decode(event.manifest)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    found: Manifest = msgspec.json.decode(event.manifest)
    return found


def _webhooks(manifest: Manifest | None) -> object:
    return (manifest or {}).get("webhooks")


def _target(manifest: Manifest | None) -> Target | None:
    target = ((manifest or {}).get("spec") or {}).get("target") or {}
    api_version, kind = target.get("apiVersion"), target.get("kind")
    return (api_version, kind) if api_version and kind else None


def concerns(targets: frozenset[Target], api_version: str, kind: str) -> bool:
    """Whether a kind is among those that `take` named."""
    return (api_version, kind) in targets or EVERY in targets


def unconfigured(event: PolicyEvent) -> frozenset[Target]:
    """No kind is affected by any configuration: for services that use only the built-in interpretation."""
    del event
    return frozenset()
