"""Parts of requests to a Kubernetes endpoint: paths, errors, discovery and the JSON of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from schemas.manifest import Manifest

MANAGER: Final = "fleetlog"
"""What we are called in `metadata.managedFields` and in audit logs."""
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


LONGEST_RETRY_SECONDS: Final = 60.0
_LONGEST_TEXT: Final = 4000
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)
"""What decoders raise for a text that is not what it should be."""


class ApiError(Exception):
    """The endpoint refused a request; `reason` is Kubernetes' word for it."""

    def __init__(self, status: int, reason: str, message: str, *, url: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{message or reason} (HTTP {status}, {url})" if url else message or reason)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


PASSING: Final = frozenset({401, 408, 429, 500, 502, 503, 504})
"""Codes of refusals that concern the endpoint and not what was asked: the same request may succeed later."""


def is_absent(error: ApiError) -> bool:
    """Whether an API server reports that an object does not exist; a 404 of an intermediary is no evidence."""
    return error.status == 404 and error.reason == "NotFound"


class Unreachable(Exception):
    """The endpoint gave no answer; nothing is known about the outcome of a write."""


class BadAnswer(Unreachable):
    """The endpoint answered, but not with what was asked for: too large, endless, ill-formed, or of another kind.

    Nothing is known about the outcome of a write.
    """


class NotLeading(Unreachable):
    """The request was not sent: another instance leads now."""


class WatchEvent(Struct, frozen=True):
    """One line of a watch stream."""

    type: str
    object: Raw


class Status(Struct):
    """The refusal that an endpoint answers with."""

    reason: str = ""
    message: str = ""
    code: int = 0


class ApiResource(Struct, frozen=True, rename="camel"):
    """One kind an endpoint serves, from discovery."""

    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    group: str = ""
    version: str = ""

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class _ResourceList(Struct, rename="camel"):
    kind: str = ""
    group_version: str = ""
    resources: tuple[ApiResource, ...] = ()


class _GroupVersion(Struct, rename="camel"):
    group_version: str
    version: str


class _Group(Struct, rename="camel"):
    name: str
    versions: tuple[_GroupVersion, ...] = ()
    preferred_version: _GroupVersion | None = None


class _ServedKind(Struct):
    kind: str = ""


class _Served(Struct, rename="camel"):
    resource: str
    response_kind: _ServedKind | None = None
    scope: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _ServedVersion(Struct):
    version: str
    resources: tuple[_Served, ...] = ()
    freshness: str = ""


class _Name(Struct, frozen=True):
    name: str = ""


class ServedGroup(Struct):
    """One group of an APIGroupDiscoveryList, its preferred version first."""

    metadata: _Name = _Name()
    versions: tuple[_ServedVersion, ...] = ()


class GroupList(Struct):
    """An APIGroupList, with `groups`, or an APIGroupDiscoveryList, with `items`."""

    kind: str = ""
    groups: tuple[_Group, ...] = ()
    items: tuple[ServedGroup, ...] = ()


status_decoder = msgspec.json.Decoder(Status)
watch_event_decoder = msgspec.json.Decoder(WatchEvent)
group_decoder = msgspec.json.Decoder(GroupList)
resource_decoder = msgspec.json.Decoder(_ResourceList)
_manifest = msgspec.json.Decoder(dict[str, Any])
encode = msgspec.json.Encoder().encode


def decode(data: bytes | Raw) -> Manifest:
    """One manifest from its JSON."""
    return _manifest.decode(data)


def refusal(code: int, reason: str, headers: Mapping[str, str], body: bytes, url: str) -> ApiError:
    """The error behind an answer that is no success; `reason` is the words of its status line."""
    try:
        status = status_decoder.decode(body)
    except UNREADABLE:
        status = Status(reason=reason, message=body[:300].decode(errors="replace").strip())
    message, place = _shortened(status.message), headers.get("Location", "")[:_LONGEST_TEXT]
    if code < 400 and place:
        message = f"it answers that it is elsewhere, at {place}; name that address in its kubeconfig"
    try:
        asked = float(headers.get("Retry-After", "0"))
    except ValueError:
        asked = 0.0
    # No number of a neighbour's keeps us away for good; what is no number at all is not less than anything.
    retry_after = min(asked, LONGEST_RETRY_SECONDS) if asked > 0 else 0.0
    return ApiError(code, _shortened(status.reason), message, url=url, retry_after=retry_after)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def resource_path(
    group: str, version: str, resource: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """URL path of a collection or an object."""
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if namespace:
        base = f"{base}/namespaces/{namespace}"
    path = f"{base}/{resource}"
    if name:
        path = f"{path}/{name}"
    return f"{path}/{subresource}" if subresource else path
