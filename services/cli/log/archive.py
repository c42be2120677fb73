"""The file of an exported log: gzip, one JSON object per line; a header, messages as they were stored, an end.

A backup is the same with files and the configuration of streams in it, encrypted as a whole (backup/sealed_file.py).
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from services._kit.log.connection import Connection
from services._kit.log.stream_port import Message
from services.cli.common.running import Failed
from services.cli.log.sealed_file import SealedReader, SealedWriter, is_sealed, private_file

FORMAT: Final = "fleetlog-log/1"
BACKUP: Final = "fleetlog-backup/1"
IMPORTED: Final = "fleetlog-imported"
"""In the metadata of stream FACTS: the last position that was imported."""


class Extent(Struct, frozen=True):
    """A stream at the time of the export: its identity and its last position."""

    id: str
    last: int


class Header(Struct, frozen=True, kw_only=True, tag_field="line", tag="header"):
    """The first line. Times in seconds since 1970; `since` and `until` as they were asked for, empty for all."""

    format: str = FORMAT
    version: str = ""
    exported_at: float = 0.0
    streams: dict[str, Extent] = {}
    since: str = ""
    until: str = ""
    subject: str = ""


class Record(Struct, frozen=True, kw_only=True, tag_field="line", tag="message", omit_defaults=True):
    """One message: `text` holds its bytes where they are UTF-8, `base64` otherwise."""

    stream: str
    seq: int
    time: float
    subject: str
    headers: dict[str, str] = {}
    text: str | None = None
    base64: bytes | None = None

    @property
    def data(self) -> Any:
        """The bytes of the message."""
        return self.text.encode() if self.text is not None else self.base64 or b""


class StoredFile(Struct, frozen=True, kw_only=True, tag_field="line", tag="file"):
    """A file of the installation; `path` is relative to its directory."""

    path: str
    data: bytes


class StreamSetup(Struct, frozen=True, kw_only=True, tag_field="line", tag="stream"):
    """A stream that schemas.topology does not describe, as its server had it."""

    stream: str
    config: dict[str, Any]


class End(Struct, frozen=True, kw_only=True, tag_field="line", tag="end"):
    """The last line: how many messages of each stream there are. A file without it is not whole."""

    messages: dict[str, int]


Line = Header | Record | StoredFile | StreamSetup | End
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


def record(stream: str, seq: int, stored: float, message: Message) -> Record:
    """A message as a line; headers that only its stream gave it are left out."""
    headers = {name: value for name, value in message.headers.items() if not name.startswith("Nats-")}
    try:
        return Record(
            stream=stream, seq=seq, time=stored, subject=message.subject, headers=headers, text=message.data.decode()
        )
    except UnicodeDecodeError:
        return Record(
            stream=stream, seq=seq, time=stored, subject=message.subject, headers=headers, base64=message.data
        )


def check_place(path: Path) -> None:
    """Raises Failed where no file can be written, before anything is read for it."""
    if path.is_dir():
        raise Failed(f"{path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise Failed(f"{path} cannot be written: there is no directory {path.parent}")


class Writer:
    """Writes a file beside its place and moves it there when it is whole; encrypted with a passphrase, if given."""

    def __init__(self, path: Path, header: Header, passphrase: bytes | None = None) -> None:
        self.counts: dict[str, int] = {}
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        try:
            sealed = SealedWriter(self._partial, passphrase) if passphrase is not None else None
            self._under: Any = sealed if sealed is not None else private_file(self._partial)
        except OSError as error:
            raise Failed(f"{path} cannot be written: {error.strerror or error}") from None
        self._file = gzip.GzipFile(fileobj=self._under, mode="wb", compresslevel=6)
        self._line(header)

    def write(self, item: Record) -> None:
        """Write one message."""
        self.counts[item.stream] = self.counts.get(item.stream, 0) + 1
        self._line(item)

    def add(self, item: StoredFile | StreamSetup) -> None:
        """Write what a backup holds beside messages."""
        self._line(item)

    def finish(self) -> None:
        """Write the end; the file is in its place then."""
        self._line(End(messages=self.counts))
        self._file.close()
        self._under.close()
        self._partial.replace(self._path)

    def give_up(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._under.close()
        self._partial.unlink(missing_ok=True)

    def _line(self, item: Line) -> None:
        self._file.write(_encode(item) + b"\n")


def read(path: Path, passphrase: bytes | None = None) -> Iterator[Line]:
    """The lines of a file: of a backup with a passphrase, else of a log; raises Failed for a broken or other file."""
    number = 0
    if passphrase is None and is_sealed(path):
        raise Failed(f"{path} is a backup; `fleetlog restore backup {path}` reads it")
    try:
        with (
            SealedReader(path, passphrase) if passphrase is not None else path.open("rb") as under,
            gzip.GzipFile(fileobj=io.BufferedReader(under), mode="rb") as file,
        ):
            for number, line in enumerate(file, 1):  # noqa: B007 - named in the error
                yield _decode(line)
    except FileNotFoundError:
        raise Failed(f"{path} does not exist") from None
    except (EOFError, zlib.error) as error:
        raise Failed(f"{path} is cut off or damaged behind line {number}: {error}") from None
    except gzip.BadGzipFile:
        raise Failed(f"{path} is no exported log; `fleetlog log export FILE` writes one") from None
    except msgspec.MsgspecError as error:
        raise Failed(f"{path}, line {number}: {error}") from None


def inspect(path: Path, passphrase: bytes | None = None) -> tuple[Header, End]:
    """Header and end of a file, every line read; raises Failed when it is not whole or its positions do not ascend."""
    header: Header | None = None
    end: End | None = None
    counts: dict[str, int] = {}
    last: dict[str, int] = {}
    wanted = FORMAT if passphrase is None else BACKUP
    for line in read(path, passphrase):
        match line:
            case Header():
                if line.format != wanted:
                    raise Failed(f"{path} has format {line.format!r}; this version reads {wanted}")
                header = line
            case Record():
                if line.seq <= last.get(line.stream, 0):
                    raise Failed(f"{path}: #{line.seq} of {line.stream} comes after #{last[line.stream]}")
                last[line.stream] = line.seq
                counts[line.stream] = counts.get(line.stream, 0) + 1
            case StoredFile() | StreamSetup():
                pass
            case End():
                end = line
        if header is None:
            raise Failed(f"{path} does not begin with a header; `fleetlog log export FILE` writes one")
    if header is None or end is None or end.messages != counts:
        raise Failed(f"{path} is not whole: its end is missing; export again")
    return header, end


async def imported_up_to(connection: Connection) -> int:
    """The last position of FACTS that came from another log; 0 when none did."""
    metadata = (await stream_config(connection, "FACTS")).get("metadata") or {}
    number = str(metadata.get(IMPORTED, ""))
    return int(number) if number.isdecimal() else 0


async def stream_config(connection: Connection, stream: str) -> dict[str, Any]:
    """The configuration of a stream as the server has it; empty when there is no such stream."""
    answer = await connection.request(f"{connection.api}.STREAM.INFO.{stream}", timeout=10.0)
    config: dict[str, Any] = msgspec.json.decode(answer.data).get("config") or {}
    return config
