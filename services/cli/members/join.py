"""Joins a member to the control plane: identity in the member, Secret and Cluster here.

Source: docs/sources.md#registration.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.kube.route import proxy_problem
from services._rules.constants import CLUSTER_API, NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.role_index import GROUP as RBAC
from services._rules.kubernetes.rbac.service_roles import credential_objects
from services._rules.names import impersonation_secret_name
from services.cli.common.karmadactl_options import Traits
from services.cli.common.running import JoinRefused
from services.cli.members.member_account import MemberAccess, ensure, system_namespace

Mode = Literal["Push", "Pull"]


def access_of_kubeconfig(kubeconfig: Manifest, context: str = "") -> MemberAccess:
    """What a kubeconfig (decoded, with inline data) says of its endpoint and user; raises JoinRefused."""
    chosen = context or kubeconfig.get("current-context", "")
    entry = _named(kubeconfig.get("contexts"), chosen, "context")["context"]
    cluster = _named(kubeconfig.get("clusters"), entry["cluster"], "cluster")["cluster"]
    user = _named(kubeconfig.get("users"), entry["user"], "user")["user"]
    return MemberAccess(
        endpoint=cluster["server"],
        ca_pem=_inline(cluster, "certificate-authority"),
        token=user.get("token", "") or _file(user.get("tokenFile", "")),
        client_cert=_inline(user, "client-certificate"),
        client_key=_inline(user, "client-key"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        proxy=_proxy(cluster.get("proxy-url") or ""),
        server_name=cluster.get("tls-server-name") or "",
    )


def _proxy(url: str) -> str:
    if url and (problem := proxy_problem(url)):
        raise JoinRefused(f"the kubeconfig's proxy-url {problem}")
    return url


def kubeconfig_of(access: MemberAccess, name: str) -> Manifest:
    """A kubeconfig with everything in it, for who else is to reach a member in this way."""
    cluster: Manifest = {"server": access.endpoint}
    if access.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca_pem.encode()).decode()
    if access.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if access.proxy:
        cluster["proxy-url"] = access.proxy
    if access.server_name:
        cluster["tls-server-name"] = access.server_name
    user: Manifest = {"token": access.token} if access.token else {}
    if not access.token and access.client_cert:
        user["client-certificate-data"] = base64.b64encode(access.client_cert.encode()).decode()
        user["client-key-data"] = base64.b64encode(access.client_key.encode()).decode()
    return kubeconfig_with(name, cluster, user)


def kubeconfig_with(name: str, cluster: Manifest, user: Manifest, namespace: str = "") -> Manifest:
    """A kubeconfig with one cluster, user and context of the same name."""
    context = {"cluster": name, "user": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": context}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }


def save_kubeconfig(path: Path, access: MemberAccess, name: str) -> None:
    """Write a kubeconfig with everything in it, readable by its owner only."""
    private_text(path, msgspec.json.encode(kubeconfig_of(access, name)).decode())


def _named(entries: Any, name: str, what: str) -> Manifest:
    for entry in entries or ():
        if entry.get("name") == name:
            found: Manifest = entry
            return found
    raise JoinRefused(f"the kubeconfig has no {what} {name!r}; choose one with --cluster-context")


def _inline(entry: Manifest, name: str) -> str:
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"]).decode()
    return _file(entry.get(name, ""))


def _file(path: str) -> str:
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


async def join(
    control: KubeClient,
    name: str,
    access: MemberAccess | None,
    identity: str,
    traits: Traits,
    *,
    mode: Mode = "Push",
    namespace: str = NAMESPACE_CLUSTER,
    reuse: bool = False,
) -> None:
    """Write the Cluster object of a member, and the Secrets for reaching it; a pull member works without them.

    Raises JoinRefused when a cluster of this name or identity is a member already (unless `reuse`).
    """
    clusters = resource_path("cluster.karmada.io", "v1alpha1", "clusters")
    for cluster in (await control.get(clusters)).get("items") or ():
        other = cluster["metadata"]["name"]
        if other == name and not reuse:
            raise JoinRefused(f"cluster {name} is a member already; unjoin it first or choose another name")
        if other != name and identity and cluster["spec"].get("id") == identity:
            raise JoinRefused(f"this cluster is a member already, under the name {other}")
    await ensure(control, resource_path("", "v1", "namespaces"), system_namespace(namespace))
    spec: Manifest = {"syncMode": mode}
    if identity:
        spec["id"] = identity
    if access is not None:
        if namespace != NAMESPACE_CLUSTER:
            await _let_services_read(control, namespace)
        await _write_secrets(control, name, access, namespace)
        spec["apiEndpoint"] = access.endpoint
        spec["secretRef"] = {"namespace": namespace, "name": name}
        if access.insecure:
            spec["insecureSkipTLSVerification"] = True
        if access.proxy:
            spec["proxyURL"] = access.proxy
        if access.impersonator:
            spec["impersonatorSecretRef"] = {"namespace": namespace, "name": impersonation_secret_name(name)}
    reached = dict(spec)
    for field, value in (("provider", traits.provider), ("region", traits.region), ("zones", list(traits.zones))):
        if value:
            spec[field] = value
    manifest = {"apiVersion": CLUSTER_API, "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    try:
        joined = await control.create(clusters, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists" or not reuse:
            raise
        for field in ("insecureSkipTLSVerification", "proxyURL", "impersonatorSecretRef"):
            reached.setdefault(field, None)
        del reached["syncMode"]
        joined = await control.patch(f"{clusters}/{name}", {"spec": reached})
    if access is None:
        return
    owner = {
        "apiVersion": CLUSTER_API,
        "kind": "Cluster",
        "name": name,
        "uid": joined["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for secret in (name, *((impersonation_secret_name(name),) if access.impersonator else ())):
        path = resource_path("", "v1", "secrets", namespace, secret)
        await control.patch(path, {"metadata": {"ownerReferences": [owner]}})


async def _let_services_read(control: KubeClient, namespace: str) -> None:
    """Give the services that reach members the right to read the credentials in another namespace than the usual."""
    for manifest in credential_objects(namespace):
        await ensure(control, resource_path(RBAC, "v1", f"{manifest['kind'].lower()}s", namespace), manifest)


async def _write_secrets(control: KubeClient, name: str, access: MemberAccess, namespace: str) -> None:
    data = {
        "token": access.token,
        "caBundle": access.ca_pem,
        "clientCert": access.client_cert if not access.token else "",
        "clientKey": access.client_key if not access.token else "",
        "tlsServerName": access.server_name,
    }
    await _write_secret(control, name, data, namespace)
    if access.impersonator:
        await _write_secret(control, impersonation_secret_name(name), {"token": access.impersonator}, namespace)


async def _write_secret(control: KubeClient, name: str, data: Mapping[str, str], namespace: str) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value}
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": encoded,
    }
    secrets = resource_path("", "v1", "secrets", namespace)
    existing = await ensure(control, secrets, manifest)
    if existing.get("data") != encoded:
        # A key that is not there any more goes, too.
        gone = dict.fromkeys(set(existing.get("data") or ()) - set(encoded))
        await control.patch(f"{secrets}/{name}", {"data": {**gone, **encoded}})
