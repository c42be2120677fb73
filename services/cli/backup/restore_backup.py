"""The command `fleetlog restore backup`: fills an empty log, and an empty directory, from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from schemas.topology import KEYS, OBJECTS
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.jetstream_api import ApiAnswer, answer
from services._kit.log.stream_port import NewMessage
from services.apiserver.store.subject_names import DELETED, PREV, floor_subject
from services.cli.backup.installation_files import write
from services.cli.backup.take_backup import KEY_FILE, STORE
from services.cli.common.layout import Layout
from services.cli.common.logbook import log_access, open_log
from services.cli.common.printing import counted
from services.cli.common.running import Failed, complain, patience
from services.cli.log.archive import Header, Line, Record, StoredFile, StreamSetup, inspect, read
from services.cli.log.fact_recovery import served
from services.cli.log.restore_archive import Taker, Unordered, fill, make_streams

AHEAD: Final = 1_000_000
"""Revisions that are skipped: what clients saw of the lost control plane after the backup must not come again."""


class Objects:
    """Writes the present objects of the embedded API server behind every revision that the lost one can have given.

    Clients that watch from an earlier revision learn that it is gone, and list again.
    """

    def __init__(self, connection: Connection, present: dict[str, int]) -> None:
        self._log = JetStreamLog(connection, OBJECTS.name)
        self._present = present
        self._prefix = OBJECTS.subjects[0].partition(".")[0]
        self._rest = Unordered(self._log)
        self._began = False

    async def take(self, item: Record) -> None:
        """Store the last state of an object, unless it is deleted."""
        if not self._began:
            await self._begin()
        if self._present.get(item.subject) != item.seq or DELETED in item.headers:
            return
        if item.subject == floor_subject(self._prefix):
            return
        headers = {name: value for name, value in item.headers.items() if name != PREV}
        await self._rest.take(msgspec.structs.replace(item, headers=headers))

    async def finish(self) -> None:
        """Store what is left."""
        await self._rest.finish()

    async def _begin(self) -> None:
        self._began = True
        first = max(self._present.values(), default=0) + AHEAD
        await self._log.purge(">", first - 1)
        kinds = {tuple(subject.split(".")[1:3]) for subject in self._present if subject.count(".") == 4}
        floors = {f"{'' if group == '_' else group}/{resource}": first for group, resource in sorted(kinds)}
        await self._log.append([NewMessage(floor_subject(self._prefix), msgspec.json.encode(floors), {})])


async def restore(path: Path, passphrase: bytes, directory: Path, nats: str, key_file: Path | None) -> int:
    """Fill the log at `nats`, or a new installation in `directory`, from a backup; raises Failed.

    Nothing is written before the whole backup was read.
    """
    header, end = await asyncio.to_thread(inspect, path, passphrase)
    if nats:
        async with open_log(log_access(directory, nats)) as connection:
            await _into_log(path, passphrase, header, connection)
        if key_file is not None:
            _write_keys(path, passphrase, key_file)
    else:
        layout = Layout(directory)
        _refuse_existing(layout)
        held = list(_files(read(path, passphrase)))
        if not any(item.path == layout.state.name for item in held):
            raise Failed(f"{path} holds no installation, only a log: give --nats URL of the server to restore it to")
        for item in held:
            write(layout.directory, item)
        installation = layout.load()
        assert installation is not None
        layout.save(installation)
        elsewhere = log_access(directory)
        async with open_log(elsewhere) if installation.nats_url else served(layout, installation) as connection:
            await _into_log(path, passphrase, header, connection)
    complain(f"{path}: {counted(end.messages)}, as of its backup")
    where = f"at {nats}" if nats else f"with `fleetlog up --dir {directory}`"
    complain(f"start the services {where}: they deliver once everything is compared with the control plane")
    return 0


async def _into_log(path: Path, passphrase: bytes, header: Header, connection: Connection) -> None:
    setups, present = await asyncio.to_thread(_overview, path, passphrase)
    async with patience("restoring"):
        await make_streams(connection, path, STORE)
        more: dict[str, Taker] = {KEYS.name: Unordered(JetStreamLog(connection, KEYS.name), at_once=1)}
        for setup in setups:
            await _create(connection, setup)
            if setup.stream == OBJECTS.name:
                more[setup.stream] = Objects(connection, present)
            else:
                more[setup.stream] = Unordered(JetStreamLog(connection, setup.stream), at_once=1)
        await fill(connection, path, header, read(path, passphrase), more)


def _overview(path: Path, passphrase: bytes) -> tuple[list[StreamSetup], dict[str, int]]:
    """The further streams of a backup, and the last position of each object of the control plane."""
    setups: list[StreamSetup] = []
    present: dict[str, int] = {}
    for line in read(path, passphrase):
        match line:
            case StreamSetup():
                setups.append(line)
            case Record() if line.stream == OBJECTS.name:
                present[line.subject] = line.seq
            case _:
                pass
    return setups, present


async def _create(connection: Connection, setup: StreamSetup) -> None:
    if setup.stream not in STORE:
        raise Failed(f"the backup holds stream {setup.stream!r}; a newer version wrote it")
    config = {**setup.config, "name": setup.stream}
    error = (await answer(connection, f"STREAM.CREATE.{setup.stream}", config, ApiAnswer)).error
    if error is not None:
        raise Failed(f"stream {setup.stream} cannot be made: {error.description}")


def _refuse_existing(layout: Layout) -> None:
    if layout.state.exists() or (layout.directory / "data").exists():
        raise Failed(f"{layout.directory} holds an installation; restore into a new directory: --dir DIRECTORY")


def _write_keys(path: Path, passphrase: bytes, place: Path) -> None:
    found = [line.data for line in _files(read(path, passphrase)) if line.path == KEY_FILE]
    if not found:
        raise Failed(f"{path} holds no master keys")
    write(place.parent, StoredFile(path=place.name, data=found[0]))


def _files(lines: Iterator[Line]) -> Iterator[StoredFile]:
    return (line for line in lines if isinstance(line, StoredFile))
