"""Checks of object metadata on create and update."""

from collections.abc import Callable

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
from services._rules.kubernetes.validation.field_rules import apply, changed, inside, number, text

ANNOTATIONS_LIMIT = 256 * 1024
_WRITTEN_BY_SERVERS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_FIXED = ("name", "namespace", *_WRITTEN_BY_SERVERS)
_NAMESPACE = text("namespace", names.label, need="")


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
        found += _NAMESPACE(meta, "metadata")
    elif meta.get("namespace"):
        found.append(forbidden("metadata.namespace", "not allowed on this type"))
    return found + apply(_COMMON, meta, "metadata")


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


def _owners(owners: list[Manifest], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    controller: Manifest | None = None
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2]:
            found.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
        elif version.count("/") > 1:
            found.append(invalid(f"{field}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
        missing = [name for name in ("kind", "name", "uid") if not owner.get(name)]
        found += [invalid(f"{field}.{name}", "", f"{name} must not be empty") for name in missing]
        if owner.get("kind") == "Event" and version == "v1":
            text = "/v1, Kind=Event is disallowed from being an owner"
            found.append(invalid(field, Raw(_go_owner(owner)), text))
        if owner.get("controller"):
            if controller is not None:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.get('kind')}/{controller.get('name')} and {owner.get('kind')}/{owner.get('name')}"
                )
                shown = f"[]v1.OwnerReference{{{', '.join(_go_owner(one) for one in owners)}}}"
                found.append(invalid(field, Raw(shown), text))
            controller = owner
    return found


def _go_owner(owner: Manifest) -> str:
    return (
        f'v1.OwnerReference{{APIVersion:"{owner.get("apiVersion", "")}", Kind:"{owner.get("kind", "")}", '
        f'Name:"{owner.get("name", "")}", UID:"{owner.get("uid", "")}"}}'
    )


def qualified_finalizer(name: str, field: str, standard: tuple[str, ...]) -> list[FieldError]:
    """Return what is wrong with the name of a finalizer, `standard` being those without a domain."""
    found = [invalid(field, name, text) for text in names.qualified(name)]
    if "/" not in name and name not in standard:
        found.append(invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return found


def _finalizers(finalizers: list[str], field: str) -> list[FieldError]:
    standard = ("orphan", "foregroundDeletion", "kubernetes")
    found = [error for name in finalizers for error in qualified_finalizer(name, field, standard)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(field, go_strings(finalizers), text))
    return found


_COMMON = (
    number("generation", 0),
    inside("labels", labels),
    inside("annotations", annotations),
    inside("ownerReferences", _owners),
    inside("finalizers", _finalizers),
)


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
    found += changed(_FIXED, meta, before, "metadata")
    if not meta.get("resourceVersion"):
        found.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    found += apply(_COMMON, meta, "metadata")
    # The recorded server checks the metadata of an update twice, and lists every cause twice.
    return found + found


def check_change(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with the metadata of an update as its client wrote it: the server's fields may lack."""
    filled = {**new, **{name: old.get(name) for name in _WRITTEN_BY_SERVERS if not new.get(name)}}
    found = changed(_FIXED, filled, old, "metadata")
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        found.append(invalid("metadata.generation", new.get("generation") or 0, "must not be decremented"))
    return found + apply(_COMMON, new, "metadata")
