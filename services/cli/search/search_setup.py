"""Gives search of a laptop installation its certificate, and makes the control plane send it what it answers for.

Search has a group of its own (search.fleetlog.io), so that the kinds of search.karmada.io stay with the control plane;
what it answers for in that group says the annotation of its APIService (docs/adr/0031-one-door-to-members.md).
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

from services._kit.base.private_files import private_text
from services._kit.kube.client import ApiError, resource_path
from services._rules.constants import NAMESPACE_SYSTEM
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.cli.common.layout import CONTROL, Installation, Layout
from services.cli.common.waiting import opened
from services.cli.members.member_account import ensure

NAME: Final = "search"
PORT: Final = "search_api"
SERVICE: Final = "fleetlog-search"
GROUP: Final = "search.fleetlog.io"
VERSION: Final = "v1alpha1"
_GATEWAY: Final = "fleetlog-gateway"
_SERVES: Final = "fleetlog.io/serves"
_ANSWERS_FOR: Final = "search.karmada.io/v1alpha1/search,search.karmada.io/v1alpha1/proxying/proxy"
_API_SERVICES: Final = resource_path("apiregistration.k8s.io", "v1", "apiservices")


def environment(layout: Layout, installation: Installation) -> dict[str, str]:
    """Settings of search: where it listens, its certificate, and whom it believes."""
    from services.apiserver.auth.certificate_authority import Authority

    authority = Authority(layout.data(NAME), "fleetlog-search-ca")
    authority.load()
    cert, key = authority.server((f"{SERVICE}.{NAMESPACE_SYSTEM}.svc", "localhost", "127.0.0.1"))
    tokens = layout.data(NAME) / "tokens"
    # A process of before may be reading it.
    private_text(tokens, f'{installation.token},admin,admin,"{MASTERS}"\n')
    settings = {
        "FLEETLOG_API_PORT": str(installation.port(PORT)),
        "FLEETLOG_SERVING_CERT": str(cert),
        "FLEETLOG_SERVING_KEY": str(key),
        "FLEETLOG_TOKEN_FILE": str(tokens),
    }
    if installation.control_kubeconfig:
        # The gateway stands in front of a control plane that is not ours.
        settings["FLEETLOG_FRONT_PROXY_CA"] = str(layout.data(NAME) / "ca.crt")
        settings["FLEETLOG_FRONT_PROXY_NAMES"] = _GATEWAY
    else:
        settings["FLEETLOG_FRONT_PROXY_CA"] = str(layout.data(CONTROL) / "front-proxy" / "ca.crt")
        settings["FLEETLOG_FRONT_PROXY_NAMES"] = "front-proxy-client"
    return settings


def door(layout: Layout, installation: Installation) -> dict[str, str]:
    """Settings of a gateway that hands searches on; none where the control plane does it."""
    from services.apiserver.auth.certificate_authority import Authority

    if not installation.control_kubeconfig:
        return {}
    authority = Authority(layout.data(NAME), "fleetlog-search-ca")
    authority.load()
    cert, key = authority.client(_GATEWAY, ())
    return {
        "FLEETLOG_SEARCH_URL": f"https://localhost:{installation.port(PORT)}",
        "FLEETLOG_SEARCH_CA": str(layout.data(NAME) / "ca.crt"),
        "FLEETLOG_SEARCH_CERT": str(cert),
        "FLEETLOG_SEARCH_KEY": str(key),
    }


async def register(control: Path, ca_pem: bytes, port: int) -> None:
    """Make the control plane send search what it answers for; the namespace of its Service has to be there."""
    wanted = api_service(base64.b64encode(ca_pem).decode(), port)
    async with opened(control) as client:
        await ensure(client, resource_path("", "v1", "services", NAMESPACE_SYSTEM), search_service("localhost"))
        try:
            await client.create(_API_SERVICES, wanted)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            metadata = {"annotations": wanted["metadata"]["annotations"]}
            place = f"{_API_SERVICES}/{wanted['metadata']['name']}"
            await client.patch(place, {"metadata": metadata, "spec": wanted["spec"]})


def search_service(host: str) -> dict[str, Any]:
    """The Service by which a control plane reaches search at a host."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE_SYSTEM},
        "spec": {"type": "ExternalName", "externalName": host},
    }


def api_service(bundle: str, port: int) -> dict[str, Any]:
    """The object that makes a control plane send requests to search; `bundle` is its authority in base64."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}", "annotations": {_SERVES: _ANSWERS_FOR}},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 900,
            "versionPriority": 10,
            "caBundle": bundle,
            "service": {"namespace": NAMESPACE_SYSTEM, "name": SERVICE, "port": port},
        },
    }
