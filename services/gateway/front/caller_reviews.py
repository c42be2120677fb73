"""Finds out from the control plane who a caller is, and whether it may reach a member (`clusters/proxy`)."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from typing import Final

import msgspec
from aiohttp.web_request import BaseRequest
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError as KubeError
from services._kit.kube.client import KubeClient, Unreachable
from services._kit.proxying.front_identity import Identity
from services._rules.proxying.header_rules import BadIdentity, identity_headers
from services.apiserver.core.status_errors import ApiError, unauthorized
from services.apiserver.kinds.kind_model import Resource
from services.gateway.front.front import REMEMBERED_SECONDS, Asked, Front
from services.gateway.front.upstream import impersonation
from services.gateway.views.view_shapes import encode

CLUSTERS: Final = Resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", namespaced=False)
SUBRESOURCE: Final = "proxy"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_SELVES: Final = tuple(
    f"/apis/authentication.k8s.io/{version}/selfsubjectreviews" for version in ("v1", "v1beta1", "v1alpha1")
)
_MOST_REMEMBERED: Final = 4096


class Caller(Struct, frozen=True):
    """Who asks, as members are told."""

    user: str
    groups: tuple[str, ...] = ()


def verb_of(method: str) -> str:
    """The verb that has to be allowed for a method, as Kubernetes maps those of subresources that connect."""
    return _VERBS.get(method, method.lower())


class CallerReviews:
    """The two questions, put to the control plane in the way that the caller's credentials allow.

    `control` is the gateway's own client of it, `front` the way there with credentials of callers.
    """

    def __init__(self, control: KubeClient | None, front: Front | None) -> None:
        self._control = control
        self._front = front
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()

    async def admit(self, request: BaseRequest, identity: Identity, cluster: str, *, authorized: bool = True) -> Caller:
        """The caller, once it may reach the cluster with this method; raises ApiError 401, 403 and 503."""
        asked = Asked(verb_of(request.method), request.rel_url.raw_path, CLUSTERS, "", cluster, SUBRESOURCE)
        return await self.permit(request, identity, asked, authorized=authorized)

    async def permit(
        self, request: BaseRequest, identity: Identity, asked: Asked, *, authorized: bool = True
    ) -> Caller:
        """The caller, once it may do what is asked; raises ApiError 401, 403 and 503.

        `authorized`: an API server that sends the request on has asked for just this right.
        """
        posing = impersonation(request)
        if authorized and not identity.authorization and not identity.installation:
            return _nameable(Caller(identity.user, identity.groups))
        if self._front is not None and self._front.lends(identity):
            await self._front.permit(request, identity, asked)
            return _nameable(await self._self(self._front, request, identity))
        if posing:
            raise ApiError(403, "Forbidden", "only the control plane can permit a user to impersonate another one")
        caller = Caller(identity.user, identity.groups)
        await self._review(caller, asked)
        return _nameable(caller)

    async def _self(self, front: Front, request: BaseRequest, identity: Identity) -> Caller:
        """The name under which the control plane knows the bearer of credentials."""
        posing = sorted((name.lower(), value) for name, value in impersonation(request).items())
        parts = [identity.authorization, identity.user, posing]
        key = hashlib.sha256(msgspec.json.encode(parts)).digest()
        found = self._known.get(key)
        now = time.monotonic()
        if found is not None and found[0] > now:
            return found[1]
        caller = await self._asked(front, request, identity)
        self._known[key] = now + REMEMBERED_SECONDS, caller
        self._known.move_to_end(key)
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return caller

    async def _asked(self, front: Front, request: BaseRequest, identity: Identity) -> Caller:
        for path in _SELVES:
            version = path.split("/")[3]
            review: Manifest = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
            code, answer = await front.ask(identity, request, path, review)
            if code == 404:
                continue
            if code == 401:
                raise unauthorized()
            if code >= 300:
                raise _silent(f"it answers {code} to the question who you are")
            return _caller((answer.get("status") or {}).get("userInfo"))
        kind, _, token = identity.authorization.partition(" ")
        if kind.lower() != "bearer" or impersonation(request):
            raise ApiError(
                501,
                "NotImplemented",
                "the control plane is too old to say who you are (SelfSubjectReview, Kubernetes 1.26 or later): "
                "use a bearer token without impersonation",
            )
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.strip()}}
        status = (await self._own(_TOKENS, review)).get("status") or {}
        if status.get("authenticated") is not True:
            raise unauthorized()
        return _caller(status.get("user"))

    async def _review(self, caller: Caller, asked: Asked) -> None:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": caller.user, "groups": list(caller.groups), **asked.attributes()},
        }
        status = (await self._own(_REVIEWS, review)).get("status") or {}
        if status.get("allowed") is not True:
            why = str(status.get("reason") or "")
            what = f"{asked.resource.plural}/{asked.subresource}" if asked.resource is not None else asked.path
            text = f"the control plane does not allow {caller.user} to {asked.verb} {what} of {asked.name}"
            raise ApiError(403, "Forbidden", f"{text}: {why}" if why else text)

    async def _own(self, path: str, review: Manifest) -> Manifest:
        """The answer to a question in the gateway's own name."""
        if self._control is None:
            raise _silent("FLEETLOG_CONTROL_KUBECONFIG is not set, so it cannot be asked what you may do")
        try:
            return await self._control.create(path, encode(review))
        except (KubeError, Unreachable) as error:
            raise _silent(str(error)) from error


def _caller(info: object) -> Caller:
    if not isinstance(info, dict) or not isinstance(info.get("username"), str):
        raise _silent("its answer names no user")
    groups = info.get("groups") or ()
    return Caller(info["username"], tuple(str(group) for group in groups))


def _nameable(caller: Caller) -> Caller:
    try:
        identity_headers(caller.user, caller.groups)
    except BadIdentity as error:
        raise ApiError(403, "Forbidden", str(error)) from error
    return caller


def _silent(why: str) -> ApiError:
    text = f"the control plane cannot say who may reach members now: {why}"
    return ApiError(503, "ServiceUnavailable", text, {"retryAfterSeconds": 1})
