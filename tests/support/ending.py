"""What tests and benches start ends with them, however they end: also by a signal that lets them do nothing more.

Beside a process that starts others runs a keeper, which holds them by pidfd and waits at a pipe that only that process
holds open. PR_SET_PDEATHSIG would not do: it counts from the end of the thread that started a process.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Protocol, TypeVar

_KEEPER = """
import os, select, signal, sys, time

PATIENCE = 40.0
held = {}
poll = select.poll()


def ended(seconds):
    for fd, _ in poll.poll(seconds * 1000):
        poll.unregister(fd)
        os.close(fd)
        held.pop(fd)


for line in open(int(sys.argv[1])):
    ended(0)
    try:
        fd = os.pidfd_open(int(line))
    except ProcessLookupError:
        continue
    held[fd] = line
    poll.register(fd, select.POLLIN)
for number in (signal.SIGTERM, signal.SIGKILL):
    for fd in held:
        for each in (number, signal.SIGCONT):
            try:
                signal.pidfd_send_signal(fd, each)
            except ProcessLookupError:
                pass
    until = time.monotonic() + PATIENCE
    while held and time.monotonic() < until:
        ended(1)
"""


class _Process(Protocol):
    pid: int


P = TypeVar("P", bound=_Process)


def ends_with_us(process: P) -> P:
    """The process, which gets SIGTERM as soon as this one has ended, and SIGKILL if that does not end it."""
    if hasattr(os, "pidfd_open"):
        os.write(_keeper()[0], f"{process.pid}\n".encode())
    return process


@functools.cache
def _keeper() -> tuple[int, subprocess.Popen[bytes]]:
    read, write = os.pipe()
    # In a session of its own: what ends all processes of a run at once would end it before the others.
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _KEEPER, str(read)], pass_fds=(read,), start_new_session=True
    )
    os.close(read)
    return write, keeper
