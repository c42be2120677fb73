"""The serving certificate that the server's own authority signs: made again before it ends, without a restart."""

from __future__ import annotations

import ssl
import time
from typing import Final

from services._kit.base.late_logger import LateLogger
from services._kit.concurrency.supervision import Periodic
from services._kit.credentials.serving_certificate import ServingCertificate, ServingFiles
from services.apiserver.auth.certificate_authority import Authority

CHECK_SECONDS: Final = 3600.0
_WARNING_SECONDS: Final = 15 * 86400.0
"""Less than how long before its end the authority makes another: a warning says that it did not."""

log = LateLogger("certificate")


class OwnCertificate(Periodic):
    """TLS of the server for host names and addresses; looks after its certificate from `start` to `stop`."""

    def __init__(self, authority: Authority, names: tuple[str, ...], period: float = CHECK_SECONDS) -> None:
        """Make the authority and the certificate, or read them; raises OSError or ValueError where that fails."""
        super().__init__("certificate", period, self._renew)
        self._authority = authority
        self._names = names
        authority.load()
        cert, key = map(str, authority.server(names))
        self._certificate = ServingCertificate(
            ServingFiles(cert, key, str(authority.ca_file)),
            refused="clients refuse the connection",
            warning_seconds=_WARNING_SECONDS,
            now=time.time,
        )

    @property
    def context(self) -> ssl.SSLContext:
        """TLS with the certificate; those of clients are optional and checked against the authority."""
        return self._certificate.context

    async def _renew(self) -> None:
        try:
            self._authority.server(self._names)
        except (OSError, ValueError) as error:
            log.error("certificate_not_renewed", reason=str(error)[:1000])
        self._certificate.look()
