"""Long work of a request is done beside the event loop, interrupted when it is late, and fails for itself only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator

import pytest

from services.apiserver.core.status_errors import ApiError
from services.apiserver.flow.text_workers import FROM_PROTOBUF, FROM_YAML, TO_YAML, TextWorkers
from services.apiserver.flow.work_aside import WorkAside

HEAVY = 1 << 20


def spin(begun: threading.Event) -> None:
    """Never end; catch what rules catch."""
    begun.set()
    while True:
        with contextlib.suppress(Exception):
            sum(range(100))


@pytest.fixture
async def aside() -> AsyncIterator[WorkAside]:
    made = WorkAside()
    yield made
    made.close()


@pytest.fixture
async def workers() -> AsyncIterator[TextWorkers]:
    made = TextWorkers()
    yield made
    await made.close()


async def test_only_heavy_work_leaves_the_event_loop(aside: WorkAside) -> None:
    here = threading.get_ident()
    assert await aside.run("u", 100, threading.get_ident) == here
    assert await aside.run("u", HEAVY, threading.get_ident) != here


async def test_the_loop_goes_on_beside_heavy_work(aside: WorkAside) -> None:
    begun = threading.Event()
    work = asyncio.create_task(aside.run("u", HEAVY, spin, begun))
    await asyncio.to_thread(begun.wait)
    other = asyncio.create_task(aside.run("v", HEAVY, threading.get_ident))
    assert await other
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    # The thread that was interrupted serves the next.
    assert await aside.run("u", HEAVY, int, "7") == 7


async def test_errors_of_heavy_work_reach_its_request(aside: WorkAside) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await aside.run("u", HEAVY, int, "x")


async def test_one_user_has_one_thread(aside: WorkAside) -> None:
    begun = threading.Event()
    first = asyncio.create_task(aside.run("u", HEAVY, spin, begun))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(aside.run("u", HEAVY, threading.get_ident))
    await asyncio.sleep(0)
    assert await aside.run("v", HEAVY, threading.get_ident)
    assert not second.done()
    first.cancel()
    assert await second


async def test_texts_are_turned_into_others_by_a_process(workers: TextWorkers) -> None:
    assert await workers.run("u", FROM_YAML, b"a: [1, yes]\nb: {c: 1.0}\n") == b'{"a":[1,true],"b":{"c":1}}'
    assert await workers.run("u", TO_YAML, b'{"b":[1],"a":"yes"}') == b"a: 'yes'\nb:\n- 1\n"
    name = "io.k8s.api.core.v1.ConfigMap"
    body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01x"
    assert b'"name":"x"' in await workers.run("u", f"{FROM_PROTOBUF} {name}", body)
    assert len(workers._all) == 1


async def test_refusals_of_a_process_are_those_of_the_server(workers: TextWorkers) -> None:
    with pytest.raises(ApiError) as refused:
        await workers.run("u", FROM_YAML, b"a: &a [*a]")
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


async def test_a_process_that_dies_fails_one_request_only(workers: TextWorkers) -> None:
    assert await workers.run("u", FROM_YAML, b"a: 1") == b'{"a":1}'
    (process,) = workers._all
    late = asyncio.create_task(workers.run("u", FROM_YAML, b"- a\n" * 100_000))
    await asyncio.sleep(0)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(ApiError) as failed:
        await late
    assert failed.value.code == 500
    assert await workers.run("u", FROM_YAML, b"a: 1") == b'{"a":1}'


async def test_a_process_is_ended_when_its_request_is_late(workers: TextWorkers) -> None:
    assert await workers.run("u", FROM_YAML, b"a: 1") == b'{"a":1}'
    (process,) = workers._all
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await workers.run("u", FROM_YAML, b"- [a, b, c]\n" * 80_000)
    await process.wait()
    assert await workers.run("u", FROM_YAML, b"a: 2") == b'{"a":2}'


async def test_processes_know_no_secret(workers: TextWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLOG_APISERVER_ADMIN_TOKEN", "secret")
    assert await workers.run("u", FROM_YAML, b"a: 1") == b'{"a":1}'
    (process,) = workers._all
    with open(f"/proc/{process.pid}/environ", "rb") as environment:  # noqa: ASYNC230
        assert b"secret" not in environment.read()
