"""The command `fleetlog log import`: fills the empty log of another installation so that every position is the same.

Facts name one another by position (`prev`, `as_of`, `own`, `causes`), so a position must not move. The stream is made
to begin where the file begins; what stood between two messages of the file and is not in it is replaced by fillers,
which are purged at the end. The time of a message is kept in a header: the log only knows when it stored it itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from schemas.topology import BLOBS, FACTS, HISTORY, OBSERVED, STREAMS
from services._kit.base.log_errors import LogReplaced
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.fact_history import HEADER_STORED_AT, until_held
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.jetstream_api import ApiAnswer, answer
from services._kit.log.stream_port import Log, NewMessage
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.printing import counted
from services.cli.common.running import Failed, complain, patience
from services.cli.common.stream_topology import asked_sizes
from services.cli.log.archive import IMPORTED, Header, Line, Record, inspect, read, stream_config
from services.cli.log.import_marking import mark

FILLERS: Final = {FACTS.name: "lease._filler", OBSERVED.name: "observed._filler"}
_BATCH: Final = 500
_BATCH_BYTES: Final = 3 << 20
_STRIDE: Final = 500
"""Messages of one subject after which HISTORY is waited for: FACTS itself drops the oldest of 1,024."""


class Filling:
    """Writes one stream from its first position on, without moving any."""

    def __init__(self, log: Log, history: Log | None) -> None:
        self.next = 1
        self._log = log
        self._history = history
        self._filler = FILLERS[log.name]
        self._batch: list[NewMessage] = []
        self._size = 0
        self._filled = False
        self._counts: dict[str, int] = {}

    async def take(self, item: Record) -> None:
        """Store a message at its position; raises Failed when another client writes there, too."""
        if self.next == 1 and item.seq > 1:
            await self._log.purge(">", item.seq - 1)
            self.next = item.seq
        while self.next < item.seq:
            self._filled = True
            await self._put(NewMessage(self._filler, b"", {}))
        headers = {**item.headers, HEADER_STORED_AT: item.headers.get(HEADER_STORED_AT, repr(item.time))}
        await self._put(NewMessage(item.subject, item.data, headers))

    async def finish(self) -> None:
        """Store what is left, let HISTORY follow, and remove the fillers from both."""
        await self._flush()
        last = self.next - 1
        if self._history is not None:
            await self._follow(last)
        if self._filled:
            await self._log.purge(self._filler, last)
            if self._history is not None:
                await self._history.purge(self._filler, (await self._history.identity()).last_seq)

    async def _put(self, message: NewMessage) -> None:
        size = len(message.data)
        if self._batch and (len(self._batch) == _BATCH or self._size + size > _BATCH_BYTES):
            await self._flush()
        self._batch.append(message)
        self._size += size
        self.next += 1
        if message.subject == self._filler:
            return  # A filler is never read.
        count = self._counts[message.subject] = self._counts.get(message.subject, 0) + 1
        if count % _STRIDE == 0 and self._history is not None:
            await self._flush()
            await self._follow(self.next - 1)

    async def _flush(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        if not batch:
            return
        first = self.next - len(batch)
        stored = await self._log.append(batch)
        if stored.first != first:
            raise Failed(
                f"{self._log.name}: a message landed on #{stored.first} instead of #{first}; another client writes to "
                "this log. Stop the services, remove its streams, and import again"
            )

    async def _follow(self, position: int) -> None:
        assert self._history is not None
        if await until_held(self._history, position, patience=30.0) < position:
            raise Failed(f"stream {HISTORY.name} does not follow {self._log.name}; look at the log's server")


class Unordered:
    """Writes messages whose positions mean nothing: manifest bytes, and keys, whose streams take one `at_once`."""

    def __init__(self, log: Log, at_once: int = _BATCH) -> None:
        self._at_once = at_once
        self._log = log
        self._batch: list[NewMessage] = []
        self._size = 0

    async def take(self, item: Record) -> None:
        """Store one message with the next batch."""
        data = item.data
        if self._batch and (len(self._batch) == self._at_once or self._size + len(data) > _BATCH_BYTES):
            await self.finish()
        self._batch.append(NewMessage(item.subject, data, dict(item.headers)))
        self._size += len(data)

    async def finish(self) -> None:
        """Store what is left."""
        batch, self._batch, self._size = self._batch, [], 0
        if batch:
            await self._log.append(batch)


class Taker(Protocol):
    """Takes the messages of one stream."""

    async def take(self, item: Record) -> None:
        """Store a message."""

    async def finish(self) -> None:
        """Store what is left."""


async def import_log(access: LogAccess, path: Path) -> int:
    """Fill the log from a file; raises Failed when the file is not whole or the log is not empty."""
    header, end = inspect(path)
    async with patience("importing"), open_log(access) as connection:
        await make_streams(connection, path)
        await fill(connection, path, header, read(path), {})
    origin = header.streams[FACTS.name].id if FACTS.name in header.streams else "?"
    complain(f"{counted(end.messages)}, as they stood on log {origin}; `fleetlog log verify` checks them")
    return 0


async def fill(
    connection: Connection, path: Path, header: Header, lines: Iterable[Line], more: Mapping[str, Taker]
) -> None:
    """Store all messages of a file in an empty log, and mark it as restored; `more` takes those of further streams.

    Raises Failed for messages of a stream that has no taker.
    """
    await _note(connection, {topology.IMPORTING: path.name})
    logs = streams(connection)
    takers: dict[str, Taker] = {
        FACTS.name: Filling(logs[FACTS.name], logs[HISTORY.name]),
        OBSERVED.name: Filling(logs[OBSERVED.name], None),
        BLOBS.name: Unordered(logs[BLOBS.name]),
        **more,
    }
    last = 0
    for line in lines:
        if not isinstance(line, Record):
            continue
        if line.stream not in takers:
            raise Failed(f"{path} holds messages of stream {line.stream!r}; a newer version wrote it")
        if line.stream == FACTS.name:
            last = line.seq
        await takers[line.stream].take(line)
    for taker in takers.values():
        await taker.finish()
    await mark(
        logs[FACTS.name],
        f"restored from {path.name}",
        origin=header.streams[FACTS.name].id if FACTS.name in header.streams else "",
        position=last,
        exported_at=header.exported_at,
    )
    # The last thing: until here no service starts on this log.
    await _note(connection, {topology.IMPORTING: "", IMPORTED: str(last)})


async def make_streams(connection: Connection, path: Path, more: Iterable[str] = ()) -> None:
    """Make the streams that a file is to fill; raises Failed when one of them, or of `more`, ever held something.

    What waits for them does not begin between this and `fill`: a new FACTS has its note on the import from the first.
    """
    noted = {FACTS.name: {topology.IMPORTING: path.name}}
    made = await topology.apply(connection, sizes=asked_sizes(), notes=noted)
    try:
        await _refuse_used(connection, [*(stream.name for stream in STREAMS), *more])
    except Failed:
        if made[FACTS.name] == "created":
            await _note(connection, {topology.IMPORTING: ""})
        raise


async def _refuse_used(connection: Connection, names: Iterable[str]) -> None:
    """Raises Failed when any of these streams ever held something: positions could not be the same."""
    for name in names:
        try:
            last = (await JetStreamLog(connection, name).identity()).last_seq
        except LogReplaced:
            continue  # There is no such stream.
        if last:
            raise Failed(
                f"the log is not empty: {name} ends at #{last}. Import into a new nats-server that no service has used"
            )


async def _note(connection: Connection, notes: dict[str, str]) -> None:
    """Set notes in the metadata of FACTS; an empty one is removed."""
    config = await stream_config(connection, FACTS.name)
    metadata = {**(config.get("metadata") or {}), **notes}
    config["metadata"] = {name: value for name, value in metadata.items() if value}
    error = (await answer(connection, f"STREAM.UPDATE.{FACTS.name}", config, ApiAnswer)).error
    if error is not None:
        raise Failed(f"{FACTS.name} does not take its note on the import: {error.description}")
