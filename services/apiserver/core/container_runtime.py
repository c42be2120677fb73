"""The port to what runs the containers of a server's pods: none in a control plane, simulated ones in a member."""

from typing import Protocol

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services.apiserver.core.request_context import Identity


class Connection(msgspec.Struct, frozen=True):
    """A connection that was admitted: `sub` is exec, attach, portforward or log, `container` empty for portforward."""

    sub: str
    pod: Manifest
    container: str
    query: dict[str, list[str]]
    user: Identity


class ContainerRuntime(Protocol):
    """Answers for the containers of all pods of a server."""

    async def connect(self, connection: Connection, http: BaseRequest) -> web.StreamResponse:
        """Serve a connection until it ends; raises ApiError before its answer began."""
        ...
