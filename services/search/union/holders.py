"""Which one cluster a request for a named object is about, and the refusals of requests that are about none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from services.apiserver.core.status_errors import ApiError
from services.search.registries.member_facts import Gvr
from services.search.union.resource_names import Asked, group_resource

_MOST_SHOWN: Final = 20


def absent(gvr: Gvr, name: str) -> ApiError:
    """404 for an object that no cluster has."""
    return ApiError(404, "NotFound", f'{group_resource(gvr)} "{name}" not found', _details(gvr, name))


def unsupported(gvr: Gvr, verb: str) -> ApiError:
    """405 for a request that names no object and is not about all of them."""
    text = f"{verb} is not supported on {group_resource(gvr)} of all clusters: it names no object; "
    text += "create objects in the control plane, or in one cluster at clusters/NAME/proxy"
    return ApiError(405, "MethodNotAllowed", text, _details(gvr, ""))


def refuse_unnamed(asked: Asked, gvr: Gvr) -> None:
    """Refuse a request that is to change something and names no object; raises ApiError 405 and 404."""
    if asked.name:
        return
    if asked.verb == "create":
        raise unsupported(gvr, asked.verb)
    raise absent(gvr, "")


def sole(gvr: Gvr, name: str, clusters: Sequence[str]) -> str:
    """The one cluster that has an object; raises ApiError 404 where none has it, and 409 where several have one."""
    if not clusters:
        raise absent(gvr, name)
    if len(clusters) > 1:
        more = f" and {len(clusters) - _MOST_SHOWN} more" if len(clusters) > _MOST_SHOWN else ""
        shown = ", ".join(sorted(clusters)[:_MOST_SHOWN]) + more
        text = (
            f'Operation cannot be fulfilled on {group_resource(gvr)} "{name}": ambiguous objects in clusters '
            f"[{shown}]; name one of them, at clusters/NAME/proxy"
        )
        raise ApiError(409, "Conflict", text, _details(gvr, name))
    return clusters[0]


def _details(gvr: Gvr, name: str) -> dict[str, Any]:
    found = {"name": name, "group": gvr.group, "kind": gvr.resource}
    return {field: value for field, value in found.items() if value}
