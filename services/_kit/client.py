"""The NATS client as our connections use it: what arrives is handed over while it is read, without a task per subject.

Every service reads most of the log, so what one message costs counts many times. The library puts each into a queue
that a task of its subscription empties; a direct subscription is called at once instead. Messages that arrive whole are
taken apart here, and the library does the rest: pieces of large ones, pings, errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

Handler = Callable[[Msg], None]

_END: Final = b"\r\n"
_PLAIN: Final = b"MSG "
_WITH_HEADERS: Final = b"HMSG "


class _Parser(Parser):  # type: ignore[misc]  # the library ships no types
    """The library's parser, quicker where messages arrive whole."""

    async def parse(self, data: bytes = b"") -> None:
        """Take apart what was read; raises the library's ProtocolError."""
        at = 0
        if not self.buf and self.state == AWAITING_CONTROL_LINE:
            take, end = self.nc.take, len(data)
            while at < end:
                headers = data.startswith(_WITH_HEADERS, at)
                if not headers and not data.startswith(_PLAIN, at):
                    break
                line = data.find(_END, at)
                if line < 0:
                    break
                words = data[at:line].split()
                body = line + 2
                stop = body + int(words[-1])
                if stop + 2 > end:
                    break
                start = body + int(words[-2]) if headers else body
                reply = words[3] if len(words) == (6 if headers else 5) else b""
                sid, head, payload = int(words[2]), data[body:start], data[start:stop]
                at = stop + 2
                if not take(sid, words[1], reply, payload, head):
                    await self.nc._process_msg(sid, words[1], reply, payload, head or None)
        if self.buf or at < len(data):
            await super().parse(data[at:] if at else data)


class QuickClient(Client):  # type: ignore[misc]  # the library ships no types
    """The client; `on_bug` is told of a direct handler that raised, which must never end the reading."""

    def __init__(self) -> None:
        super().__init__()
        self.on_bug: Callable[[Exception], None] = lambda _: None
        self._direct: dict[int, Handler] = {}
        self._ps = _Parser(self)

    async def subscribe_direct(self, subject: str, handler: Handler) -> Any:
        """Call a function with every message on a subject, in the order in which all direct ones arrive."""
        # The library takes the next number before it waits for anything; an answer may come before it returns.
        sid = self._sid + 1
        self._direct[sid] = handler
        try:
            return await self.subscribe(subject)
        except BaseException:
            self._direct.pop(sid, None)
            raise

    def take(self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes) -> bool:
        """Hand a message to its direct handler; false when it has none."""
        handler = self._direct.get(sid)
        if handler is None:
            return False
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        try:
            headers = Headers(head) if head else None
            handler(Msg(self, subject.decode(), reply.decode(), data, headers, None, False, sid))
        except Exception as error:  # noqa: BLE001 - one message's trouble must not end the reading of all others
            self.on_bug(error)
        return True

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """What the library has put together of pieces."""
        if not self.take(sid, subject, reply, data, headers or b""):
            await super()._process_msg(sid, subject, reply, data, headers)

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._direct.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return _lines(raw.decode("utf-8", "replace"))


def _lines(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.split("\r\n"))
    return {name.strip(): value.strip() for name, colon, value in lines if colon}


class Headers(Mapping[str, str]):
    """Headers of a message, read when somebody asks; a status of the server becomes `Status` and `Description`."""

    __slots__ = ("_found", "_head")

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._found: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        found = self._found
        if found is None:
            first, _, rest = self._head.decode("utf-8", "replace").partition("\r\n")
            found = self._found = {}
            words = first.split(" ", 2)
            if len(words) > 1 and words[1].isdigit():
                found["Status"] = words[1]
                if len(words) > 2:
                    found["Description"] = words[2]
            found.update(_lines(rest))
        return found

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """The value of one header, or the default."""
        return self._all().get(name, default)
