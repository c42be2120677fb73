"""The kubeconfig in front of an outside control plane: one's own credentials where a proxy can pass them on."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.cli.common.layout import CONTROL, Layout, new_installation
from services.cli.installation.gateway_setup import outside_settings

CERTIFICATE = {
    "client-certificate-data": base64.b64encode(b"cert").decode(),
    "client-key-data": base64.b64encode(b"key").decode(),
}
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}


def prepared(directory: Path, user: dict[str, Any]) -> tuple[Layout, dict[str, Any], dict[str, str], str]:
    """The installation, the kubeconfig that was written, the gateway's settings, and the installation's token."""
    layout = Layout(directory)
    installation = new_installation([], control_kubeconfig="cp.yaml")
    installation.port("gateway_api")
    layout.save(installation)
    ca = base64.b64encode(b"the CA").decode()
    content = {
        "current-context": "b",
        "contexts": [
            {"name": "a", "context": {"cluster": "c", "user": "other"}},
            {"name": "b", "context": {"cluster": "c", "user": "me", "namespace": "team"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://cp.example:6443", "certificate-authority-data": ca}}],
        "users": [{"name": "other", "user": {"token": "not-mine"}}, {"name": "me", "user": user}],
    }
    layout.control_access.parent.mkdir(parents=True, exist_ok=True)
    layout.control_access.write_bytes(msgspec.json.encode(content))
    settings = outside_settings(layout, installation, b"gateway CA")
    written = msgspec.json.decode(layout.kubeconfig(CONTROL).read_bytes())
    return layout, written, settings, installation.token


@pytest.mark.parametrize(
    "user",
    [
        {"token": "mine"},
        {"tokenFile": "/t"},
        {"exec": EXEC},
        {"token": "mine", "as": "bob"},
        {**CERTIFICATE, "exec": EXEC},
    ],
)
def test_header_credentials_stay_those_of_the_user(user: dict[str, Any], tmp_path: Path) -> None:
    if "tokenFile" in user:
        (tmp_path / "t").write_text("mine")
        user = {"tokenFile": str(tmp_path / "t")}
    layout, written, settings, token = prepared(tmp_path / "i", user)
    shown = {name: value for name, value in user.items() if name not in CERTIFICATE}
    assert [each["user"] for each in written["users"]] == [shown]
    assert token not in layout.kubeconfig(CONTROL).read_text()
    assert "FLEETLOG_UPSTREAM_CERT" not in settings
    assert settings["FLEETLOG_UPSTREAM_URL"] == "https://cp.example:6443"
    assert Path(settings["FLEETLOG_UPSTREAM_CA"]).read_text() == "the CA"


def test_the_installations_token_stands_for_a_certificate(tmp_path: Path) -> None:
    layout, written, settings, token = prepared(tmp_path / "i", CERTIFICATE)
    assert [each["user"] for each in written["users"]] == [{"token": token}]
    assert [Path(settings[f"FLEETLOG_UPSTREAM_{name}"]).read_text() for name in ("CERT", "KEY")] == ["cert", "key"]
    private = [layout.kubeconfig(CONTROL), *(Path(settings[f"FLEETLOG_UPSTREAM_{name}"]) for name in ("CERT", "KEY"))]
    assert [path.stat().st_mode & 0o077 for path in private] == [0, 0, 0]


def test_it_leads_to_the_gateway_and_keeps_the_namespace(tmp_path: Path) -> None:
    _, written, _, _ = prepared(tmp_path / "i", {"token": "mine"})
    (cluster,) = written["clusters"]
    assert cluster["cluster"]["server"].startswith("https://127.0.0.1:")
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"gateway CA"
    (context,) = written["contexts"]
    assert context["name"] == written["current-context"]
    assert context["context"]["namespace"] == "team"
    assert "not-mine" not in msgspec.json.encode(written).decode()
