"""The command `fleetlog log repair`: gets a log with damaged messages up again, with all that is whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from schemas.manifest import Manifest
from services.cli.common.installation_search import absence
from services.cli.common.layout import Layout
from services.cli.common.running import Failed, complain, patience
from services.cli.log.disk.disk_objects import recorded
from services.cli.log.disk.files import StreamFiles, damaged_blocks, examined
from services.cli.log.disk.quarantine import Damaged, Plan, carry_out, holds_objects, plan
from services.cli.log.fact_recovery import restore
from services.cli.log.log_options import RepairOptions
from services.cli.nats.server_identities import server_pid
from services.cli.supervision.child import nats_server_binary
from services.cli.supervision.lock import AlreadyRunning, Lock

MEND_SECONDS: Final = 15.0
"""Spent at most on finding the byte that changed in one message."""
DAMAGED: Final = 1
REFUSED: Final = 2


async def repair(directory: Path, options: RepairOptions) -> int:
    """Show what is damaged, and mend it when asked for.

    0: nothing is damaged, or all is done. 1: something is damaged and was only shown. 2: an object would vanish.
    Raises Failed.
    """
    layout = Layout(directory)
    installation = layout.load()
    store = layout.data("nats")
    if installation is None:
        raise Failed(f"{absence(directory)}; name its directory with --dir")
    if installation.nats_url or not store.is_dir():
        raise Failed(f"{directory} holds no log of its own; on the server that keeps it, see docs/backup.md")
    if server_pid(layout):
        raise Failed(f"the log's server runs; stop the installation first: `fleetlog stop --dir {directory}`")
    try:
        with Lock(layout.lock, "fleetlog log repair"):
            return await _repair(layout, store, options)
    except AlreadyRunning as error:
        raise Failed(f"{error}; a log is repaired while nothing uses it") from None


async def _repair(layout: Layout, store: Path, options: RepairOptions) -> int:
    async with patience("looking through all blocks"):
        plans = await asyncio.to_thread(_plans, store)
    objects = {made.stream.name for made in plans if holds_objects(made.stream)}
    known: dict[str, Manifest] = {}
    damaged = []
    for one in (one for made in plans for one in made.damaged):
        found = recorded(store, one.subject) if one.stream in objects and _is_lost_state(one) else None
        if found is not None:
            known[one.subject] = found
        damaged.append(replace(one, recorded=found is not None))
    if not damaged:
        print("no damaged messages")
        return 0
    for one in damaged:
        print(line(one, is_object=one.stream in objects))
    vanishing = [one for one in damaged if vanishes(one, is_object=one.stream in objects)]
    if not options.quarantine:
        complain(f"{_count(damaged)}; nothing was changed: --quarantine carries this out")
        return DAMAGED
    if vanishing and not options.accept_loss:
        complain(
            f"nothing was changed: {len(vanishing)} of them may be the only state of an object. Without it the object "
            "counts as deleted, and its copies in the members are removed. Restore a backup of the directory, or add "
            "--accept-loss, apply the objects again before anything else (see docs/backup.md)"
        )
        return REFUSED
    aside = layout.directory / "quarantine" / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    carry_out(plans, aside)
    lost = [one for one in damaged if one.fate == "lost"]
    async with patience("writing again what else is known of lost states"):
        written = await restore(layout, lost, known)
    for line_written in written:
        print(line_written)
    complain(f"{_count(damaged)}; blocks as they were, and what can be read of messages: {aside}")
    complain("start the installation with `fleetlog up`; `fleetlog log verify` says how the facts hang together")
    return 0


def _plans(store: Path) -> list[Plan]:
    blocks: dict[Path, StreamFiles] = {
        path: stream for stream, path in damaged_blocks(store, nats_server_binary(), all_of_them=True)
    }
    plans = []
    for path, stream in blocks.items():
        block = examined(stream, path)
        if block.findings:
            plans.append(plan(stream, path, block, MEND_SECONDS))
    return plans


def _is_lost_state(one: Damaged) -> bool:
    return one.fate == "lost" and one.newest and not one.deletion and bool(one.subject)


def vanishes(one: Damaged, *, is_object: bool) -> bool:
    """Whether an object may be gone with a message: it was its only state, or it is not known whose state it was."""
    if one.fate == "mended" or not is_object or one.deletion or one.recorded:
        return False
    return not one.subject or (one.newest and not one.stays)


def line(one: Damaged, *, is_object: bool) -> str:
    """A damaged message and what becomes of it."""
    places = f"#{one.first}" if one.first == one.last else f"#{one.first} to #{one.last}"
    text = f"{one.stream} {places} {one.subject or '(subject unreadable)'}: "
    if one.fate == "mended":
        return text + "one byte changed; it is mended"
    if not one.newest:
        return text + f"lost, an earlier state; #{one.stays} is the present one"
    if is_object and one.deletion:
        return text + f"lost, a deletion; #{one.stays} counts until it is deleted again"
    if is_object and one.recorded:
        return text + "lost, the present state; it is written again as the log knows it"
    if one.stays:
        return text + f"lost, the present state; #{one.stays} counts from now on"
    return text + "lost, the only state"


def _count(damaged: Sequence[Damaged]) -> str:
    mended = sum(one.fate == "mended" for one in damaged)
    return f"{len(damaged)} damaged, {mended} can be mended, {len(damaged) - mended} lost"
