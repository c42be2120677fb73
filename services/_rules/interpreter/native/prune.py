"""Removes what a control plane wrote into an object and what a member must write itself (docs/sources.md#rendering).

The rules of a kind go by the kind alone, whatever its API group.
"""

from collections.abc import Callable, Collection
from typing import Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import without

REMOVE_JOB_TTL: Final = "RemoveJobTTLSeconds"

_SERVER_METADATA: Final = frozenset(
    {
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
        "ownerReferences",
        "finalizers",
    }
)
_REVISIONS: Final = ("deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history")
_SELECTOR_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_POD_LABELS: Final = (*_SELECTOR_LABELS, "job-name", "batch.kubernetes.io/job-name")
_ANNOTATIONS: Final = ("metadata", "annotations")
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
TOKEN_SECRET: Final = "kubernetes.io/service-account-token"


def prune(obj: Manifest, hooks: Collection[str] = (REMOVE_JOB_TTL,)) -> Manifest:
    """A copy without server-side fields; `hooks` names optional removals (RemoveJobTTLSeconds)."""
    pruned = {name: value for name, value in obj.items() if name != "status"}
    metadata = obj.get("metadata")
    if type(metadata) is dict:
        pruned["metadata"] = {name: value for name, value in metadata.items() if name not in _SERVER_METADATA}
    kind = obj.get("kind")
    rule = _RULES.get(kind) if type(kind) is str else None
    if rule is not None:
        pruned = rule(pruned)
    if kind == "Job" and REMOVE_JOB_TTL in hooks:
        pruned = without(pruned, ("spec",), ("ttlSecondsAfterFinished",))
    return pruned


def _deployment(obj: Manifest) -> Manifest:
    return without(obj, _ANNOTATIONS, _REVISIONS)


def _job(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if type(spec) is not dict or spec.get("manualSelector") is True:
        return obj
    obj = without(obj, ("spec", "selector", "matchLabels"), _SELECTOR_LABELS)
    return without(obj, ("spec", "template", "metadata", "labels"), _POD_LABELS)


def _service(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if type(spec) is not dict or type(spec.get("clusterIP")) is not str or spec["clusterIP"] == "None":
        return obj
    return without(obj, ("spec",), ("clusterIP", "clusterIPs"))


def _service_account(obj: Manifest) -> Manifest:
    secrets = obj.get("secrets")
    metadata = obj.get("metadata")
    if type(secrets) is not list or not secrets or type(metadata) is not dict:
        return obj
    prefix = f"{metadata.get('name', '')}-token-"
    kept = []
    skip = False
    for secret in secrets:
        # The entry that follows a removed one stays unexamined: Karmada does so, and members hold what it left there.
        generated = type(secret) is dict and str(secret.get("name") or "").startswith(prefix)
        if generated and not skip:
            skip = True
            continue
        skip = False
        kept.append(secret)
    return obj if len(kept) == len(secrets) else {**obj, "secrets": kept}


def _secret(obj: Manifest) -> Manifest:
    if obj.get("type") != TOKEN_SECRET:
        return obj
    obj = without(obj, _ANNOTATIONS, ("kubernetes.io/service-account.uid",))
    return {**obj, "data": None}


def _claim(obj: Manifest) -> Manifest:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if type(metadata) is dict else None
    if type(annotations) is not dict or not annotations.get(_SELECTED_NODE):
        return obj
    return without(obj, _ANNOTATIONS, (_SELECTED_NODE,))


_RULES: Final[dict[str, Callable[[Manifest], Manifest]]] = {
    "Deployment": _deployment,
    "Job": _job,
    "Service": _service,
    "ServiceAccount": _service_account,
    "Secret": _secret,
    "PersistentVolumeClaim": _claim,
}
