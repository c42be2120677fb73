"""Decides the status of CustomResourceDefinitions: accepted names, conditions, and the steps of their deletion."""

from collections.abc import Iterable
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.crds.approval import approval, is_protected
from services.apiserver.crds.definition import FINALIZER, is_true
from services.apiserver.crds.structural import check_structural

_ORDER: Final = ("NamesAccepted", "Established", "NonStructuralSchema", "KubernetesAPIApprovalPolicyConformant")


def settled(crd: Manifest, others: Iterable[Manifest], now: str) -> Manifest:
    """Return the definition with the status it should have, or itself when it has that already.

    `others` are all definitions (this one among them or not); `now` is the RFC 3339 time for changed conditions.
    """
    status = crd.get("status") or {}
    accepted, names = _accept(crd, others)
    conditions = [accepted, _established(crd, accepted)]
    schema = _non_structural(crd)
    if schema is not None:
        conditions.append(schema)
    if is_protected(crd["spec"]["group"]):
        reason, text = approval(crd)
        good = "True" if reason == "ApprovedAnnotation" else "False"
        conditions.append(_condition("KubernetesAPIApprovalPolicyConformant", good, reason, text))
    before = list(status.get("conditions") or ())
    kept = [item for item in before if item["type"] not in _ORDER]
    merged = [_timed(item, before, now) for item in conditions] + kept
    if merged == before and names == status.get("acceptedNames"):
        return crd
    return {**crd, "status": {**status, "conditions": merged, "acceptedNames": names}}


def terminating(crd: Manifest, now: str) -> Manifest:
    """Return the definition as a first DELETE leaves it: marked, with the clean-up finalizer and a condition."""
    meta = dict(crd["metadata"])
    meta.setdefault("deletionTimestamp", now)
    finalizers = list(meta.get("finalizers") or ())
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    meta["finalizers"] = finalizers
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will be started soon"
    return with_condition(
        {**crd, "metadata": meta}, _condition("Terminating", "True", "InstanceDeletionPending", text), now
    )


def deleting_instances(crd: Manifest, remaining: int, now: str) -> Manifest:
    """Return a terminating definition while `remaining` instances are left; without the finalizer at zero."""
    if remaining:
        text = f"CustomResource deletion is in progress: {remaining} left"
        return with_condition(crd, _condition("Terminating", "True", "InstanceDeletionInProgress", text), now)
    done = with_condition(
        crd, _condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances"), now
    )
    meta = dict(done["metadata"])
    meta["finalizers"] = [name for name in meta.get("finalizers") or () if name != FINALIZER]
    if not meta["finalizers"]:
        del meta["finalizers"]
    return {**done, "metadata": meta}


def with_condition(crd: Manifest, condition: Manifest, now: str) -> Manifest:
    """Return the definition with a condition added or replaced."""
    status = crd.get("status") or {}
    before = list(status.get("conditions") or ())
    timed = _timed(condition, before, now)
    types = [item["type"] for item in before]
    if condition["type"] in types:
        before[types.index(condition["type"])] = timed
    else:
        before.append(timed)
    return {**crd, "status": {**status, "conditions": before}}


def is_established(crd: Manifest) -> bool:
    """Return whether the kinds of a definition are to be served."""
    return is_true(crd, "Established")


def _condition(kind: str, status: str, reason: str, message: str) -> Manifest:
    return {"type": kind, "status": status, "lastTransitionTime": "", "reason": reason, "message": message}


def _timed(condition: Manifest, before: list[Manifest], now: str) -> Manifest:
    for old in before:
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                return {**condition, "lastTransitionTime": old.get("lastTransitionTime") or now}
            break
    return {**condition, "lastTransitionTime": now}


def _accept(crd: Manifest, others: Iterable[Manifest]) -> tuple[Manifest, Manifest]:
    """Return the NamesAccepted condition and the accepted names."""
    resources, kinds = _taken(crd, others)
    wanted = crd["spec"]["names"]
    have = (crd.get("status") or {}).get("acceptedNames") or {}
    names = {name: value for name, value in have.items() if value}
    conflict: tuple[str, str] | None = None
    for name, used, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        value = wanted.get(name)
        asked = [value] if isinstance(value, str) else list(value or ())
        held = have.get(name)
        mine = {held} if isinstance(held, str) else set(held or ())
        clashes = [item for item in asked if item in used and item not in mine]
        if clashes:
            texts = [f'"{item}" is already in use' for item in clashes]
            conflict = reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        elif value:
            names[name] = value
        else:
            names.pop(name, None)
    names.pop("categories", None)
    if wanted.get("categories"):
        names["categories"] = wanted["categories"]
    names = {"plural": "", "kind": ""} | names
    if conflict is None:
        return _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"), names
    return _condition("NamesAccepted", "False", *conflict), names


def _taken(crd: Manifest, others: Iterable[Manifest]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != crd["spec"]["group"] or other["metadata"]["name"] == crd["metadata"]["name"]:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update(name for name in (names.get("plural"), names.get("singular")) if name)
        resources.update(names.get("shortNames") or ())
        kinds.update(name for name in (names.get("kind"), names.get("listKind")) if name)
    return resources, kinds


def _established(crd: Manifest, accepted: Manifest) -> Manifest:
    if is_true(crd, "Established") or accepted["status"] == "True":
        text = "the initial names have been accepted"
        return _condition("Established", "True", "InitialNamesAccepted", text)
    return _condition("Established", "False", "NotAccepted", "not all names are accepted")


def _non_structural(crd: Manifest) -> Manifest | None:
    """Return the condition NonStructuralSchema, for definitions from v1beta1 that are not structural."""
    texts: list[str] = []
    if crd["spec"].get("preserveUnknownFields"):
        texts.append("spec.preserveUnknownFields: Invalid value: true: must be false")
        for index, version in enumerate(crd["spec"].get("versions") or ()):
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            texts += [str(error) for error in check_structural(schema, path)] if schema else []
    if not texts:
        return None
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return _condition("NonStructuralSchema", "True", "Violations", message)
