"""Several services in one process: each with its own lease, port and log file; they start and end together."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import aiohttp

from services._kit.concurrency.event_loop import FAILED
from services._kit.log.jetstream import JetStreamLog
from tests.log.toy import wanted
from tests.support.ending import ends_with_us
from tests.support.ports import Reserved
from tests.support.waiting import NotYet, end_of, eventually

PROCESS = """
    import sys
    from pathlib import Path
    from services._kit.base.settings import Settings
    from services._kit.runtime.multi_service import Part, run_services
    from tests.log.toy import Toy

    def toy(name):
        def make(settings):
            service = Toy()
            service.name = name
            return service
        return make

    directory, *ports = sys.argv[1:]
    sys.exit(run_services([
        Part(
            toy(name),
            Settings,
            {"FLEETLOG_HTTP_PORT": port, "FLEETLOG_LOG_LEVEL": level},
            Path(directory) / f"{name}.log",
        )
        for name, port, level in zip(("one", "other"), ports, ("info", "error"))
    ]))
"""


@contextmanager
def start(nats_server, directory, *ports):
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROCESS), str(directory), *map(str, ports)],
        env={**os.environ, "FLEETLOG_NATS_URL": nats_server.url, "FLEETLOG_APPLY_TOPOLOGY": "true"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        ends_with_us(process)
        try:
            yield process
        finally:
            process.kill()


async def leading(process, port, beyond=0):
    """Wait until a service is ready, leads, and has read on from a position."""

    async def is_so():
        try:
            async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                said = await answer.json()
        except aiohttp.ClientConnectionError as error:
            raise NotYet(f"{type(error).__name__}: {error}") from None
        if answer.status != 200 or not said["leader"] or said["position"]["FACTS"] <= beyond:
            raise NotYet(f"{answer.status} {said}")
        return True

    async with aiohttp.ClientSession() as http:
        await eventually(is_so, f"leadership at port {port}", end=end_of(process, process.stderr.read))


def logged(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_services_in_one_process_lead_and_end_together(nats_server, connect, tmp_path):
    reserved = [Reserved(), Reserved()]
    ports = [each.number for each in reserved]
    with start(nats_server, tmp_path, *ports) as running:
        for port in ports:
            await leading(running, port)
        log = JetStreamLog(await connect(), "FACTS")
        at = (await log.append([wanted("a", "m4")])).last
        # Both decide: the second finds that of the first and says nothing, whoever that is.
        for port in ports:
            await leading(running, port, beyond=at)
        assert {await held(log, name) for name in ("one", "other")} == {"one", "other"}
        running.send_signal(signal.SIGTERM)
        rest = running.stderr.read()
        assert (running.wait(60), rest) == (0, "")
    one = logged(tmp_path / "one.log")
    assert {line["service"] for line in one} == {"one"}
    assert [line["event"] for line in one][-1] == "stopped"
    assert (tmp_path / "other.log").read_text() == "", "its level is error"


async def held(log, name):
    """The service in the last lease of a name."""
    return json.loads((await log.last(f"lease.{name}")).data)["service"]


async def test_when_one_cannot_go_on_all_end_and_its_log_tells(nats_server, tmp_path):
    one = Reserved()
    with start(nats_server, tmp_path, one.number, one.number) as running:
        code = await asyncio.to_thread(running.wait, 60)
        running.stderr.read()
    assert code == FAILED
    told = [line for name in ("one", "other") for line in logged(tmp_path / f"{name}.log") if line["level"] == "error"]
    assert ["address already in use" in line["reason"] for line in told] == [True]


def test_wrong_settings_of_one_keep_all_from_starting(nats_server, tmp_path):
    with start(nats_server, tmp_path, "none", 0) as running:
        assert "FLEETLOG_HTTP_PORT" in running.stderr.read()
        assert running.wait(60) == 2
