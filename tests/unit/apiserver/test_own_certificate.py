"""The server's certificate is made again before it ends, and new connections get the new one."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from pathlib import Path

from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.own_certificate import OwnCertificate


async def test_a_certificate_is_replaced_before_it_ends(tmp_path: Path) -> None:
    soon = Authority(tmp_path, lifetime=dt.timedelta(days=31))
    soon.load()
    own = OwnCertificate(soon, ("127.0.0.1",), period=0.01)
    own.start()
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=own.context)
    port = server.sockets[0].getsockname()[1]

    async def served() -> bytes | None:
        trusted = ssl.create_default_context(cafile=str(soon.ca_file))
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return shown

    try:
        first = await served()
        assert first == ssl.PEM_cert_to_DER_cert((tmp_path / "server.crt").read_text())
        ending = Authority(tmp_path, lifetime=dt.timedelta(days=29))
        pair = ending.issue("fleetlog-apiserver", (), ["127.0.0.1", "::1", "localhost"])
        for name, data in zip(("server.key", "server.crt"), reversed(pair), strict=True):
            (tmp_path / name).write_bytes(data)
        async with asyncio.timeout(60):
            while (shown := await served()) in (first, ssl.PEM_cert_to_DER_cert(pair[0].decode())):
                continue
        assert shown == ssl.PEM_cert_to_DER_cert((tmp_path / "server.crt").read_text())
    finally:
        server.close()
        await own.stop()


async def test_a_certificate_that_holds_is_kept(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    OwnCertificate(authority, ("127.0.0.1",))
    first = (tmp_path / "server.crt").read_bytes()
    OwnCertificate(authority, ("127.0.0.1",))
    assert (tmp_path / "server.crt").read_bytes() == first
