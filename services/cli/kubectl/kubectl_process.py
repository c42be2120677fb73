"""Runs kubectl in place of this process: same terminal, same streams, its signals, its exit code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from services.cli.common.running import Failed

PROGRAM: Final = "kubectl"
_SIGNALLED: Final = 128
_PASSED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def find_kubectl(command: str) -> str:
    """The kubectl on PATH; raises Failed, which says how to get it for that command."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise Failed(
            f"{command} needs kubectl, which is not on PATH; install it (https://kubernetes.io/docs/tasks/tools/, or "
            "a package manager: `brew install kubectl`, `snap install kubectl --classic`) and try again"
        )
    return found


def kubectl_environment(kubeconfig: Path) -> dict[str, str]:
    """Variables for a kubectl that is to use a kubeconfig and no other."""
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}


def run_kubectl(program: str, words: Sequence[str], kubeconfig: Path) -> int:
    """Run kubectl with a kubeconfig until it ends; its exit code, 128 and the signal's number where one ended it."""
    environment = kubectl_environment(kubeconfig)
    with _passing_on() as begin, subprocess.Popen([program, *words], env=environment) as process:
        begin(process)
        code = process.wait()
    return code if code >= 0 else _SIGNALLED - code


@contextmanager
def _passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Send signals on to the process that is named, those of the time before included.

    What a terminal sends reaches it without us.
    """
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def send(number: int, _: Any) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        if started:
            started[0].send_signal(number)
        else:
            # The process may run already, although its start has not returned.
            early.append(number)

    def begin(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        for number in early:
            process.send_signal(number)

    before = {number: signal.signal(number, send) for number in _PASSED}
    try:
        yield begin
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether a terminal sends its signals to this process and its children."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
