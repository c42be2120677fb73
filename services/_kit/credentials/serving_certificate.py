"""The certificate of a server: loaded, loaded again when its files change, and watched for its end."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from schemas.agent import Expiry
from services._kit.base.health import Health
from services._kit.base.late_logger import LateLogger
from services._kit.base.metrics import ReadCollector
from services._kit.concurrency.supervision import Periodic
from services._kit.credentials.expiry import certificate_expiry

log = LateLogger("certificate")

_VERSIONS: Final = {"": None, "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_DAY: Final = 86400.0
_Stamp = tuple[int, int, int]


class ServingFiles(Struct, frozen=True):
    """Files of a certificate and its key (empty: in the same file), and of the authorities of clients' certificates.

    With `required`, a client has to show one of theirs.
    """

    cert: str
    key: str
    client_ca: str = ""
    required: bool = False


class ServingCertificate:
    """A certificate and its key in files; `context` serves those that were read last and fit together.

    Authorities of clients that are added to their file are believed as well; one that was removed is so until the
    process starts again. `refused` says what an expired certificate leads to.
    """

    def __init__(
        self,
        files: ServingFiles,
        *,
        refused: str,
        warning_seconds: float,
        now: Callable[[], float],
        minimum: str = "",
    ) -> None:
        """Raises OSError for files that cannot be used; `minimum` is the oldest version of TLS, 1.2 or 1.3."""
        self._files = files
        self._cert = Path(files.cert)
        self._key = Path(files.key or files.cert)
        self._minimum = _VERSIONS[minimum]
        self._refused = refused
        self._warning_seconds = warning_seconds
        self._now = now
        self._expiry: Expiry | None = None
        self._problem = ""
        self._said = ("", 0.0)
        self.context = self._context()
        self._stamp = self._stamps()
        self._take(self.context)

    @property
    def expires_in(self) -> float:
        """Seconds until the certificate expires, negative afterwards; 0 when that is not known."""
        return self._expiry.at - self._now() if self._expiry is not None else 0.0

    @property
    def trouble(self) -> str:
        """Why clients refuse the certificate; empty while they accept it."""
        if self._expiry is None:
            return f"{self._cert} holds no certificate that can be read; replace it"
        if self._now() < self._expiry.since:
            return f"{self._cert} is valid from {_date(self._expiry.since)} on only; correct the clock, or replace it"
        if self.expires_in <= 0:
            return (
                f"{self._cert} expired on {_date(self._expiry.at)}, and {self._refused}: "
                "replace certificate and key, they are read again"
            )
        return ""

    @property
    def warning(self) -> str:
        """What needs to be done about the certificate while it still works; empty for nothing."""
        parts = []
        if self._expiry is not None and 0 < self.expires_in < self._warning_seconds:
            days = self.expires_in / _DAY
            parts.append(f"{self._cert} expires on {_date(self._expiry.at)}, in {days:.1f} days: replace it before")
        if self._problem:
            parts.append(self._problem)
        return "; ".join(parts)

    def look(self) -> str:
        """Take in changed files, and log what is wrong, once a day; what was logged."""
        self._reload()
        said, at = self._said
        text = self.trouble or self.warning
        if text and (text.partition(",")[0] != said or self._now() - at >= _DAY):
            self._said = (text.partition(",")[0], self._now())
            (log.error if self.trouble else log.warning)("certificate", reason=text)
            return text
        return ""

    def _reload(self) -> None:
        try:
            stamp = self._stamps()
            if stamp == self._stamp:
                return
            # Tried apart: files of which one is new and one is old must not replace those that fit together.
            self._context().load_cert_chain(self._cert, self._key)
            self._take(self.context)
            if self._files.client_ca:
                self.context.load_verify_locations(self._files.client_ca)
        except OSError as error:
            self._problem = f"the changed files {self._cert} and {self._key} cannot be used: {error}; the former stay"
            return
        self._problem = ""
        self._stamp = stamp
        log.info("certificate loaded", file=str(self._cert), expires=_date(self._expiry.at) if self._expiry else "")

    def _take(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._cert, self._key)
        self._expiry = certificate_expiry(self._cert.read_text(encoding="ascii", errors="replace"), str(self._cert))

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if self._minimum is not None:
            context.minimum_version = self._minimum
        context.set_alpn_protocols(["http/1.1"])
        if self._files.client_ca:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED if self._files.required else ssl.CERT_OPTIONAL
        return context

    def _stamps(self) -> tuple[_Stamp, ...]:
        """What changes with the content of the files, also where links of a mounted Secret are swapped."""
        paths = [self._cert, self._key, *([Path(self._files.client_ca)] if self._files.client_ca else [])]
        found = [path.stat() for path in paths]
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)


class CertificateWatch(Periodic):
    """Looks at a certificate every few seconds; `told` gets what is wrong with it, once a day."""

    def __init__(
        self,
        certificate: ServingCertificate,
        period: float,
        health: Health,
        reads: ReadCollector,
        told: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__("certificate", period, self._look)
        self._certificate = certificate
        self._told = told
        health.check("certificate", lambda: certificate.trouble)
        health.fact("certificate_expires_in", lambda: round(certificate.expires_in))
        health.fact("certificate_warning", lambda: certificate.warning)
        reads.gauge(
            "serving_certificate_expire_seconds",
            "Seconds until the serving certificate expires",
            lambda: certificate.expires_in,
        )

    @property
    def context(self) -> ssl.SSLContext:
        """TLS with the certificate."""
        return self._certificate.context

    async def _look(self) -> None:
        text = self._certificate.look()
        if text and self._told is not None:
            await self._told(text)


def _date(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="seconds")
