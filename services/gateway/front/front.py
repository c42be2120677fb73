"""Routes a request: to the gateway's own kinds, to documents that name all kinds, or to the control plane.

The control plane authenticates users and authorizes reads of bindings and works: the gateway asks it with the user's
own credentials (SelfSubjectAccessReview). The bearer of the installation's token needs no authorization for those.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.proxying.front_identity import Identity
from services._rules.kubernetes.content_negotiation import clauses
from services._rules.metrics.metric_questions import RESOURCE, VERSIONS
from services.apiserver.core.status_errors import ApiError, unauthorized
from services.apiserver.kinds.kind_model import Resource
from services.apiserver.kinds.registry import Registry
from services.apiserver.openapi.serve import OpenApi
from services.apiserver.reads.negotiation import AGGREGATED
from services.gateway.front.upstream import Upstream, impersonation
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import GROUP, encode

REMEMBERED_SECONDS: Final = 10.0
_MOST_REMEMBERED: Final = 4096
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OWN: Final = frozenset({GROUP, *VERSIONS})
_decode = msgspec.json.Decoder(dict).decode


class OwnGroups(Protocol):
    """What the gateway shows of the groups that it answers for."""

    def group_list(self) -> Manifest:
        """An APIGroupList."""
        ...

    async def aggregated(self, version: str) -> Manifest:
        """An APIGroupDiscoveryList in a version of apidiscovery.k8s.io."""
        ...


class Asked(msgspec.Struct, frozen=True):
    """The attributes of a read request; `resource` is None for a path that is no resource."""

    verb: str
    path: str
    resource: Resource | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def attributes(self) -> Manifest:
        """As an access review names it."""
        if self.resource is None:
            return {"nonResourceAttributes": {"path": self.path, "verb": "get"}}
        named = {"namespace": self.namespace, "name": self.name, "subresource": self.subresource}
        return {
            "resourceAttributes": {
                "group": self.resource.group,
                "version": self.resource.version,
                "resource": self.resource.plural,
                "verb": self.verb,
                **{field: value for field, value in named.items() if value},
            }
        }


class Front:
    """Raises SettingsError for settings with which the control plane cannot be reached."""

    def __init__(self, settings: GatewaySettings, registry: Registry, openapi: OpenApi, own: OwnGroups) -> None:
        self._registry = registry
        self._openapi = openapi
        self._own = own
        self._upstream = Upstream(settings)
        self._allowed: OrderedDict[bytes, float] = OrderedDict()

    async def start(self) -> None:
        """Be ready to pass requests on."""
        await self._upstream.start()

    async def stop(self) -> None:
        """Close every connection."""
        await self._upstream.stop()

    async def check(self, request: BaseRequest, identity: Identity, asked: Asked) -> None:
        """Authorize a read of the gateway's own kinds; raises ApiError 401, 403 and 503."""
        if not identity.authorization and not impersonation(request):
            return
        if not self._upstream.lends(identity):
            raise ApiError(403, "Forbidden", "only the control plane can permit a user to impersonate another one")
        await self.permit(request, identity, asked)

    def lends(self, identity: Identity) -> bool:
        """Whether the control plane can be asked in the name of this identity."""
        return self._upstream.lends(identity)

    async def ask(
        self, identity: Identity, request: BaseRequest, path: str, question: Manifest
    ) -> tuple[int, Manifest]:
        """Create a review with the caller's credentials: code and object of the answer. Raises ApiError."""
        code, _, body = await self._upstream.ask(
            identity, request, "POST", path, accept="application/json", body=encode(question)
        )
        try:
            return code, _decode(body)
        except msgspec.MsgspecError:
            return code, {}

    async def permit(self, request: BaseRequest, identity: Identity, asked: Asked) -> None:
        """Ask the control plane, with the caller's credentials, whether it may; raises ApiError 401, 403 and 503."""
        posing = impersonation(request)
        key = _digest(identity, posing.items(), asked)
        now = time.monotonic()
        if self._allowed.get(key, 0.0) > now:
            return
        await self._review(request, identity, asked)
        self._allowed[key] = now + REMEMBERED_SECONDS
        self._allowed.move_to_end(key)
        while len(self._allowed) > _MOST_REMEMBERED:
            self._allowed.popitem(last=False)

    async def _review(self, request: BaseRequest, identity: Identity, asked: Asked) -> None:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": asked.attributes(),
        }
        code, answer = await self.ask(identity, request, _REVIEWS, review)
        state = answer.get("status")
        allowed = code < 300 and isinstance(state, dict) and state.get("allowed") is True
        why = str(answer.get("message") or (state.get("reason") if isinstance(state, dict) else "") or "")
        if allowed:
            return
        if code == 401:
            raise unauthorized(why or "Unauthorized")
        if code >= 500 or code == 429:
            raise ApiError(503, "ServiceUnavailable", f"the control plane cannot say who may read this now: {why}")
        named = f'"{asked.path}"' if asked.resource is None else asked.resource.group_resource
        where = f' in the namespace "{asked.namespace}"' if asked.namespace else ""
        text = f"the control plane does not allow you to {asked.verb} {named}{where}"
        raise ApiError(403, "Forbidden", f"{text}: {why}" if why else text)

    async def answer(self, request: BaseRequest, identity: Identity, parts: list[str]) -> web.StreamResponse:
        """Answer what is not the gateway's own; raises ApiError."""
        if request.method == "GET" and parts in (["apis"], ["openapi", "v3"]):
            return await self._merged(request, identity, discovery=parts == ["apis"])
        return await self._upstream.pass_on(request, identity)

    async def answer_inner(
        self, request: BaseRequest, identity: Identity, path: str, body: bytes | None
    ) -> web.StreamResponse:
        """Have the control plane answer what another server left to it; `path` is encoded and includes the query."""
        return await self._upstream.pass_on(request, identity, path=path, body=body)

    async def _merged(self, request: BaseRequest, identity: Identity, *, discovery: bool) -> web.Response:
        accept = _discovery_accept(request.headers.get("Accept", ""))
        code, media, body = await self._upstream.ask(
            identity, request, "GET", request.rel_url.raw_path_qs, accept=accept if discovery else "application/json"
        )
        if code == 200:
            try:
                document = _decode(body)
                merged = await self._with_groups(document) if discovery else self._with_paths(document)
            except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
                text = f"the control plane does not answer like one at {request.path}: {error}"
                raise ApiError(502, "BadGateway", text) from error
            body = encode(merged)
        return web.Response(body=body, status=code, headers={"Content-Type": media})

    async def _with_groups(self, document: Manifest) -> Manifest:
        """The document at /apis, aggregated or not, with the gateway's groups instead of those of the same names.

        Any other document is returned as it is. Raises KeyError, TypeError and AttributeError for a malformed one.
        """
        if document.get("kind") == "APIGroupList":
            own = self._own.group_list()["groups"]
            names = {group["name"] for group in own}
            groups = [group for group in document.get("groups") or () if group["name"] not in names]
            return {**document, "groups": [*groups, *own]}
        if document.get("kind") == AGGREGATED:
            own = (await self._own.aggregated(str(document["apiVersion"]).rpartition("/")[2]))["items"]
            names = {item["metadata"]["name"] for item in own}
            items = [item for item in document.get("items") or () if item["metadata"]["name"] not in names]
            return {**document, "items": [*items, *own]}
        return document

    def _with_paths(self, document: Manifest) -> Manifest:
        """The document at /openapi/v3 with the gateway's paths."""
        kept = document.get("paths") or {}
        groups = tuple(f"apis/{group}" for group in self._registry.groups())
        paths = {path: place for path, place in kept.items() if not path.startswith(groups)}
        own = self._openapi.find("openapi/v3")
        return {**document, "paths": {**paths, **(_decode(own.body)["paths"] if own is not None else {})}}


