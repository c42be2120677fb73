"""An embedded control plane with a gateway behind it, a real member and a raw one, and requests of its users."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.installation import gateway_setup
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.support.raw_member import RawMember, raw_member
from tests.support.waiting import eventually

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
USERS = {
    "root": Identity("root", "", ("system:masters",)),
    "jane": Identity("jane", "u1", ("devs",), {"scopes": ["x"]}),
    "eve": Identity("eve", "u2", ()),
    "gateway": Identity("fleetlog:gateway", "", ("fleetlog",)),
}


class MemberPlane:
    """`real` is a member with roles, `raw` one of raw bytes; tokens are the names of users."""

    def __init__(self, control: ApiServer, member: ApiServer, raw: RawMember, session: aiohttp.ClientSession) -> None:
        self.control = control
        self.member = member
        self.raw = raw
        self.session = session
        self.gateway: Any = None
        self.gateway_tls = ssl.create_default_context()
        self.base = control.url
        self.clusters = CLUSTERS

    def url(self, cluster: str, path: str) -> str:
        return f"{self.base}{self.clusters}/{cluster}/proxy{path}"

    async def ask(
        self, cluster: str, path: str, user: str = "root", method: str = "GET", data: Any = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and decoded body of an answer through the control plane."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method,
            self.url(cluster, path),
            data=data,
            headers={"Authorization": f"Bearer {user}", **sent},
            allow_redirects=False,
        ) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith(("{", "[")) else text

    async def switched(
        self, path: str, user: str, upgrade: str = "SPDY/3.1", method: str = "POST"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """A connection to the raw member that asked for another protocol, and the head of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.base.rpartition(":")[2]))
        lines = [
            f"{method} {self.clusters}/raw/proxy{path} HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {user}",
            "Connection: Upgrade",
            f"Upgrade: {upgrade}",
            "",
            "",
        ]
        writer.write("\r\n".join(lines).encode())
        return reader, writer, await reader.readuntil(b"\r\n\r\n")

    async def allow(self, user: str, *clusters: str, verbs: tuple[str, ...] = ("get", "create")) -> None:
        """Let a user use `clusters/proxy` of these clusters; none: of all."""
        local = self.control.local
        rule: dict[str, Any] = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": [*verbs]}
        if clusters:
            rule["resourceNames"] = list(clusters)
        await grant(local, user, rule)


async def grant(local: Any, user: str, *rules: dict[str, Any]) -> None:
    """A cluster role with these rules for a user."""
    name = f"{user}-{abs(hash(str(rules)))}"
    group = "rbac.authorization.k8s.io"
    await local.create(f"{group}/v1", "clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    subject = {"apiGroup": group, "kind": "User", "name": user}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    await local.create(f"{group}/v1", "clusterrolebindings", binding)


async def api_server(stack: AsyncExitStack, place: Path, tokens: dict[str, Identity], **settings: Any) -> ApiServer:
    """A started server that decides by roles."""
    made = ApiServer(
        MemoryStore(),
        builtin_registry(),
        Settings(data_dir=place, tokens=tokens, tls=False, authorization="Node,RBAC", **settings),
    )
    await made.start()
    stack.push_async_callback(made.stop)
    return made


def secret(name: str, token: str) -> dict[str, Any]:
    """The Secret of an impersonator."""
    metadata = {"name": name, "namespace": "karmada-cluster"}
    return {"metadata": metadata, "data": {"token": base64.b64encode(token.encode()).decode()}}


@cache
def clusters_only() -> list[Manifest]:
    """The definition of clusters: of all our kinds these tests use no other, and each server would compile them all."""
    return [crd for crd in needed_definitions() if crd["spec"]["names"]["kind"] == "Cluster"]


@asynccontextmanager
async def member_plane(
    tmp_path: Path, start_gateway: Any, *, outside: bool = False, **settings: Any
) -> AsyncIterator[MemberPlane]:
    """All of it, running; `outside`: the control plane knows nothing of the gateway, which is asked itself."""
    async with AsyncExitStack() as stack:
        control = await api_server(
            stack, tmp_path / "control", USERS, service_roles=True, allow_local_extensions=("1",)
        )
        acting = {"acting": Identity("impersonator", "", ())}
        member = await api_server(stack, tmp_path / "member", acting, controllers=False)
        await grant(
            member.local,
            "impersonator",
            {"apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"], "verbs": ["impersonate"]},
        )
        raw = await stack.enter_async_context(raw_member())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        plane = MemberPlane(control, member, raw, session)
        admin = KubeClient(control.url, ssl_context=None, headers={"Authorization": "Bearer root"})
        stack.push_async_callback(admin.close)
        await apply_definitions(admin, clusters_only())
        for name, url, token in (("real", member.url, "acting"), ("raw", raw.url, "impersonator")):
            await admin.create(resource_path("", "v1", "secrets", "karmada-cluster"), secret(f"{name}-i", token))
            reference = {"namespace": "karmada-cluster", "name": f"{name}-i"}
            spec = {"syncMode": "Push", "apiEndpoint": url, "impersonatorSecretRef": reference}
            await admin.create(
                CLUSTERS,
                {
                    "apiVersion": "cluster.karmada.io/v1alpha1",
                    "kind": "Cluster",
                    "metadata": {"name": name},
                    "spec": spec,
                },
            )
        authority = Authority(tmp_path / "gateway", "gateway-ca")
        authority.load()
        cert, key = authority.server(("fleetlog-gateway.karmada-system.svc", "127.0.0.1"))
        kubeconfig = tmp_path / "gateway.kubeconfig"
        control.write_kubeconfig(kubeconfig, user="fleetlog:gateway", groups=("fleetlog",))
        if outside:
            plane.gateway = await start_gateway(
                upstream_url=control.url, control_kubeconfig=str(kubeconfig), **settings
            )
            plane.base = plane.gateway.api.url
            yield plane
            return
        assert control.front_proxy is not None
        plane.gateway = await start_gateway(
            serving_cert=str(cert),
            serving_key=str(key),
            front_proxy_ca=str(control.front_proxy.ca_file),
            front_proxy_names=("front-proxy-client",),
            control_kubeconfig=str(kubeconfig),
            **settings,
        )
        access = tmp_path / "root.kubeconfig"
        control.write_kubeconfig(access)
        await gateway_setup.register(access, authority.ca_pem, plane.gateway.api.port)
        plane.gateway_tls.load_verify_locations(cadata=authority.ca_pem.decode())

        async def served() -> bool:
            return (await plane.ask("raw", "/version"))[0] == 200

        await eventually(served, "the way to members")
        raw.heard.clear()
        yield plane
