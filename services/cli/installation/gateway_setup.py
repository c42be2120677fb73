"""Gives the gateway of a laptop installation its certificate, and makes the control plane send it its kinds."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.base.private_files import private_json, private_text
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import NAMESPACE_SYSTEM
from services._rules.kubernetes.rbac.role_index import GROUP as RBAC
from services._rules.kubernetes.rbac.user_names import AUTHENTICATED, MASTERS
from services._rules.metrics.metric_questions import VERSIONS as METRICS
from services.apiserver.core.delegated_resources import ANNOTATION as SERVES
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.layout import CONTROL, Installation, Layout
from services.cli.common.waiting import condition, opened, wait_until
from services.cli.members.join import access_of_kubeconfig, kubeconfig_with
from services.cli.members.member_account import ensure

GATEWAY_SERVICE: Final = "fleetlog-gateway"
_GROUP: Final = "work.karmada.io"
PROXY: Final = "cluster.karmada.io/v1alpha1/clusters/proxy"
"""What the gateway answers for beside its own group."""
_PROXY_VERBS: Final = ("get", "create", "update", "patch", "delete")
_LOCAL: Final = "FLEETLOG_APISERVER_ALLOW_LOCAL_EXTENSIONS"
_API_SERVICES: Final = resource_path("apiregistration.k8s.io", "v1", "apiservices")


class Served(Struct, frozen=True):
    """A group version that the gateway answers for, with the priorities by which clients choose."""

    group: str
    version: str
    group_priority: int
    priority: int

    @property
    def name(self) -> str:
        """The name of its APIService."""
        return f"{self.version}.{self.group}"


# The preferred version first: clients pick what they find first. Groups whose plurals others have as well come last.
GATEWAY_OF: Final = Served(_GROUP, "v1alpha2", 1000, 20)
METRICS_SERVED: Final = tuple(
    Served(group, version, 100, 100 - 10 * place)
    for group, versions in METRICS.items()
    for place, version in enumerate(versions)
)
SERVED: Final = (GATEWAY_OF, Served(_GROUP, "v1alpha1", 1000, 10), *METRICS_SERVED)


def environment(layout: Layout, installation: Installation) -> dict[str, str]:
    """Settings of the gateway: where it listens, its certificate, and whom it believes."""
    from services.apiserver.auth.certificate_authority import Authority

    authority = Authority(layout.data("gateway"), "fleetlog-gateway-ca")
    authority.load()
    cert, key = authority.server((f"{GATEWAY_SERVICE}.{NAMESPACE_SYSTEM}.svc", "localhost", "127.0.0.1"))
    tokens = layout.data("gateway") / "tokens"
    # A gateway of before may be reading it.
    private_text(tokens, f'{installation.token},admin,admin,"{MASTERS}"\n')
    settings = {
        "FLEETLOG_API_PORT": str(installation.port("gateway_api")),
        "FLEETLOG_SERVING_CERT": str(cert),
        "FLEETLOG_SERVING_KEY": str(key),
        "FLEETLOG_TOKEN_FILE": str(tokens),
    }
    proxy = layout.data(CONTROL) / "front-proxy" / "ca.crt"
    if installation.control_kubeconfig:
        ca = (layout.data("gateway") / "ca.crt").read_bytes()
        settings.update(outside_settings(layout, installation, ca))
    else:
        settings["FLEETLOG_FRONT_PROXY_CA"] = str(proxy)
        settings["FLEETLOG_FRONT_PROXY_NAMES"] = "front-proxy-client"
    return settings


def openings(port: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """What lets the embedded control plane reach the gateway on this machine, beside what the user lets it reach."""
    mine = [f"127.0.0.1:{port}", f"[::1]:{port}"]
    return {_LOCAL: ",".join((*filter(None, (inherited.get(_LOCAL, ""),)), *mine))}


async def register(control: Path, ca_pem: bytes, port: int) -> None:
    """Make the control plane answer for bindings and works through the gateway with this authority."""
    async with opened(control) as client:
        namespace, service = gateway_service("localhost")
        await ensure(client, resource_path("", "v1", "namespaces"), namespace)
        await ensure(client, resource_path("", "v1", "services", NAMESPACE_SYSTEM), service)
        for manifest in api_services(base64.b64encode(ca_pem).decode(), port):
            await _register(client, manifest)


def gateway_service(host: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Service by which a control plane reaches the gateway at a host, and before it the namespace of both."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE_SYSTEM}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": GATEWAY_SERVICE, "namespace": NAMESPACE_SYSTEM},
        "spec": {"type": "ExternalName", "externalName": host},
    }
    return namespace, service


def api_services(bundle: str, port: int) -> list[dict[str, Any]]:
    """The objects that make a control plane send requests to the gateway; `bundle` is its authority in base64."""
    place = {"namespace": NAMESPACE_SYSTEM, "name": GATEWAY_SERVICE, "port": port}
    return [api_service(served, bundle, place) for served in SERVED]


def api_service(served: Served, bundle: str, service: Manifest) -> dict[str, Any]:
    """The object for one group version; `service` names the Service of the gateway with its port."""
    annotations = {"annotations": {SERVES: PROXY}} if served.group == _GROUP else {}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": served.name, **annotations},
        "spec": {
            "group": served.group,
            "version": served.version,
            "groupPriorityMinimum": served.group_priority,
            "versionPriority": served.priority,
            "caBundle": bundle,
            "service": service,
        },
    }


def member_access() -> list[Manifest]:
    """A role by which a kube-apiserver lets everyone ask the gateway for members, and its binding.

    The gateway asks whether the caller may use `clusters/proxy` of the cluster (cluster.karmada.io).
    """
    name = {"name": "fleetlog:members-through-gateway"}
    rule = {"apiGroups": [_GROUP], "resources": ["clusters/proxy"], "verbs": list(_PROXY_VERBS)}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": name, "rules": [rule]},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", **name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": AUTHENTICATED}],
        },
    ]


async def _register(client: KubeClient, manifest: dict[str, Any]) -> None:
    metadata, spec = manifest["metadata"], manifest["spec"]
    try:
        await client.create(_API_SERVICES, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        kept = {name: value for name, value in metadata.items() if name == "annotations"}
        await client.patch(f"{_API_SERVICES}/{metadata['name']}", {"metadata": kept, "spec": spec})


async def available(control: Path) -> str:
    """Wait until the control plane answers for bindings and works: clients remember what was not served."""

    async def look(client: KubeClient) -> str:
        for served in SERVED:
            service = await client.get(f"{_API_SERVICES}/{served.name}")
            found = condition(service, "Available")
            if found and found["status"] != "True":
                return str(found.get("message") or "not available yet")
        listed = await client.get(f"/apis/{_GROUP}/{SERVED[0].version}")
        return "" if listed.get("resources") else "nothing is served yet"

    await _until("bindings and works", control, look)
    return "bindings and works"


async def reached(kubeconfig: Path) -> str:
    """Wait until the gateway answers for bindings, works and, by the control plane, for everything else."""

    async def look(client: KubeClient) -> str:
        served = {group.get("name") for group in (await client.get("/apis")).get("groups") or ()}
        missing = {_GROUP, "cluster.karmada.io"} - served
        return f"not served yet: {', '.join(sorted(missing))}" if missing else ""

    return f"all kinds at {await _until('the gateway', kubeconfig, look)}"


async def _until(what: str, kubeconfig: Path, look: Callable[[KubeClient], Awaitable[str]]) -> str:
    """Wait until a server shows what `look` wants; its URL."""

    async def complaint() -> str:
        try:
            return await look(client)
        except (ApiError, Unreachable) as error:
            return str(error)

    async with opened(kubeconfig) as client:
        await wait_until(what, complaint, 60.0)
        return client.server


_CERTIFICATE: Final = frozenset(
    {"client-certificate", "client-certificate-data", "client-key", "client-key-data"},
)
_SHOWN: Final = ("token", "tokenFile", "exec", "auth-provider", "username")
"""Credentials that a client shows in a header, which the gateway passes on."""


def outside_settings(layout: Layout, installation: Installation, ca_pem: bytes) -> dict[str, str]:
    """Write the kubeconfig of an installation whose control plane is not ours; settings of the gateway for it.

    The kubeconfig leads to the gateway, which answers for bindings and works and passes everything else on. Clients
    show it their own credentials, which the control plane judges. A client certificate cannot be passed on: where the
    kubeconfig that was given holds one, the installation's token stands for it, and both lie in files that only their
    owner reads.
    """
    given = read_kubeconfig(layout.control_access)
    access = access_of_kubeconfig(given)
    directory = layout.data("gateway")
    settings = {
        "FLEETLOG_UPSTREAM_URL": access.endpoint,
        "FLEETLOG_UPSTREAM_INSECURE": "true" if access.insecure else "false",
    }
    if access.ca_pem:
        settings["FLEETLOG_UPSTREAM_CA"] = _kept(directory / "upstream-ca.crt", access.ca_pem)
    user = _user(given)
    lent = not any(user.get(field) for field in _SHOWN) and bool(access.client_cert)
    if lent:
        settings["FLEETLOG_UPSTREAM_CERT"] = _kept(directory / "upstream.crt", access.client_cert)
        settings["FLEETLOG_UPSTREAM_KEY"] = _kept(directory / "upstream.key", access.client_key)
    shown = {field: value for field, value in user.items() if field not in _CERTIFICATE}
    if lent:
        shown["token"] = installation.token
    server = f"https://127.0.0.1:{installation.port('gateway_api')}"
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    kubeconfig = kubeconfig_with("fleetlog", cluster, shown, _context(given).get("namespace") or "")
    private_json(layout.kubeconfig(CONTROL), kubeconfig)
    return settings


def _kept(path: Path, text: str) -> str:
    private_text(path, text)
    return str(path)


def _user(kubeconfig: Manifest) -> Manifest:
    context = _context(kubeconfig)
    return next((entry.get("user") or {} for entry in kubeconfig["users"] if entry.get("name") == context["user"]), {})


def _context(kubeconfig: Manifest) -> Manifest:
    chosen = kubeconfig.get("current-context")
    found: Manifest = next(entry["context"] for entry in kubeconfig["contexts"] if entry.get("name") == chosen)
    return found