def is_own(parts: list[str]) -> bool:
    """Whether a path is of the gateway's own kinds and documents."""
    if parts[:3] == ["openapi", "v3", "apis"]:
        return len(parts) > 3 and parts[3] in (GROUP, RESOURCE)
    return parts[:2] == ["fleetlog", "v1"] or (parts[:1] == ["apis"] and len(parts) > 1 and parts[1] in _OWN)


def _digest(identity: Identity, posing: Iterable[tuple[str, str]], asked: Asked) -> bytes:
    """What a decision is remembered under; the credentials themselves are not kept."""
    name = asked.resource.group_resource if asked.resource is not None else ""
    version = asked.resource.version if asked.resource is not None else ""
    parts: list[object] = [
        identity.authorization,
        identity.user,
        sorted((name.lower(), value) for name, value in posing),
        asked.verb,
        asked.path,
    ]
    parts += [name, version, asked.namespace, asked.name, asked.subresource]
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def _discovery_accept(accept: str) -> str:
    """The part of an Accept header that asks for JSON: what is to be added to has to be read."""
    kept = [
        ";".join([media, *(f"{name}={value}" for name, value in parameters.items())])
        for media, _, parameters in clauses(accept)
        if media == "application/json"
    ]
    return ",".join(kept) or "application/json"
