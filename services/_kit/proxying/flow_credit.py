"""Decides what the two sides of a stream may send: numbers that show lost frames, and credit that bounds what waits."""

from __future__ import annotations

from typing import Final

from services._kit.proxying.tunnel_frames import FrameError

WINDOW: Final = 1 << 20
"""Bytes that may be on their way in one direction of a stream, and so what each side holds of it at most."""
_GRANT: Final = WINDOW // 4
"""Credit is given back in pieces of at least so many bytes."""


class Numbers:
    """The numbers of the frames of one stream, in both directions."""

    __slots__ = ("_expected", "_next")

    def __init__(self) -> None:
        self._next = 0
        self._expected = 0

    def next(self) -> int:
        """The number of the next frame that is sent."""
        number, self._next = self._next, self._next + 1
        return number

    def check(self, number: int) -> None:
        """Take the number of a frame that came; raises FrameError where frames were lost or came twice."""
        if number != self._expected:
            raise FrameError(f"frame {number} came where {self._expected} was next: frames were lost, or came twice")
        self._expected += 1


class SendCredit:
    """What this side may still send."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = WINDOW

    def spend(self, wanted: int) -> int:
        """How much of so many bytes may be sent now; it counts as sent."""
        size = min(wanted, self.left)
        self.left -= size
        return size

    def gain(self, size: int) -> None:
        """The other side took bytes; raises FrameError when it claims more than it was sent."""
        if size > WINDOW - self.left:
            raise FrameError(f"credit for {size} bytes, where {WINDOW - self.left} were sent")
        self.left += size


class ReceiveCredit:
    """What the other side may still send, and what was taken of it since it was told."""

    __slots__ = ("_room", "_taken")

    def __init__(self) -> None:
        self._room = WINDOW
        self._taken = 0

    def arrived(self, size: int) -> None:
        """Bytes came; raises FrameError when there was no credit for them."""
        if size > self._room:
            raise FrameError(f"{size} bytes came where there was credit for {self._room}")
        self._room -= size

    def taken(self, size: int) -> int:
        """Bytes were handed on; the credit to give back now, 0: not yet."""
        self._taken += size
        if self._taken < _GRANT:
            return 0
        given, self._taken = self._taken, 0
        self._room += given
        return given
