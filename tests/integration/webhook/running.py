"""A webhook as its program runs it, with a certificate whose time a test chooses."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from services._kit.base.clock import Clock
from services._kit.runtime.standalone import serve_standalone
from services.webhook.app import Webhook
from services.webhook.settings import WebhookSettings
from tests.support.waiting import NotYet, eventually

DAY: Final = dt.timedelta(days=1)


def make_pair(directory: Path, begins: dt.datetime, ends: dt.datetime) -> bytes:
    """Write a certificate that signs itself, and its key; its bytes."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    for path, data in (
        ("tls.key", key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)),
        ("tls.crt", cert.public_bytes(pem)),
    ):
        (directory / f"{path}.new").write_bytes(data)
        (directory / f"{path}.new").replace(directory / path)
    return cert.public_bytes(serialization.Encoding.DER)


def settings(directory: Path, **more: Any) -> WebhookSettings:
    return WebhookSettings(
        control_kubeconfig=more.pop("control_kubeconfig", str(directory / "none")),
        serving_cert=str(directory / "tls.crt"),
        serving_key=str(directory / "tls.key"),
        api_port=0,
        certificate_check_seconds=0.01,
        **more,
    )


class Running:
    """What a running webhook shows."""

    def __init__(self, webhook: Webhook, lines: list[Any], session: aiohttp.ClientSession) -> None:
        self.webhook = webhook
        self.lines = lines
        self._session = session

    @property
    def port(self) -> int:
        """Where it serves reviews."""
        return self.webhook.server.port

    async def get(self, path: str) -> str:
        """An answer of the port of health and metrics."""
        port = next(line["port"] for line in self.lines if line["event"] == "listening")
        async with self._session.get(f"http://127.0.0.1:{port}{path}") as response:
            return await response.text()

    async def ready(self) -> Any:
        """What /readyz says."""
        return msgspec.json.decode(await self.get("/readyz"))

    async def served(self, **context: Any) -> bytes:
        """The certificate of a new connection."""
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        for name, value in context.items():
            setattr(trust, name, value)
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trust)
        try:
            found = writer.get_extra_info("ssl_object").getpeercert(True)
        finally:
            writer.close()
            with suppress(ssl.SSLError, ConnectionError):
                await writer.wait_closed()
        return bytes(found)

    async def until_logged(self, word: str) -> Any:
        """The first line with a word in its reason or event."""

        def found() -> Any:
            for line in self.lines:
                if word in line["event"] or word in str(line.get("reason", "")):
                    return line
            raise NotYet([line["event"] for line in self.lines])

        return await eventually(found, f"a line with {word!r}")


@asynccontextmanager
async def running(directory: Path, clock: Clock, **more: Any) -> AsyncIterator[Running]:
    """The webhook as its program runs it."""
    asked = settings(directory, **more)
    with capture_logs() as lines:
        webhook = Webhook(asked, clock)
        stop = asyncio.Event()
        task = asyncio.create_task(serve_standalone(webhook, asked, stop, structlog.get_logger()))
        async with aiohttp.ClientSession() as session:
            made = Running(webhook, lines, session)
            await made.until_logged("ready")
            try:
                yield made
            finally:
                stop.set()
                await task
