"""An API server as a process of its own, requests to it, and a neighbour who is answered meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.ending import ends_with_us

ROOT = Path(__file__).parents[2]
ANSWERS_BESIDE = 3
"""Answers that a neighbour gets before those to a request that takes much work: more than one was not held up by it."""
PATIENCE = 60.0
TOKENS = "root,root,root,system:masters\nmallory,mallory,mallory,\nneighbour,neighbour,neighbour,\n"


class Neighbour:
    """Asks on a connection of its own again and again; counts the answers, and keeps the longest time of one."""

    def __init__(self, port: int) -> None:
        self.answered = 0
        self.longest = 0.0
        """Seconds."""
        self.failures: list[str] = []
        self._port = port
        self._end = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def begin(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def end(self) -> None:
        """Ask no more."""
        self._end.set()
        self._thread.join()

    def further(self, count: int = 2) -> None:
        """Wait for further answers; to two of them, because one may have been under way."""
        with self._progress:
            wanted = self.answered + count
            self._progress.wait_for(lambda: self.answered >= wanted or self.failures, PATIENCE)
            assert self.answered >= wanted, f"the neighbour is not answered: {self.failures}"

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        headers = {"Authorization": "Bearer neighbour"}
        try:
            while True:
                began = time.perf_counter()
                connection.request("GET", "/api/v1/namespaces/kube-system", headers=headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self._fail(f"the neighbour was answered {answer.status}")
                with self._progress:
                    self.answered += 1
                    self.longest = max(self.longest, time.perf_counter() - began)
                    self._progress.notify_all()
                if self._end.wait(0.005):
                    return
        except (OSError, http.client.HTTPException) as error:
            self._fail(f"the neighbour lost its connection: {type(error).__name__}: {error}")
        finally:
            connection.close()

    def _fail(self, what: str) -> None:
        with self._progress:
            self.failures.append(what)
            self._progress.notify_all()


class ServerProcess:
    """A running server without TLS that lets everybody do everything; `errors` is its log."""

    def __init__(self, place: Path, **settings: str) -> None:
        tokens = place / "tokens.csv"
        tokens.write_text(TOKENS, encoding="ascii")
        self.errors = place / "errors.log"
        given = {
            "AUTHORIZATION": "AlwaysAllow",
            "DATA_DIR": str(place / "data"),
            "PORT": "0",
            "TLS": "0",
            "TOKEN_FILE": str(tokens),
            **settings,
        }
        environment = os.environ | {f"FLEETLOG_APISERVER_{name}": value for name, value in given.items()}
        environment.pop("FLEETLOG_NATS_URL", None)
        with self.errors.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.apiserver"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        ends_with_us(self.process)
        assert self.process.stdout is not None
        line = ""
        while not line.startswith("ready "):
            line = self.process.stdout.readline()
            assert line, self.log()
        self.port = int(line.rpartition(":")[2])

    def log(self) -> str:
        """What it wrote on standard error."""
        return self.errors.read_text(encoding="utf-8")

    def stop(self) -> int:
        """End it; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        user: str = "mallory",
        **headers: str,
    ) -> tuple[int, Any]:
        """One request on a connection of its own: code and answer."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = {"Authorization": f"Bearer {user}", "Content-Type": media, **headers}
        try:
            connection.request(method, path, raw, given)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.getheader("Content-Type", "").startswith("application/json"):
            return answer.status, json.loads(text)
        return answer.status, text

    def send_beside(
        self, neighbour: Neighbour, method: str, path: str, body: bytes, media: str = "application/json"
    ) -> tuple[int, int]:
        """One request that takes much work: its code, and the answers of a neighbour while the server worked on it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path)
            for name, value in (("Authorization", "Bearer mallory"), ("Content-Type", media)):
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body[:-1])
            # What was sent so far has arrived; the work begins with the last byte.
            neighbour.further()
            before = neighbour.answered
            connection.send(body[-1:])
            code = connection.getresponse().status
            return code, neighbour.answered - before
        finally:
            connection.close()

    def peak_kb(self) -> int:
        """The most memory that the process had, in KiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    @contextmanager
    def neighbour(self) -> Iterator[Neighbour]:
        """Check that a neighbour is answered meanwhile and afterwards, and that the process lives."""
        found = Neighbour(self.port)
        found.begin()
        try:
            yield found
            found.further()
        finally:
            found.end()
        assert not found.failures
        assert self.process.poll() is None
