"""The directory of a stopped nats-server: its streams, their blocks, and which blocks are not whole.

A server that was not stopped in good order goes through all blocks at its next start. Where a checksum is wrong it cuts
the block off there, and whatever was stored behind is gone; a compressed block that does not open costs the whole
stream. So the server is asked on a copy first: what it would cut off there is damaged here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from services.cli.log.disk import highway, records, s2
from services.cli.log.disk.records import Gap, Record

INDEX: Final = "index.db"
_BLOCK: Final = re.compile(r"(\d+)\.blk")
_META: Final = ("meta.inf", "meta.sum")
_START_SECONDS: Final = 120.0
_CONFIG: Final = """
server_name: check
listen: "127.0.0.1:-1"
ports_file_dir: "{ports}"
jetstream {{ store_dir: "{store}" }}
"""


class StreamFiles(Struct, frozen=True):
    """The files of one stream."""

    name: str
    directory: Path

    @property
    def blocks(self) -> list[Path]:
        """Its block files, oldest first."""
        found = (path for path in (self.directory / "msgs").glob("*.blk") if _BLOCK.fullmatch(path.name))
        return sorted(found, key=lambda path: int(path.stem))

    @property
    def index(self) -> Path:
        """What the server remembers of the blocks; made again where it is missing."""
        return self.directory / "msgs" / INDEX


class Finding(Struct, frozen=True):
    """A damaged part of a block."""

    stream: str
    file: Path
    gap: Gap
    compressed: bool

    @property
    def messages(self) -> str:
        """Which messages it held, as far as is known."""
        gap = self.gap
        if gap.last == gap.first:
            return f"{gap.first} ({gap.subject})" if gap.subject else str(gap.first)
        return f"{gap.first} to {gap.last}" if gap.last > gap.first else f"behind {gap.first - 1}"


def streams_in(store: Path) -> list[StreamFiles]:
    """All streams below a server's store directory."""
    return [StreamFiles(path.name, path) for path in sorted(store.glob("jetstream/*/streams/*")) if path.is_dir()]


def is_gone_through(stream: StreamFiles) -> bool:
    """Whether the server will go through all blocks at its next start: what it remembers is older than they are."""
    blocks = stream.blocks
    if not blocks:
        return False
    try:
        index, newest = stream.index.read_bytes()[-16:-8], blocks[-1].read_bytes()[-8:]
    except OSError:
        return True
    return len(index) < 8 or index != newest


def damaged_blocks(store: Path, binary: str, *, all_of_them: bool = False) -> list[tuple[StreamFiles, Path]]:
    """Blocks that may not be whole: those whose lengths do not fit, and those that a server cuts off on a copy.

    Only streams that the next start goes through are copied, unless `all_of_them`. Raises OSError.
    """
    suspects: dict[Path, StreamFiles] = {}
    copied = []
    for stream in streams_in(store):
        for path in stream.blocks:
            if not _fits(path, may_be_torn=path == stream.blocks[-1] and is_gone_through(stream)):
                suspects[path] = stream
        if all_of_them or is_gone_through(stream):
            copied.append(stream)
    suspects.update((path, stream) for stream, path in _cut_off(store, copied, binary))
    return [(stream, path) for path, stream in suspects.items()]


def _fits(path: Path, *, may_be_torn: bool) -> bool:
    """Whether the lengths in a block lead to its end, or to what a crash left there."""
    content = path.read_bytes()
    if content.startswith(s2.MAGIC) or records.lead_to_the_end(content):
        return True
    gaps = (found for found in records.walk(content, None, last=may_be_torn) if isinstance(found, Gap))
    return all(gap.torn for gap in gaps)


def _cut_off(store: Path, streams: Sequence[StreamFiles], binary: str) -> Iterator[tuple[StreamFiles, Path]]:
    if not streams:
        return
    with tempfile.TemporaryDirectory(prefix=".check-", dir=store.parent) as name:
        copy = Path(name)
        copies = [_copied(stream, copy / str(number)) for number, stream in enumerate(streams)]
        # Two accounts may have streams of one name; a server of its own for each copy is never needed otherwise.
        for group in _apart(copies):
            _serve(copy, [directory for _, directory in group], binary)
        for stream, directory in copies:
            for path in stream.blocks:
                there = directory / "msgs" / path.name
                if not there.exists() or there.stat().st_size != path.stat().st_size:
                    yield stream, path


