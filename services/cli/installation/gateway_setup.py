"""Gives the gateway of a laptop installation its certificate, and makes the control plane send it its kinds."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import NAMESPACE_SYSTEM
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.layout import CONTROL, Installation, Layout
from services.cli.common.waiting import condition, opened, wait_until
from services.cli.members.join import access_of_kubeconfig, ensure, kubeconfig_with

GATEWAY_SERVICE: Final = "fleetlog-gateway"
_GROUP: Final = "work.karmada.io"
_API_SERVICES: Final = resource_path("apiregistration.k8s.io", "v1", "apiservices")
# The preferred version first: clients pick what they find first.
VERSIONS: Final = (("v1alpha2", 20), ("v1alpha1", 10))


def environment(layout: Layout, installation: Installation) -> dict[str, str]:
    """Settings of the gateway: where it listens, its certificate, and whom it believes."""
    from services.apiserver.auth.certificate_authority import Authority

    authority = Authority(layout.data("gateway"), "fleetlog-gateway-ca")
    authority.load()
    cert, key = authority.server((f"{GATEWAY_SERVICE}.{NAMESPACE_SYSTEM}.svc", "localhost", "127.0.0.1"))
    tokens = layout.data("gateway") / "tokens"
    # A gateway of before may be reading it.
    private_text(tokens, f'{installation.token},admin,admin,"system:masters"\n')
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


async def register(control: Path, ca_pem: bytes, port: int) -> None:
    """Make the control plane answer for bindings and works through the gateway with this authority."""
    async with opened(control) as client:
        namespace, service = gateway_service("localhost")
        await ensure(client, resource_path("", "v1", "namespaces"), namespace)
        await ensure(client, resource_path("", "v1", "services", NAMESPACE_SYSTEM), service)
        for version, priority in VERSIONS:
            await _register(client, version, priority, base64.b64encode(ca_pem).decode(), port)


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


def api_service(version: str, priority: int, bundle: str, port: int) -> dict[str, Any]:
    """The object that makes a control plane send one version to the gateway; `bundle` is its authority in base64."""
    spec = {
        "group": _GROUP,
        "version": version,
        "groupPriorityMinimum": 1000,
        "versionPriority": priority,
        "caBundle": bundle,
        "service": {"namespace": NAMESPACE_SYSTEM, "name": GATEWAY_SERVICE, "port": port},
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{_GROUP}"},
        "spec": spec,
    }


async def _register(client: KubeClient, version: str, priority: int, bundle: str, port: int) -> None:
    manifest = api_service(version, priority, bundle, port)
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    try:
        await client.create(_API_SERVICES, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        await client.patch(f"{_API_SERVICES}/{name}", {"spec": spec})


async def available(control: Path) -> str:
    """Wait until the control plane answers for bindings and works: clients remember what was not served."""

    async def look(client: KubeClient) -> str:
        for version, _ in VERSIONS:
            service = await client.get(f"{_API_SERVICES}/{version}.{_GROUP}")
            found = condition(service, "Available")
            if found and found["status"] != "True":
                return str(found.get("message") or "not available yet")
        listed = await client.get(f"/apis/{_GROUP}/{VERSIONS[0][0]}")
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
    text = msgspec.json.format(msgspec.json.encode(kubeconfig), indent=2)
    private_text(layout.kubeconfig(CONTROL), text.decode())
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
