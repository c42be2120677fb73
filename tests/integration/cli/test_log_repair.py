"""A log with flipped bytes: the server is not started on it, a repair names and mends it, and everything else stays."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from schemas.codec import decode, encode, subject_of
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.log import streams as topology
from services._kit.log.fact_history import origin, until_held
from services._kit.log.stream_port import NewMessage
from services.apiserver.store.jetstream_store import JetStreamStore
from services.apiserver.store.store_port import Key, StoreUnavailable
from services.cli.common.layout import Installation, Layout
from services.cli.common.logbook import LogAccess, streams
from services.cli.log import repair as log_repair
from services.cli.log.disk.files import damage as find_damage
from services.cli.log.disk.files import damaged_blocks, guarded, refused_file, sentence
from services.cli.log.fact_recovery import served
from services.cli.log.log_options import RepairOptions
from services.cli.log.repair import repair
from services.cli.log.verify import verify, verify_installation
from services.cli.supervision.child import nats_server_binary
from tests.log.toy import wanted
from tests.support.byte_flips import blocks, damage, flip, spot

QUARANTINE = RepairOptions(quarantine=True)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A stopped installation with 40 ConfigMaps in its control plane and 30 bindings on its log."""
    found = Layout(tmp_path / "fleet")
    for part in ("data", "run", "logs"):
        (found.directory / part).mkdir(parents=True)
    installation = Installation(members=[], ports={}, token="t", nats_token="n")
    for name in ("nats", "nats_http"):
        installation.port(name)
    found.save(installation)
    return found


@pytest.fixture
async def filled(layout: Layout) -> Layout:
    installation = layout.load()
    assert installation is not None
    async with served(layout, installation) as connection:
        await topology.apply(connection)
        logs = streams(connection)
        for number in range(3):
            await logs["FACTS"].append([wanted(f"d{i}", f"m{number}") for i in range(10)])
        assert await until_held(logs["HISTORY"], 30, patience=90.0) == 30
        await logs["BLOBS"].append([NewMessage(f"blob.{i:064x}", b"x" * 100) for i in range(10)])
        url = connection.nc.connected_url
        store = JetStreamStore(f"nats://hub:n@127.0.0.1:{url.port}")
        await store.start()
        for i in range(40):
            entry = await store.put(config_map(i), manifest(i, "1"), 0)
            if i % 2:
                await store.put(config_map(i), manifest(i, "2"), entry.revision)
        await store.stop()
    return layout


def config_map(number: int) -> Key:
    return Key("", "configmaps", "ns", f"n{number}")


