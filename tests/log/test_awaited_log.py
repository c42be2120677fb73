"""A service that is started before the log and its streams waits: alive, not ready, and with the reason."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs

from schemas.topology import BLOBS, FACTS
from services._kit.base.health import Health
from services._kit.base.log_errors import Ambiguous, LogError
from services._kit.base.pacing import Backoff
from services._kit.base.settings import Settings
from services._kit.log import awaited_log
from services._kit.log import streams as topology
from services._kit.log.awaited_log import Awaited, Complaints, reason_to_wait, streams_usable
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services._kit.log.streams import Shortcoming
from services._kit.runtime.service_wiring import serve
from services.cli.common.running import Failed
from services.cli.log.restore_archive import make_streams
from tests.log.test_serve import process
from tests.log.toy import Toy
from tests.support.waiting import eventually

EARLIER = msgspec.structs.replace(FACTS, subjects=FACTS.subjects[:-1])
"""The stream as a version made it that knew one subject less."""


class Said:
    """Takes the lines of a log."""

    def __init__(self):
        self.lines = []

    def warning(self, event, **more):
        self.lines.append((event, more.get("reason")))

    info = warning


def missing(*names):
    return [Shortcoming(name, "missing", f"stream {name}: stream not found; apply the topology") for name in names]


def test_missing_streams_are_waited_for_by_name():
    maker = "the service with FLEETLOG_APPLY_TOPOLOGY=true (the detector) makes"
    assert reason_to_wait([]) == ""
    assert reason_to_wait(missing("KEYS")) == f"stream KEYS is not there yet; {maker} it"
    assert reason_to_wait(missing("KEYS", "PARKED")) == f"streams KEYS, PARKED are not there yet; {maker} them"


@pytest.mark.parametrize("kind", ["silent", "different"])
def test_what_another_may_mend_is_waited_for(kind):
    assert "stream FACTS: something" in reason_to_wait([Shortcoming("FACTS", kind, "stream FACTS: something")])


@pytest.mark.parametrize("kind", ["importing", "refused"])
def test_what_waiting_does_not_mend_is_an_error(kind):
    with pytest.raises(LogError, match="not as this version needs them: stream FACTS: something"):
        reason_to_wait([*missing("KEYS"), Shortcoming("FACTS", kind, "stream FACTS: something")])


def test_a_reason_is_logged_once():
    said, health = Said(), Health()
    awaited = Awaited(health, said)
    assert health.reasons() == {"connection": "the log was not reached yet"}
    awaited.because("connection", "no server")
    for reason in ("no KEYS", "no KEYS", "no PARKED"):
        awaited.tell("streams", reason)
        assert health.reasons() == {"streams": reason}
    awaited.over()
    assert said.lines == [("waiting", "no KEYS"), ("waiting", "no PARKED"), ("waited", None)]


def test_one_that_need_not_wait_logs_nothing():
    said = Said()
    Awaited(Health(), said).over()
    assert said.lines == []


def test_complaints_that_take_turns_are_logged_once():
    said = Said()
    complaints = Complaints(said, "nats://one,nats://two")
    for number in (1, 2, 1, 2):
        complaints.take(OSError(f"no answer of {number}"))
    assert [reason for _, reason in said.lines] == ["OSError: no answer of 1", "OSError: no answer of 2"]


async def test_an_identity_that_is_refused_ends_it(nats_server, monkeypatch):
    nats_server.stop()
    nats_server.configure('}\nauthorization { user: "one", password: "secret"')
    nats_server.start()
    monkeypatch.setattr(awaited_log, "REFUSED_PATIENCE", 0.05)
    settings = Settings(nats_url=nats_server.url, nats_user="one", nats_password="other", http_port=-1)
    with pytest.raises(LogError, match=r"no server of the log answers at .*Authorization Violation"):
        await serve(Toy(), settings, asyncio.Event())


class Answers:
    """What the log answers when it is asked for its streams, one after the other."""

    def __init__(self, monkeypatch, *answers):
        self._answers = list(answers)
        self.closed = asyncio.Event()
        monkeypatch.setattr(topology, "look", self._look)

    async def _look(self, _):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_log_that_does_not_answer_is_asked_again(monkeypatch):
    said, silence = Said(), Ambiguous("no answer on $JS.API.STREAM.INFO.FACTS within 10 s")
    connection = Answers(monkeypatch, silence, silence, missing("KEYS"), [])
    monkeypatch.setattr(awaited_log, "PAUSES", Backoff(0.001, 0.001))
    awaited, complaints = Awaited(Health(), said), Complaints(said, "nats://one")
    await streams_usable(connection, Settings(), {}, awaited, complaints)
    assert said.lines == [
        ("waiting", str(silence)),
        ("waiting", reason_to_wait(missing("KEYS"))),
        ("waited", None),
    ]


async def test_a_request_that_is_not_permitted_ends_it(monkeypatch):
    connection = Answers(monkeypatch, Ambiguous("no answer"))
    complaints = Complaints(Said(), "nats://one")
    complaints.take(OSError('nats: permissions violation for publish to "$js.api.stream.info.facts"'))
    with pytest.raises(Ambiguous):
        await streams_usable(connection, Settings(), {}, Awaited(Health(), Said()), complaints)


@asynccontextmanager
async def begun(nats_server, ended=None, **more):
    """A service that was just started: what it answers by path, and what its log tells."""
    stop, ended = asyncio.Event(), ended or asyncio.Event()
    with capture_logs() as told:
        running = asyncio.create_task(serve(Toy(), Settings(nats_url=nats_server.url, **more), stop))
        running.add_done_callback(lambda _: ended.set())
        try:
            (place,) = await eventually(lambda: running.done() or [at for at in told if at["event"] == "listening"])
            async with aiohttp.ClientSession(f"http://{place['host']}:{place['port']}") as http:

                async def asked(path):
                    async with http.get(path) as answer:
                        return answer.status, await answer.text()

                yield asked, told
        finally:
            stop.set()
            await running


async def ready(asked):
    """Return once the service is ready."""

    async def look():
        return (await asked("/readyz"))[0] == 200

    await eventually(look, "the service is ready")


async def reason_of(asked, check, words):
    """Wait until the service is alive and not ready for a reason."""

    async def look():
        assert (await asked("/livez"))[0] == 200
        status, text = await asked("/readyz")
        reasons = json.loads(text)["reasons"]
        return status == 503 and words in reasons.get(check, "") and [*reasons] == [check]

    await eventually(look, words)


async def test_a_service_waits_for_its_streams(nats_server, connect):
    async with begun(nats_server) as (asked, told):
        await reason_of(asked, "streams", "streams FACTS, OBSERVED, HISTORY, BLOBS, KEYS")
        assert "process_resident_memory_bytes" in (await asked("/metrics"))[1]
        await topology.apply(await connect())
        await ready(asked)
    waits = [line for line in told if line["event"] == "waiting"]
    assert (waits[0]["on"], waits[0]["log_level"]) == ("streams", "warning")
    assert len(waits) == len({line["reason"] for line in waits})
    assert [line["event"] for line in told].count("waited") == 1


async def test_a_service_waits_for_the_server_of_the_log(nats_server, connect):
    nats_server.stop()
    async with begun(nats_server) as (asked, told):
        await reason_of(asked, "connection", f"no server of the log answers at {nats_server.url}: ConnectionRefused")
        nats_server.start()
        await reason_of(asked, "streams", "not there yet")
        await topology.apply(await connect())
        await ready(asked)
    assert [line["event"] for line in told].count("connection trouble") == 1


async def test_the_one_that_makes_the_streams_waits_for_the_log(nats_server):
    nats_server.stop()
    async with begun(nats_server, apply_topology=True) as (asked, told):
        await reason_of(asked, "connection", "no server of the log answers")
        nats_server.start()
        await ready(asked)
    assert [line["event"] for line in told].count("waited") == 1


async def test_streams_of_an_earlier_version_are_waited_for(nats_server, connection):
    await connection.request(f"$JS.API.STREAM.DELETE.{FACTS.name}")
    await topology.apply_stream(connection, EARLIER)
    async with begun(nats_server) as (asked, _):
        await reason_of(asked, "streams", "not as this version needs them: stream FACTS: subjects is")
        await topology.apply(connection)
        await ready(asked)


async def test_what_waits_does_not_begin_within_an_import(nats_server, connect, tmp_path):
    async def waiting():
        ended = asyncio.Event()
        async with begun(nats_server, ended) as (asked, _):
            await reason_of(asked, "streams", "not there yet")
            await make_streams(await connect(), tmp_path / "log.gz")
            await ended.wait()

    with pytest.raises(LogError, match="an import did not finish"):
        await waiting()


async def test_a_refused_import_leaves_no_note(connect, tmp_path):
    connection = await connect()
    await topology.apply_stream(connection, BLOBS)
    await JetStreamLog(connection, BLOBS.name).append([NewMessage(BLOBS.subjects[0].replace("*", "a"), b"x")])
    with pytest.raises(Failed, match="the log is not empty: BLOBS"):
        await make_streams(connection, tmp_path / "log.gz")
    assert await topology.look(connection) == []


def test_one_that_waits_for_streams_stops_on_sigterm(nats_server):
    with process(nats_server) as running:
        for line in running.stderr:
            if '"waiting"' in line:
                break
        running.send_signal(signal.SIGTERM)
        events = [json.loads(line)["event"] for line in running.stderr]
        assert (running.wait(60), events[-1]) == (0, "stopped")
