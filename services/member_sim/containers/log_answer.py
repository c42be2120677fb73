"""Sends the log of a container: lines are made as they are sent, and as time passes where the log is followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services.member_sim.containers.line_selection import LogOptions
from services.member_sim.containers.log_lines import LogLines, stamped
from services.member_sim.containers.pod_containers import Container, Run, find, run_with_log

PIECE: Final = 32 << 10
_LOOK_SECONDS: Final = 0.5
"""How often it is looked whether the container still runs and the client still reads."""


class LogAnswer:
    """One answer to one request."""

    def __init__(
        self,
        container: Container,
        run: Run,
        options: LogOptions,
        now: Callable[[], float],
        present: Callable[[], Manifest | None],
    ) -> None:
        self._container, self._run, self._options = container, run, options
        self._now, self._present = now, present
        self._lines = LogLines(container, run)
        self._left = options.limit

    async def send(self, http: BaseRequest) -> web.StreamResponse:
        """Send what is asked for until its end, or until the client goes away."""
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        try:
            await response.prepare(http)
            await self._send(http, response)
            await response.write_eof()
        except ConnectionError:
            pass
        return response

    async def _send(self, http: BaseRequest, response: web.StreamResponse) -> None:
        lines, options = self._lines, self._options
        total = lines.until(self._now())
        place = 0 if options.tail is None else max(total - options.tail, 0)
        if options.since is not None:
            place = max(place, lines.since(options.since))
        place = await self._lines_to(response, place, total)
        while options.follow and self._left != 0:
            over = self._over()
            place = await self._lines_to(response, place, self._lines.until(self._now()))
            if over or http.transport is None or http.transport.is_closing():
                return
            due = self._lines.time(place) - self._now()
            await asyncio.sleep(min(max(due, 0.01), _LOOK_SECONDS))

    def _over(self) -> bool:
        """Whether the run that is followed has ended; its last lines are known then."""
        if self._run.ended is not None:
            return True
        pod = self._present()
        if pod is None or pod["metadata"].get("uid") != self._container.pod["metadata"].get("uid"):
            return True
        now = find(pod, self._container.name)
        ended = next(
            (run for run in (now.run, now.previous) if run and run.restart == self._run.restart and run.ended), None
        )
        if ended is not None:
            self._lines = LogLines(self._container, Run(self._run.restart, self._run.began, ended.ended, ended.code))
        return ended is not None or now.run is None or now.run.restart != self._run.restart

    async def _lines_to(self, response: web.StreamResponse, place: int, end: int) -> int:
        """Send the lines from one number up to another, as many as there is room for; the number of the next."""
        while place < end and self._left != 0:
            piece = bytearray()
            while place < end and len(piece) < PIECE:
                stamp = f"{stamped(self._lines.time(place))} " if self._options.timestamps else ""
                piece += f"{stamp}{self._lines.text(place)}\n".encode()
                place += 1
            data = bytes(piece)
            if self._left is not None:
                data = data[: self._left]
                self._left -= len(data)
            await response.write(data)
            await asyncio.sleep(0)
        return max(place, end)


def log_answer(
    container: Container, options: LogOptions, now: Callable[[], float], present: Callable[[], Manifest | None]
) -> LogAnswer:
    """The answer for the run that is meant; raises ApiError where there is none."""
    return LogAnswer(container, run_with_log(container, previous=options.previous), options, now, present)
