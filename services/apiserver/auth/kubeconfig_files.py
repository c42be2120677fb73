"""Writing kubeconfig files for the server."""

import base64
from pathlib import Path

import msgspec

from services.apiserver.auth.certificate_authority import write_file


def write(path: Path, *, server: str, name: str, ca: bytes | None, cert: bytes, key: bytes, token: str = "") -> None:
    """Write a kubeconfig with one cluster, user and context (JSON, which is YAML); readable by its owner only."""
    cluster: dict[str, object] = {"server": server}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    user: dict[str, str] = {}
    if cert and key:
        user["client-certificate-data"] = base64.b64encode(cert).decode()
        user["client-key-data"] = base64.b64encode(key).decode()
    elif token:
        user["token"] = token
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
