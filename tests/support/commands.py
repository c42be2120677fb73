"""Runs programs in processes of their own, forked from one process that has imported what they need.

An interpreter that imports everything anew takes ten times as long as what most commands do, and half as long as an
installation takes to start. That a bare start finds what it needs, and loads no more, is the matter of
tests/unit/cli/test_cli_commands.py and of tests that start `python` themselves.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

PATIENCE = 90.0
STARTING = 240.0
ADDRESS = "TESTS_NURSERY"
"""Where the process that forks listens, once it was started for several processes of tests."""
_ROOT = Path(__file__).parents[2]


class Nursery:
    """The process that forks; it ends with the one that made it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="fleetlog-nursery-")
        self.address = f"{self._directory.name}/socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(self.address)
            # Who comes before it has imported everything waits in line.
            listening.listen(128)
            program = f"from tests.support.nursery import serve; serve({listening.fileno()})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", program], cwd=_ROOT, pass_fds=(listening.fileno(),), stdin=subprocess.PIPE
            )

    def close(self) -> None:
        """End the process; what it has forked goes on."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._directory.cleanup()


@functools.cache
def _own_nursery() -> Nursery:
    return Nursery()


def _address() -> str:
    return os.environ.get(ADDRESS) or _own_nursery().address


class Forked:
    """A Python program in a process of its own, used as `subprocess.Popen` is; `arguments` are those of `python`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = False,
        start_new_session: bool = False,
    ) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None
        self.stdout, out = _end(stdout, 1, text=text)
        self.stderr, err = _end(stderr, 2, text=text)
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(STARTING)
        self._connection.connect(_address())
        kept = {name: value for name, value in (os.environ if env is None else env).items() if name != ADDRESS}
        request = json.dumps([self.args, kept, start_new_session]).encode()
        with open(os.devnull, "rb") as nothing:
            socket.send_fds(self._connection, [request], [nothing.fileno(), out, err])
        for given, end in ((stdout, out), (stderr, err)):
            if given in (subprocess.PIPE, subprocess.DEVNULL):
                os.close(end)
        self.pid = self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()
        self.wait()

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; raises TimeoutExpired when it still runs after so many seconds."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                self.wait(PATIENCE)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = self._answer()
        self._connection.close()

    def _answer(self) -> int:
        data = self._connection.recv(64)
        assert data, "the process that forks programs has ended"
        return int(json.loads(data))


def _end(given: int | IO[Any] | None, usual: int, *, text: bool) -> tuple[IO[Any] | None, int]:
    """Our end of an output, if it is a pipe, and the descriptor that the program gets."""
    match given:
        case None:
            return None, usual
        case subprocess.PIPE:
            ours, theirs = os.pipe()
            return open(ours, "r" if text else "rb", buffering=1 if text else -1), theirs
        case subprocess.DEVNULL:
            return None, os.open(os.devnull, os.O_WRONLY)
        case int():
            return None, given
        case _:
            return None, given.fileno()


def run_command(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `fleetlog` or `karmadactl` with these variables and no others of its own.

    Raises TimeoutExpired after it was killed for taking too long.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEETLOG_", "KUBECONFIG"))}
    program = ["-c", f"from services.cli.{module} import main; main()", *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Forked(program, env={**kept, **variables}, stdout=out, stderr=err)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)
            raise subprocess.TimeoutExpired(arguments, PATIENCE, _read(out), _read(err)) from None
        return subprocess.CompletedProcess(arguments, code, _read(out).decode(), _read(err).decode())


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
