"""100 MiB each way through exec and port-forward of a push and a pull member: whole, in order, and in little memory.

What is carried is never kept: no process on the way grows by more than a part of it. A stream has a credit of 1 MiB in
each direction between hub and agent, a connection that switched its protocol holds 128 KiB in each; sockets, TLS and
the client of the log's server hold some hundred KiB. The rest of the bound is for the allocator.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from services.cli.common.layout import CONTROL, agent_process
from tests.e2e.entering import Inside, running_pod
from tests.e2e.fleet import Fleet, Kubectl, metric, until
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("workloads")

MIB = 1 << 20
BLOCKS = 100
BOUND = 32 * MIB
ON_THE_WAY = {
    "member1": (CONTROL, "gateway", "member1"),
    "member3": (CONTROL, "gateway", "nats", agent_process("member3"), "member3"),
}
"""The processes between kubectl and a container: of a push member, and of a pull member."""


@pytest.fixture(params=sorted(ON_THE_WAY))
def member(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def inside(control: Kubectl, member: str) -> Inside:
    return Inside(control, member)


@pytest.fixture
def pod(members: dict[str, Kubectl], member: str, space: Space) -> Iterator[str]:
    with running_pod(members[member], space.name) as made:
        yield made


class Sender:
    """Writes numbered blocks in a thread of its own: who reads later than it writes is held up by nothing here."""

    def __init__(self, write: Callable[[bytes], Any], end: Callable[[], Any]) -> None:
        self.digest = hashlib.sha256()
        self.blocks = 0
        self._write = write
        self._end = end
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        tail = secrets.token_bytes(MIB - 8)
        with suppress(OSError, ValueError):
            for number in range(BLOCKS):
                block = number.to_bytes(8, "big") + tail
                self._write(block)
                self.digest.update(block)
                self.blocks += 1
            self._end()

    def stands(self) -> None:
        """Wait until nothing more is taken: what is on the way then waits for who reads."""
        seen = -1

        def still() -> bool:
            nonlocal seen
            before, seen = seen, self.blocks
            self._thread.join(0.5)
            return before == seen

        until("the sender to stand", still, seconds=200.0)

    def done(self) -> bytes:
        """The hash of what was sent, once all was."""
        self._thread.join()
        assert self.blocks == BLOCKS
        return self.digest.digest()


def received(read: Callable[[int], bytes]) -> bytes:
    """The hash of as many bytes as are sent, or of fewer where they end before."""
    digest, left = hashlib.sha256(), BLOCKS * MIB
    while left and (data := read(min(left, MIB))):
        digest.update(data)
        left -= len(data)
    return digest.digest()


@contextmanager
def growing_little(fleet: Fleet, names: tuple[str, ...]) -> Iterator[None]:
    """Neither the memory of these processes nor its highest mark has risen by more than the bound at the end."""
    pids = {name: fleet.pid(name) for name in names}
    for pid in pids.values():
        # The highest mark begins again where the memory is; without that right the mark of before counts.
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    before = {name: memory(pid) for name, pid in pids.items()}
    yield
    after = {name: memory(pid) for name, pid in pids.items()}
    assert {name: fleet.pid(name) for name in names} == pids
    for name in names:
        assert all(new - old < BOUND for new, old in zip(after[name], before[name], strict=True)), (before, after)


def memory(pid: int) -> tuple[int, int]:
    """Bytes that a process holds, and the most that it held."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    now, most = (re.search(rf"{field}:\s+(\d+) kB", status) for field in ("VmRSS", "VmHWM"))
    assert now is not None
    assert most is not None
    return int(now[1]) << 10, int(most[1]) << 10


def test_exec_carries_both_ways(inside: Inside, fleet: Fleet, member: str, pod: str, space: Space) -> None:
    with (
        growing_little(fleet, ON_THE_WAY[member]),
        inside.started("-n", space.name, "exec", "-i", pod, "--", "cat") as (given, said),
    ):
        sender = Sender(given.write, given.close)
        sender.stands()
        back = received(said.read)
        assert back == sender.done()
        # The end of the input was told, too: the command has ended.
        assert said.read() == b""


def test_port_forward_carries_both_ways(inside: Inside, fleet: Fleet, member: str, pod: str, space: Space) -> None:
    with inside.started("-n", space.name, "port-forward", pod, ":80") as (_, said):
        line = said.readline().decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found is not None, line
        with (
            growing_little(fleet, ON_THE_WAY[member]),
            socket.create_connection(("127.0.0.1", int(found[1]))) as connection,
            connection.makefile("rb") as answer,
        ):
            connection.sendall(b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: %d\r\n\r\n" % (BLOCKS * MIB))
            sender = Sender(connection.sendall, lambda: None)
            sender.stands()
            assert b" 200 " in answer.readline()
            while answer.readline().strip():
                continue
            back = received(answer.read)
            assert back == sender.done()


def test_what_never_ends_waits_for_its_reader(
    inside: Inside, fleet: Fleet, member: str, pod: str, space: Space
) -> None:
    before = streams_open(fleet)
    with growing_little(fleet, ON_THE_WAY[member]):
        with inside.started("-n", space.name, "exec", pod, "--", "cat", "/dev/zero") as (_, said):
            assert said.read(MIB) == bytes(MIB)
            # Nothing is read of it while others are answered.
            for _ in range(3):
                assert pod in inside.run("get", "pods", "-o", "name", namespace=space.name)
            assert said.read(30 * MIB) == bytes(30 * MIB)
        # The caller is gone, and what was opened for it.
        until("the end of the stream at the gateway", lambda: streams_open(fleet) <= before)


def streams_open(fleet: Fleet) -> float:
    """What runs for long through the gateway."""
    return metric(fleet, "gateway", "fleetlog_gateway_member_streams_open")
