"""Faults between the network and the API server: the listener closed, answers delayed, requests refused.

The in-process client does not pass here, so that the cluster goes on by itself whatever its clients see.
"""

import asyncio

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services.apiserver.server import ApiServer
from services.member_sim.faults import ApiFault, refusal, verb_of


class Gate:
    """Stands before one API server; must be made before the server starts."""

    def __init__(self, server: ApiServer, host: str) -> None:
        self._server = server
        self._host = host
        self._fault = ApiFault()
        self._handle = server._face.handle
        # The face is asked for its handler once, when the server starts listening.
        server._face.handle = self._answer  # type: ignore[method-assign]

    async def set(self, fault: ApiFault) -> None:
        """Put a fault in force; it replaces the one before."""
        before, self._fault = self._fault, fault
        if fault.mode == "stop" and before.mode != "stop":
            await self._close()
        elif before.mode == "stop" and fault.mode != "stop":
            await self._open()

    async def _answer(self, http: BaseRequest) -> web.StreamResponse:
        fault = self._fault
        if fault.mode != "none":
            verb = verb_of(http.method, http.path, http.query_string)
            if fault.touches(verb):
                if fault.mode == "refuse":
                    code, body = refusal(fault)
                    headers = {"Retry-After": "1"} if code == 429 else None
                    raw = msgspec.json.encode(body)
                    return web.Response(status=code, body=raw, content_type="application/json", headers=headers)
                await asyncio.sleep(fault.delay_ms / 1000)
        return await self._handle(http)

    async def _close(self) -> None:
        """Close the listener and every connection; the port stays ours to open again."""
        runner = self._server._runner
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        for task in list(self._server._face.tasks):
            task.cancel()
        if runner.server is not None:
            await runner.server.shutdown(0.1)

    async def _open(self) -> None:
        runner = self._server._runner
        if runner is None:
            return
        context = self._server.tls
        site = web.TCPSite(runner, self._host, self._server.port, ssl_context=context, backlog=1024, reuse_address=True)
        await site.start()
