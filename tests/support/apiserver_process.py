"""An API server as a process of its own, requests to it, and a neighbour who measures how long it is held up."""

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

ROOT = Path(__file__).parents[2]
STALL_SECONDS = 0.25
PATIENCE = 60.0
TOKENS = "root,root,root,system:masters\nmallory,mallory,mallory,\nneighbour,neighbour,neighbour,\n"


def _waited(task: Path) -> float:
    """Seconds for which a thread was ready to run and had no processor; 0 for one that ended."""
    try:
        return int((task / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Neighbour:
    """Asks on a connection of its own again and again, and keeps the longest time of an answer.

    Beside it a clock measures how late a thread of this process wakes up, and the kernel tells for how long each thread
    of the server, and the one that asks, waited for a processor: what the machine itself was late by is not counted
    against the server. All threads of the server count, because one that waits may hold the interpreter's lock.
    """

    def __init__(self, port: int, pid: int) -> None:
        self.longest = 0.0
        self.failures: list[str] = []
        self._port = port
        self._server = Path(f"/proc/{pid}/task")
        self._end = threading.Event()
        self._late = 0.0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._ask, self._measure)]

    def begin(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Ask no more."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _waited(self) -> float:
        """Seconds for which threads of the server, and this one, were ready to run and had no processor, so far."""
        own = Path(f"/proc/self/task/{threading.get_native_id()}")
        try:
            return sum(map(_waited, [own, *self._server.iterdir()]))
        except OSError:
            return 0.0

    def _measure(self) -> None:
        while not self._end.is_set():
            began = time.perf_counter()
            time.sleep(0.005)
            self._late = max(self._late, time.perf_counter() - began - 0.005)

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            while True:
                self._late, waited = 0.0, self._waited()
                began = time.perf_counter()
                connection.request(
                    "GET", "/api/v1/namespaces/kube-system", headers={"Authorization": "Bearer neighbour"}
                )
                answer = connection.getresponse()
                answer.read()
                took = time.perf_counter() - began
                if took > STALL_SECONDS / 2:
                    # The clock may have been late as well, and not say so yet.
                    time.sleep(0.05)
                self.longest = max(self.longest, took - self._late - max(0.0, self._waited() - waited))
                if answer.status != 200:
                    self.failures.append(f"the neighbour was answered {answer.status}")
                if self._end.wait(0.005):
                    return
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"the neighbour lost its connection: {type(error).__name__}: {error}")
        finally:
            connection.close()


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

    def peak_kb(self) -> int:
        """The most memory that the process had, in KiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    @contextmanager
    def neighbour(self, most_memory_kb: int) -> Iterator[None]:
        """Check that a neighbour is answered in time meanwhile, and that the process lives and stays small."""
        found = Neighbour(self.port, self.process.pid)
        found.begin()
        try:
            yield
        finally:
            found.end()
        assert not found.failures
        assert found.longest < STALL_SECONDS
        assert self.process.poll() is None
        assert self.peak_kb() < most_memory_kb
