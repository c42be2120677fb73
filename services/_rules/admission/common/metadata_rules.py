"""Validates the metadata of an object on create and on update."""

from collections.abc import Mapping
from typing import Any, Final

from services._rules.admission.common import value_formats as formats
from services._rules.admission.common.rule_causes import Cause, each, forbidden, invalid, required
from services._rules.admission.common.value_formats import Check

Metadata = Mapping[str, Any]

# What a change must not touch; an empty new value takes over the old one for those that only a server writes.
_IMMUTABLE: Final = ("name", "namespace")
_IMMUTABLE_ONCE_SET: Final = ("uid", "creationTimestamp")


def check(metadata: Metadata, name: Check, namespaced: bool) -> list[Cause]:
    """Rules for every object: name, namespace, labels, annotations, owners, finalizers."""
    found: list[Cause] = []
    prefix, value = metadata.get("generateName") or "", metadata.get("name") or ""
    if prefix:
        # What a server appends makes a trailing dash harmless.
        found += each("metadata.generateName", prefix, name(prefix[:-1] + "a" if prefix.endswith("-") else prefix))
    if value:
        found += each("metadata.name", value, name(value))
    else:
        found.append(required("metadata.name", "name or generateName is required"))
    namespace = metadata.get("namespace") or ""
    if namespaced:
        if not namespace:
            found.append(required("metadata.namespace"))
        else:
            found += each("metadata.namespace", namespace, formats.dns_label(namespace))
    elif namespace:
        found.append(forbidden("metadata.namespace", "an object of this kind belongs to no namespace"))
    return found + _common(metadata)


def check_update(new: Metadata, old: Metadata) -> list[Cause]:
    """Rules for a change: what identifies the object and what only a server writes stays."""
    found = [
        invalid(f"metadata.{field}", new.get(field) or "", "field is immutable")
        for field in _IMMUTABLE
        if (new.get(field) or "") != (old.get(field) or "")
    ]
    found += [
        invalid(f"metadata.{field}", new[field], "field is immutable")
        for field in _IMMUTABLE_ONCE_SET
        if new.get(field) and new.get(field) != (old.get(field) or "")
    ]
    deleted = old.get("deletionTimestamp")
    if new.get("deletionTimestamp") and new.get("deletionTimestamp") != deleted:
        found.append(invalid("metadata.deletionTimestamp", new["deletionTimestamp"], "field is immutable"))
    grace = new.get("deletionGracePeriodSeconds")
    if grace is not None and grace != old.get("deletionGracePeriodSeconds"):
        found.append(invalid("metadata.deletionGracePeriodSeconds", grace, "field is immutable"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        found.append(invalid("metadata.generation", new.get("generation") or 0, "must not be decremented"))
    return found + _common(new)


def _common(metadata: Metadata) -> list[Cause]:
    found: list[Cause] = []
    if (metadata.get("generation") or 0) < 0:
        found.append(invalid("metadata.generation", metadata["generation"], "must not be negative"))
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    found += each("metadata.labels", labels, formats.labels(labels))
    found += each("metadata.annotations", sorted(annotations), formats.annotations(annotations))
    for position, owner in enumerate(metadata.get("ownerReferences") or ()):
        found += _owner(owner or {}, f"metadata.ownerReferences[{position}]")
    if sum(bool((owner or {}).get("controller")) for owner in metadata.get("ownerReferences") or ()) > 1:
        found.append(invalid("metadata.ownerReferences", "", "only one reference may have controller set to true"))
    for position, finalizer in enumerate(metadata.get("finalizers") or ()):
        problems = formats.label_key(finalizer or "")
        if not problems and "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion", "kubernetes"):
            problems = ["a finalizer needs a domain before its name"]
        found += each(f"metadata.finalizers[{position}]", finalizer, problems)
    return found


def _owner(owner: Mapping[str, Any], field: str) -> list[Cause]:
    version = owner.get("apiVersion") or ""
    found: list[Cause] = []
    if version.count("/") > 1 or not version.rpartition("/")[2]:
        found.append(invalid(f"{field}.apiVersion", version, "write version or group/version"))
    return found + [
        invalid(f"{field}.{name}", "", "must not be empty") for name in ("kind", "name", "uid") if not owner.get(name)
    ]
