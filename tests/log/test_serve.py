"""A whole process: connects, checks the topology, answers health questions, stops cleanly, exits with a code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap

import aiohttp
from structlog.testing import capture_logs

from services._kit.base.settings import Settings
from services._kit.log.jetstream import JetStreamLog
from services._kit.runtime.service_wiring import serve
from tests.log.toy import Toy, placed_on, wanted
from tests.support.ending import ends_with_us

PROCESS = """
    from services._kit.runtime.service_wiring import log_reader
    from services._kit.base.settings import Settings
    from tests.log.toy import Toy
    log_reader(lambda settings: Toy(), Settings).exit()
"""


async def serving(service, settings, body, **more):
    """Run a service for the length of a coroutine, which is given its runner and the URL that it tells."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    with capture_logs() as told:
        task = asyncio.create_task(serve(service, settings, stop, ready.set_result, **more))
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    (place,) = (line for line in told if line["event"] == "listening")
    try:
        await body(ready.result(), f"http://{place['host']}:{place['port']}")
    finally:
        stop.set()
        await task


async def test_a_service_serves_and_stops(nats_server, connect):
    service = Toy()

    async def body(runner, url):
        log = JetStreamLog(await connect(), "FACTS")
        await log.append([wanted("a", "m4")])
        while placed_on(runner.projection.state, "a") != ["m4"]:
            await runner.projection.wait_for(runner.projection.position["FACTS"] + 1)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{url}/readyz") as answer:
                document = await answer.json()
                assert (answer.status, document["ready"], document["reasons"]) == (200, True, {})
                assert document["leader"] is True
            async with http.get(f"{url}/healthz") as answer:
                assert answer.status == 200
            async with http.get(f"{url}/metrics") as answer:
                text = await answer.text()
        assert 'fleetlog_leader{component="toy"} 1.0' in text
        assert 'fleetlog_events_total{component="toy"} 1.0' in text
        assert 'fleetlog_log_position{component="toy",stream="FACTS"}' in text
        digest = await service.context.blobs.put(b"bytes")
        assert await service.context.blobs.get(digest) == b"bytes"

    await serving(service, Settings(nats_url=nats_server.url, apply_topology=True), body)
    assert service.hooks[0] == "caught up"
    assert service.hooks[-2:] == ["following", "stopped"]


class Divided(Toy):
    """The toy under the name of a service that is divided."""

    name = "executor"


async def test_one_process_serves_all_shard_groups(nats_server, connect):
    services = [Divided(), Divided()]
    names = [f"app-{number}" for number in range(12)]

    async def body(runner, url):
        log = JetStreamLog(await connect(), "FACTS")
        await log.append([wanted(name, "m4") for name in names])
        async with aiohttp.ClientSession() as http:
            while not all(service.context.projection.ready and service.decided for service in services):
                await runner.projection.wait_for(runner.projection.position["FACTS"] + 1)
            async with http.get(f"{url}/readyz") as answer:
                document = await answer.json()
            async with http.get(f"{url}/metrics") as answer:
                text = await answer.text()
        assert document["ready"] is True
        assert document["executor"]["leader"] is document["executor-1"]["leader"] is True
        assert 'fleetlog_leader{component="executor",shard_group="0"} 1.0' in text
        assert 'fleetlog_leader{component="executor",shard_group="1"} 1.0' in text
        assert text.count("# TYPE fleetlog_leader gauge") == 1
        assert text.count("\nprocess_cpu_seconds_total ") == 1
        decided = [set(service.decided) for service in services]
        assert decided[0].isdisjoint(decided[1])

    settings = Settings(nats_url=nats_server.url, apply_topology=True)
    await serving(services[0], settings, body, siblings=services[1:])
    assert [service.hooks[-2:] for service in services] == [["following", "stopped"]] * 2


async def test_readiness_tells_why_not(nats_server, connect):
    async def body(runner, url):
        nats_server.kill9()
        async with aiohttp.ClientSession() as http:
            while True:
                async with http.get(f"{url}/readyz") as answer:
                    document = await answer.json()
                if answer.status == 503 and "connection" in document["reasons"]:
                    break
            nats_server.start()
            while True:
                async with http.get(f"{url}/readyz") as answer:
                    if answer.status == 200:
                        return

    await serving(Toy(), Settings(nats_url=nats_server.url, apply_topology=True), body)


def process(nats_server, **variables):
    environment = {**os.environ, "FLEETLOG_NATS_URL": nats_server.url, "FLEETLOG_HTTP_PORT": "-1", **variables}
    return ends_with_us(
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROCESS)], env=environment, stderr=subprocess.PIPE, text=True
        )
    )


def test_a_process_stops_on_sigterm_with_code_zero(nats_server):
    with process(nats_server, FLEETLOG_APPLY_TOPOLOGY="true") as running:
        lines = []
        for line in running.stderr:
            lines.append(line)
            if '"ready"' in line:
                break
        running.send_signal(signal.SIGTERM)
        rest = running.stderr.read()
        assert running.wait(60) == 0, lines
        assert '"event":"stopped"' in rest


def test_a_process_with_wrong_settings_names_the_variable(nats_server):
    with process(nats_server, FLEETLOG_HTTP_PORTS="1") as running:
        assert "did you mean FLEETLOG_HTTP_PORT" in running.stderr.read()
        assert running.wait(60) == 2


def test_a_process_goes_on_with_settings_of_another_service(nats_server):
    with process(nats_server, FLEETLOG_APPLY_TOPOLOGY="true", FLEETLOG_DESCHEDULING_INTERVAL="3") as running:
        lines = []
        for line in running.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "ready":
                break
        running.send_signal(signal.SIGTERM)
        running.stderr.read()
        assert running.wait(60) == 0
    assert (lines[0]["event"], lines[0]["setting"]) == ("setting_unknown", "FLEETLOG_DESCHEDULING_INTERVAL")
    assert "fleetlog settings check" in lines[0]["reason"]


def test_a_process_names_a_number_of_shard_groups_that_cannot_be(nats_server):
    with process(nats_server, FLEETLOG_SHARD_GROUPS="9") as running:
        assert "FLEETLOG_SHARD_GROUPS is 9; it has to be 1 to 8" in running.stderr.read()
        assert running.wait(60) == 2


def test_a_process_that_waits_for_the_log_still_stops(nats_server):
    nats_server.stop()
    with process(nats_server) as running:
        for line in running.stderr:
            if "connection trouble" in line:
                break
        running.send_signal(signal.SIGTERM)
        assert '"event":"stopped"' in running.stderr.read()
        assert running.wait(60) == 0


def test_a_process_starts_before_the_log_does(nats_server):
    nats_server.stop()
    with process(nats_server, FLEETLOG_APPLY_TOPOLOGY="true") as running:
        for line in running.stderr:
            if "connection trouble" in line:
                break
        nats_server.start()
        for line in running.stderr:
            if '"ready"' in line:
                break
        running.send_signal(signal.SIGTERM)
        running.stderr.read()
        assert running.wait(60) == 0
