"""Our accounts in a member: with every right for the control plane, and one that acts in the name of people.

Tokens are wanted that last: where a member issues short ones only, a Secret of the account has one without an end.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.kube.route import Route
from services._rules.constants import LABEL_TRUE, NAMESPACE_CLUSTER, SYSTEM_LABEL
from services._rules.kubernetes.rbac.role_index import GROUP as RBAC
from services._rules.kubernetes.rbac.service_roles import user_of
from services._rules.metrics.metric_questions import RESOURCE
from services._rules.metrics.metric_questions import VERSIONS as METRICS
from services._rules.names import member_role_name, member_service_account_name
from services._rules.proxying.impersonator_rights import IMPERSONATOR, impersonator_rights
from services.cli.common.running import JoinRefused, NotReady
from services.cli.common.waiting import wait_until

METRICS_READER: Final = "fleetlog-metrics-reader"
"""The role in a member by which the gateway reads its metrics."""
AUTOSCALER: Final = "fleetlog-autoscaler"
"""The role in a member by which the autoscaler reads its pods, their samples, and scales."""
SEARCH: Final = "fleetlog-search"
"""The role in a member by which search reads what registries select."""
READERS: Final = (METRICS_READER, AUTOSCALER, SEARCH)
TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
_TOKEN_SECONDS: Final = 10 * 365 * 24 * 3600
_LASTING_SECONDS: Final = 365 * 24 * 3600
_LEAVING_SECONDS: Final = 30.0
_FILLING_SECONDS: Final = 10.0
"""How long a member has to write a token into a Secret; where nothing does, it never will."""


class MemberAccess(Struct, frozen=True, kw_only=True):
    """How the control plane will reach a member: URL, CA in PEM, and a token or a client certificate with its key.

    `proxy` is the URL of a proxy on the way there, `server_name` the name that its certificate is for, if not its
    host. `impersonator` is the token of the account that acts in the name of people.
    """

    endpoint: str
    ca_pem: str = ""
    token: str = ""
    client_cert: str = ""
    client_key: str = ""
    insecure: bool = False
    proxy: str = ""
    server_name: str = ""
    impersonator: str = ""

    def __repr__(self) -> str:
        return f"MemberAccess({self.endpoint})"

    def open_with(self, token: str) -> KubeClient:
        """A client of the member that comes with this token."""
        route = Route(self.proxy, name=self.server_name)
        return KubeClient.from_token(self.endpoint, token, ca_pem=self.ca_pem, insecure=self.insecure, route=route)


async def ensure(client: KubeClient, path: str, manifest: Manifest) -> Manifest:
    """Create an object unless it is there; the object as it stands."""
    try:
        return await client.create(path, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return await client.get(f"{path}/{manifest['metadata']['name']}")


async def _ensure_there(member: KubeClient, path: str, manifest: Manifest) -> None:
    """The same in a member that may still be removing what an earlier joining made; raises NotReady."""
    name = manifest["metadata"]["name"]

    async def leaving() -> str:
        meta = (await ensure(member, path, manifest))["metadata"]
        # What `unjoin` removes belongs to the binding that is deleted last.
        gone = meta.get("deletionTimestamp") or meta.get("ownerReferences")
        return "the member is still removing what was there" if gone else ""

    await wait_until(f"{manifest['kind']} {name}", leaving, _LEAVING_SECONDS)


async def cluster_id(member: KubeClient) -> str:
    """Identity of a member: the uid of its kube-system namespace."""
    namespace = await member.get(resource_path("", "v1", "namespaces", "", "kube-system"))
    return str(namespace["metadata"]["uid"])


def system_namespace(name: str) -> Manifest:
    """A namespace of the system's own."""
    labels = {SYSTEM_LABEL: LABEL_TRUE}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def member_identity(
    member: KubeClient, name: str, access: MemberAccess, namespace: str = NAMESPACE_CLUSTER
) -> MemberAccess:
    """Service accounts of ours in the member, one of them with every right, and their tokens.

    Where the member issues no token that lasts, the kubeconfig's own credentials are kept. Raises JoinRefused where
    it has none, and NotReady while the member is still removing what an earlier joining made.
    """
    account = member_service_account_name(name)
    role = member_role_name(account)
    await _ensure_there(member, resource_path("", "v1", "namespaces"), system_namespace(namespace))
    accounts = resource_path("", "v1", "serviceaccounts", namespace)
    for each in (account, IMPERSONATOR):
        metadata = {"name": each, "namespace": namespace}
        await _ensure_there(member, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    await _ensure_there(
        member,
        resource_path(RBAC, "v1", "clusterroles"),
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules},
    )
    await _ensure_there(
        member,
        resource_path(RBAC, "v1", "clusterrolebindings"),
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )
    for manifest in (*impersonator_rights(namespace), *reading_rights()):
        await _ensure_there(member, resource_path(RBAC, "v1", f"{manifest['kind'].lower()}s"), manifest)
    token = await _lasting_token(member, access, namespace, account)
    own = bool(access.token or access.client_cert)
    if not token and not own:
        raise JoinRefused(
            "the kubeconfig holds neither token nor certificate (a program makes its credentials), and the cluster "
            f"issues no token that lasts for service account {namespace}/{account}; use a kubeconfig with a token or a "
            "client certificate, or let the cluster fill Secrets of service accounts"
        )
    ours = msgspec.structs.replace(access, token=token, client_cert="", client_key="") if token else access
    impersonator = await _lasting_token(member, access, namespace, IMPERSONATOR)
    return msgspec.structs.replace(ours, impersonator=impersonator)


