"""Joins a member to the control plane: identity in the member, Secret and Cluster here.

Source: docs/sources.md#registration.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.constants import CLUSTER_API, LABEL_TRUE, NAMESPACE_CLUSTER, SYSTEM_LABEL
from services._rules.names import member_role_name, member_service_account_name
from services.cli.common.karmadactl_options import Traits
from services.cli.common.running import JoinRefused

Mode = Literal["Push", "Pull"]

_TOKEN_SECONDS: Final = 10 * 365 * 24 * 3600
_LASTING_SECONDS: Final = 365 * 24 * 3600


class MemberAccess(Struct, frozen=True, kw_only=True):
    """How the control plane will reach a member: URL, CA in PEM, and a token or a client certificate with its key."""

    endpoint: str
    ca_pem: str = ""
    token: str = ""
    client_cert: str = ""
    client_key: str = ""
    insecure: bool = False


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
    )


def kubeconfig_of(access: MemberAccess, name: str) -> Manifest:
    """A kubeconfig with everything in it, for who else is to reach a member in this way."""
    cluster: Manifest = {"server": access.endpoint}
    if access.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca_pem.encode()).decode()
    if access.insecure:
        cluster["insecure-skip-tls-verify"] = True
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


async def ensure(client: KubeClient, path: str, manifest: Manifest) -> Manifest:
    """Create an object unless it is there; the object as it stands."""
    try:
        return await client.create(path, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return await client.get(f"{path}/{manifest['metadata']['name']}")


async def cluster_id(member: KubeClient) -> str:
    """Identity of a member: the uid of its kube-system namespace."""
    namespace = await member.get(resource_path("", "v1", "namespaces", "", "kube-system"))
    return str(namespace["metadata"]["uid"])


def _namespace(name: str) -> Manifest:
    labels = {SYSTEM_LABEL: LABEL_TRUE}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def member_identity(
    member: KubeClient, name: str, access: MemberAccess, namespace: str = NAMESPACE_CLUSTER
) -> MemberAccess:
    """A service account of ours in the member with every right, and a token for it.

    Where the member issues no tokens, or none that it accepts for a year, the kubeconfig's own credentials (if it has
    any) are kept.
    """
    account = member_service_account_name(name)
    role = member_role_name(account)
    metadata = {"name": account, "namespace": namespace}
    await ensure(member, resource_path("", "v1", "namespaces"), _namespace(namespace))
    accounts = resource_path("", "v1", "serviceaccounts", namespace)
    await ensure(member, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    await ensure(
        member,
        resource_path(rbac, "v1", "clusterroles"),
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules},
    )
    await ensure(
        member,
        resource_path(rbac, "v1", "clusterrolebindings"),
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    try:
        issued = await member.create(f"{accounts}/{account}/token", request)
    except ApiError:
        return access
    ours = MemberAccess(
        endpoint=access.endpoint,
        ca_pem=access.ca_pem,
        token=issued["status"]["token"],
        insecure=access.insecure,
    )
    if not access.token and not access.client_cert:
        return ours
    lasting = _lifetime(issued["status"].get("expirationTimestamp", "")) >= _LASTING_SECONDS
    return ours if lasting and await _accepted(ours) else access


def _lifetime(expires: str) -> float:
    """Seconds until an RFC 3339 time; 0 where it is none. Servers may grant less than was asked."""
    try:
        return (datetime.fromisoformat(expires) - datetime.now(UTC)).total_seconds()
    except ValueError:
        return 0.0


async def _accepted(access: MemberAccess) -> bool:
    """Whether the member takes a token it issued: keys of issuing and checking are separate settings of a server."""
    client = KubeClient.from_token(access.endpoint, access.token, ca_pem=access.ca_pem, insecure=access.insecure)
    try:
        await cluster_id(client)
    except ApiError:
        return False
    finally:
        await client.close()
    return True


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
    """Write the Cluster object of a member, and the Secret for reaching it; a pull member works without one.

    Raises JoinRefused when a cluster of this name or identity is a member already (unless `reuse`).
    """
    clusters = resource_path("cluster.karmada.io", "v1alpha1", "clusters")
    for cluster in (await control.get(clusters)).get("items") or ():
        other = cluster["metadata"]["name"]
        if other == name and not reuse:
            raise JoinRefused(f"cluster {name} is a member already; unjoin it first or choose another name")
        if other != name and identity and cluster["spec"].get("id") == identity:
            raise JoinRefused(f"this cluster is a member already, under the name {other}")
    await ensure(control, resource_path("", "v1", "namespaces"), _namespace(namespace))
    spec: Manifest = {"syncMode": mode}
    if identity:
        spec["id"] = identity
    if access is not None:
        await _write_secret(control, name, access, namespace)
        spec["apiEndpoint"] = access.endpoint
        spec["secretRef"] = {"namespace": namespace, "name": name}
        if access.insecure:
            spec["insecureSkipTLSVerification"] = True
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
        reached.setdefault("insecureSkipTLSVerification", None)
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
    secret = resource_path("", "v1", "secrets", namespace, name)
    await control.patch(secret, {"metadata": {"ownerReferences": [owner]}})


async def _write_secret(control: KubeClient, name: str, access: MemberAccess, namespace: str) -> None:
    data = {
        "token": access.token,
        "caBundle": access.ca_pem,
        "clientCert": access.client_cert if not access.token else "",
        "clientKey": access.client_key if not access.token else "",
    }
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
        await control.patch(f"{secrets}/{name}", {"data": encoded})
