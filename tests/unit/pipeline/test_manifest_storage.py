"""What the log refuses to store for the detector's decisions is stored later, unless it will never be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from schemas.keys import ObjectKey
from services._kit.base.log_errors import LogError, Refused, StreamFull, Unavailable
from services.detector.effects import NeedKey
from services.detector.manifest_storage import ManifestStorage, Store

KEY = ObjectKey(group="", resource="secrets", namespace="default", name="s")


class Surroundings(SimpleNamespace):
    """A context whose log answers with an error."""

    def __init__(self, error: LogError) -> None:
        async def fail(*_: object) -> None:
            raise error

        async def park(*said: object) -> None:
            self.parked.append(said)

        super().__init__(
            blobs=SimpleNamespace(vault=SimpleNamespace(digests=fail), put_many=fail, put_secret=fail),
            clock=SimpleNamespace(monotonic=lambda: 100.0),
            mark=lambda keys: self.marked.extend(keys),
            appender=SimpleNamespace(park=park),
            projection=SimpleNamespace(state=SimpleNamespace(digest_keys={}, waiting={KEY})),
            marked=[],
            parked=[],
        )


@pytest.mark.parametrize("error", [StreamFull(10077, "maximum bytes exceeded"), Unavailable("no leader")])
async def test_a_secret_waits_for_room_for_its_key(error: LogError) -> None:
    storage, context = ManifestStorage(), Surroundings(error)
    await storage.need_key(context, NeedKey(KEY, "u1"))
    assert KEY in storage.again
    assert storage.again[KEY] > 100
    assert (context.marked, context.parked, storage.refused) == ([KEY], [], {})


async def test_a_secret_that_can_have_no_key_is_set_aside() -> None:
    storage, context = ManifestStorage(), Surroundings(Refused(0, "the master key is another one"))
    await storage.need_key(context, NeedKey(KEY, "u1"))
    assert storage.refused == {KEY: "u1"}
    assert [said[0] for said in context.parked] == [KEY]
    assert storage.again == {}


async def test_a_manifest_waits_for_room() -> None:
    storage, context = ManifestStorage(), Surroundings(StreamFull(10077, "maximum bytes exceeded"))
    await storage.store(context, Store(KEY, (("d", b"x"),), secret=False))
    assert storage.again[KEY] > 100
    assert context.marked == [KEY]
