"""Sends one request as bytes, and says what is wrong with how the server took it."""

from __future__ import annotations

import base64
import http.client
import shlex
import socket
from typing import Any

from tests.support.apiserver_process import PATIENCE, Neighbour, ServerProcess


class Finding(AssertionError):
    """A request that the server did not take as it should."""


class Raw:
    """One request: method and target, header lines and body, each as they are sent."""

    def __init__(self, method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes | None) -> None:
        self.method, self.target, self.headers, self.body = method, target, headers, body

    def __repr__(self) -> str:
        return f"Raw({self.method!r}, {self.target!r}, {self.headers!r}, {self.body!r})"

    def encoded(self) -> bytes:
        """The bytes that are sent."""
        lines = [b"%s %s HTTP/1.1" % (self.method.encode(), self.target), b"Host: localhost", b"Connection: close"]
        lines += [name + b": " + value for name, value in self.headers]
        if self.body is not None:
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join([*lines, b"", self.body or b""])

    def reproduction(self, port: int) -> str:
        """Commands that send it again."""
        parts = ["curl", "-s", "-i", "-X", self.method, f"http://127.0.0.1:{port}" + self.target.decode("latin-1")]
        for name, value in self.headers:
            parts += ["-H", f"{name.decode('latin-1')}: {value.decode('latin-1')}"]
        before = ""
        if self.body is not None:
            before = f"printf %s {base64.b64encode(self.body).decode()} | base64 -d | "
            parts += ["--data-binary", "@-"]
        exact = base64.b64encode(self.encoded()).decode()
        return f"{before}{shlex.join(parts)}\nexactly: printf %s {exact} | base64 -d | nc 127.0.0.1 {port}"


class Watcher:
    """Sends requests to one server, beside a neighbour."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.sent = 0
        self.codes: dict[int, int] = {}
        self.neighbour = Neighbour(server.port)
        self.neighbour.begin()

    def send(self, request: Raw) -> None:
        """Send a request; raises Finding."""
        code = self._code(request)
        self.sent += 1
        self.codes[code] = self.codes.get(code, 0) + 1
        if code == 500:
            raise self._finding(request, "was answered 500")
        self.check(request)

    def check(self, request: Raw | None = None) -> None:
        """Look at the neighbour and at the process; raises Finding."""
        if self.server.process.poll() is not None:
            raise self._finding(request, f"ended the server with {self.server.process.returncode}")
        if self.neighbour.failures:
            raise self._finding(request, self.neighbour.failures.pop())

    def _finding(self, request: Raw | None, text: str) -> Finding:
        shown = f"\nreproduction: {request.reproduction(self.server.port)}" if request is not None else ""
        return Finding(f"the request {text}{shown}")

    def _code(self, request: Raw) -> int:
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
        try:
            connection.sendall(request.encoded())
            answer = http.client.HTTPResponse(connection, method=request.method)
            answer.begin()
            if b"watch" not in request.target:
                answer.read()
            return answer.status
        except (OSError, http.client.HTTPException) as error:
            raise self._finding(request, f"was not answered: {type(error).__name__}: {error}") from None
        finally:
            connection.close()

    def end(self) -> None:
        """Let the neighbour end; raises Finding for what it met."""
        self.neighbour.end()
        self.check()
        failed: list[Any] = [line for line in self.server.log().splitlines() if "Traceback" in line]
        if failed:
            raise Finding(f"the log of the server has a trace: {failed[0][:2000]}")
