"""Hands requests for one object to the cluster that has it, in the caller's name: writes, logs, exec and the like."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.proxying.member_exchange import MemberTransport
from services._rules.kubernetes.content_negotiation import JSON
from services.apiserver.core.status_errors import ApiError
from services.search.proxying.carried_requests import Way, carry
from services.search.proxying.object_lookup import ObjectLookup
from services.search.proxying.view_ports import Caller
from services.search.registries.member_facts import Gvr
from services.search.union.holders import refuse_unnamed
from services.search.union.provenance_marks import OtherCluster, unmarked
from services.search.union.resource_names import Asked, group_resource

_OF_CONTAINERS: Final = frozenset({"attach", "exec", "portforward", "proxy"})
"""Subresources whose bodies are no objects."""


class ClusterRoute:
    """Requests about one object of what registries select."""

    def __init__(self, lookup: ObjectLookup, transport: MemberTransport) -> None:
        self._lookup = lookup
        self._transport = transport

    async def answer(
        self, http: BaseRequest, asked: Asked, gvr: Gvr, caller: Caller, prefix: str
    ) -> web.StreamResponse:
        """Answer a request; raises ApiError before the answer has begun. `prefix` is the path of the proxy itself."""
        refuse_unnamed(asked, gvr)
        cluster = await self._lookup.holder(gvr, asked.namespace, asked.name, caller)

        def rewrite(body: bytes) -> bytes:
            try:
                return unmarked(body, cluster)
            except OtherCluster as error:
                text = f"the object is in cluster {cluster} now, and {error}; read it again"
                named = f'Operation cannot be fulfilled on {group_resource(gvr)} "{asked.name}"'
                details = {"name": asked.name, "group": gvr.group, "kind": gvr.resource}
                raise ApiError(409, "Conflict", f"{named}: {text}", details) from error

        written = http.method == "PUT" and asked.subresource not in _OF_CONTAINERS
        if written and _media_type(http) not in ("", JSON):
            # With the version of all clusters in it, a member could not tell which state is replaced.
            text = f"an object is written to the global proxy as {JSON}, not as {_media_type(http)[:100]}: its "
            text += "resourceVersion and annotations are those of several clusters; or write to clusters/NAME/proxy"
            raise ApiError(415, "UnsupportedMediaType", text)
        way = Way(self._transport, cluster, f"cluster {cluster}", prefix, rewrite if written else None)
        return await carry(http, asked, caller, way)


def _media_type(http: BaseRequest) -> str:
    return http.headers.get("Content-Type", "").partition(";")[0].strip().lower()
