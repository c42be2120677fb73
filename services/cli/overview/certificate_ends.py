"""Reads when certificates end: those in the files of an installation, and the one that the log's server shows."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from schemas.agent import Expiry
from services._kit.credentials.expiry import certificate_expiry, token_expiry
from services._kit.log.connection import Connection
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.layout import Layout
from services.cli.common.running import Failed
from services.cli.overview.installation_facts import Facts

MOST_FILES: Final = 2000
MOST_BYTES: Final = 1 << 20


def ends_in(facts: Facts, layout: Layout) -> None:
    """Add the certificates below the directory of an installation, and those in its kubeconfigs."""
    found: list[Expiry] = []
    for path in _files(layout.directory):
        if path.suffix == ".crt":
            end = certificate_expiry(path.read_text(encoding="utf-8", errors="replace"), f"certificate {path}")
            found += [end] if end is not None else []
        else:
            found += _in_kubeconfig(path)
    facts.certificates += found


def _files(directory: Path) -> Iterator[Path]:
    wanted = (path for pattern in ("*.crt", "*.kubeconfig") for path in sorted(directory.rglob(pattern)))
    for number, path in enumerate(wanted):
        if number == MOST_FILES:
            return
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            yield path


def _in_kubeconfig(path: Path) -> Iterator[Expiry]:
    try:
        users = read_kubeconfig(path).get("users") or ()
    except Failed:
        return
    for entry in users:
        user = entry.get("user") or {}
        ends = []
        if data := user.get("client-certificate-data"):
            try:
                pem = base64.b64decode(str(data)).decode(errors="replace")
            except (binascii.Error, ValueError):
                continue
            ends.append(certificate_expiry(pem, f"client certificate in {path}"))
        if token := user.get("token"):
            ends.append(token_expiry(str(token), f"token in {path}"))
        yield from (end for end in ends if end is not None)


async def server_end(facts: Facts, connection: Connection) -> None:
    """Add the certificate of the log's server; one without TLS has none."""
    transport: Any = getattr(connection.nc, "_transport", None)
    writer = getattr(transport, "_io_writer", None)
    channel: ssl.SSLObject | None = writer.get_extra_info("ssl_object") if writer is not None else None
    raw = channel.getpeercert(binary_form=True) if channel is not None else None
    if raw:
        pem = ssl.DER_cert_to_PEM_cert(raw)
        end = certificate_expiry(pem, f"certificate of the log's server at {facts.where}")
        facts.certificates += [end] if end is not None else []
