"""Asks a process on this machine over HTTP whether it answers, without ever waiting for it."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from functools import cache
from typing import Final

from msgspec import Struct

LIVING_SECONDS: Final = 10.0
"""Between two questions to one that answered."""
STARTING_SECONDS: Final = 1.0
"""Between two questions to one that has not answered yet."""
ANSWER_SECONDS: Final = 10.0
_SIGN: Final = b"HTTP/"
_IN_PROGRESS: Final = frozenset({0, 36, 115, 10035})
"""What a connection that is being made says: EINPROGRESS of macOS, of Linux and of Windows."""


class Address(Struct, frozen=True):
    """Where a process answers on the loopback address. Any HTTP answer counts: readiness is another question."""

    port: int
    path: str = "/healthz"
    tls: bool = False


class Probe:
    """The questions to one address, one at a time."""

    def __init__(self, address: Address, pause: float = LIVING_SECONDS) -> None:
        """`pause`: seconds between two questions to one that answered."""
        self._address = address
        self._pause = pause
        self._socket: socket.socket | None = None
        self._request = b""
        self._answer = b""
        self._asked_at = 0.0
        self._due_at = 0.0
        self._shaken = False

    def reset(self, now: float) -> None:
        """Forget the question under way: the process was started again."""
        self._close()
        self._due_at = now + STARTING_SECONDS

    def advance(self, now: float, *, living: bool) -> bool:
        """Do what can be done at once; true when an answer has come."""
        if self._socket is None:
            if now < self._due_at:
                return False
            self._open(now)
        answered = self._step()
        if answered or self._socket is None or now - self._asked_at > ANSWER_SECONDS:
            self._close()
            self._due_at = now + (self._pause if answered and living else min(STARTING_SECONDS, self._pause))
        return answered

    def due_in(self, now: float) -> float:
        """Seconds until the next call of `advance` can bring something new without news on `descriptor`."""
        if self._socket is None:
            return max(0.0, self._due_at - now)
        return max(0.0, self._asked_at + ANSWER_SECONDS - now)

    @property
    def descriptor(self) -> int:
        """File whose readiness is news; -1 while nothing is asked."""
        return -1 if self._socket is None else self._socket.fileno()

    @property
    def writing(self) -> bool:
        """Whether the news is that it can be written to."""
        return self._socket is not None and bool(self._request) and not self._reading

    _reading = False
    """Whether the TLS handshake waits for the other side."""

    def _open(self, now: float) -> None:
        host = f"127.0.0.1:{self._address.port}"
        self._request = f"GET {self._address.path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        self._answer, self._asked_at, self._shaken, self._reading = b"", now, not self._address.tls, False
        plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        plain.setblocking(False)
        if plain.connect_ex(("127.0.0.1", self._address.port)) not in _IN_PROGRESS:
            plain.close()
            return
        self._socket = plain

    def _step(self) -> bool:
        """Write and read as far as it goes without waiting; a failure closes the socket."""
        if self._socket is None:
            return False
        try:
            if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            if not self._connected():
                return False
            if not self._shaken:
                self._shake()
            while self._request:
                self._request = self._request[self._socket.send(self._request) :]
            while len(self._answer) < len(_SIGN):
                part = self._socket.recv(len(_SIGN) - len(self._answer))
                if not part:
                    raise OSError("closed without an answer")
                self._answer += part
        except (BlockingIOError, ssl.SSLWantReadError):
            self._reading = not self._shaken
            return False
        except ssl.SSLWantWriteError:
            self._reading = False
            return False
        except OSError:
            self._close()
            return False
        return self._answer.startswith(_SIGN)

    def _connected(self) -> bool:
        assert self._socket is not None
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def _shake(self) -> None:
        if not isinstance(self._socket, ssl.SSLSocket):
            assert self._socket is not None
            self._socket = _context().wrap_socket(self._socket, do_handshake_on_connect=False)
        self._socket.do_handshake()
        self._shaken, self._reading = True, False

    def _close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None


@cache
def _context() -> ssl.SSLContext:
    """No credentials are sent and the answer is not believed, so that nothing has to be verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
