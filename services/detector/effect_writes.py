"""Makes the writes to the control plane that decisions ask for, and words what is recorded of a refusal."""

from __future__ import annotations

from schemas.keys import ObjectKey, PolicyKey
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.secrets.redaction import refusal_of_secret
from services._rules.secrets.secret_objects import is_secret_resource
from services.detector.effects import DeleteRebalancer, KeepPolicy, ReleasePolicy, WritePolicyId, WriteRebalancer
from services.detector.kind_watch import GROUPS, PLURALS
from services.detector.policies.claim_writes import WriteClaim

Written = WriteClaim | WritePolicyId | KeepPolicy | ReleasePolicy | WriteRebalancer | DeleteRebalancer


async def write(client: KubeClient, effect: Written) -> None:
    """Make one write; raises ApiError, a 409 where an object is not as it was read, and Unreachable."""
    match effect:
        case WriteClaim() | WritePolicyId():
            await client.patch(*_patch_of(effect))
        case ReleasePolicy():
            await _release(client, effect)
        case KeepPolicy():
            await _keep(client, effect)
        case WriteRebalancer():
            metadata = {"uid": effect.uid, "resourceVersion": effect.resource_version}
            path = _rebalancer_path(effect.key, "status")
            await client.patch(path, {"metadata": metadata, "status": effect.status})
        case DeleteRebalancer():
            path = _rebalancer_path(effect.key)
            await client.delete(path, uid=effect.uid, resource_version=effect.resource_version)


def refusal(effect: Written, error: ApiError) -> str:
    """What is recorded of a refusal: of a Secret nothing that could quote it."""
    if isinstance(effect, WriteClaim) and is_secret_resource(effect.key.group, effect.key.resource):
        return refusal_of_secret(error.status, error.reason, error.message)
    return str(error)


def other_uid(error: ApiError) -> bool:
    """Whether a conflict means that another object has the name now."""
    return error.status == 409 and "uid" in error.message.lower()


async def _release(client: KubeClient, effect: ReleasePolicy) -> None:
    """Remove the finalizer from the policy as it stands; a concurrent write is a conflict and repeats this."""
    path = _policy_path(effect.key)
    metadata = (await client.get(path))["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if metadata.get("uid") != effect.uid or effect.finalizer not in finalizers:
        return
    kept = [name for name in finalizers if name != effect.finalizer]
    await client.patch(path, {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}})


async def _keep(client: KubeClient, effect: KeepPolicy) -> None:
    """Add the finalizer to the policy as it stands, unless it is being deleted."""
    path = _policy_path(effect.key)
    metadata = (await client.get(path))["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if metadata.get("uid") != effect.uid or effect.finalizer in finalizers or "deletionTimestamp" in metadata:
        return
    changed = {"resourceVersion": metadata["resourceVersion"], "finalizers": [*finalizers, effect.finalizer]}
    await client.patch(path, {"metadata": changed})


def _patch_of(effect: WriteClaim | WritePolicyId) -> tuple[str, dict[str, object]]:
    match effect:
        case WriteClaim():
            key: ObjectKey = effect.key
            version = effect.api_version.rpartition("/")[2]
            path = resource_path(key.group, version, key.resource, key.namespace, key.name)
            metadata: dict[str, object] = {"uid": effect.uid}
            if effect.labels:
                metadata["labels"] = effect.labels
            if effect.annotations:
                metadata["annotations"] = effect.annotations
            return path, {"metadata": metadata}
        case WritePolicyId():
            return _policy_path(effect.key), {"metadata": {"uid": effect.uid, "labels": {effect.label: effect.id}}}


def _policy_path(key: PolicyKey) -> str:
    group = GROUPS.get(key.kind, "policy.karmada.io")
    return resource_path(group, "v1alpha1", PLURALS[key.kind], key.namespace, key.name)


def _rebalancer_path(key: PolicyKey, subresource: str = "") -> str:
    return resource_path("apps.karmada.io", "v1alpha1", PLURALS[key.kind], "", key.name, subresource)
