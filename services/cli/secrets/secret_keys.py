"""Makes, rotates and drops the keys that Secrets are encrypted with: `fleetlog secrets …`."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.subjects import key as key_subject
from schemas.subjects import unescape
from schemas.topology import OBJECTS
from services._kit.base.log_errors import Conflict, LogReplaced, Unavailable
from services._kit.base.settings import SettingsError
from services._kit.content.envelope_encryption import ALL, KEYS, KeyUnavailable, WrappedKey, fresh, unwrap, wrap
from services._kit.content.master_keys import MasterKeys, load_master_keys, new_master_keys
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Message, NewMessage
from services.apiserver.store.secret_encryption import keys_stream
from services.apiserver.store.subject_names import forget_subject
from services.cli.common.layout import Layout
from services.cli.common.logbook import LogAccess, open_log
from services.cli.common.running import Failed, complain, patience

APISERVER: Final = "apiserver"
READERS: Final = frozenset({APISERVER, "detector", "override_renderer", "executor", "registrar"})
"""Services that read Secrets, and the embedded API server that keeps them: only they get the key file."""
_TRIES: Final = 10
_NAMED: Final = 10
_STORE_PREFIX: Final = OBJECTS.subjects[0].partition(".")[0]
_FORGET_SECONDS: Final = 60.0


def key_file(layout: Layout) -> Path:
    """Where an installation keeps its master keys."""
    return layout.data("secrets") / "keys.json"


def prepare(layout: Layout) -> Path:
    """The key file of an installation, made at its first start and never replaced."""
    path = key_file(layout)
    if not path.exists():
        new_master_keys().save(path)
    return path


def environment(layout: Layout, service: str) -> dict[str, str]:
    """What a service has to know of the keys; nothing for those that never read a Secret."""
    return {"FLEETLOG_SECRETS_KEY_FILE": str(prepare(layout))} if service in READERS else {}


def create(path: Path) -> int:
    """Make a key file; raises Failed where there is one."""
    if path.exists():
        raise Failed(f"{path} exists; use `fleetlog secrets rotate` for a new key in it")
    masters = new_master_keys()
    masters.save(path)
    complain(f"{path}: master key {masters.current}")
    return 0


async def rotate(access: LogAccess, path: Path, *, drop_old: bool) -> int:
    """Make a new master key and wrap every namespace's key with it; or drop those that wrap nothing any more."""
    masters = _load(path)
    async with patience("rotating"), open_log(access) as connection:
        if not drop_old:
            masters = masters.rotated()
            # On disk first: what is wrapped with a key that is lost is lost.
            masters.save(path)
        count = await _rewrap(JetStreamLog(connection, KEYS), masters)
        count += await _rewrap_store(connection, masters)
    if drop_old:
        masters.only_current().save(path)
        complain(f"{path}: only master key {masters.current} is left")
    else:
        complain(f"{path}: master key {masters.current}, {count} namespaces' keys wrapped again; the old ones are kept")
        complain("give the file to the services, then drop the old ones: fleetlog secrets rotate --drop-old")
    return 0


async def forget(access: LogAccess, path: Path, namespace: str) -> int:
    """Drop the key of a namespace: every Secret it ever had is unreadable; present ones are stored again."""
    masters = _load(path)
    subject = key_subject(namespace)
    async with patience("forgetting"), open_log(access) as connection:
        log = JetStreamLog(connection, KEYS)
        await _refuse_unknown(log, namespace)
        for _ in range(_TRIES):
            before = await log.last(subject)
            if before is not None:
                await _erase(connection, before)
            # From the new one every service learns that the old one is gone.
            data = msgspec.json.encode(fresh(masters, namespace))
            try:
                await log.append([NewMessage(subject, data, {}, expect_last=0)])
            except Conflict:
                continue
            break
        else:
            raise Failed(f"the key of namespace {namespace} is made again all the time; try again")
        await _forget_store(connection, namespace)
    complain(
        f"namespace {namespace}: {'its key was dropped' if before is not None else 'it had no key'}, a new one is set"
    )
    complain("earlier contents of its Secrets cannot be read any more; backups of stream KEYS hold the old key still")
    return 0


