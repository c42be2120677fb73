"""A backup of a log without an installation's directory, as in Kubernetes: its keys go along and open its Secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.subjects import restore
from services._kit.content.envelope_encryption import KEYS, Vault
from services._kit.content.master_keys import new_master_keys
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.backup.installation_files import write
from services.cli.backup.restore_backup import restore as restore_backup
from services.cli.backup.take_backup import back_up
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.running import Failed
from services.cli.log.archive import StoredFile, inspect
from tests.integration.history.filled_log import everything, lifetimes
from tests.natsserver import Server

SECRET = b'{"kind":"Secret"}'
PASSPHRASE = b"correct horse battery"


async def test_a_log_comes_back_with_the_keys_of_its_secrets(
    connection: Connection, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    logs = streams(connection)
    await lifetimes(logs)
    keys, backup = tmp_path / "keys.json", tmp_path / "backup"
    new_master_keys().save(keys)
    vault = Vault(JetStreamLog(connection, KEYS), keys)
    await vault.start()
    digest, sealed = await vault.seal("shop", SECRET)
    await vault.stop()
    access = LogAccess(nats_server.url)
    with pytest.raises(Failed, match="give --secrets-key-file FILE"):
        await back_up(access, backup, PASSPHRASE, None, None)
    assert not backup.exists()
    assert await back_up(access, backup, PASSPHRASE, None, keys) == 0
    with pytest.raises(Failed, match="give --nats URL of the server"):
        await restore_backup(backup, PASSPHRASE, tmp_path / "directory", "", None)
    assert not (tmp_path / "directory").exists()

    given = tmp_path / "given" / "keys.json"
    assert await restore_backup(backup, PASSPHRASE, tmp_path, other_server.url, given) == 0
    assert given.read_bytes() == keys.read_bytes()
    assert given.stat().st_mode & 0o777 == 0o600
    async with open_log(LogAccess(other_server.url)) as other:
        copies = streams(other)
        present = {subject: (seq, data) for seq, subject, data in await everything(logs["FACTS"])}
        restored = {subject: (seq, data) for seq, subject, data in await everything(copies["FACTS"])}
        assert present.items() <= restored.items()
        assert await copies["FACTS"].last(restore()) is not None
        assert sorted(await everything(copies["BLOBS"])) == sorted(await everything(logs["BLOBS"]))
        opened = Vault(JetStreamLog(other, KEYS), given)
        await opened.start()
        assert opened.open(digest, sealed) == SECRET
        await opened.stop()
    with pytest.raises(Failed, match="the log is not empty"):
        await restore_backup(backup, PASSPHRASE, tmp_path, other_server.url, None)


async def test_nothing_is_written_from_a_damaged_backup(
    connection: Connection, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    await lifetimes(streams(connection))
    keys, backup = tmp_path / "keys.json", tmp_path / "backup"
    new_master_keys().save(keys)
    await back_up(LogAccess(nats_server.url), backup, PASSPHRASE, None, keys)
    whole = backup.read_bytes()
    inspect(backup, PASSPHRASE)
    for damaged in (whole[:-100], whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        backup.write_bytes(damaged)
        with pytest.raises(Failed, match="damaged"):
            await restore_backup(backup, PASSPHRASE, tmp_path, other_server.url, tmp_path / "never.json")
    with pytest.raises(Failed, match="does not open with this passphrase"):
        await restore_backup(backup, b"wrong horse", tmp_path, other_server.url, None)
    assert not (tmp_path / "never.json").exists()
    async with open_log(LogAccess(other_server.url)) as other:
        await topology.apply(other)
        assert [(await log.identity()).last_seq for log in streams(other).values()] == [0] * len(streams(other))


@pytest.mark.parametrize("path", ["../escaped", "/etc/escaped", "data/../../escaped", ""])
def test_files_of_a_backup_stay_in_their_directory(tmp_path: Path, path: str) -> None:
    with pytest.raises(Failed, match="outside of the installation"):
        write(tmp_path / "inside", StoredFile(path=path, data=b"x"))
    assert not (tmp_path / "escaped").exists()