def manifest(number: int, value: str) -> Manifest:
    return {"metadata": {"name": f"n{number}"}, "data": {"v": value * 40}}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nothing can guess is given up sooner."""
    monkeypatch.setattr(log_repair, "MEND_SECONDS", 1.0)


def store_of(layout: Layout) -> Path:
    return layout.data("nats")


def break_badly(layout: Layout, stream: str, seq: int) -> str:
    """Change three bytes of a message, which nothing can guess; its subject."""
    found = spot(store_of(layout), stream, seq)
    for distance in (0, 5, 9):
        flip(found.file, found.place("data") + distance, 0x55)
    return found.subject


def as_after_a_crash(layout: Layout, stream: str) -> None:
    """Take away what the server noted at its end: it goes through all blocks at its next start."""
    (blocks(store_of(layout), stream)[0].parent / "index.db").unlink()


async def loaded(layout: Layout) -> dict[str, str]:
    """What a control plane on this log holds: the value of each ConfigMap."""
    installation = layout.load()
    assert installation is not None
    async with served(layout, installation) as connection:
        store = JetStreamStore(f"nats://hub:n@127.0.0.1:{connection.nc.connected_url.port}")
        await store.start()
        try:
            return {entry.key.name: entry.obj["data"]["v"][0] for entry in store.list("", "configmaps")}
        finally:
            await store.stop()


WHOLE = {f"n{i}": "2" if i % 2 else "1" for i in range(40)}


async def test_a_sound_log_needs_no_repair(filled: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_damage(store_of(filled), nats_server_binary(), all_of_them=True) == []
    assert await repair(filled.directory, QUARANTINE) == 0
    assert "no damaged messages" in capsys.readouterr().out
    assert await loaded(filled) == WHOLE


@pytest.mark.parametrize("part", ["data", "subject", "headers", "sequence", "checksum", "length"])
async def test_one_changed_byte_is_mended(
    filled: Layout, part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_repair, "MEND_SECONDS", 90.0)
    broken = damage(store_of(filled), "OBJECTS", 20, part)  # type: ignore[arg-type]
    assert await repair(filled.directory, RepairOptions()) == 1
    assert f"OBJECTS #20 {broken.subject}: one byte changed; it is mended" in capsys.readouterr().out
    assert await repair(filled.directory, QUARANTINE) == 0
    assert await loaded(filled) == WHOLE
    assert await repair(filled.directory, RepairOptions()) == 0


async def test_a_checking_server_that_ends_is_told_of(filled: Layout, tmp_path: Path) -> None:
    binary = tmp_path / "nats-server"
    binary.write_text("#!/bin/sh\necho no room\nexit 3\n")
    binary.chmod(0o755)
    with pytest.raises(OSError, match="ended with code 3: no room"):
        damaged_blocks(store_of(filled), str(binary), all_of_them=True)


async def test_a_dry_run_changes_nothing(filled: Layout) -> None:
    break_badly(filled, "OBJECTS", 20)
    before = {path: path.read_bytes() for path in sorted(store_of(filled).rglob("*")) if path.is_file()}
    assert await repair(filled.directory, RepairOptions()) == 1
    after = {path: path.read_bytes() for path in sorted(store_of(filled).rglob("*")) if path.is_file()}
    assert after == before


@pytest.mark.parametrize("crashed", [False, True])
async def test_the_only_state_of_an_object_is_given_up_on_request_only(
    filled: Layout, crashed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = break_badly(filled, "OBJECTS", 1)
    if crashed:
        as_after_a_crash(filled, "OBJECTS")
    else:
        with pytest.raises(StoreUnavailable, match=r"stream OBJECTS, message 1 \("):
            await loaded(filled)
    assert await repair(filled.directory, QUARANTINE) == 2
    assert "counts as deleted" in capsys.readouterr().err
    assert await repair(filled.directory, RepairOptions(quarantine=True, accept_loss=True)) == 0
    assert f"OBJECTS #1 {subject}: lost, the only state" in capsys.readouterr().out
    kept = WHOLE.copy()
    del kept["n0"]
    assert await loaded(filled) == kept
    (noted,) = filled.directory.glob("quarantine/*/messages.jsonl")
    assert msgspec.json.decode(noted.read_bytes().strip())["subject"] == subject


async def test_earlier_state_replaces_a_lost_object(filled: Layout) -> None:
    break_badly(filled, "OBJECTS", 3)
    assert await repair(filled.directory, QUARANTINE) == 0
    assert await loaded(filled) == WHOLE | {"n1": "1"}


async def test_a_crashed_server_is_not_started_on_a_damaged_log(filled: Layout) -> None:
    """It would cut the block off there: everything that was stored behind would be gone."""
    store = store_of(filled)
    subject = break_badly(filled, "OBJECTS", 20)
    as_after_a_crash(filled, "OBJECTS")
    sizes = {path: path.stat().st_size for path in blocks(store, "OBJECTS")}
    command = guarded(store, [nats_server_binary(), "-c", str(store / "nats.conf")])
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    said = f"stream OBJECTS, message 20 ({subject}) is unreadable; run `fleetlog log repair --quarantine`"
    assert said in ended.stderr
    assert refused_file(store).read_text() == f"{said}\n"
    assert {path: path.stat().st_size for path in blocks(store, "OBJECTS")} == sizes


async def test_a_message_that_a_crash_cut_off_is_no_damage(filled: Layout) -> None:
    store = store_of(filled)
    (block,) = blocks(store, "OBJECTS")
    content = block.read_bytes()
    last = spot(store, "OBJECTS", 60)
    block.write_bytes(content + content[last.offset : last.offset + 40])
    as_after_a_crash(filled, "OBJECTS")
    assert find_damage(store, nats_server_binary()) == []
    assert await loaded(filled) == WHOLE


async def test_lost_fact_is_restored_from_the_history(filled: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    subject = break_badly(filled, "FACTS", 25)
    assert await repair(filled.directory, QUARANTINE) == 0
    assert f"FACTS #25 {subject}: written again from HISTORY, as #31" in capsys.readouterr().out
    installation = filled.load()
    assert installation is not None
    async with served(filled, installation) as connection:
        logs = streams(connection)
        message = await logs["FACTS"].last(subject)
        assert message is not None
        event = decode(message.subject, message.data)
        assert (event.labels, event.prev) == ({"clusters": "m2"}, 25)  # type: ignore[union-attr]
        assert [m.seq async for m in logs["FACTS"].read([">"])] == [*range(1, 25), *range(26, 32)]


@pytest.mark.parametrize("stream", ["FACTS", "HISTORY", "BLOBS"])
async def test_every_stream_is_repaired(filled: Layout, stream: str) -> None:
    for seq in (7, 8, 10):
        break_badly(filled, stream, seq)
    found = find_damage(store_of(filled), nats_server_binary(), all_of_them=True)
    assert [one.gap.first for one in found] == [7, 8, 10]
    assert sentence(found).startswith(f"stream {stream}, message 7 (")
    assert await repair(filled.directory, QUARANTINE) == 0
    assert await repair(filled.directory, RepairOptions()) == 0
    assert await loaded(filled) == WHOLE


@pytest.mark.parametrize("stream", ["FACTS", "HISTORY", "BLOBS", "OBJECTS"])
async def test_verify_names_damage_on_the_files_and_through_a_server(
    filled: Layout, stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await verify_installation(filled.directory) == 1, "bytes that are no blobs of their names are told"
    said = capsys.readouterr().out
    assert "it holds other bytes than its name says" in said
    assert "cannot be read" not in said
    subject = break_badly(filled, stream, 7)
    assert await verify_installation(filled.directory) == 1
    assert f"{stream} #7 ({subject}): cannot be read, damaged in 1.blk" in capsys.readouterr().out
    installation = filled.load()
    assert installation is not None
    async with served(filled, installation) as connection:
        url = f"nats://hub:n@127.0.0.1:{connection.nc.connected_url.port}"
        assert await verify(LogAccess(url)) == 1
    assert f"{stream} #7 {subject}: cannot be read, its bytes are damaged" in capsys.readouterr().out


async def test_a_lost_object_is_written_again_as_the_facts_hold_it(
    filled: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Left out, it would count as deleted, and go from the members."""
    installation = filled.load()
    assert installation is not None
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n0", "namespace": "ns"}, "data": {"v": "9"}}
    event = TemplateChanged(
        key=ObjectKey("", "configmaps", "ns", "n0"),
        uid="u-0",
        api_version="v1",
        kind="ConfigMap",
        digest="d",
        manifest=msgspec.Raw(msgspec.json.encode(kept)),
    )
    async with served(filled, installation) as connection:
        await streams(connection)["FACTS"].append([NewMessage(subject_of(event), encode(event))])
    break_badly(filled, "OBJECTS", 1)
    assert await repair(filled.directory, QUARANTINE) == 0
    assert "written again as the log knows it, as #61" in capsys.readouterr().out
    assert await loaded(filled) == WHOLE | {"n0": "9"}


