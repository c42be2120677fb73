"""Authentication: bearer tokens, client certificates and impersonation headers to an identity."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec

from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import PlainError, unauthorized

AUTHENTICATED = "system:authenticated"


def parse_tokens(text: str) -> dict[str, Identity]:
    """Read `token,user,uid[,"group1,group2"]` lines; raises ValueError naming a bad line."""
    import csv

    out = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3:
            raise ValueError(f"line {number} of the token file: token,user,uid[,groups] was expected")
        groups = tuple(g for g in row[3].split(",") if g) if len(row) > 3 else ()
        out[row[0]] = Identity(row[1], row[2], groups)
    return out


class ServiceAccountTokens:
    """Signs and checks tokens of service accounts (HS256, key kept in the data directory)."""

    def __init__(self, key: bytes, issuer: str = "https://kubernetes.default.svc") -> None:
        self._key = key
        self.issuer = issuer

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A compact JWT."""
        head = _b64(msgspec.json.encode({"alg": "HS256", "typ": "JWT"}))
        body = _b64(msgspec.json.encode({"iss": self.issuer, **claims}))
        signed = f"{head}.{body}"
        return f"{signed}.{_b64(hmac.digest(self._key, signed.encode(), hashlib.sha256))}"

    def check(self, token: str, now: float) -> dict[str, Any] | None:
        """The claims of a valid, unexpired token."""
        signed, _, signature = token.rpartition(".")
        expected = _b64(hmac.digest(self._key, signed.encode(), hashlib.sha256))
        if not signed or not hmac.compare_digest(expected, signature):
            return None
        try:
            body = signed.split(".")[1]
            claims = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=dict[str, Any])
        except (IndexError, binascii.Error, msgspec.DecodeError):
            return None
        return claims if claims.get("exp", 0) > now else None


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def service_account(namespace: str, name: str, uid: str = "") -> Identity:
    """The identity a service account acts under."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return Identity(f"system:serviceaccount:{namespace}:{name}", uid, groups)


def from_claims(claims: Mapping[str, Any]) -> Identity | None:
    """The identity of a service account token's claims."""
    subject = str(claims.get("sub", ""))
    parts = subject.split(":")
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"]:
        return None
    account = (claims.get("kubernetes.io") or {}).get("serviceaccount") or {}
    return service_account(parts[2], parts[3], account.get("uid", ""))


@lru_cache(maxsize=1024)
def _from_subject(subject: tuple[tuple[tuple[str, str], ...], ...]) -> Identity | None:
    identity = from_certificate(subject)
    return None if identity is None else _with_authenticated(identity)


def from_certificate(subject: Iterable[Iterable[tuple[str, str]]]) -> Identity | None:
    """The identity of a verified client certificate: common name and organizations."""
    name, groups = "", []
    for rdn in subject:
        for field, value in rdn:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups.append(value)
    return Identity(name, "", tuple(groups)) if name else None


class Authenticator:
    """Authenticates requests."""

    def __init__(self, tokens: Mapping[str, Identity], accounts: ServiceAccountTokens | None = None) -> None:
        self._tokens = {t: _with_authenticated(i) for t, i in tokens.items()}
        self._accounts = accounts
        self.bootstrap: Callable[[str, float], Identity | None] | None = None
        """Who bears a bootstrap token."""

    def add_token(self, token: str, identity: Identity) -> None:
        """Accept another token."""
        self._tokens[token] = _with_authenticated(identity)

    def identify(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None, now: float) -> Identity:
        """The requester; raises 401."""
        header = headers.get("Authorization")
        identity: Identity | None = None
        if header is not None:
            kind, _, token = header.partition(" ")
            if kind.lower() == "bearer":
                token = token.strip()
                identity = self._tokens.get(token)
                if identity is None and self.bootstrap is not None and token.count(".") == 1:
                    identity = self.bootstrap(token, now)
                if identity is None and self._accounts is not None and token.count(".") == 2:
                    claims = self._accounts.check(token, now)
                    identity = from_claims(claims) if claims is not None else None
        elif certificate:
            # The same for all requests of a connection.
            identity = _from_subject(certificate.get("subject", ()))
        if identity is None:
            raise unauthorized()
        return identity


def impersonation(headers: Any, path: str) -> Identity | None:
    """The identity that Impersonate-* headers ask for, None without any; the caller checks that it may be taken."""
    wanted = [h for h in headers if h.lower().startswith("impersonate-")]
    if not wanted:
        return None
    return _impersonated(headers, path)


def _impersonated(headers: Any, path: str) -> Identity | None:
    groups = headers.getall("Impersonate-Group", [])
    extra: dict[str, list[str]] = {}
    for name in headers:
        low = name.lower()
        if low.startswith("impersonate-extra-"):
            extra[unquote(low[len("impersonate-extra-") :])] = headers.getall(name)
    name = headers.get("Impersonate-User", "")
    if not name:
        if not groups and not extra:
            return None
        asked = [f"{{Group  {g}    }}" for g in groups]
        asked += [f"{{UserExtra  {v}  authentication.k8s.io/v1  {k}}}" for k, values in extra.items() for v in values]
        text = f'Internal Server Error: "{path}": requested [{" ".join(asked)}] without impersonating a user\n'
        raise PlainError(500, text)
    parts = name.split(":")
    if not groups and len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        account = service_account(parts[2], parts[3])
        return Identity(account.name, "", account.groups, extra)
    if name == "system:anonymous":
        return Identity(name, "", tuple(groups) or ("system:unauthenticated",), extra)
    return _with_authenticated(Identity(name, headers.get("Impersonate-Uid", ""), tuple(groups), extra))


def _with_authenticated(identity: Identity) -> Identity:
    if AUTHENTICATED in identity.groups:
        return identity
    return Identity(identity.name, identity.uid, (*identity.groups, AUTHENTICATED), identity.extra)
