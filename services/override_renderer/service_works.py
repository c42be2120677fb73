"""Decides the works of a MultiClusterService: markers in its providers, and their EndpointSlices in its consumers.

A marker is suspended: it asks the cluster for the endpoints of a Service, and is never applied there. A cluster that
cannot take part now keeps what it has; docs/sources.md#services.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.delivery.work_labels import marked_for_work
from services._rules.endpoints.dispatched_slices import dispatched_manifest
from services._rules.endpoints.multi_cluster_services import NOT_FOUND, SharedService, hindrance, is_marker
from services._rules.identities import policy_id
from services.override_renderer.render import rendered_bytes
from services.override_renderer.service_input import ServiceInput
from services.override_renderer.state import Bound, RendererState

_SLICE: Final = "EndpointSlice"
Works = tuple[list[WorkRendered], list[tuple[str, bytes]], set[str]]


def service_works(state: RendererState, key: ObjectKey, bound: Bound) -> Works | None:
    """The works that differ from those on the log, bytes to be stored before them, and all clusters that keep one.

    None for an object that no MultiClusterService is about.
    """
    services = state.services
    if is_marker(key):
        service = services.asked.get((key.namespace, key.name))
        if service is None:
            return None
        made = [_marker(cluster, key, service) for cluster in service.provider_names(services.partners)]
        manifest: Manifest = msgspec.json.decode(services.manifests[key.namespace, key.name])
        return _works(services, bound, made, manifest)
    source = services.slices.sources.get(key)
    if source is None:
        return None
    service = services.asked.get((source.namespace, source.service))
    if service is None or not service.provides(source.cluster):
        return None
    made = [
        _slice(cluster, key, service, source.cluster)
        for cluster in service.consumer_names(services.partners)
        if service.consumes(cluster, source.cluster)
    ]
    return _works(services, bound, made, dispatched_manifest(source, key.name))


def _works(services: ServiceInput, bound: Bound, made: list[WorkRendered], manifest: Manifest) -> Works:
    events: list[WorkRendered] = []
    blobs: list[tuple[str, bytes]] = []
    wanted: set[str] = set()
    for outline in made:
        hindered = hindrance(outline.cluster, services.partners)
        if hindered is not None:
            if hindered[0] != NOT_FOUND:
                wanted.add(outline.cluster)
            continue
        wanted.add(outline.cluster)
        rendered = rendered_bytes(marked_for_work(manifest, outline.cluster, outline.key, outline.uid), "abort")
        content = Raw(rendered.data) if not rendered.shared else UNSET
        event = replace(outline, digest=rendered.digest, manifest=content, shared=rendered.shared)
        previous = bound.works.get(outline.cluster)
        if previous is None or not _same(previous[0], event):
            events.append(event)
            if rendered.shared:
                blobs.append((rendered.digest, rendered.data))
    return events, blobs, wanted


def _marker(cluster: str, key: ObjectKey, service: SharedService) -> WorkRendered:
    kind, version = const.MULTI_CLUSTER_SERVICE, const.NETWORKING_API
    return replace(_outline(cluster, key, service, version, kind), suspended=True)


def _slice(cluster: str, key: ObjectKey, service: SharedService, provider: str) -> WorkRendered:
    return replace(_outline(cluster, key, service, const.DISCOVERY_API, _SLICE), provider=provider)


def _outline(cluster: str, key: ObjectKey, service: SharedService, api_version: str, kind: str) -> WorkRendered:
    return WorkRendered(
        cluster=cluster,
        key=key,
        uid=service.uid,
        api_version=api_version,
        kind=kind,
        digest="",
        policy=service.key,
        policy_id=service.id or policy_id(service.uid),
    )


def _same(before: WorkEvent, event: WorkRendered) -> bool:
    return (
        isinstance(before, WorkRendered)
        and before.uid == event.uid
        and before.digest == event.digest
        and before.policy == event.policy
        and before.policy_id == event.policy_id
        and before.provider == event.provider
        and before.suspended == event.suspended
        and not before.problem
    )
