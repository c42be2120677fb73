"""Names of what is asked for: a resource in one group and version, and a request for it."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from services.apiserver.core.request import RequestInfo, parse_query, resource_path, split_path, truth
from services.apiserver.core.status_errors import ApiError
from services.search.registries.member_facts import Gvr

_READS: Final = frozenset({"get", "list", "watch"})
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OWN_GROUP: Final = "search.karmada.io"


def group_resource(gvr: Gvr) -> str:
    """`pods` or `deployments.apps`, as messages name a resource."""
    return f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource


class Asked(msgspec.Struct, frozen=True):
    """A request by its path inside the proxy; `gvr` is None where the path names none."""

    verb: str
    path: str
    query: dict[str, str] = {}
    gvr: Gvr | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Route(Enum):
    """What answers a request."""

    CACHE = "cache"
    """Reads of what registries select: over all clusters."""
    CLUSTER = "cluster"
    """Everything else that concerns one object of what registries select: the cluster that has it."""
    CONTROL_PLANE = "control plane"
    """Everything that no registry selects, discovery and other documents."""


def asked_for(method: str, path: str, raw_query: str) -> Asked:
    """Read a request; `path` is the part after `/proxy`, encoded as the client sent it."""
    query = parse_query(raw_query)
    info = resource_path(split_path(path))
    if info is None or not info.resource:
        return Asked(method.lower(), path, query)
    return Asked(
        _verb(method, info, query),
        path,
        query,
        Gvr(info.group, info.version, info.resource),
        info.namespace,
        info.name,
        info.subresource,
    )


def _verb(method: str, info: RequestInfo, query: dict[str, str]) -> str:
    if method in ("GET", "HEAD"):
        if info.watch_prefix:
            return "watch"
        if info.name:
            return "get"
        return "watch" if truth(query.get("watch")) else "list"
    verb = _VERBS.get(method, method.lower())
    return "deletecollection" if verb == "delete" and not info.name else verb


def route_of(asked: Asked, *, covered: bool) -> Route:
    """The route of a request; `covered` says whether a registry selects its resource."""
    if asked.gvr is None or not covered:
        return Route.CONTROL_PLANE
    if not asked.subresource and asked.verb in _READS:
        return Route.CACHE
    return Route.CLUSTER


def refuse_nested(asked: Asked) -> None:
    """Refuse a request that would come back here: every level holds a connection. Raises ApiError 400."""
    gvr = asked.gvr
    if gvr is not None and gvr.group == _OWN_GROUP and gvr.resource == "proxying" and asked.subresource:
        text = "the global proxy is not served inside itself; leave out one of the two prefixes of the path"
        raise ApiError(400, "BadRequest", text)
