"""What a process in a container has of its client, whichever protocol carries it."""

from __future__ import annotations

from typing import Protocol

from services.member_sim.streams.channel_frames import Size


class ProcessStreams(Protocol):
    """Standard input, output and error of one process, and its terminal."""

    @property
    def size(self) -> Size:
        """The present size of the terminal."""
        ...

    async def read(self) -> bytes:
        """The next bytes of standard input; empty at its end."""
        ...

    async def write(self, data: bytes, *, error: bool = False) -> None:
        """Send bytes of standard output or standard error once there is room; dropped where it was not asked for."""
        ...


class ProcessConnection(ProcessStreams, Protocol):
    """Such streams with the connection beneath them."""

    finishing: bool
    """Whether the process has ended and its client is being told."""

    async def follow(self) -> None:
        """Take in what the client sends, until it goes away or breaks the protocol."""
        ...

    async def finish(self, code: int, problem: str) -> None:
        """Tell how the process ended: its exit code, or a problem in words."""
        ...


class Wanted:
    """The streams that a client asks for."""

    def __init__(self, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> None:
        self.stdin, self.stdout, self.tty = stdin, stdout, tty
        # A terminal has one output.
        self.stderr = stderr and not tty
