"""Refuses what overrides made of an object where it is no object to apply any more, or another one."""

from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import describe, shortened
from services._rules.overrides import Overridden

_OWN: Final = ("apiVersion", "kind")
_OWN_METADATA: Final = ("name", "namespace")
_MAPS: Final = ("labels", "annotations")


class UnsoundError(ValueError):
    """Overrides that together leave no object to apply; the message names field, value and policies."""


def check_sound(before: Manifest, overridden: Overridden) -> None:
    """Raises UnsoundError where apiVersion, kind, name or namespace changed, or labels or annotations are no texts."""
    after = overridden.manifest
    if after is before:
        return
    metadata, own = after.get("metadata"), before.get("metadata") or {}
    for name in _OWN:
        if after.get(name) != before.get(name):
            raise _another(before, overridden, name, after.get(name), before.get(name))
    if metadata is own:
        return
    if not isinstance(metadata, dict):
        raise _another(before, overridden, "metadata", metadata, own)
    for name in _OWN_METADATA:
        if (metadata.get(name) or "") != (own.get(name) or ""):
            raise _another(before, overridden, f"metadata.{name}", metadata.get(name), own.get(name))
    for name in _MAPS:
        texts = metadata.get(name)
        if texts is None:
            continue
        wrong = (
            describe(texts)
            if not isinstance(texts, dict)
            else next((f"{describe(text)} at {key!r}" for key, text in texts.items() if not isinstance(text, str)), "")
        )
        if wrong:
            raise UnsoundError(
                shortened(f"{_who(before, overridden)}: metadata.{name} has {wrong}, expected texts by name")
            )


def _another(before: Manifest, overridden: Overridden, field: str, found: Any, own: Any) -> UnsoundError:
    return UnsoundError(
        shortened(
            f"{_who(before, overridden)}: {field} is {found!r}, not {own!r}: no override can make another object of it"
        )
    )


def _who(before: Manifest, overridden: Overridden) -> str:
    """The policies that took part, each once, in the order they were applied."""
    namespace = (before.get("metadata") or {}).get("namespace") or ""
    names = [f"ClusterOverridePolicy {item.policy_name}" for item in overridden.applied_cluster_overrides]
    names += [f"OverridePolicy {namespace}/{item.policy_name}" for item in overridden.applied_overrides]
    return ", ".join(dict.fromkeys(names))
