"""Reads the address and credentials of a member from its Cluster object and the Secret it names.

Source: docs/sources.md#clusters.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.agent import Expiry
from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient
from services._kit.kube.route import DIRECT, Route, proxy_problem

KEYS: Final = ("token", "caBundle", "clientCert", "clientKey", "tlsServerName")
"""What a Secret may hold; the last is the name that the member's certificate is for, where it is not its address."""


_OWN_TOKEN: Final = "kubernetes.io/service-account-token"


class BadCredentials(ValueError):
    """A Cluster or its Secret cannot be used; the message names the object, the field or key, and what to do."""


class Credentials(Struct, frozen=True):
    """What a connection to a member needs. `place` names the Secret in messages."""

    place: str
    server: str
    token: str = ""
    ca_pem: str = ""
    client_pem: tuple[str, str] | None = None
    insecure: bool = False
    route: Route = DIRECT

    def __repr__(self) -> str:
        return f"Credentials({self.place}, {self.server})"

    def open(self) -> KubeClient:
        """A client with these credentials; raises BadCredentials."""
        try:
            return KubeClient.from_token(
                self.server,
                self.token,
                ca_pem=self.ca_pem,
                insecure=self.insecure,
                client_pem=self.client_pem,
                route=self.route,
            )
        except (ssl.SSLError, ValueError) as error:
            raise BadCredentials(f"{self.place} cannot be used for TLS: {error}") from error

    @property
    def expiry(self) -> Expiry | None:
        """Expiry of the credentials, where they carry one."""
        if self.token:
            return token_expiry(self.token, f"the token in {self.place}")
        if self.client_pem is not None:
            return certificate_expiry(self.client_pem[0], f"the client certificate in {self.place}")
        return None


def secret_of(spec: Manifest) -> tuple[str, str]:
    """Namespace and name of the Secret that a Cluster spec names; raises BadCredentials when it names none."""
    ref = spec.get("secretRef") or {}
    if not spec.get("apiEndpoint"):
        raise BadCredentials("spec.apiEndpoint of the Cluster is empty; join it again")
    if not ref.get("name"):
        raise BadCredentials("spec.secretRef of the Cluster is empty; join it again")
    return str(ref.get("namespace") or ""), str(ref["name"])


def no_credentials(secret: Manifest) -> str:
    """Why a Secret holds no credentials of a member whatever its keys are; empty where it may.

    Who writes a Cluster says which Secret is used and where its token is sent: tokens of the control plane stay here.
    """
    return "is the token of a ServiceAccount of the control plane" if secret.get("type") == _OWN_TOKEN else ""


def credentials_of(spec: Manifest, secret: Manifest) -> Credentials:
    """What a Cluster spec and the Secret it names hold; raises BadCredentials."""
    namespace, name = secret_of(spec)
    place = f"Secret {namespace}/{name}"
    if problem := no_credentials(secret):
        raise BadCredentials(f"{place} {problem}")
    data = {key: _text(place, key, (secret.get("data") or {}).get(key)) for key in KEYS}
    server, insecure = str(spec["apiEndpoint"]), bool(spec.get("insecureSkipTLSVerification"))
    token, pair = data["token"], None
    if not token:
        if not data["clientCert"] and not data["clientKey"]:
            raise BadCredentials(f"{place} has neither token nor clientCert; join the cluster again")
        pair = _pair(place, data["clientCert"], data["clientKey"])
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadCredentials(f"{place}: key token holds characters that no bearer token has")
    if not insecure and server.startswith("https"):
        if not data["caBundle"]:
            raise BadCredentials(f"{place} has no caBundle; set insecureSkipTLSVerification or add it")
        _certificates(place, "caBundle", data["caBundle"])
    bundle = "" if insecure else data["caBundle"]
    return Credentials(place, server, token, bundle, pair, insecure, route_of(spec, place, data["tlsServerName"]))


def route_of(spec: Manifest, place: str, name: str) -> Route:
    """The way to a member: through `proxyURL` of its Cluster with `proxyHeader`, whose values are comma-separated.

    `name` is what its certificate is for, from the Secret at `place`. Raises BadCredentials.
    """
    if name and (not name.isascii() or not name.isprintable() or any(letter in name for letter in " /:")):
        raise BadCredentials(f"{place}: key tlsServerName is no host name")
    proxy = str(spec.get("proxyURL") or "")
    if not proxy:
        return Route(name=name)
    if problem := proxy_problem(proxy):
        raise BadCredentials(f"spec.proxyURL of the Cluster {problem}")
    headers = tuple(
        (str(key), value.strip())
        for key, values in sorted((spec.get("proxyHeader") or {}).items())
        for value in str(values).split(",")
    )
    for key, value in headers:
        if not key or not (key + value).isprintable() or not (key + value).isascii() or ":" in key or " " in key:
            raise BadCredentials("spec.proxyHeader of the Cluster holds what is no header")
    return Route(proxy, headers, name)


def _text(place: str, key: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    try:
        return base64.b64decode(str(value), validate=True).decode().strip()
    except (binascii.Error, ValueError):
        raise BadCredentials(f"{place}: key {key} is no base64 of a text") from None


def _pair(place: str, certificate: str, key: str) -> tuple[str, str]:
    """A client certificate and its key, once they belong together."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not certificate:
        raise BadCredentials(f"{place} has clientKey but no clientCert; add the certificate, or a token")
    if not key:
        raise BadCredentials(f"{place} has clientCert but no clientKey; add the key, or a token")
    first = _certificates(place, "clientCert", certificate)
    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadCredentials(f"{place}: key clientKey is no private key in PEM form without a passphrase") from None
    if private.public_key() != first.public_key():
        raise BadCredentials(f"{place}: clientKey does not belong to clientCert")
    return certificate, key


def _certificates(place: str, key: str, pem: str) -> Any:
    """The first certificate of a key's PEM text; raises BadCredentials."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem.encode())[0]
    except ValueError:
        raise BadCredentials(f"{place}: key {key} is no certificate in PEM form") from None


def certificate_expiry(pem: str, what: str) -> Expiry | None:
    """When the first certificate of a PEM text ends; None when it cannot be read."""
    from cryptography import x509

    try:
        first = x509.load_pem_x509_certificates(pem.encode())[0]
    except ValueError:
        return None
    return Expiry(at=first.not_valid_after_utc.timestamp(), since=first.not_valid_before_utc.timestamp(), what=what)


class _Claims(Struct):
    exp: float = 0.0
    iat: float = 0.0


def token_expiry(token: str, what: str) -> Expiry | None:
    """When a token ends that is a JSON Web Token with a claim of that; None for all others."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims)
    except (ValueError, msgspec.MsgspecError):
        return None
    return Expiry(at=claims.exp, since=claims.iat, what=what) if claims.exp > 0 else None
