"""Two instances of a service as processes: the leader is frozen, killed, thawed; never do two of them write."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from schemas.codec import decode
from services._kit.log.jetstream import JetStreamLog
from tests.log.running import eventually
from tests.log.toy import wanted
from tests.support.ending import ends_with_us

pytestmark = pytest.mark.faults

PROCESS = """
    from services._kit.runtime.service_wiring import log_reader
    from services._kit.base.settings import Settings
    from tests.log.toy import Toy
    log_reader(lambda settings: Toy(), Settings).exit()
"""


class Instances:
    """Processes of the toy service, by name."""

    def __init__(self, url):
        self.url = url
        self.running = {}

    def start(self, name):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")},
            "FLEETLOG_NATS_URL": self.url,
            "FLEETLOG_INSTANCE": name,
            "FLEETLOG_HTTP_PORT": "-1",
            # Long enough that nobody is replaced only because the machine is busy.
            "FLEETLOG_TAKEOVER_AFTER": "3",
        }
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROCESS)], env=environment, stderr=subprocess.DEVNULL
        )
        self.running[name] = ends_with_us(process)

    def signal(self, name, number):
        self.running[name].send_signal(number)

    def kill9(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait(60)

    def end(self):
        for one in self.running.values():
            one.send_signal(signal.SIGCONT)
            one.kill()
            one.wait(60)


@pytest.fixture
def instances(nats_server):
    made = Instances(nats_server.url)
    yield made
    made.end()


class Watch:
    """Follows the whole log."""

    def __init__(self, log):
        self.messages = []
        self._log = log
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        async for delivery in self._log.pump([">"], start=1):
            self.messages += delivery.messages

    def leases(self):
        return [(m.seq, decode(m.subject, m.data).instance) for m in self.messages if m.subject == "lease.toy"]

    def placements(self):
        return [m for m in self.messages if m.subject.startswith("placement.")]

    def placed(self, name):
        suffix = wanted(name).subject.removeprefix("binding.")
        return any(m.subject == f"placement.{suffix}" for m in self.messages)

    async def stop(self):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def watch(connection):
    made = Watch(JetStreamLog(connection, "FACTS"))
    yield made
    await made.stop()


async def test_frozen_leader_is_replaced_and_writes_nothing_later(instances, connection, watch):
    log = JetStreamLog(connection, "FACTS")
    instances.start("toy-a")
    await eventually(lambda: watch.leases(), "the first instance leads")
    instances.start("toy-b")
    await log.append([wanted("before")])
    await eventually(lambda: watch.placed("before"), "the leader works")
    instances.signal("toy-a", signal.SIGSTOP)
    await eventually(lambda: len(watch.leases()) == 2, "the standby takes over")
    assert watch.leases()[1][1] == "toy-b"
    # Work that both would like to do.
    instances.signal("toy-a", signal.SIGCONT)
    for i in range(20):
        await log.append([wanted(f"d{i}", f"m{i % 3}")])
    await eventually(lambda: all(watch.placed(f"d{i}") for i in range(20)), "the work is done")
    taken = watch.leases()[1][0]
    producers = {m.headers["Fleetlog-Producer"] for m in watch.placements() if m.seq > taken}
    assert producers == {"toy/toy-b"}
    subjects = [m.subject for m in watch.placements()]
    assert len(subjects) == len(set(subjects))
    assert len(watch.leases()) == 2


async def test_restarted_leader_does_not_wait_for_its_own_lease(instances, connection, watch):
    log = JetStreamLog(connection, "FACTS")
    instances.start("toy-a")
    await eventually(lambda: watch.leases(), "it leads")
    instances.kill9("toy-a")
    await log.append([wanted("late")])
    instances.start("toy-a")
    await eventually(lambda: watch.placed("late"), "it leads again")
    assert decode("lease.toy", (await log.last("lease.toy")).data).reason == "this instance was started again"
