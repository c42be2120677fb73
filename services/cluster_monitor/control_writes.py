"""Writes to the control plane: Cluster objects and what belongs to them."""

from __future__ import annotations

from services._kit.kube.client import MERGE_PATCH, ApiError, KubeClient, resource_path
from services._rules.names import execution_namespace
from services.cluster_monitor.decide import (
    FINALIZER,
    AddFinalizer,
    DropFinalizer,
    WriteIdentity,
    WriteSpec,
    WriteStatus,
    Written,
)

GROUP, VERSION, RESOURCE = "cluster.karmada.io", "v1alpha1", "clusters"


def path_of(name: str = "", subresource: str = "") -> str:
    """URL path of Cluster objects."""
    return resource_path(GROUP, VERSION, RESOURCE, "", name, subresource)


async def carry_out(client: KubeClient, effect: Written) -> None:
    """Make one write; raises ApiError and Unreachable."""
    match effect:
        case WriteSpec():
            # Only if the taints were not changed meanwhile.
            body = {"metadata": {"resourceVersion": effect.resource_version}, "spec": {"taints": effect.taints}}
            await client.patch(path_of(effect.name), body)
        case WriteIdentity():
            said = {"metadata": {"resourceVersion": effect.resource_version}, "spec": {"id": effect.identity}}
            await client.patch(path_of(effect.name), said)
        case WriteStatus():
            await client.patch(path_of(effect.name, "status"), {"status": effect.patch}, MERGE_PATCH)
        case AddFinalizer():
            await _take_into_care(client, effect.name)
        case DropFinalizer():
            live = await client.get(path_of(effect.name))
            kept = [name for name in live["metadata"].get("finalizers", ()) if name != FINALIZER]
            namespace = execution_namespace(effect.name)
            try:
                await client.delete(resource_path("", "v1", "namespaces", "", namespace))
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
            version = live["metadata"].get("resourceVersion", "")
            await client.patch(path_of(effect.name), {"metadata": {"resourceVersion": version, "finalizers": kept}})


async def _take_into_care(client: KubeClient, name: str) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": execution_namespace(name)}}
    try:
        await client.create(resource_path("", "v1", "namespaces"), namespace)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    live = await client.get(path_of(name))
    metadata = live["metadata"]
    if FINALIZER in metadata.get("finalizers", ()) or "deletionTimestamp" in metadata:
        return
    finalizers = [*metadata.get("finalizers", ()), FINALIZER]
    version = metadata.get("resourceVersion", "")
    await client.patch(path_of(name), {"metadata": {"resourceVersion": version, "finalizers": finalizers}})