@pytest.mark.faults
async def test_a_block_that_the_server_compressed_is_repaired(filled: Layout) -> None:
    installation = filled.load()
    assert installation is not None
    text = " ".join(f"{n:x}" for n in range(9000))
    async with served(filled, installation) as connection:
        logs = streams(connection)
        for number in range(260):
            await logs["FACTS"].append([wanted("big", text + str(number))])
        assert await until_held(logs["HISTORY"], 290, patience=90.0) == 290
    first = blocks(store_of(filled), "HISTORY")[0]
    assert first.read_bytes().startswith(b"cmp"), "nothing was compressed"
    flip(first, first.stat().st_size // 2, 0x55)
    assert await repair(filled.directory, QUARANTINE) == 0
    assert await repair(filled.directory, RepairOptions()) == 0
    async with served(filled, installation) as connection:
        held = [origin(m) async for m in streams(connection)["HISTORY"].read([">"])]
    assert held[0] == 1
    assert held[-1] == 290
    assert len(held) > 100


async def test_fact_with_a_lost_manifest_has_to_be_stored_again(filled: Layout) -> None:
    installation = filled.load()
    assert installation is not None
    key = ObjectKey("", "configmaps", "ns", "n0")
    lost, there = (
        TemplateChanged(key=replace(key, name=name), uid="u", api_version="v1", kind="ConfigMap", digest=digest)
        for name, digest in (("lost", f"{3:064x}"), ("there", f"{4:064x}"))
    )
    async with served(filled, installation) as connection:
        logs = streams(connection)
        await logs["FACTS"].append([NewMessage(subject_of(event), encode(event)) for event in (lost, there)])
    break_badly(filled, "BLOBS", 4)
    assert await repair(filled.directory, QUARANTINE) == 0
    async with served(filled, installation) as connection:
        logs = streams(connection)
        named = {}
        for event in (lost, there):
            message = await logs["FACTS"].last(subject_of(event))
            assert message is not None
            named[event.key.name] = decode(message.subject, message.data).digest  # type: ignore[union-attr]
    assert named == {"lost": "0" * 64, "there": there.digest}
