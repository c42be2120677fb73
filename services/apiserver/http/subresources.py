"""Subresources of stored kinds: status, scale, finalize, approval, binding, eviction, token, and connections."""

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from schemas.manifest import Manifest
from services._rules.kubernetes.patch import json_patch as patches
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.admission.chain import Attributes
from services.apiserver.admission.scales import scale_of, set_replicas
from services.apiserver.core import status_errors as status
from services.apiserver.core.cloning import clone
from services.apiserver.core.request import RequestInfo
from services.apiserver.core.request_context import Call, stamp
from services.apiserver.core.status_errors import ApiError
from services.apiserver.http import codec
from services.apiserver.http import connect as connecting
from services.apiserver.http.handler import Answer, Request
from services.apiserver.http.patch_requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, check_patch_options, unfit
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.decoding import type_errors as decode_message
from services.apiserver.kinds.kind_model import Kind, Subresource
from services.apiserver.reads.responses import View
from services.apiserver.store.store_port import Entry
from services.apiserver.writes.delete_options import DeleteOptions
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.evictions import Evictions
from services.apiserver.writes.object_writes import Objects, Outcome
from services.apiserver.writes.service_account_tokens import TokenRequests

ViewOf = Callable[[Request, Kind], View]
CallOf = Callable[[Request, str], Call]
_VERB = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}
_SCALE_VERSIONS = ("autoscaling/v1", "extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")
_SCALE = "io.k8s.api.autoscaling.v1.Scale"
CREATED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class Subresources:
    """Answers requests below one object."""

    def __init__(self, objects: Objects, deleter: Deleter, tokens: TokenRequests) -> None:
        self._objects = objects
        self._evictions = Evictions(objects, deleter)
        self._deleter = deleter
        self._tokens = tokens
        self.connections = connecting.Connections(objects)

    async def answer(
        self, request: Request, info: RequestInfo, kind: Kind, sub: Subresource, view_of: ViewOf, call_of: CallOf
    ) -> Answer | web.StreamResponse:
        """Dispatch by name and verb; raises 405 for verbs the subresource does not have."""
        verb = _VERB.get(request.method, "")
        if verb not in sub.verbs:
            raise status.method_not_allowed()
        call = call_of(request, verb)
        if sub.name in connecting.NAMES:
            return await self.connections.answer(kind, sub, info, request.http, call)
        if sub.name == "scale":
            if verb == "patch":
                check_patch_options(request.query, [])
            return await self._scale(request, info, kind, verb, call)
        if sub.name in ("binding", "eviction", "token"):
            body = await self._body(request, sub, kind)
            if sub.name == "binding":
                await self.bind(kind, info.namespace, info.name, body, call)
                return Answer(201, CREATED, warnings=call.warnings)
            if sub.name == "eviction":
                return await self._evict(kind, info, body, call)
            return Answer(201, msgspec.json.encode(self._tokens.create(kind, info.namespace, info.name, body)))
        view = view_of(request, kind)
        if verb == "get":
            return Answer(200, view.encoded(self._objects.get(kind, info.namespace, info.name)))
        if verb == "update":
            outcome = await self._put(request, info, kind, sub.name, call)
            return Answer(200, view.encoded(outcome), warnings=call.warnings)
        if verb == "patch":
            outcome = await self._patch(request, info, kind, sub.name, call)
            return Answer(200, view.encoded(outcome), warnings=call.warnings)
        raise status.method_not_allowed()

    async def _body(self, request: Request, sub: Subresource, kind: Kind) -> Manifest:
        raw, shape = await request.body(), _schema_name(sub, kind)
        found: tuple[Any, bytes] = codec.decode_body(raw, request.media, shape) if raw else ({}, b"{}")
        body, text = found
        if not isinstance(body, dict):
            raise status.bad_request("an object was expected")
        name = body.get("kind")
        if name and name != sub.kind:
            version = str(body.get("apiVersion", "")).rpartition("/")[2]
            group = (kind.resource.group if sub.group is None else sub.group).partition(".")[0] or "core"
            raise status.bad_request(
                f'{name} in version "{version}" cannot be handled as a {sub.kind}: converting ({version}.{name}) to '
                f"({group}.{sub.kind}): unknown conversion"
            )
        body.setdefault("metadata", {})
        version = sub.version or kind.resource.version
        body.setdefault("apiVersion", f"{sub.group}/{version}" if sub.group else version)
        body.setdefault("kind", sub.kind)
        try:
            schemas.normalise(shape, body)
        except schemas.ShapeError as e:
            wrong = decode_message.render(shape, body, text, e)
            version = sub.version or kind.resource.version
            raise status.bad_request(
                f'{sub.kind} in version "{version}" cannot be handled as a {sub.kind}: {wrong}'
            ) from e
        return body

    async def _put(self, request: Request, info: RequestInfo, kind: Kind, sub: str, call: Call) -> Outcome:
        raw = await request.body()

        def decoded() -> Manifest:
            obj = self._objects.decode(kind, *codec.decode_body(raw, request.media, kind.schema_name), call)
            name = obj["metadata"].get("name") or ""
            if not name:
                raise status.unnamed(info.name)
            if name != info.name:
                raise status.other_name(name, info.name)
            return obj

        decoded()

        def make(old: Manifest) -> Manifest:
            return _only(sub, decoded(), old)

        return await self._objects.update(kind, info.namespace, info.name, make, call, subresource=sub)

    async def _patch(self, request: Request, info: RequestInfo, kind: Kind, sub: str, call: Call) -> Outcome:
        from services.apiserver.http.patch_requests import PatchRequest

        patch = PatchRequest(self._objects, kind, request.media, await request.body(), call, sub)
        patch.check(request.query)

        def make(old: Manifest) -> Manifest:
            return _only(sub, patch.apply(old), old)

        return await self._objects.update(
            kind, info.namespace, info.name, make, call, subresource=sub, verb="patch", patch=True
        )

    # -- scale

    async def _scale(self, request: Request, info: RequestInfo, kind: Kind, verb: str, call: Call) -> Answer:
        try:
            entry = self._objects.get(kind, info.namespace, info.name)
        except ApiError as e:
            if kind.custom:
                raise
            sub = kind.resource.subresource("scale")
            group = sub.group if sub is not None and sub.group is not None and not kind.resource.group else None
            error = status.not_found(kind.resource, info.name, "scale")
            if group:
                error.message = f'{kind.resource.plural}/scale.{group} "{info.name}" not found'
                error.details = {"name": info.name, "group": group, "kind": f"{kind.resource.plural}/scale"}
            raise error from e
        if verb == "get":
            return Answer(200, msgspec.json.encode(scale_of(kind, kind.from_store(entry.obj))))
        raw = await request.body()

        def make(old: Manifest) -> Manifest:
            scale = self._new_scale(kind, old, raw, request.media, verb, info, strict=call.validation == "Strict")
            new = set_replicas(kind, clone(old), (scale.get("spec") or {}).get("replicas") or 0)
            revision = (scale.get("metadata") or {}).get("resourceVersion")
            new["metadata"]["resourceVersion"] = revision or ""
            if not kind.unconditional_update and not revision:
                new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            uid, before = (scale.get("metadata") or {}).get("uid"), old["metadata"]["uid"]
            if uid and uid != before:
                text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before}"
                resource = msgspec.structs.replace(kind.resource, plural=f"{kind.resource.plural}/scale")
                raise status.conflict(resource, info.name, text)
            return new

        outcome = await self._objects.update(
            kind, info.namespace, info.name, make, call, subresource="scale", verb=verb, patch=verb == "patch"
        )
        obj = kind.from_store(outcome.obj) if isinstance(outcome, Entry) else outcome
        return Answer(200, msgspec.json.encode(scale_of(kind, obj)), warnings=call.warnings)

    def _new_scale(
        self, kind: Kind, old: Manifest, raw: bytes, media: str | None, verb: str, info: RequestInfo, *, strict: bool
    ) -> Manifest:
        scale: Manifest
        if verb == "update":
            scale, sent = codec.decode_body(raw, media, _SCALE)
            _check_scale(scale, sent, strict=strict)
        else:
            form = codec.media_type(media)
            scale = _patched(scale_of(kind, old, strict=False), raw, form)
            try:
                _check_scale(scale, None, strict=strict)
            except ApiError as e:
                raise unfit(raw if form == STRATEGIC else msgspec.json.encode(scale), e) from e
        given = (scale.get("metadata") or {}).get("name")
        if not given:
            raise status.unnamed(info.name)
        if given != info.name:
            raise status.other_name(given, info.name)
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        if replicas < 0 and not kind.custom:
            error = fields.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise status.invalid("Scale.autoscaling", info.name, [error])
        return scale

    # -- pods

    async def bind(self, kind: Kind, namespace: str, name: str, body: Manifest, call: Call) -> None:
        """Put a pod on a node; raises 400 for a binding of another name or without a node (older releases 500)."""
        if body["metadata"].get("name") != name:
            raise status.bad_request("name in URL does not match name in Binding object")
        target, pods = body.get("target") or {}, msgspec.structs.replace(kind.resource, plural="pods/binding")
        found = []
        if target.get("kind") not in (None, "", "Node"):
            found.append(fields.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
        if not target.get("name"):
            found.append(fields.required("target.name"))
        if found:
            # Clients read these errors as a text only.
            raise status.internal(fields.aggregate(found))

        def make(old: Manifest) -> Manifest:
            spec = old.get("spec") or {}
            if old["metadata"].get("deletionTimestamp"):
                raise status.conflict(pods, name, f"pod {name} is being deleted, cannot be assigned to a host")
            if spec.get("nodeName"):
                raise status.conflict(pods, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
            new = clone(old)
            new["spec"]["nodeName"] = target["name"]
            annotations = body["metadata"].get("annotations")
            if annotations:
                new["metadata"].setdefault("annotations", {}).update(annotations)
            _schedule(new.setdefault("status", {}).setdefault("conditions", []))
            return new

        await self._admit("binding", kind, namespace, name, body, call)
        await self._objects.update(kind, namespace, name, make, call, subresource="binding", verb="create", patch=True)

    async def _admit(self, sub: str, kind: Kind, namespace: str, name: str, body: Manifest, call: Call) -> None:
        """Have admission agree to the body of a subresource; raises ApiError."""
        attributes = Attributes("CREATE", kind, sub, namespace, name, body, None, call)
        await self._objects.admission.mutate(attributes)
        await self._objects.admission.validate(attributes)

    async def _evict(self, kind: Kind, info: RequestInfo, body: Manifest, call: Call) -> Answer:
        name = body["metadata"].get("name", "")
        if name != info.name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        options = DeleteOptions(body.get("deleteOptions") or {}, {})
        self._objects.get(kind, info.namespace, name)
        call.dry_run = call.dry_run or options.dry_run
        await self._admit("eviction", kind, info.namespace, name, body, call)
        await self._evictions.evict(kind, info.namespace, info.name, options, call)
        return Answer(201, CREATED, warnings=call.warnings)


def _schedule(conditions: list[Manifest]) -> None:
    """Say in the conditions of a pod that it has a node."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp()}
    for place, condition in enumerate(conditions):
        if condition.get("type") == "PodScheduled":
            since = condition if condition.get("status") == "True" else scheduled
            conditions[place] = {**scheduled, "lastTransitionTime": since.get("lastTransitionTime")}
            return
    conditions.append(scheduled)


def _schema_name(sub: Subresource, kind: Kind) -> str:
    """The OpenAPI name of a subresource's body."""
    group = kind.resource.group if sub.group is None else sub.group
    version = sub.version or kind.resource.version
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{sub.kind}"


def _only(sub: str, new: Manifest, old: Manifest) -> Manifest:
    """What a subresource may change of an object."""
    if sub == "finalize":
        spec = {**(old.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers") or []}
        if not spec["finalizers"]:
            del spec["finalizers"]
        revision = new["metadata"].get("resourceVersion")
        out = clone({**old, "spec": spec})
        out["metadata"]["resourceVersion"] = revision
        uid = new["metadata"].get("uid")
        if uid:
            out["metadata"]["uid"] = uid
        return out
    return new


def _check_scale(scale: Any, sent: bytes | None, *, strict: bool) -> None:
    """Raise 400 for a body or a result of a patch that is no Scale; brings one into canonical form.

    A `strict` one has no fields that a Scale does not have.
    """
    if not isinstance(scale, dict):
        raise status.bad_request("an object was expected")
    name, api_version = scale.get("kind") or "Scale", scale.get("apiVersion") or _SCALE_VERSIONS[0]
    if name != "Scale" or api_version not in _SCALE_VERSIONS:
        version = str(api_version).rpartition("/")[2]
        why = f"converting ({version}.{name}) to (autoscaling.Scale): unknown conversion"
        if name == "Scale":
            why = f'no kind "{name}" is registered for version "{api_version}" in scheme'
        raise status.bad_request(f'{name} in version "{version}" cannot be handled as a Scale: {why}')
    if strict and (strange := schemas.unknown_fields(_SCALE, scale)):
        texts = ", ".join(f'unknown field "{path}"' for path in strange)
        text = f'Scale in version "v1" cannot be handled as a Scale: strict decoding error: {texts}'
        raise status.bad_request(text)
    try:
        schemas.normalise(_SCALE, scale)
    except schemas.ShapeError as e:
        wrong = decode_message.render(_SCALE, scale, sent, e)
        raise status.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {wrong}') from e


def _patched(scale: Manifest, raw: bytes, media: str) -> Any:
    if media not in (JSON_PATCH, MERGE, STRATEGIC, APPLY):
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        if media == APPLY:
            return patches.merge_patch(scale, codec.decode_yaml(raw))
        if media == JSON_PATCH:
            return patches.json_patch(scale, codec.decode_json(raw), absent_is_null=True)
        return patches.merge_patch(scale, codec.decode_json(raw))
    except patches.PatchError as e:
        raise ApiError(e.status, e.reason, e.message, e.details) from e
