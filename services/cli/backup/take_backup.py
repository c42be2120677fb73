"""The command `fleetlog backup`: everything that a lost installation is made of again, in one encrypted file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from schemas.topology import BLOBS, KEYS, OBJECTS
from services._kit.base.log_errors import LogReplaced
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.apiserver.store.secret_encryption import keys_stream
from services.cli.backup.installation_files import files
from services.cli.common.layout import Layout
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.printing import counted
from services.cli.common.running import Failed, complain, patience
from services.cli.log.archive import BACKUP, StoredFile, StreamSetup, Writer, check_place, record, stream_config
from services.cli.log.export import blobs_of, header_of, messages_of
from services.cli.log.log_options import ExportChoice

STORE: Final = (keys_stream(OBJECTS.name), OBJECTS.name)
"""Streams of the embedded API server; a control plane of another kind is backed up by its own means."""
KEY_FILE: Final = "data/secrets/keys.json"
"""Where the master keys lie in a backup, wherever they came from."""


async def back_up(
    access: LogAccess, path: Path, passphrase: bytes, layout: Layout | None, key_file: Path | None
) -> int:
    """Write a backup of a log and, with a layout, of the files of its installation.

    The facts come before the objects of the control plane: an object that is made meanwhile is taken up after the
    restore, where one that only the facts knew would be withdrawn. Raises Failed.
    """
    check_place(path)
    held = list(files(layout)) if layout is not None else []
    if key_file is not None:
        held = [item for item in held if item.path != KEY_FILE]
        held.append(StoredFile(path=KEY_FILE, data=_read(key_file)))
    elif not any(item.path == KEY_FILE for item in held):
        raise Failed("the master keys of Secrets are not at hand: give --secrets-key-file FILE")
    async with patience("backing up"), open_log(access) as connection:
        logs = streams(connection)
        header = await header_of(logs, ExportChoice(), BACKUP)
        # The key is derived once; it takes a moment.
        writer = await asyncio.to_thread(Writer, path, header, passphrase)
        try:
            for file in held:
                writer.add(file)
            async for item in messages_of(logs):
                writer.write(item)
            async for item in blobs_of(logs[BLOBS.name], None):
                writer.write(item)
            await _copy(connection, KEYS.name, writer)
            for name in STORE:
                if config := await _config(connection, name):
                    writer.add(StreamSetup(stream=name, config=config))
                    await _copy(connection, name, writer)
        except BaseException:
            writer.give_up()
            raise
        await asyncio.to_thread(writer.finish)
    complain(f"{path}: {counted(writer.counts)}, and {len(held)} files; its passphrase is needed to restore it")
    return 0


async def _copy(connection: Connection, stream: str, writer: Writer) -> None:
    async for message in JetStreamLog(connection, stream).read([">"]):
        writer.write(record(stream, message.seq, message.time, message))


async def _config(connection: Connection, stream: str) -> dict[str, object]:
    """How a stream is set up, without what belongs to this very one; empty where there is none."""
    try:
        await JetStreamLog(connection, stream).identity()
    except LogReplaced:
        return {}
    config = await stream_config(connection, stream)
    return {name: value for name, value in config.items() if name not in ("metadata", "first_seq")}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failed(f"--secrets-key-file {path} cannot be read: {error.strerror or error}") from None
