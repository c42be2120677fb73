"""Answers the history of one object: every fact and observation of it, in order, with causes and one line each."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import to_builtins

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.log.fact_history import story
from services._kit.log.stream_port import Log
from services._rules.history.timeline import Entry, line
from services.apiserver.core.status_errors import ApiError, bad_request
from services.gateway.views.view_shapes import encode, time_text


class Histories:
    """Reads the streams on each request, without a cache."""

    def __init__(self, logs: Mapping[str, Log]) -> None:
        self._logs = logs

    async def document(self, resource: str, namespace: str, name: str) -> bytes:
        """The history of an object as JSON; raises ApiError 404 when the log knows nothing of it."""
        key = key_of(resource, namespace, name)
        entries = await story(self._logs, key)
        if not entries:
            raise ApiError(404, "NotFound", f"the log holds no fact about {key}; is it claimed by a policy?")
        body: Manifest = {
            "kind": "History",
            "apiVersion": "fleetlog/v1",
            "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
            "began": time_text(entries[0].time),
            "entries": [_shown(entry) for entry in entries],
        }
        return encode(body)


def _shown(entry: Entry) -> Manifest:
    """A step with the line that people read."""
    return {**to_builtins(entry), "line": line(entry)}


def key_of(resource: str, namespace: str, name: str) -> ObjectKey:
    """Key of `<resource.group>`, `<namespace or _>` and a name; raises ApiError 400 for an empty part."""
    plural, _, group = resource.partition(".")
    if not plural or not name or not namespace:
        raise bad_request("use /fleetlog/v1/history/<resource.group>/<namespace or _>/<name>")
    return ObjectKey(group=group, resource=plural, namespace="" if namespace == "_" else namespace, name=name)
