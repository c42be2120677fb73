"""What a guarded client writes is on its way before the event loop's turn ends; over TLS and without, on both loops."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvloop

from services._kit.kube.answers.exchange import GuardedRequest
from services._kit.kube.client import KubeClient
from services.apiserver.auth.certificate_authority import Authority

PATIENCE = 60.0


class Open:
    """A guard that lets everything through."""

    holds = True

    async def wait(self) -> None:
        return


class Endpoint:
    """An HTTP server in a thread; `arrived` is set once a request has come in whole."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        arrived = self.arrived = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PATCH(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                arrived.set()
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(params=["https", "http"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Endpoint, KubeClient]]:
    ours: ssl.SSLContext | None = None
    theirs: ssl.SSLContext | None = None
    if request.param == "https":
        authority = Authority(tmp_path)
        authority.load()
        theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        theirs.load_cert_chain(*authority.server(("localhost",)))
        ours = ssl.create_default_context(cafile=str(authority.ca_file))
    made = Endpoint(theirs)
    client = KubeClient(f"{request.param}://localhost:{made.port}", ssl_context=ours, headers={})
    client.guard = Open()
    yield made, client
    made.close()


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_write_has_left_before_the_turn_ends(
    endpoint: tuple[Endpoint, KubeClient], new_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, client = endpoint
    arrivals: list[bool] = []
    written = GuardedRequest.write_bytes

    async def and_stand_still(self: Any, *args: Any) -> None:
        await written(self, *args)
        # The loop gets no further until this returns, as if the process were stopped here.
        arrivals.append(made.arrived.wait(PATIENCE))

    monkeypatch.setattr(GuardedRequest, "write_bytes", and_stand_still)

    async def play() -> None:
        await client.patch("/x", {"a": 1})
        await client.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())
    assert arrivals == [True]
