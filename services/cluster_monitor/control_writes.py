"""Writes to the control plane: Cluster objects and what belongs to them."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from schemas.manifest import Manifest
from services._kit.kube.client import MERGE_PATCH, ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import LABEL_TRUE, NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac import credential_bindings as bindings
from services._rules.kubernetes.rbac.role_index import GROUP as RBAC
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

log = structlog.get_logger("cluster_monitor.bindings")

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


async def keep_bindings(client: KubeClient, namespaces: Collection[str]) -> dict[str, str]:
    """Bind the services that read members' credentials in these namespaces, and take that away in all others.

    Returns the namespaces in which that was not possible, with the reason.
    """
    refused: dict[str, str] = {}
    try:
        plan = await _plan(client, namespaces)
    except (ApiError, Unreachable) as error:
        if namespaces:
            log.warning("credentials_not_bound", namespaces=sorted(namespaces), reason=str(error))
        return dict.fromkeys(namespaces, _unbound(error))
    for write, manifests in (("create", plan.create), ("patch", plan.patch), ("delete", plan.delete)):
        for manifest in manifests:
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            path = resource_path(RBAC, "v1", "rolebindings", namespace)
            try:
                match write:
                    case "create":
                        await client.create(path, manifest)
                    case "patch":
                        await client.patch(f"{path}/{name}", {"subjects": manifest["subjects"]})
                    case _:
                        await client.delete(f"{path}/{name}")
            except (ApiError, Unreachable) as error:
                if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                    # One without our label, which others keep.
                    continue
                log.warning("credentials_not_bound", namespace=namespace, write=write, reason=str(error))
                if write != "delete":
                    refused[namespace] = _unbound(error)
            else:
                log.info("credentials_bound", namespace=namespace, name=name, write=write)
    return refused


async def _plan(client: KubeClient, namespaces: Collection[str]) -> bindings.Plan:
    """What has to be written; raises ApiError and Unreachable."""
    marked = {"labelSelector": f"{bindings.LABEL}={LABEL_TRUE}"}
    live = (await client.get(resource_path(RBAC, "v1", "rolebindings"), params=marked)).get("items") or []
    usual: list[Manifest] = []
    if namespaces:
        usual = (await client.get(resource_path(RBAC, "v1", "rolebindings", NAMESPACE_CLUSTER))).get("items") or []
    return bindings.plan(namespaces, live, bindings.accounts_of(usual))


def _unbound(error: Exception) -> str:
    return f"the services could not be given the right to read Secrets there: {error}"
