"""The log of a simulated container: each line follows from pod, container, run and its number, and none is kept."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from math import nextafter
from typing import Final
from zlib import crc32

from services.member_sim.containers.pod_containers import Container, Run

RATE: Final = "fleetlog.io/simulated-log-lines-per-second"
"""Annotation of a pod: how many lines each of its containers writes."""
FASTEST: Final = 1_000_000.0
_WEB_SERVERS: Final = frozenset({"nginx", "httpd", "caddy", "traefik", "envoy", "haproxy", "apache", "web"})
_START_SECONDS: Final = 0.05
"""The time between two of the lines with which a container begins."""
_MASK: Final = (1 << 64) - 1
_PATHS: Final = ("/", "/index.html", "/healthz", "/api/v1/items", "/api/v1/items/42", "/static/app.js", "/login")
_CODES: Final = (200, 200, 200, 200, 200, 200, 304, 404, 200, 500)
_AGENTS: Final = ("curl/8.5.0", "kube-probe/1.31", "Mozilla/5.0 (X11; Linux x86_64)", "Go-http-client/1.1")
_TASKS: Final = ("queue", "cache", "index", "report", "mailbox", "session")


class LogLines:
    """The lines of one run of one container, by number from 0 on; their times rise."""

    def __init__(self, container: Container, run: Run) -> None:
        meta = container.pod["metadata"]
        self._run = run
        self._web = container.image in _WEB_SERVERS
        self._seed = crc32(f"{meta.get('uid')}/{container.name}/{run.restart}".encode())
        self._period = 1 / _rate(meta.get("annotations") or {}, web=self._web)
        self._first = self._beginning(container)
        self._steady = run.began + _START_SECONDS * (len(self._first) + 1)
        self._final = None if run.ended is None else self._written(run.ended)

    def until(self, moment: float) -> int:
        """How many lines there are up to a moment."""
        end = self._run.ended
        if end is not None and self._final is not None and moment >= end:
            return self._final + 1
        return self._written(moment)

    def since(self, moment: float) -> int:
        """The number of the first line that is not older than a moment."""
        return self.until(nextafter(moment, 0))

    def time(self, number: int) -> float:
        """When a line was written."""
        end = self._run.ended
        first = len(self._first)
        if number < first:
            at = self._run.began + _START_SECONDS * number
        else:
            step = number - first
            at = self._steady + (step + self._mixed(step) / (_MASK + 1)) * self._period
        return at if end is None else min(at, end)

    def text(self, number: int) -> str:
        """A line without its end."""
        if number == self._final:
            return "finished" if not self._run.code else f"fatal: the process ends with exit code {self._run.code}"
        if number < len(self._first):
            return self._first[number]
        mixed = self._mixed(number - len(self._first))
        moment = datetime.fromtimestamp(self.time(number), UTC)
        if self._web:
            address = f"10.{mixed & 255}.{mixed >> 8 & 255}.{mixed >> 16 & 255}"
            path = _PATHS[(mixed >> 24) % len(_PATHS)]
            code, size = _CODES[(mixed >> 32) % len(_CODES)], 100 + (mixed >> 36) % 9000
            agent = _AGENTS[(mixed >> 50) % len(_AGENTS)]
            return f'{address} - - [{moment:%d/%b/%Y:%H:%M:%S +0000}] "GET {path} HTTP/1.1" {code} {size} "-" "{agent}"'
        task, milliseconds = _TASKS[mixed % len(_TASKS)], 1 + (mixed >> 8) % 900
        return f"{moment:%Y-%m-%dT%H:%M:%S}Z level=info msg=done task={task} n={number} duration={milliseconds}ms"

    def _written(self, moment: float) -> int:
        """How many lines were written up to a moment, but for the one at the end."""
        if moment < self._run.began:
            return 0
        if moment < self._steady:
            return min(int((moment - self._run.began) / _START_SECONDS) + 1, len(self._first))
        step = int((moment - self._steady) / self._period)
        # A line may be anywhere within its part of time; rounding may name a neighbour of that part.
        step = max(step - 1, 0)
        first = len(self._first)
        while self._steady + (step + self._mixed(step) / (_MASK + 1)) * self._period <= moment:
            step += 1
        return first + step

    def _mixed(self, number: int) -> int:
        """64 bits that look random, the same for the same line."""
        mixed = (self._seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def _beginning(self, container: Container) -> tuple[str, ...]:
        image = str(container.spec.get("image") or "")
        first = f"starting {container.name} ({image}) in {container.pod['metadata']['name']}, run {self._run.restart}"
        if self._web:
            ports = [str(port.get("containerPort")) for port in container.spec.get("ports") or ()] or ["80"]
            return (first, "configuration read", f"listening on {', '.join(ports)}")
        return (first, "ready")


def _rate(annotations: dict[str, str], *, web: bool) -> float:
    rate = 1.0 if web else 0.2
    with suppress(ValueError):
        rate = float(annotations.get(RATE, rate))
    # What is no number compares as false.
    return min(max(rate, 0.001), FASTEST) if rate > 0 else 0.001


def stamped(moment: float) -> str:
    """A moment as it stands in front of a line."""
    whole = int(moment)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{int((moment - whole) * 1e9):09d}Z"
