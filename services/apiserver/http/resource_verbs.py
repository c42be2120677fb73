"""The verbs of stored resources over HTTP: get, list, watch, create, update, patch, delete and deletecollection."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec
from aiohttp import web

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.core.request import RequestInfo, revision_of, truth, write_options
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError, PlainError
from services.apiserver.http import codec
from services.apiserver.http.collection_verbs import CollectionReads
from services.apiserver.http.deprecations import deprecation
from services.apiserver.http.handler import Answer, HttpFace, Request
from services.apiserver.http.patch_requests import PatchRequest
from services.apiserver.http.subresources import CREATED, Subresources
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.decoding import type_errors as decode_message
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.list_requests import refuse_future
from services.apiserver.reads.negotiation import form_of_resource, form_of_watch, refuse_other_number
from services.apiserver.reads.responses import TableOf, View
from services.apiserver.store.store_port import Entry
from services.apiserver.writes.delete_options import DeleteOptions
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.object_writes import Objects, Outcome

_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


class ResourceApi:
    """Routes resource paths to the write path, the reads and the subresources."""

    def __init__(
        self,
        objects: Objects,
        deleter: Deleter,
        subresources: Subresources,
        registry: Registry,
        table: TableOf,
        virtual: Callable[[Kind, str, Manifest, Call], Manifest],
    ) -> None:
        self._objects = objects
        self._deleter = deleter
        self._subresources = subresources
        self._registry = registry
        self._table = table
        self._virtual = virtual
        self.face: HttpFace | None = None

    @cached_property
    def _reads(self) -> CollectionReads:
        assert self.face is not None
        return CollectionReads(self._objects.store, self.face)

    async def route(self, request: Request, parts: list[str]) -> Answer | web.StreamResponse | None:
        """Answer a resource path; None for paths of no served group and version."""
        info = request.target
        if info is None:
            return None
        kind = self._registry.find(info.group, info.version, info.resource)
        if kind is None:
            self._unknown(info)
            return None
        request.info = info
        warning = deprecation(kind)
        if warning:
            request.warnings.append(warning)
        namespaced = kind.resource.namespaced
        if info.namespace and not namespaced:
            raise status.no_such_path()
        if info.name and namespaced and not info.namespace and not info.watch_prefix:
            raise status.no_such_path()
        if info.subresource:
            return await self._subresource(request, info, kind)
        if info.name and not info.watch_prefix:
            return await self._item(request, info, kind)
        return await self._collection(request, info, kind)

    def _unknown(self, info: RequestInfo) -> None:
        known = self._registry.in_group_version(info.group, info.version)
        if not known:
            registry, group = self._registry, info.group
            known = [k for v in registry.versions(group) for k in registry.in_group_version(group, v)]
            if not known:
                return
        if any(k.custom for k in known):
            raise PlainError(404, "404 page not found\n")
        raise status.no_such_path()

    def _allow(self, kind: Kind, verb: str) -> None:
        if verb not in kind.resource.verbs:
            raise status.method_not_allowed()

    def view(self, request: Request, kind: Kind) -> View:
        """How this request wants to see the kind; raises 406 when it asks for a list of one or one of a list."""
        form = form_of_resource(request.http.headers.get("Accept", ""), custom=kind.custom)
        info = request.info
        single = info is not None and (bool(info.name) or request.method == "POST") and not info.watch_prefix
        if not single and (truth(request.query.get("watch")) or (info is not None and info.watch_prefix)):
            form = form_of_watch(form)
        else:
            refuse_other_number(form, kind, single=single)
        return View(kind, form, request.query, self._table)

    # -- one object

    async def _item(self, request: Request, info: RequestInfo, kind: Kind) -> Answer:
        method = request.method
        if kind.virtual:
            return self._reads.computed_item(request, info, kind)
        _refuse_head(method, kind)
        if method in ("GET", "HEAD"):
            self._allow(kind, "get")
            view = self.view(request, kind)
            asked = revision_of(request.query.get("resourceVersion", ""))
            refuse_future(asked, self._objects.store.revision, retry=1)
            return Answer(200, view.encoded(self._objects.get(kind, info.namespace, info.name)))
        if method == "PUT":
            self._allow(kind, "update")
            return await self._put(request, info, kind)
        if method == "PATCH":
            self._allow(kind, "patch")
            return await self._patch(request, info, kind, "")
        if method == "DELETE":
            self._allow(kind, "delete")
            view = self.view(request, kind)
            options = await self._delete_options(request)
            call = self._call(request, "delete")
            answer, gone = await self._deleter.delete(kind, info.namespace, info.name, options, call)
            code = 202 if not gone and options.orphan is False else 200
            body = msgspec.json.encode(answer) if _is_status(answer) else view.encoded(answer)
            return Answer(code, body, warnings=call.warnings)
        raise status.method_not_allowed()

    async def _put(self, request: Request, info: RequestInfo, kind: Kind) -> Answer:
        view = self.view(request, kind)
        raw = await request.body(kind.schema_name)
        call = self._call(request, "update")
        obj = await self._decoded(request, kind, call)
        self.check_names(kind, obj, info)
        created = False

        async def create() -> Outcome:
            nonlocal created
            uid = obj["metadata"].get("uid")
            if uid:
                text = f"StorageError: invalid object, Code: 4, Key: /registry/{kind.resource.plural}/{info.namespace}/"
                text += (
                    f"{info.name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
                )
                raise status.conflict(kind.resource, info.name, f"{text}{uid}, UID in object meta: ")
            assert self.face is not None
            self.face.require_creation(request, info, kind)
            created = True
            # Which revision an object has that does not exist is not asked.
            obj["metadata"].pop("resourceVersion", None)
            return await self._objects.create(kind, info.namespace, obj, call)

        creator = create if kind.create_on_update else None
        first = True

        def make(_: Manifest) -> Manifest:
            nonlocal first
            if first:
                first = False
                return obj
            return self._read(raw, request.media, kind, call)

        outcome = await self._objects.update(kind, info.namespace, info.name, make, call, create=creator)
        return Answer(201 if created else 200, view.encoded(outcome), warnings=call.warnings)

    @staticmethod
    def check_names(kind: Kind, obj: Manifest, info: RequestInfo) -> None:
        """The name of a body must be that of the path; its namespace, too, or absent."""
        meta = obj["metadata"]
        name, namespace = meta.get("name") or "", meta.get("namespace") or ""
        if not name:
            raise status.unnamed(info.name)
        if name != info.name:
            raise status.other_name(name, info.name)
        if kind.resource.namespaced and namespace and namespace != info.namespace:
            raise status.bad_request(
                f"the namespace of the object ({namespace}) does not match the namespace on the request "
                f"({info.namespace})"
            )

    async def _patch(self, request: Request, info: RequestInfo, kind: Kind, subresource: str) -> Answer:
        view = self.view(request, kind)
        call = self._call(request, "patch")
        patch = PatchRequest(self._objects, kind, request.media, await request.body(), call, subresource)
        patch.check(request.query)
        created = False

        async def create() -> Outcome:
            nonlocal created
            assert self.face is not None
            self.face.require_creation(request, info, kind)
            created = True
            aside = self._objects.aside
            obj = await aside.run(call.user.name, call.weight, patch.new_object, info.namespace, info.name)
            self.check_names(kind, obj, info)
            return await self._objects.create(kind, info.namespace, obj, call, apply=True)

        def make(old: Manifest) -> Manifest:
            new = patch.apply(old)
            self.check_names(kind, new, info)
            return new

        outcome = await self._objects.update(
            kind,
            info.namespace,
            info.name,
            make,
            call,
            subresource=subresource,
            verb="patch",
            create=create if patch.applies and not subresource else None,
            patch=True,
        )
        return Answer(201 if created else 200, view.encoded(outcome), warnings=call.warnings)

    # -- collections

    async def _collection(self, request: Request, info: RequestInfo, kind: Kind) -> Answer | web.StreamResponse:
        method = request.method
        if method == "POST":
            self._allow(kind, "create")
            if kind.virtual:
                return await self._review(request, info, kind)
            if kind.resource.namespaced and not info.namespace:
                raise status.method_not_allowed()
            if kind.closing:
                raise status.create_while(kind.resource, kind.closing)
            return await self._create(request, info, kind)
        if kind.virtual:
            return self._reads.computed_list(request, info, kind)
        _refuse_head(method, kind)
        if method in ("GET", "HEAD"):
            self._allow(kind, "watch" if info.watch_prefix or truth(request.query.get("watch")) else "list")
            return await self._reads.answer(request, info, kind, self.view(request, kind))
        if method == "DELETE":
            self._allow(kind, "deletecollection")
            if kind.resource.namespaced and not info.namespace:
                raise status.method_not_allowed()
            return await self._delete_collection(request, info, kind)
        raise status.method_not_allowed()

    async def _create(self, request: Request, info: RequestInfo, kind: Kind) -> Answer:
        view = self.view(request, kind)
        call = self._call(request, "create")
        obj = await self._decoded(request, kind, call)
        outcome = await self._objects.create(kind, info.namespace, obj, call)
        return Answer(201, view.encoded(outcome), warnings=call.warnings)

    async def _review(self, request: Request, info: RequestInfo, kind: Kind) -> Answer:
        form_of_resource(request.http.headers.get("Accept", ""), custom=False)
        call = self._call(request, "create")
        obj = await self._decoded(request, kind, call)
        call.warnings += kind.warnings(obj)
        pods = self._registry.find("", "v1", "pods")
        if kind.store_key == "/bindings" and pods is not None:
            await self._subresources.bind(pods, info.namespace, obj["metadata"].get("name") or "", obj, call)
            return Answer(201, CREATED, warnings=call.warnings)
        return Answer(201, msgspec.json.encode(self._virtual(kind, info.namespace, obj, call)), warnings=call.warnings)

    async def _delete_collection(self, request: Request, info: RequestInfo, kind: Kind) -> Answer | web.StreamResponse:
        view = self.view(request, kind)
        options, selection = self._reads.asked(request, info, kind)
        delete_options = await self._delete_options(request)
        call = self._call(request, "deletecollection")
        page = await self._reads.page(kind, info.namespace, options, selection)
        for entry in page.entries:
            await self._deleter.discard(kind, entry.key, delete_options, call)
        return self._reads.listed(request, view, page)

    # -- shared

    async def _decoded(self, request: Request, kind: Kind, call: Call) -> Manifest:
        """The object in the body of a request."""
        raw = await request.body(kind.schema_name)
        aside = self._objects.aside
        if len(raw) < aside.heavy:
            return self._read(raw, request.media, kind, call)
        return await aside.run(call.user.name, len(raw), self._read, raw, request.media, kind, call)

    def _read(self, raw: bytes, media: str | None, kind: Kind, call: Call) -> Manifest:
        body, text = codec.decode_body(raw, media, kind.schema_name)
        return self._objects.decode(kind, body, text, call)

    async def _subresource(self, request: Request, info: RequestInfo, kind: Kind) -> Answer | web.StreamResponse:
        sub = kind.resource.subresource(info.subresource)
        if sub is None:
            if kind.custom:
                raise status.not_found(kind.resource, info.name)
            raise status.no_such_path()
        if sub.name == "status" and request.method == "PATCH" and "patch" in sub.verbs:
            return await self._patch(request, info, kind, "status")
        return await self._subresources.answer(request, info, kind, sub, self.view, self._call)

    def _call(self, request: Request, verb: str) -> Call:
        call = request.call(verb)
        query = request.query
        if request.method in ("POST", "PUT") and (found := write_options(query)):
            raise status.invalid(f"{_OPTIONS[request.method]}.meta.k8s.io", "", found)
        if query.get("dryRun") == "All" and request.method in _OPTIONS:
            call.dry_run = True
            call.options = {**(call.options or {}), "dryRun": ["All"]}
        return call

    @staticmethod
    async def _delete_options(request: Request) -> DeleteOptions:
        raw = await request.body()
        if not raw:
            return DeleteOptions(None, request.query)
        form = codec.media_type(request.media)
        if form not in ("", codec.JSON, codec.YAML, codec.PROTOBUF):
            raise status.unsupported_media([codec.JSON, codec.YAML, codec.PROTOBUF])
        try:
            body: Any
            if form == codec.PROTOBUF:
                body = codec.decode_protobuf(raw, _DELETE_OPTIONS)
            else:
                body = codec.decode_yaml(raw) if form == codec.YAML else codec.decode_json(raw)
        except ApiError as e:
            raise status.internal(e.message) from e
        if body is None:
            body = {}
        if not isinstance(body, dict):
            raise status.internal("couldn't get version/kind; json parse error: an object was expected")
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            text = f'no kind "{body["kind"]}" is registered for version "{body.get("apiVersion", "")}" in scheme '
            raise status.internal(text + '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"')
        json = raw if form not in (codec.PROTOBUF, codec.YAML) else None
        try:
            schemas.normalise(_DELETE_OPTIONS, body)
        except schemas.ShapeError as e:
            raise status.internal(decode_message.render(_DELETE_OPTIONS, body, json, e)) from e
        return DeleteOptions(body, request.query)


def _refuse_head(method: str, kind: Kind) -> None:
    """Raises 405: built-in kinds are not asked by HEAD, custom ones are."""
    if method == "HEAD" and not kind.custom:
        raise status.method_not_allowed()


def _is_status(answer: Entry | Manifest) -> bool:
    return not isinstance(answer, Entry) and answer.get("kind") == "Status"