def _copied(stream: StreamFiles, target: Path) -> tuple[StreamFiles, Path]:
    directory = target / stream.name
    (directory / "msgs").mkdir(parents=True)
    for name in _META:
        if (stream.directory / name).exists():
            shutil.copyfile(stream.directory / name, directory / name)
    for path in stream.blocks:
        shutil.copyfile(path, directory / "msgs" / path.name)
    return stream, directory


def _apart(copies: Sequence[tuple[StreamFiles, Path]]) -> Iterable[list[tuple[StreamFiles, Path]]]:
    groups: list[dict[str, tuple[StreamFiles, Path]]] = []
    for stream, directory in copies:
        group = next((group for group in groups if stream.name not in group), None)
        if group is None:
            groups.append(group := {})
        group[stream.name] = (stream, directory)
    return [list(group.values()) for group in groups]


def _serve(scratch: Path, directories: Sequence[Path], binary: str) -> None:
    """Let a server start on these directories and end it at once; they show what it did."""
    root = scratch / "served"
    streams = root / "jetstream" / "$G" / "streams"
    streams.mkdir(parents=True)
    for directory in directories:
        directory.rename(streams / directory.name)
    config = scratch / "check.conf"
    config.write_text(_CONFIG.format(ports=scratch, store=root), encoding="utf-8")
    log = scratch / "check.log"
    with log.open("wb") as output:
        process = subprocess.Popen([binary, "-c", str(config)], stdout=output, stderr=output)
        try:
            _until_listening(scratch / f"{Path(binary).name}_{process.pid}.ports", process, log)
        finally:
            process.kill()
            process.wait()
    for directory in directories:
        # A stream with a compressed block that does not open is thrown away as a whole.
        if (streams / directory.name).is_dir():
            (streams / directory.name).rename(directory)
    shutil.rmtree(root)


def _until_listening(ports: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once a server has noted its ports, which it does when its log is loaded; raises OSError."""
    deadline = time.monotonic() + _START_SECONDS
    while not ports.exists():
        code = process.poll()
        if code is not None:
            said = log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise OSError(f"a nats-server on a copy of the log ended with code {code}: {said}")
        if time.monotonic() > deadline:
            raise OSError(f"a nats-server on a copy of the log did not start within {_START_SECONDS:g} s")
        time.sleep(0.01)


def content_of(path: Path) -> tuple[bytes, bool]:
    """The records of a block, and whether they were compressed; what cannot be decompressed is zeros."""
    content = path.read_bytes()
    if not content.startswith(s2.MAGIC):
        return content, False
    try:
        return s2.decompressed(content)[0], True
    except s2.Broken:
        return bytes(records.SHORTEST), True


class Examined(Struct, frozen=True):
    """A block gone through with its checksums: its bytes, what they consist of, and what of that is damaged."""

    content: bytes
    pieces: list[Record | Gap]
    findings: list[Finding]


def examined(stream: StreamFiles, path: Path) -> Examined:
    """Go through a block; a message that a crash left half-written is no damage."""
    content, compressed = content_of(path)
    key = highway.block_key(stream.name, int(path.stem))
    pieces = list(records.walk(content, key, last=path == stream.blocks[-1]))
    found = [
        Finding(stream.name, path, piece, compressed)
        for piece in pieces
        if isinstance(piece, Gap)
        and not (piece.torn and records.mended(content[piece.offset : piece.end], key, 0.0) is None)
    ]
    return Examined(content, pieces, found)


def damage(store: Path, binary: str, *, all_of_them: bool = False) -> list[Finding]:
    """Every damaged part of the streams below a store directory; see `damaged_blocks`."""
    return [
        found
        for stream, path in damaged_blocks(store, binary, all_of_them=all_of_them)
        for found in examined(stream, path).findings
    ]


def sentence(found: Sequence[Finding]) -> str:
    """What is unreadable and what to do, for people."""
    first = [f"stream {one.stream}, message {one.messages}" for one in found[:5]]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    verb = "is" if len(found) == 1 else "are"
    return f"{'; '.join(first)}{more} {verb} unreadable; run `fleetlog log repair --quarantine`"


def refused_file(store: Path) -> Path:
    """Where it says why the server of a store directory was not started."""
    return store.with_name(f"{store.name}.refused")


def why_refused(file: Path) -> str:
    """What such a file says; empty where there is none."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def guarded(store: Path, server: list[str]) -> list[str]:
    """A server's command that checks its store first; see this package's __main__."""
    return [sys.executable, "-m", "services.cli.log.disk", str(store), str(refused_file(store)), *server]
