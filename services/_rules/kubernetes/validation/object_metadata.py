"""Checks of object metadata on create and update."""

from collections.abc import Callable
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    Raw,
    forbidden,
    go_strings,
    invalid,
    required,
    too_long,
)

ANNOTATIONS_LIMIT = 256 * 1024
_WRITTEN_BY_SERVERS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_FIXED = ("name", "namespace", *_WRITTEN_BY_SERVERS)


def check_create(meta: Manifest, check_name: Callable[[str], list[str]], *, namespaced: bool) -> list[FieldError]:
    """Return what is wrong with the metadata of a new object of a kind with such names."""
    found: list[FieldError] = []
    if prefix := meta.get("generateName"):
        found += [invalid("metadata.generateName", prefix, text) for text in check_name(names.as_prefix(prefix))]
    name = meta.get("name")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        found += [invalid("metadata.name", name, text) for text in check_name(name)]
    if namespaced:
        if not meta.get("namespace"):
            found.append(required("metadata.namespace"))
        else:
            found += [invalid("metadata.namespace", meta["namespace"], text) for text in names.label(meta["namespace"])]
    elif meta.get("namespace"):
        found.append(forbidden("metadata.namespace", "not allowed on this type"))
    return found + check_common(meta)


def check_common(meta: Manifest) -> list[FieldError]:
    """Return what is wrong with labels, annotations, owners and finalizers."""
    found: list[FieldError] = []
    if (meta.get("generation") or 0) < 0:
        found.append(invalid("metadata.generation", meta["generation"], "must be greater than or equal to 0"))
    found += labels(meta.get("labels") or {}, "metadata.labels")
    found += annotations(meta.get("annotations") or {}, "metadata.annotations")
    found += _owners(meta.get("ownerReferences") or [])
    found += _finalizers(meta.get("finalizers") or [])
    return found


def labels(values: dict[str, str], field: str) -> list[FieldError]:
    """Return what is wrong with a map of labels."""
    if all(names.is_label_key(key) and names.is_label_value(value) for key, value in values.items()):
        return []
    found: list[FieldError] = []
    for key in sorted(values):
        found += [invalid(field, key, text) for text in names.qualified(key)]
        found += [invalid(field, values[key], text) for text in names.label_value(values[key])]
    return found


def annotations(values: dict[str, str], field: str) -> list[FieldError]:
    """Return what is wrong with a map of annotations."""
    found: list[FieldError] = []
    size = 0
    for key in sorted(values):
        if not names.is_label_key(low := key.lower()):
            found += [invalid(field, key, text) for text in names.qualified(low)]
        size += len(key.encode()) + len(values[key].encode())
    if size > ANNOTATIONS_LIMIT:
        found.append(too_long(field, "", ANNOTATIONS_LIMIT))
    return found


def _owners(owners: list[Manifest]) -> list[FieldError]:
    found: list[FieldError] = []
    controller: Manifest | None = None
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2]:
            found.append(invalid("metadata.ownerReferences.apiVersion", version, "version must not be empty"))
        elif version.count("/") > 1:
            found.append(
                invalid("metadata.ownerReferences.apiVersion", version, f"unexpected GroupVersion string: {version}")
            )
        found += [
            invalid(f"metadata.ownerReferences.{name}", "", f"{name} must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        ]
        if owner.get("kind") == "Event" and version == "v1":
            text = "/v1, Kind=Event is disallowed from being an owner"
            found.append(invalid("metadata.ownerReferences", _go_owner(owner), text))
        if owner.get("controller"):
            if controller is not None:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.get('kind')}/{controller.get('name')} and {owner.get('kind')}/{owner.get('name')}"
                )
                found.append(invalid("metadata.ownerReferences", Raw(_go_owners(owners)), text))
            controller = owner
    return found


def _go_owner(owner: Manifest) -> Raw:
    return Raw(
        f'v1.OwnerReference{{APIVersion:"{owner.get("apiVersion", "")}", Kind:"{owner.get("kind", "")}", '
        f'Name:"{owner.get("name", "")}", UID:"{owner.get("uid", "")}"}}'
    )


def _go_owners(owners: list[Manifest]) -> str:
    return f"[]v1.OwnerReference{{{', '.join(_go_owner(owner).text for owner in owners)}}}"


def qualified_finalizer(name: str, field: str, standard: tuple[str, ...]) -> list[FieldError]:
    """Return what is wrong with the name of a finalizer, `standard` being those without a domain."""
    found = [invalid(field, name, text) for text in names.qualified(name)]
    if "/" not in name and name not in standard:
        found.append(invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return found


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    field, standard = "metadata.finalizers", ("orphan", "foregroundDeletion", "kubernetes")
    found = [error for name in finalizers for error in qualified_finalizer(name, field, standard)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(field, go_strings(finalizers), text))
    return found


def check_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with the metadata of an update."""
    meta, before = new["metadata"], old["metadata"]
    found: list[FieldError] = []
    if before.get("deletionTimestamp"):
        added = [item for item in meta.get("finalizers") or [] if item not in (before.get("finalizers") or [])]
        if added:
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers {go_strings(sorted(added)).text}"
            )
            found.append(forbidden("metadata.finalizers", text))
    found += _fixed(meta, before)
    if not meta.get("resourceVersion"):
        found.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    found += check_common(meta)
    # The recorded server checks the metadata of an update twice, and lists every cause twice.
    return found + found


def check_change(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with the metadata of an update as its client wrote it: the server's fields may lack."""
    found = _fixed({**new, **{name: old.get(name) for name in _WRITTEN_BY_SERVERS if not new.get(name)}}, old)
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        found.append(invalid("metadata.generation", new.get("generation") or 0, "must not be decremented"))
    return found + check_common(new)


def _fixed(new: Manifest, old: Manifest) -> list[FieldError]:
    return [error for name in _FIXED for error in immutable(f"metadata.{name}", new.get(name), old.get(name))]


def immutable(field: str, new: Any, old: Any, shown: Any = None) -> list[FieldError]:
    """Return an error when a field that may not change did; `shown` replaces the value in the message."""
    return [] if new == old else [invalid(field, new if shown is None else shown, "field is immutable")]
