"""Ports that must be known before a program listens there, or that stay its own while it is started again.

What can choose a port by itself and tell it does so: nothing here is for that. But a server of the log keeps its URL
over a restart, servers of one cluster are told of each other, and a client is told of a server that is not there yet.
A port that was only looked up could be somebody else's by then. So it is bound, and stays bound for as long as the
Reserved is used, without listening: connections are refused, the kernel gives it to nobody (Linux skips a bound port
for connections and for servers without a wish), and a program that asks for it by its number with SO_REUSEADDR, as
everything here does, may bind it beside us and listen.
"""

from __future__ import annotations

import os
import socket
import weakref


class Reserved:
    """A loopback port that the kernel chose, reserved until this object is forgotten."""

    def __init__(self) -> None:
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            self.number: int = held.getsockname()[1]
            weakref.finalize(self, os.close, held.detach())
