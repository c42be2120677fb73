"""Reads the discovery documents of an endpoint: two for all of them where it aggregates, else one for every version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.bodies import TooLarge
from services._kit.kube.answers.shapes import readable
from services._kit.kube.api import (
    JSON,
    ApiError,
    ApiResource,
    BadAnswer,
    GroupList,
    ServedGroup,
    group_decoder,
    resource_decoder,
)

_AGGREGATED: Final = "APIGroupDiscoveryList"
_WANTED: Final = ",".join(
    [*(f"{JSON};g=apidiscovery.k8s.io;v={version};as={_AGGREGATED}" for version in ("v2", "v2beta1")), JSON]
)
_STALE: Final = "Stale"
"""What the server of a version said before it stopped to answer."""
_NAMESPACED: Final = "Namespaced"


class Request(Protocol):
    """Sends one request and returns the answer's bytes."""

    async def __call__(self, method: str, path: str, *, accept: str = JSON) -> bytes: ...


class GroupVersion(Struct, frozen=True):
    """A version of a group, and the kinds in it without subresources; None where those have to be asked for."""

    group: str
    version: str
    preferred: bool
    resources: tuple[ApiResource, ...] | None = None


_CORE: Final = GroupVersion("", "v1", preferred=True)


async def discover(
    request: Request, limits: Limits, *, preferred: bool, left_out: set[str] | None
) -> list[ApiResource]:
    """Kinds without subresources; `left_out` gets the group versions (`apps/v1`) that do not answer as they should."""
    versions = [version for version in await _versions(request, limits) if version.preferred or not preferred]
    return await _resources(request, limits, versions, left_out)


async def discover_preferred_first(request: Request, limits: Limits) -> list[ApiResource]:
    """Kinds without subresources in the order of their groups, those of preferred versions before all others."""
    versions = await _versions(request, limits)
    return await _resources(request, limits, sorted(versions, key=lambda version: not version.preferred), None)


def check_kind(found: str, wanted: str, path: str) -> None:
    """Raise BadAnswer for JSON of another kind: that it names nothing does not mean that nothing is served."""
    if found != wanted:
        raise BadAnswer(f"GET {path}: it is of kind {found[:60] or '(none)'} and not {wanted}")


async def _versions(request: Request, limits: Limits) -> list[GroupVersion]:
    """Groups and versions that are served, the core group first."""
    answer = await _groups(request)
    if answer.kind == _AGGREGATED:
        found = [*await _core(request), *_aggregated(answer.items)]
    else:
        check_kind(answer.kind, "APIGroupList", "/apis")
        found = [_CORE]
        for group in answer.groups:
            chosen = group.preferred_version or next(iter(group.versions), None)
            found += [
                GroupVersion(group.name, each.version, chosen is not None and each.version == chosen.version)
                for each in group.versions
            ]
    if len(found) > limits.group_versions:
        raise BadAnswer(f"discovery: {len(found)} group versions, more than {limits.group_versions}")
    return found


async def _groups(request: Request) -> GroupList:
    """The groups at /apis, with their kinds where those are aggregated and not too large together."""
    try:
        data = await request("GET", "/apis", accept=_WANTED)
    except TooLarge:
        data = await request("GET", "/apis")
    return readable(group_decoder, data, "the groups of /apis")


async def _core(request: Request) -> list[GroupVersion]:
    """The core group of an endpoint that aggregates; what /api/v1 says where /api does not."""
    try:
        answer = readable(group_decoder, await request("GET", "/api", accept=_WANTED), "the versions of /api")
    except (ApiError, BadAnswer):
        return [_CORE]
    return [*_aggregated(answer.items)] if answer.kind == _AGGREGATED else [_CORE]


def _aggregated(groups: Iterable[ServedGroup]) -> Iterable[GroupVersion]:
    for group in groups:
        name = group.metadata.name
        for number, version in enumerate(group.versions):
            found = None
            if version.freshness != _STALE:
                found = tuple(
                    ApiResource(
                        name=each.resource,
                        kind=each.response_kind.kind,
                        namespaced=each.scope == _NAMESPACED,
                        verbs=each.verbs,
                        short_names=each.short_names,
                        categories=each.categories,
                        group=name,
                        version=version.version,
                    )
                    for each in version.resources
                    if each.response_kind is not None
                )
            yield GroupVersion(name, version.version, number == 0, found)


async def _resources(
    request: Request, limits: Limits, versions: Iterable[GroupVersion], left_out: set[str] | None
) -> list[ApiResource]:
    found: list[ApiResource] = []
    for version in versions:
        resources = version.resources
        if resources is None:
            resources = await _asked(request, version, left_out)
        found.extend(resources)
        if len(found) > limits.list_objects:
            raise BadAnswer(f"discovery: more than {limits.list_objects} kinds are served")
    return found


async def _asked(request: Request, place: GroupVersion, left_out: set[str] | None) -> tuple[ApiResource, ...]:
    """What the document of one version says, nothing where there is none; raises for that of the core group."""
    group, version = place.group, place.version
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        answer = readable(resource_decoder, await request("GET", path), f"the resources of {path}")
        check_kind(answer.kind, "APIResourceList", path)
    except (ApiError, BadAnswer) as error:
        absent = isinstance(error, ApiError) and error.status == 404
        if not group and not absent:
            raise
        if left_out is not None and not absent:
            left_out.add(f"{group}/{version}")
        return ()
    return tuple(
        replace(resource, group=group, version=version) for resource in answer.resources if "/" not in resource.name
    )
