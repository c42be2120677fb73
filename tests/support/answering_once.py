"""A service that answers one request and then stands still while its port stays open."""

from __future__ import annotations

import os
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Listen at ANSWERING_PORT, with TLS when ANSWERING_TLS names a directory for its certificate."""
    directory = os.environ["ANSWERING_TLS"]
    context: ssl.SSLContext | None = None
    if directory:
        from services.apiserver.auth.certificate_authority import Authority

        authority = Authority(Path(directory), "test-ca")
        authority.load()
        cert, key = authority.server(("127.0.0.1",))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", int(os.environ["ANSWERING_PORT"]))) as server:
        answered = False
        while not answered:
            plain, _ = server.accept()
            with suppress(OSError), plain if context is None else context.wrap_socket(plain, server_side=True) as asked:
                asked.recv(4096)
                asked.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                answered = True
        while True:
            time.sleep(60)
