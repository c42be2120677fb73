"""Runs `fleetlog` and `karmadactl` in processes of their own, forked from one that has imported what they need.

An interpreter that imports everything anew takes ten times as long as what most commands do. That a bare start finds
what it needs, and loads no more, is the matter of tests/unit/cli/test_cli_commands.py.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

PATIENCE = 90.0
STARTING = 240.0
_ROOT = Path(__file__).parents[2]


class _Nursery:
    """The process that forks; one per process of tests, started with the first command."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from tests.support.nursery import serve; serve({theirs.fileno()})"],
                cwd=_ROOT,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        # It imports everything first.
        self._ours.settimeout(STARTING)
        assert self._answer() == 0

    def close(self) -> None:
        """End the process."""
        self._ours.close()
        self._process.wait(PATIENCE)

    def run(
        self, module: str, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """One command; raises TimeoutExpired after it was killed for taking too long."""
        request = json.dumps([module, arguments, dict(environment)]).encode()
        with (
            self._lock,
            open(os.devnull, "rb") as nothing,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            socket.send_fds(self._ours, [request], [file.fileno() for file in (nothing, out, err)])
            self._ours.settimeout(PATIENCE)
            pid = self._answer()
            try:
                code = self._answer()
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._answer()
                raise subprocess.TimeoutExpired(arguments, PATIENCE, _read(out), _read(err)) from None
            return subprocess.CompletedProcess(arguments, code, _read(out).decode(), _read(err).decode())

    def _answer(self) -> int:
        data = self._ours.recv(64)
        assert data, f"the process that forks commands ended with {self._process.wait(PATIENCE)}"
        return int(json.loads(data))


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@functools.cache
def _nursery() -> _Nursery:
    made = _Nursery()
    atexit.register(made.close)
    return made


def run_command(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `fleetlog` or `karmadactl` with these variables and no others of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEETLOG_", "KUBECONFIG"))}
    return _nursery().run(module, arguments, {**kept, **variables})
