"""Routes a request: to the gateway's own kinds, to documents that name all kinds, or to the control plane.

The control plane authenticates users and authorizes reads of bindings and works: the gateway asks it with the user's
own credentials (SelfSubjectAccessReview). The bearer of the installation's token needs no authorization for those.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._rules.kubernetes.content_negotiation import clauses
from services.apiserver.core.status_errors import ApiError, unauthorized
from services.apiserver.kinds.kind_model import Resource
from services.apiserver.kinds.registry import Registry
from services.apiserver.openapi.serve import OpenApi
from services.apiserver.reads.negotiation import AGGREGATED
from services.gateway.front.upstream import Upstream, impersonation
from services.gateway.protocol.front_auth import Identity
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import GROUP, encode

REMEMBERED_SECONDS: Final = 10.0
_MOST_REMEMBERED: Final = 4096
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_decode = msgspec.json.Decoder(dict).decode


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
                "group": GROUP,
                "version": self.resource.version,
                "resource": self.resource.plural,
                "verb": self.verb,
                **{field: value for field, value in named.items() if value},
            }
        }


class Front:
    """Raises SettingsError for settings with which the control plane cannot be reached."""

    def __init__(self, settings: GatewaySettings, registry: Registry, openapi: OpenApi) -> None:
        self._registry = registry
        self._openapi = openapi
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
        posing = impersonation(request)
        if not identity.authorization and not posing:
            return
        if not self._upstream.lends(identity):
            raise ApiError(403, "Forbidden", "only the control plane can let somebody act for another user")
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
        code, _, body = await self._upstream.ask(
            identity, request, "POST", _REVIEWS, accept="application/json", body=encode(review)
        )
        try:
            answer = _decode(body)
            state = answer.get("status")
            allowed = code < 300 and isinstance(state, dict) and state.get("allowed") is True
            why = str(answer.get("message") or (state.get("reason") if isinstance(state, dict) else "") or "")
        except msgspec.MsgspecError:
            allowed, why = False, ""
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

    async def _merged(self, request: BaseRequest, identity: Identity, *, discovery: bool) -> web.Response:
        accept = _discovery_accept(request.headers.get("Accept", ""))
        code, media, body = await self._upstream.ask(
            identity, request, "GET", request.rel_url.raw_path_qs, accept=accept if discovery else "application/json"
        )
        if code == 200:
            try:
                document = _decode(body)
                merged = _with_group(document, self._registry) if discovery else self._with_paths(document)
            except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
                text = f"the control plane does not answer like one at {request.path}: {error}"
                raise ApiError(502, "BadGateway", text) from error
            body = encode(merged)
        return web.Response(body=body, status=code, headers={"Content-Type": media})

    def _with_paths(self, document: Manifest) -> Manifest:
        """The document at /openapi/v3 with the gateway's paths."""
        kept = document.get("paths") or {}
        paths = {path: place for path, place in kept.items() if not path.startswith(f"apis/{GROUP}")}
        own = self._openapi.find("openapi/v3")
        return {**document, "paths": {**paths, **(_decode(own.body)["paths"] if own is not None else {})}}


def is_own(parts: list[str]) -> bool:
    """Whether a path is of the gateway's own kinds and documents."""
    return parts[:2] in (["apis", GROUP], ["fleetlog", "v1"]) or parts[:4] == ["openapi", "v3", "apis", GROUP]


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
        for media, parameters in clauses(accept)
        if media == "application/json"
    ]
    return ",".join(kept) or "application/json"


def _with_group(document: Manifest, registry: Registry) -> Manifest:
    """The document at /apis, aggregated or not, with the gateway's group instead of one of the same name.

    Any other document is returned as it is. Raises KeyError, TypeError and AttributeError for one that is malformed.
    """
    if document.get("kind") == "APIGroupList":
        groups = [group for group in document.get("groups") or () if group["name"] != GROUP]
        return {**document, "groups": [*groups, *registry.api_group_list()["groups"]]}
    if document.get("kind") == AGGREGATED:
        version = str(document["apiVersion"]).rpartition("/")[2]
        items = [item for item in document.get("items") or () if item["metadata"]["name"] != GROUP]
        return {**document, "items": [*items, *registry.aggregated(core=False, version=version)["items"]]}
    return document
