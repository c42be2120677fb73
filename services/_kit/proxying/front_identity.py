"""Authenticates requests: the API server's front proxy on behalf of a user, or the bearer of a token.

The API server authorizes a user before it proxies; a token identifies any client that was given the file. Shared by the
services that an API server sends requests on to.
"""

from __future__ import annotations

import csv
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from multidict import MultiMapping

from services._kit.base.health import Health
from services._kit.base.metrics import ReadCollector
from services._kit.base.settings import Settings, SettingsError
from services._kit.credentials.serving_certificate import CertificateWatch, ServingCertificate, ServingFiles

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class FrontSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API's own address and identity; those of the log connection are the common ones."""

    api_host: str = "127.0.0.1"
    api_port: int = 0
    """0: any free port."""
    serving_cert: str = ""
    serving_key: str = ""
    """Files of the serving certificate, read again when they change; without them plain HTTP, on loopback only."""
    certificate_check_seconds: float = 10.0
    """How often the certificate's files are looked at."""
    certificate_warning_seconds: float = 30 * 86400.0
    """How long before the certificate expires that is reported."""
    front_proxy_ca: str = ""
    """File with the authority of the API server's proxy client certificate: its X-Remote-* headers are believed."""
    front_proxy_names: tuple[str, ...] = ()
    """Common names such a certificate may have; empty: any."""
    token_file: str = ""
    """File with lines `token` or `token,user,uid,"group1,group2"` for direct use; read again when it changes."""


class Unauthenticated(Exception):
    """It is not known who asks; the text is for the caller."""


class Identity(Struct, frozen=True):
    """Who asks."""

    user: str
    groups: tuple[str, ...] = ()
    authorization: str = ""
    """Header with credentials that only the control plane can judge; `user` is empty then."""
    installation: bool = False
    """Whether a token of the token file was shown."""


class Authenticator:
    """Checks client certificates and tokens; raises SettingsError when no client could authenticate.

    With `passes_on`, credentials that are not known here are for the control plane to judge.
    """

    def __init__(self, settings: FrontSettings, service: str, *, passes_on: bool = False) -> None:
        if not settings.token_file and not settings.front_proxy_ca and not passes_on:
            raise SettingsError(
                f"the {service} would let no one in: set FLEETLOG_FRONT_PROXY_CA (requests of an API server) "
                "or FLEETLOG_TOKEN_FILE (direct use)"
            )
        self._proxies = bool(settings.front_proxy_ca)
        self._passes_on = passes_on
        self._names = frozenset(settings.front_proxy_names)
        self._file = Path(settings.token_file) if settings.token_file else None
        self._stamp: tuple[int, int] = (0, 0)
        self._tokens: dict[bytes, Identity] = {}
        self._load()

    def identify(self, headers: MultiMapping[str], certificate: Mapping[str, Any] | None) -> Identity:
        """The requester; raises Unauthenticated."""
        authorization = headers.get("Authorization", "")
        kind, _, token = authorization.partition(" ")
        if kind.lower() == "bearer":
            identity = self._by_token(token.strip())
            if identity is not None:
                return identity
            if not self._passes_on:
                raise Unauthenticated("Unauthorized: the bearer token is not known here")
        if authorization and self._passes_on:
            return Identity("", authorization=authorization)
        if self._proxies and certificate and self._trusted(certificate):
            user = headers.get("X-Remote-User", "")
            if user:
                return Identity(user, tuple(headers.getall("X-Remote-Group", ())))
            raise Unauthenticated("Unauthorized: the front proxy named no user (header X-Remote-User)")
        raise Unauthenticated("Unauthorized: neither a bearer token nor the certificate of a front proxy was given")

    def _trusted(self, certificate: Mapping[str, Any]) -> bool:
        """Whether a verified certificate is one of the front proxy's."""
        if not self._names:
            return True
        pairs = (pair for part in certificate.get("subject", ()) for pair in part)
        return any(name == "commonName" and value in self._names for name, value in pairs)

    def _by_token(self, token: str) -> Identity | None:
        if self._file is None or not token:
            return None
        self._load()
        given = token.encode("utf-8", "surrogateescape")
        found: Identity | None = None
        for known, identity in self._tokens.items():
            # Every token is compared, so that the time reveals nothing.
            if hmac.compare_digest(known, given):
                found = identity
        return found

    def _load(self) -> None:
        """Read the tokens when their file is new; an unreadable one leaves those that were read before."""
        if self._file is None:
            return
        try:
            stat = self._file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            self._tokens = parse_tokens(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if not self._tokens:
                raise SettingsError(f"FLEETLOG_TOKEN_FILE: {self._file}: {error}") from error
            return
        self._stamp = stamp


def parse_tokens(text: str) -> dict[bytes, Identity]:
    """Read token lines; raises ValueError when there is none."""
    tokens: dict[bytes, Identity] = {}
    for row in csv.reader(text.splitlines()):
        if not row or not row[0].strip() or row[0].startswith("#"):
            continue
        user = row[1] if len(row) > 1 and row[1] else "fleetlog:gateway"
        groups = tuple(part for part in row[3].split(",") if part) if len(row) > 3 else ()
        tokens[row[0].strip().encode()] = Identity(user, groups, installation=True)
    if not tokens:
        raise ValueError("it holds no token")
    return tokens


def certificate_of(settings: FrontSettings, now: Callable[[], float]) -> ServingCertificate | None:
    """TLS of the API; None for plain HTTP. Raises SettingsError for what is missing, unreadable or unsafe."""
    if settings.certificate_check_seconds <= 0:
        raise SettingsError(
            f"FLEETLOG_CERTIFICATE_CHECK_SECONDS is {settings.certificate_check_seconds}: use more than 0"
        )
    if not settings.serving_cert:
        if settings.api_host not in _LOOPBACK:
            raise SettingsError(
                f"FLEETLOG_SERVING_CERT is not set, but the API would listen on {settings.api_host}: "
                "without a certificate only loopback is possible"
            )
        if settings.front_proxy_ca:
            raise SettingsError("FLEETLOG_FRONT_PROXY_CA needs FLEETLOG_SERVING_CERT: proxies are known by certificate")
        return None
    try:
        return ServingCertificate(
            ServingFiles(settings.serving_cert, settings.serving_key, settings.front_proxy_ca),
            refused="clients refuse the connection",
            warning_seconds=settings.certificate_warning_seconds,
            now=now,
        )
    except OSError as error:
        raise SettingsError(f"FLEETLOG_SERVING_CERT, FLEETLOG_SERVING_KEY, FLEETLOG_FRONT_PROXY_CA: {error}") from error


def watched_tls(
    settings: FrontSettings, now: Callable[[], float], health: Health, reads: ReadCollector
) -> CertificateWatch | None:
    """TLS of the API with a watch over its certificate that has begun; raises what `certificate_of` raises."""
    certificate = certificate_of(settings, now)
    if certificate is None:
        return None
    watch = CertificateWatch(certificate, settings.certificate_check_seconds, health, reads)
    watch.start()
    return watch
