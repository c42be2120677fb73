"""One patch request in any of its four formats, applied to the present state as often as a concurrent write asks."""

import re
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.patch import json_patch as patches
from services._rules.kubernetes.patch.conversion import check_conversion
from services._rules.kubernetes.patch.strategic_merge import strategic_merge
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.core import status_errors as status
from services.apiserver.core.cloning import clone
from services.apiserver.core.request import truth, write_options
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.http import codec
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.writes.object_writes import Objects

_TRAILING = re.compile(r"trailing characters \(byte ([0-9]+)\)")
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def check_patch_options(query: dict[str, str], found: list[fields.FieldError]) -> None:
    """Raise 422 for options that no patch takes, and for what was found wrong with them before."""
    found = found + write_options(query)
    if found:
        raise status.invalid("PatchOptions.meta.k8s.io", "", found)


def unfit(shown: bytes, error: ApiError) -> ApiError:
    """The refusal of a patch whose result is no object of the kind; of a strategic one the patch is shown itself."""
    return status.invalid("", "", [fields.invalid("patch", shown.decode("utf-8", "replace"), error.message)])


class PatchRequest:
    """A decoded patch; raises ApiError for a format or document that cannot be used."""

    def __init__(
        self, objects: Objects, kind: Kind, content_type: str | None, raw: bytes, call: Call, subresource: str = ""
    ) -> None:
        self._objects, self._kind, self._raw, self._call = objects, kind, raw, call
        self._subresource = subresource
        self.format = codec.media_type(content_type)
        custom = kind.custom
        if self.format not in (JSON_PATCH, MERGE, STRATEGIC, APPLY) or (custom and self.format == STRATEGIC):
            if custom:
                raise status.unsupported_media([JSON_PATCH, MERGE, APPLY])
            raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        self.applies = call.applied = self.format == APPLY
        self._body: Any = None
        self._decoded = False

    def check(self, query: dict[str, str]) -> None:
        """Check the options that belong to patches."""
        found: list[fields.FieldError] = []
        if self.applies:
            if not query.get("fieldManager"):
                found.append(fields.required("fieldManager", "is required for apply patch"))
            self._call.force = truth(query.get("force"))
        elif "force" in query:
            found.append(fields.forbidden("force", "may not be specified for non-apply patch"))
        check_patch_options(query, found)

    def _document(self) -> Any:
        """The patch document, decoded when it is first needed (a missing object is found before a bad document)."""
        if self._decoded:
            return self._body
        if self.applies:
            body = codec.decode_yaml(self._raw)
            self._body = {} if body is None else body
            if not isinstance(self._body, dict):
                raise status.bad_request(
                    "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
                    f"{patches.json_type(body)} into Go value of type map[string]interface {{}}"
                )
        elif self.format == MERGE:
            try:
                self._body = codec.decode_json(self._raw)
            except ApiError as e:
                if not e.message.startswith(codec.GO_ERROR):
                    raise
                raise status.internal("Invalid JSON Patch") from e
        elif self.format == STRATEGIC:
            self._body = _first_value(self._raw)
        else:
            try:
                self._body = codec.decode_json(self._raw)
            except ApiError as e:
                raise status.bad_request(_parser_text(e)) from e
        self._decoded = True
        return self._body

    def apply(self, old: Manifest) -> Manifest:
        """The new object built from `old` (which is not changed)."""
        kind, body = self._kind, self._document()
        if self.applies:
            self._check_apply(body)
            new = self._objects.ownership.applied(kind, old, body, self._call, self._subresource)
            return self._finish(clone(new))
        base = clone(old)
        try:
            if self.format == JSON_PATCH:
                new = patches.json_patch(base, body, absent_is_null=True)
                codec.refuse_deep(new)
            elif self.format == MERGE:
                new = patches.merge_patch(base, body)
            else:
                new = strategic_merge(base, body, kind.schema)
                check_conversion(new, body, kind.schema)
                # Such a patch does not say what an object is.
                new |= {name: base[name] for name in ("apiVersion", "kind") if name in base}
        except patches.PatchError as e:
            raise ApiError(e.status, e.reason, e.message, e.details) from e
        return self._finish(new)

    def _finish(self, new: Any) -> Manifest:
        if not isinstance(new, dict):
            text = f"json parse error: json: cannot unmarshal {patches.json_type(new)} into Go value of type struct"
            raise status.bad_request(f"couldn't get version/kind; {text}")
        try:
            return self._objects.decode(self._kind, new, None, self._call)
        except ApiError as e:
            if e.code != 400 or self.applies:
                raise
            # A strategic merge patch is shown itself, of the others the object that they lead to.
            shown = self._raw if self.format == STRATEGIC else msgspec.json.encode(new)
            raise unfit(shown, e) from e

    def new_object(self, namespace: str, name: str) -> Manifest:
        """The object an apply patch creates."""
        body = self._document()
        self._check_apply(body)
        new = clone(self._objects.ownership.applied(self._kind, None, body, self._call))
        meta = new.get("metadata")
        if not isinstance(meta, dict) or not meta.get("name"):
            raise status.unnamed(name)
        meta.pop("resourceVersion", None)
        if meta.get("uid"):
            text = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise status.conflict(self._kind.resource, meta["name"], text)
        if self._kind.resource.namespaced:
            meta.setdefault("namespace", namespace)
        return self._objects.decode(self._kind, new, None, self._call)

    def _check_apply(self, body: Manifest) -> None:
        resource = self._kind.resource
        if body.get("apiVersion", "") != resource.api_version:
            raise status.bad_request(
                f"Incorrect version specified in apply patch. Specified patch version: {body.get('apiVersion', '')}, "
                f"expected: {resource.api_version}"
            )
        meta = body.get("metadata")
        if isinstance(meta, dict) and meta.get("managedFields") is not None:
            raise status.bad_request("metadata.managedFields must be nil")
        kind = body.get("kind") or ""
        if kind != resource.kind and self._objects.registry.by_api_version(resource.api_version, str(kind)) is None:
            where = f"{resource.group}/{resource.version}, Kind={kind}"
            raise status.internal(f"failed to create typed patch object: no corresponding type for {where}")


def _first_value(raw: bytes) -> Any:
    """The JSON value that a body begins with; what follows it is not read."""
    if not raw:
        raise status.bad_request("EOF")
    try:
        return codec.decode_json(raw)
    except ApiError as e:
        end = _TRAILING.search(e.message)
        if end is not None:
            return codec.decode_json(raw[: int(end.group(1))])
        text = _parser_text(e)
        raise status.bad_request("unexpected EOF" if text == "unexpected end of JSON input" else text) from e


def _parser_text(error: ApiError) -> str:
    return error.message.rpartition("json parse error: ")[2]