def reading_rights() -> Iterator[Manifest]:
    """Reading of metrics by the gateway; of pods, their samples and scales by the autoscaler; of all kinds by search.

    The control plane decides who sees the metrics and objects of all members, and registries which kinds are read.
    """
    read = ["get", "list"]
    for name, service, rules in (
        (METRICS_READER, "gateway", [{"apiGroups": list(METRICS), "resources": ["*"], "verbs": read}]),
        (
            AUTOSCALER,
            "autoscaler",
            [
                {"apiGroups": [""], "resources": ["pods"], "verbs": [*read, "watch"]},
                {"apiGroups": [RESOURCE], "resources": ["pods"], "verbs": read},
                {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]},
            ],
        ),
        (SEARCH, "search", [{"apiGroups": ["*"], "resources": ["*"], "verbs": [*read, "watch"]}]),
    ):
        shared = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
        yield {**shared, "kind": "ClusterRole", "rules": rules}
        yield {
            **shared,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user_of(service)}],
        }


async def _lasting_token(member: KubeClient, access: MemberAccess, namespace: str, account: str) -> str:
    """A token of a service account that the member accepts for a year at least; empty where there is none."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    place = f"{resource_path('', 'v1', 'serviceaccounts', namespace)}/{account}/token"
    try:
        issued = (await member.create(place, request))["status"]
    except ApiError:
        issued = {}
    if issued and _lifetime(issued.get("expirationTimestamp", "")) >= _LASTING_SECONDS:
        token = str(issued["token"])
        if await _accepted(access, token):
            return token
    token = await _stored_token(member, namespace, account)
    return token if token and await _accepted(access, token) else ""


async def _stored_token(member: KubeClient, namespace: str, account: str) -> str:
    """The token that the member writes into a Secret of the account; empty where it does not."""
    secrets = resource_path("", "v1", "secrets", namespace)
    metadata = {
        "name": account,
        "namespace": namespace,
        "annotations": {"kubernetes.io/service-account.name": account},
        "labels": {SYSTEM_LABEL: LABEL_TRUE},
    }
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TOKEN_TYPE}
    found = ""

    async def filled() -> str:
        nonlocal found
        live = await ensure(member, secrets, manifest)
        data = live.get("data") or {}
        found = base64.b64decode(data["token"]).decode() if live.get("type") == TOKEN_TYPE and "token" in data else ""
        return "" if found else "the member has not written a token into it"

    try:
        await wait_until(f"Secret {namespace}/{account}", filled, _FILLING_SECONDS)
    except (ApiError, NotReady):
        return ""
    return found


def _lifetime(expires: str) -> float:
    """Seconds until an RFC 3339 time; 0 where it is none. Servers may grant less than was asked."""
    try:
        return (datetime.fromisoformat(expires) - datetime.now(UTC)).total_seconds()  # noqa: TID251 - a command
    except ValueError:
        return 0.0


async def _accepted(access: MemberAccess, token: str) -> bool:
    """Whether the member takes a token it issued: keys of issuing and checking are separate settings of a server."""
    client = access.open_with(token)
    try:
        # What every account that is known may read, also the one that acts for others and has no rights of its own.
        await client.request("GET", "/api")
    except ApiError as error:
        return error.status == 403
    finally:
        await client.close()
    return True
