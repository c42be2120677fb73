"""Reads kubeconfigs that hold everything themselves: certificates and tokens in the text, no program to be asked.

Most are like that, those of this product all; for the others kubernetes-asyncio is loaded, which takes as long as a
short command works.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.route import Route, trust

_UNVERIFIED: Final = "insecure-skip-tls-verify"
_OF_CLUSTER: Final = frozenset(
    ("server", "certificate-authority-data", _UNVERIFIED, "tls-server-name", "proxy-url", "extensions")
)
_OF_USER: Final = frozenset(("token", "client-certificate-data", "client-key-data"))
_LARGEST: Final = 1 << 20


class PlainEndpoint(Struct, frozen=True, kw_only=True):
    """What such a kubeconfig says of an endpoint; it answers as the configuration of kubernetes-asyncio does."""

    host: str
    route: Route
    authority: str = ""
    verified: bool = True
    token: str = ""
    certificate: str = ""
    """The client's certificate with its key, in PEM."""

    def __repr__(self) -> str:
        return f"PlainEndpoint({self.host})"

    async def auth_settings(self) -> dict[str, dict[str, str]]:
        """The header with the token, if there is one."""
        if not self.token:
            return {}
        return {"BearerToken": {"key": "authorization", "value": f"Bearer {self.token}"}}

    def ssl_context(self) -> ssl.SSLContext | None:
        """Its trust and the client's certificate; None without TLS. Raises SSLError for what is none."""
        if not self.host.startswith("https"):
            return None
        context = trust(self.route, ca_pem=self.authority or None)
        if not self.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            # The ssl module reads certificates from files only.
            with tempfile.TemporaryDirectory() as directory:
                pair = Path(directory) / "pair.pem"
                pair.write_text(self.certificate, encoding="utf-8")
                context.load_cert_chain(pair)
        return context


def plain_endpoint(kubeconfig: str | Path | Manifest, context: str | None) -> PlainEndpoint | None:
    """The endpoint of a context, the current one if empty; None for whatever is not that plain, or not as it should."""
    try:
        document = kubeconfig if isinstance(kubeconfig, dict) else _document(Path(kubeconfig).expanduser())
        return _endpoint(document, context or str(document["current-context"]))
    except (OSError, KeyError, TypeError, ValueError, msgspec.MsgspecError, binascii.Error):
        return None


def _document(path: Path) -> Manifest:
    """A kubeconfig that is JSON, as ours are; raises DecodeError for any other."""
    with path.open("rb") as file:
        document: Manifest = msgspec.json.decode(file.read(_LARGEST), type=dict[str, Any])
    return document


def _endpoint(document: Manifest, name: str) -> PlainEndpoint | None:
    chosen = _named(document["contexts"], name)["context"]
    cluster = _named(document["clusters"], chosen["cluster"])["cluster"]
    user = _named(document["users"], chosen["user"])["user"] or {}
    if not cluster.keys() <= _OF_CLUSTER or not user.keys() <= _OF_USER:
        return None
    texts = [value for key, value in (*cluster.items(), *user.items()) if key not in ("extensions", _UNVERIFIED)]
    insecure = cluster.get(_UNVERIFIED, False)
    if not all(isinstance(text, str) for text in texts) or not isinstance(insecure, bool):
        return None
    cert, key = (_text(user.get(f"client-{part}-data", "")) for part in ("certificate", "key"))
    if bool(cert) != bool(key):
        return None
    return PlainEndpoint(
        host=cluster["server"].rstrip("/"),
        route=Route(cluster.get("proxy-url", ""), name=cluster.get("tls-server-name", "")),
        authority=_text(cluster.get("certificate-authority-data", "")),
        verified=not insecure,
        token=user.get("token", ""),
        certificate=f"{cert}\n{key}" if cert else "",
    )


def _named(entries: list[Manifest], name: str) -> Manifest:
    """The only entry of a name; raises KeyError."""
    found = [entry for entry in entries if entry["name"] == name]
    if len(found) != 1:
        raise KeyError(name)
    return found[0]


def _text(encoded: str) -> str:
    return base64.b64decode(encoded, validate=True).decode()