async def _refuse_unknown(log: JetStreamLog, namespace: str) -> None:
    """Raises Failed for a namespace that never had a Secret: its name is misspelt, and another one is meant."""
    held = {unescape(subject.partition(".")[2]) for subject in await log.counts("key.*")}
    store = JetStreamLog(log.connection, keys_stream(OBJECTS.name))
    with suppress(LogReplaced):
        await store.identity()
        # Its subjects end with the namespace and the id of the key.
        held |= {unescape(subject.split(".")[-2]) for subject in await store.counts(">")}
    if namespace not in held:
        near = get_close_matches(namespace, sorted(held), 1)
        hint = (
            f"; did you mean {near[0]}?" if near else f"; {', '.join(sorted(held)[:_NAMED]) or 'no namespace'} has one"
        )
        raise Failed(f"namespace {namespace} has no key on this log{hint}")


async def _rewrap_store(connection: Connection, masters: MasterKeys) -> int:
    """Wrap again the keys of the embedded API server's store that are wrapped with this key file; how many."""
    log = JetStreamLog(connection, keys_stream(OBJECTS.name))
    try:
        await log.identity()
    except LogReplaced:
        return 0  # The control plane is another one, or of an earlier version.
    return await _rewrap(log, masters, pattern=">", ours_only=True)


async def _forget_store(connection: Connection, namespace: str) -> None:
    """Let the embedded API server drop its key of a namespace, which it writes present Secrets again for."""
    try:
        await JetStreamLog(connection, keys_stream(OBJECTS.name)).identity()
    except LogReplaced:
        return
    try:
        answer = await connection.request(forget_subject(_STORE_PREFIX), namespace.encode(), timeout=_FORGET_SECONDS)
    except Unavailable:
        raise Failed(
            f"namespace {namespace}: forgotten on the log, but the embedded API server does not run; "
            "start it and forget again, so that its store forgets as well"
        ) from None
    error = msgspec.json.decode(answer.data, type=dict[str, Any]).get("error")
    if error:
        raise Failed(f"namespace {namespace}: forgotten on the log, but not in the API server's store: {error}")


async def _erase(connection: Connection, message: Message) -> None:
    """Remove a message and overwrite its bytes on the server's disk."""
    query = msgspec.json.encode({"seq": message.seq, "no_erase": False})
    answer = await connection.request(f"$JS.API.STREAM.MSG.DELETE.{KEYS}", query)
    if b'"success":true' not in answer.data.replace(b" ", b""):
        raise Failed(f"the log's server did not erase the key: {answer.data.decode(errors='replace')}")


async def _rewrap(log: JetStreamLog, masters: MasterKeys, pattern: str = ALL, *, ours_only: bool = False) -> int:
    """Wrap keys with the current master key; `ours_only` leaves those be that this file does not open."""
    count = 0
    for message in await log.last_many([pattern]):
        found: Message | None = message
        for _ in range(_TRIES):
            if found is None:
                break
            stored = msgspec.json.decode(found.data, type=WrappedKey)
            if stored.master == masters.current:
                break
            try:
                data = msgspec.json.encode(wrap(masters, stored.namespace, stored.id, unwrap(masters, stored)))
            except KeyUnavailable as error:
                if ours_only:
                    complain(f"left as it is, because the API server has a key file of its own: {error.description}")
                    break
                raise Failed(f"{error.description}; nothing was dropped") from None
            try:
                await log.append([NewMessage(found.subject, data, {}, expect_last=found.seq)])
            except Conflict:
                found = await log.last(found.subject)
                continue
            count += 1
            break
        else:
            raise Failed(f"{message.subject} changes all the time; try again")
    return count


def _load(path: Path) -> MasterKeys:
    try:
        return load_master_keys(path)
    except SettingsError as error:
        raise Failed(str(error)) from None
