"""Checks of object metadata on create and update."""

from collections.abc import Callable

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
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
_FIXED = ("name", "namespace", "uid", "creationTimestamp")
_BY_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_NAMESPACE = text("namespace", names.label, need="")


def check_create(
    meta: Manifest, check_name: Callable[[str], list[str]], *, namespaced: bool, domain_finalizers: bool = False
) -> list[FieldError]:
    """Return what is wrong with the metadata of a new object of a kind with such names.

    With `domain_finalizers` each finalizer that Kubernetes does not define needs a domain and a slash.
    """
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
    return found + apply(_RULES[domain_finalizers], meta, "metadata")


def labels(values: dict[str, str], field: str) -> list[FieldError]:
    """Return what is wrong with a map of labels."""
    for key, value in values.items():
        if not (names.is_label_key(key) and names.is_label_value(value)):
            break
    else:
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
    shown = Raw("")
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            found.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
        missing = [name for name in ("kind", "name", "uid") if not owner.get(name)]
        found += [invalid(f"{field}.{name}", "", f"{name} must not be empty") for name in missing]
        if owner.get("kind") == "Event" and version == "v1":
            text = "/v1, Kind=Event is disallowed from being an owner"
            found.append(invalid(field, Raw(_go_owner(owner)), text))
        if owner.get("controller"):
            if controller is not None:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.get('name', '')} and {owner.get('name', '')}"
                )
                shown = shown if shown.text else _go_owners(owners)
                found.append(invalid(field, shown, text))
            else:
                controller = owner
    return found


def _go_owners(owners: list[Manifest]) -> Raw:
    return Raw(f"[]v1.OwnerReference{{{', '.join(_go_owner(one) for one in owners)}}}")


def _go_owner(owner: Manifest) -> str:
    return (
        f'v1.OwnerReference{{APIVersion:"{owner.get("apiVersion", "")}", Kind:"{owner.get("kind", "")}", '
        f'Name:"{owner.get("name", "")}", UID:"{owner.get("uid", "")}"}}'
    )


def qualified_finalizer(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a finalizer: its form, and a missing domain."""
    return [*(invalid(field, name, text) for text in names.qualified(name)), *_without_domain(name, field)]


def _without_domain(name: str, field: str) -> Errors:
    if "/" not in name and name not in STANDARD_FINALIZERS:
        yield invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")


def _finalizers(finalizers: list[str], field: str) -> list[FieldError]:
    found = [invalid(field, name, text) for name in finalizers for text in names.qualified(name)]
    return found + _contrary(finalizers, field)


def _domain_finalizers(finalizers: list[str], field: str) -> list[FieldError]:
    return [*_finalizers(finalizers, field), *_without_domains(finalizers, field)]


def _without_domains(finalizers: list[str], field: str) -> Errors:
    """Yield an error for each finalizer that Kubernetes does not define and that has no domain, by its place."""
    for index, name in enumerate(finalizers):
        yield from _without_domain(name, f"{field}[{index}]")


def _contrary(finalizers: list[str], field: str) -> list[FieldError]:
    if "orphan" not in finalizers or "foregroundDeletion" not in finalizers:
        return []
    text = "finalizer orphan and foregroundDeletion cannot be both set"
    return [invalid(field, go_strings(finalizers), text)]


STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_LASTING = (
    number("generation", 0),
    inside("labels", labels),
    inside("annotations", annotations),
    inside("ownerReferences", _owners),
)
# Kinds of Kubernetes itself take finalizers with a domain only; custom resources and definitions take any name.
_RULES = {
    True: (*_LASTING, inside("finalizers", _domain_finalizers)),
    False: (*_LASTING, inside("finalizers", _finalizers)),
}


def check_update(
    new: Manifest,
    old: Manifest,
    check_name: Callable[[str], list[str]],
    *,
    namespaced: bool,
    domain_finalizers: bool = False,
    finalizers_too: bool = False,
    as_update: int = 1,
    as_new: int = 0,
) -> list[FieldError]:
    """Return what is wrong with the metadata of an update; the arguments not said here as for `check_create`.

    Every update is checked once; a kind checks it `as_update` times besides, and `as_new` times as a new object's.
    Clients read each error as often as it is found. Names of finalizers are looked at by checks of kinds only, as an
    update with `finalizers_too`.
    """
    meta, before = new["metadata"], old["metadata"]
    found: list[FieldError] = []
    for name in reversed(_BY_DELETION):
        value = meta.get(name)
        if value is not None and value != before.get(name):
            shown = Raw(f"{value[:10]} {value[11:19]} +0000 UTC") if isinstance(value, str) else value
            found.append(invalid(f"metadata.{name}", shown, "field is immutable; may only be changed via deletion"))
    finalizers = meta.get("finalizers") or []
    if before.get("deletionTimestamp"):
        kept = {*(before.get("finalizers") or ())}
        added = [item for item in finalizers if item not in kept]
        if added:
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers {go_strings(sorted(added)).text}"
            )
            found.append(forbidden("metadata.finalizers", text))
    found += changed(_FIXED, meta, before, "metadata")
    if not meta.get("resourceVersion"):
        found.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    found += apply(_LASTING, meta, "metadata")
    if not found and not finalizers and not meta.get("generateName"):
        return []
    found *= 1 + as_update
    if finalizers_too:
        check = _domain_finalizers if domain_finalizers else _finalizers
        found += check(finalizers, "metadata.finalizers") * as_update
    if as_new:
        fresh = check_create(meta, check_name, namespaced=namespaced, domain_finalizers=domain_finalizers)
        found += fresh * as_new
    return found


def check_change(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with the metadata of an update as its client wrote it: the server's fields may lack."""
    filled = {**new, **{name: old.get(name) for name in _WRITTEN_BY_SERVERS if not new.get(name)}}
    found = changed((*_FIXED, *_BY_DELETION), filled, old, "metadata")
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        found.append(invalid("metadata.generation", new.get("generation") or 0, "must not be decremented"))
    return found + apply(_RULES[False], new, "metadata")
