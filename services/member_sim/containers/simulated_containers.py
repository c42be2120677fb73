"""Answers for all containers of one member: chooses protocol and container, and bounds the connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import child, end
from services.apiserver.core.container_runtime import Connection
from services.apiserver.core.request import truth
from services.apiserver.core.status_errors import ApiError, bad_request, too_many_requests
from services.member_sim.containers import shell_run
from services.member_sim.containers.container_files import inside
from services.member_sim.containers.http_responder import listening
from services.member_sim.containers.line_selection import log_options
from services.member_sim.containers.log_answer import log_answer
from services.member_sim.containers.log_lines import LogLines
from services.member_sim.containers.pod_containers import Container, check_running, find
from services.member_sim.containers.port_forwarding import ChannelForwarding, Ports, SpdyForwarding, ports_of
from services.member_sim.metrics import CONNECTIONS
from services.member_sim.streams import channel_frames as channels
from services.member_sim.streams import process_over_spdy, websocket_channels
from services.member_sim.streams.process_over_spdy import SpdyProcess
from services.member_sim.streams.process_streams import ProcessConnection, ProcessStreams, Wanted
from services.member_sim.streams.raw_upgrade import RawTransport
from services.member_sim.streams.websocket_channels import ChannelProcess, Messages, Tunnel
from services.member_sim.world.world_model import PODS, Key
from services.member_sim.world.world_state import State

MOST_OF_USER: Final = 200
MOST: Final = 1000
LONGEST_SECONDS: Final = 4 * 3600.0
"""How long one connection lasts at most, as kubelets have it."""
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
_OF_PORTS: Final = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "portforward.k8s.io", "")
_MOST_WORDS: Final = 1000
_PARTING_SECONDS: Final = 2.0
"""How long a client has to close once its process has ended."""
_INTERACTIVE: Final = frozenset({"busybox", "alpine", "bash", "ubuntu", "debian"})


class SimulatedContainers:
    """The ContainerRuntime of a member."""

    def __init__(self, state: State, now: Callable[[], float]) -> None:
        self._state = state
        self._now = now
        self._open: Counter[str] = Counter()
        self.mark: Callable[[Iterable[Key]], None] = lambda _: None
        """Told of pods whose main process ended."""

    async def connect(self, connection: Connection, http: BaseRequest) -> web.StreamResponse:
        """Serve a connection until it ends; raises ApiError before its answer began."""
        node = (connection.pod.get("spec") or {}).get("nodeName", "")
        if node in self._state.down:
            text = f"error dialing backend: the kubelet of node {node} is stopped: connect: connection refused"
            raise ApiError(500, "InternalError", text)
        with self._counted(connection):
            if connection.sub == "log":
                return await self._log(connection, http)
            if connection.sub == "portforward":
                return await self._forward(connection, http)
            return await self._enter(connection, http)

    @contextmanager
    def _counted(self, connection: Connection) -> Iterator[None]:
        user = connection.user.name
        if self._open[user] >= MOST_OF_USER:
            text = f"{user} has {MOST_OF_USER} connections to containers, as many as one user may have"
            raise too_many_requests(text)
        if self._open.total() >= MOST:
            raise too_many_requests(f"{MOST} connections to containers are open, as many as this member serves")
        self._open[user] += 1
        try:
            with CONNECTIONS.labels(connection.sub).track_inprogress():
                yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    async def _log(self, connection: Connection, http: BaseRequest) -> web.StreamResponse:
        meta = connection.pod["metadata"]
        options = log_options(connection.query, meta["name"], self._now())
        container = find(connection.pod, connection.container)

        def present() -> Manifest | None:
            return self._state.get(PODS, meta["namespace"], meta["name"])

        return await log_answer(container, options, self._now, present).send(http)

    # -- exec and attach

    async def _enter(self, connection: Connection, http: BaseRequest) -> web.StreamResponse:
        container = find(connection.pod, connection.container)
        query = connection.query
        asked = {name: _flag(query, name) for name in ("stdin", "stdout", "stderr", "tty")}
        if not (asked["stdin"] or asked["stdout"] or asked["stderr"]):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        command = query.get("command") or []
        if connection.sub == "exec" and not (command and command[0]):
            raise bad_request("you must specify a command: add it as the query parameter 'command', once for each word")
        if len(command) > _MOST_WORDS:
            raise bad_request(f"a command of {len(command)} words; {_MOST_WORDS} are taken at most")
        check_running(container)
        wanted = Wanted(**asked)
        upgrade = (http.headers.get("Upgrade") or "").strip().lower()
        if upgrade == "websocket":
            version = channels.chosen(websocket_channels.offered(http))
            if version is None:
                raise _no_protocol(websocket_channels.offered(http), channels.VERSIONS)
            socket = await websocket_channels.accept(http, version)
            streams = ChannelProcess(Messages(http, socket), version, wanted)
            await self._run(streams, container, command, wanted)
            return socket
        if upgrade == "spdy/3.1":
            offers = http.headers.getall("X-Stream-Protocol-Version", [])
            spoken = process_over_spdy.version_of(offers)
            if spoken is None:
                raise _no_protocol(offers, process_over_spdy.VERSIONS)
            transport = RawTransport(http)
            answer = await transport.begin({"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": spoken})
            await self._run(SpdyProcess(transport, spoken, wanted), container, command, wanted)
            transport.close()
            return answer
        raise _not_upgraded(upgrade)

    async def _run(
        self, streams: ChannelProcess | SpdyProcess, container: Container, command: list[str], wanted: Wanted
    ) -> None:
        async def process() -> None:
            await streams.begin()
            code, problem = 0, ""
            try:
                async with asyncio.timeout(LONGEST_SECONDS):
                    if command:
                        code = await shell_run.run(command, inside(container), streams, self._now, tty=wanted.tty)
                    else:
                        code = await self._attached(streams, container, wanted)
            except TimeoutError:
                problem = "the connection was open for too long"
            await streams.finish(code, problem)

        await _until_gone(streams, process())

    async def _attached(self, streams: ProcessStreams, container: Container, wanted: Wanted) -> int:
        """Be the main process of a container: a shell where it has a terminal or an input, else what it logs."""
        spec = container.spec
        if (spec.get("stdin") or spec.get("tty")) and (container.image in _INTERACTIVE or spec.get("command")):
            code = await shell_run.run(["sh"], inside(container), streams, self._now, tty=wanted.tty)
            meta = container.pod["metadata"]
            key = Key(PODS, meta["namespace"], meta["name"])
            pod = self._state.find(key)
            if pod is not None and pod["metadata"]["uid"] == meta["uid"]:
                self._state.exited[meta["uid"]] = code
                self.mark([key])
            return code
        assert container.run is not None
        lines = LogLines(container, container.run)
        place = lines.until(self._now())
        while True:
            await asyncio.sleep(max(lines.time(place) - self._now(), 0))
            await streams.write(f"{lines.text(place)}\n".encode())
            place += 1

    # -- portforward

    async def _forward(self, connection: Connection, http: BaseRequest) -> web.StreamResponse:
        pod = connection.pod
        if (pod.get("status") or {}).get("phase") != "Running":
            phase = (pod.get("status") or {}).get("phase", "Pending")
            raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
        meta, spec = pod["metadata"], pod["spec"]
        names = [c["name"] for place in ("containers", "initContainers") for c in spec.get(place) or ()]
        ports = Ports(str(meta["uid"]), listening([find(pod, name) for name in names]))
        upgrade = (http.headers.get("Upgrade") or "").strip().lower()
        if upgrade == "websocket":
            return await self._forward_websocket(connection, http, ports)
        if upgrade == "spdy/3.1":
            transport = RawTransport(http)
            headers = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}
            answer = await transport.begin(headers)
            await _bounded(SpdyForwarding(transport, ports).run())
            transport.close()
            return answer
        raise _not_upgraded(upgrade)

    @staticmethod
    async def _forward_websocket(connection: Connection, http: BaseRequest, ports: Ports) -> web.StreamResponse:
        offered = websocket_channels.offered(http)
        if TUNNEL in offered:
            socket = await websocket_channels.accept(http, TUNNEL)
            tunnel = Tunnel(Messages(http, socket))
            await _bounded(SpdyForwarding(tunnel, ports).run())
            await tunnel.close()
            return socket
        version = next((name for name in _OF_PORTS if name in (offered or [""])), None)
        if version is None:
            raise _no_protocol(offered, (TUNNEL, *_OF_PORTS))
        numbers = ports_of(connection.query)
        socket = await websocket_channels.accept(http, version)
        await _bounded(ChannelForwarding(Messages(http, socket), version, ports, numbers).run())
        return socket


async def _until_gone(streams: ProcessConnection, process: Coroutine[Any, Any, None]) -> None:
    """Run a process until it ends or its client goes away; what was said at the end is let arrive."""
    follow, work = child(streams.follow()), child(process)
    try:
        await asyncio.wait((follow, work), return_when=asyncio.FIRST_COMPLETED)
        if streams.finishing:
            await asyncio.wait((work,))
            await asyncio.wait((follow,), timeout=_PARTING_SECONDS)
        if work.done():
            with suppress(ConnectionError):
                work.result()
    finally:
        await end(follow, work)


async def _bounded(work: Awaitable[None]) -> None:
    """Serve a connection for as long as one may last, whatever its client breaks off."""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(LONGEST_SECONDS):
            await work


def _flag(query: dict[str, list[str]], name: str) -> bool:
    return name in query and truth(query[name][0])


def _no_protocol(offered: Sequence[str], known: Sequence[str]) -> ApiError:
    shown = ", ".join(name for name in known if name)
    return bad_request(f"none of the subprotocols {', '.join(offered)[:300] or '(none)'} is spoken here; use {shown}")


def _not_upgraded(upgrade: str) -> ApiError:
    if not upgrade:
        return bad_request("Upgrade request required")
    return bad_request(f"unable to upgrade to {upgrade[:100]!r}: use websocket or SPDY/3.1")
