"""Writes the kubeconfig of an installation whose control plane is not ours: it leads to the gateway.

The gateway answers for bindings and works and passes everything else on. Who uses it shows their own credentials, which
the control plane judges. A client certificate cannot be passed on: where the kubeconfig that was given holds one, the
installation's token stands for it, and both lie in files that only their owner reads.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import msgspec

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.layout import CONTROL, Installation, Layout
from services.cli.members.join import access_of_kubeconfig

_CERTIFICATE: Final = frozenset(
    {"client-certificate", "client-certificate-data", "client-key", "client-key-data"},
)
_SHOWN: Final = ("token", "tokenFile", "exec", "auth-provider", "username")
"""Credentials that a client shows in a header, which the gateway passes on."""


def prepare(layout: Layout, installation: Installation, ca_pem: bytes) -> dict[str, str]:
    """Write the kubeconfig for people; settings of the gateway that say where the control plane is."""
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
    text = msgspec.json.format(msgspec.json.encode(_kubeconfig(given, server, ca_pem, shown)), indent=2)
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


def _kubeconfig(given: Manifest, server: str, ca_pem: bytes, user: Manifest) -> Manifest:
    """One context with the namespace of the given one."""
    context = {"cluster": "fleetlog", "user": "fleetlog"}
    if namespace := _context(given).get("namespace"):
        context["namespace"] = namespace
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fleetlog",
        "contexts": [{"name": "fleetlog", "context": context}],
        "clusters": [{"name": "fleetlog", "cluster": cluster}],
        "users": [{"name": "fleetlog", "user": user}],
    }
