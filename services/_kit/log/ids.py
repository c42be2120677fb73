"""Random identities: of instances, streams, batches and consumers. Events get theirs from schemas.envelope."""

from __future__ import annotations

import os
import socket
from itertools import count
from secrets import token_hex
from uuid import uuid4


def random_id() -> str:
    """A globally unique id."""
    return str(uuid4())


class Sequence:
    """Unique short ids of one process: a random prefix drawn once, then a counter.

    A forked child draws a prefix of its own: two processes with one prefix would share consumers and batches.
    """

    def __init__(self) -> None:
        self._draw()
        os.register_at_fork(after_in_child=self._draw)

    def _draw(self) -> None:
        self._prefix = token_hex(8)
        self._numbers = count(1)

    def next(self) -> str:
        """The next id; safe as a subject token."""
        return f"{self._prefix}{next(self._numbers):x}"


def default_instance(service: str) -> str:
    """Name of an instance that was given none: service and host; one per host and service."""
    return f"{service}-{socket.gethostname()}"
