"""Reads the discovery documents of an endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.shapes import readable
from services._kit.kube.api import ApiError, ApiResource, BadAnswer, group_decoder, resource_decoder

Request = Callable[[str, str], Awaitable[bytes]]


async def discover(
    request: Request, limits: Limits, *, preferred: bool, left_out: set[str] | None
) -> list[ApiResource]:
    """Kinds without subresources; `left_out` gets the group versions (`apps/v1`) that do not answer as they should."""
    found: list[ApiResource] = []
    for name, version in await _versions(request, limits, preferred=preferred):
        path = f"/apis/{name}/{version}" if name else f"/api/{version}"
        try:
            answer = readable(resource_decoder, await request("GET", path), f"the resources of {path}")
            check_kind(answer.kind, "APIResourceList", path)
            listed = answer.resources
        except (ApiError, BadAnswer) as error:
            if not name and not (isinstance(error, ApiError) and error.status == 404):
                raise
            if left_out is not None and not (isinstance(error, ApiError) and error.status == 404):
                left_out.add(f"{name}/{version}")
            continue
        found.extend(
            msgspec.structs.replace(resource, group=name, version=version)
            for resource in listed
            if "/" not in resource.name
        )
        if len(found) > limits.list_objects:
            raise BadAnswer(f"discovery: more than {limits.list_objects} kinds are served")
    return found


async def _versions(request: Request, limits: Limits, *, preferred: bool) -> list[tuple[str, str]]:
    """Groups and versions to ask about, the core group first."""
    versions: list[tuple[str, str]] = [("", "v1")]
    answer = readable(group_decoder, await request("GET", "/apis"), "the groups of /apis")
    check_kind(answer.kind, "APIGroupList", "/apis")
    for group in answer.groups:
        chosen = group.versions
        if preferred and group.preferred_version is not None:
            chosen = (group.preferred_version,)
        versions.extend((group.name, version.version) for version in chosen)
    if len(versions) > limits.group_versions:
        raise BadAnswer(f"discovery: {len(versions)} group versions, more than {limits.group_versions}")
    return versions


def check_kind(found: str, wanted: str, path: str) -> None:
    """Raise BadAnswer for JSON of another kind: that it names nothing does not mean that nothing is served."""
    if found != wanted:
        raise BadAnswer(f"GET {path}: it is of kind {found[:60] or '(none)'} and not {wanted}")
