"""One patch request in any of its four formats, applied to the present state as often as a concurrent write asks."""

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.patch import json_patch as patches
from services._rules.kubernetes.patch.conversion import check_conversion
from services._rules.kubernetes.patch.strategic_merge import strategic_merge
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.core import status_errors as status
from services.apiserver.core.cloning import clone
from services.apiserver.core.request import write_options
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.http import codec
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.writes.object_writes import Objects

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class PatchRequest:
    """A decoded patch; raises ApiError for a format or document that cannot be used."""

    def __init__(self, objects: Objects, kind: Kind, content_type: str | None, raw: bytes, call: Call) -> None:
        self._objects, self._kind, self._raw, self._call = objects, kind, raw, call
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
        found = write_options(query)
        if self.applies:
            if not query.get("fieldManager"):
                found.append(fields.required("fieldManager", "is required for apply patch"))
            self._call.force = query.get("force", "") in ("true", "1")
        elif query.get("force"):
            found.append(fields.forbidden("force", "may not be specified for non-apply patch"))
        if found:
            raise status.invalid("PatchOptions.meta.k8s.io", "", found)

    def _document(self) -> Any:
        """The patch document, decoded when it is first needed (a missing object is found before a bad document)."""
        if self._decoded:
            return self._body
        if self.applies:
            self._body = codec.decode_yaml(self._raw)
            if not isinstance(self._body, dict):
                raise status.bad_request("error decoding YAML: a document with an object was expected")
        elif self.format == MERGE:
            try:
                self._body = codec.decode_json(self._raw)
            except ApiError as e:
                raise status.internal("Invalid JSON Patch") from e
        else:
            if not self._raw:
                raise status.bad_request("EOF")
            try:
                self._body = codec.decode_json(self._raw)
            except ApiError as e:
                text = e.message.rpartition("json parse error: ")[2]
                raise status.bad_request(text) from e
        self._decoded = True
        return self._body

    def apply(self, old: Manifest) -> Manifest:
        """The new object built from `old` (which is not changed)."""
        kind, body = self._kind, self._document()
        if self.applies:
            self._check_apply(body)
            new = self._objects.ownership.applied(kind, old, body, self._call)
            return self._finish(clone(new))
        base = clone(old)
        try:
            if self.format == JSON_PATCH:
                new = patches.json_patch(base, body)
            elif self.format == MERGE:
                new = patches.merge_patch(base, body)
            else:
                new = strategic_merge(base, body, kind.schema)
                check_conversion(new, body, kind.schema)
        except patches.PatchError as e:
            raise ApiError(e.status, e.reason, e.message, e.details) from e
        return self._finish(new)

    def _finish(self, new: Any) -> Manifest:
        if not isinstance(new, dict):
            raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
        try:
            return self._objects.decode(self._kind, new, None, self._call)
        except ApiError as e:
            if e.code == 400 and not self.applies and self.format == STRATEGIC:
                error = fields.invalid("patch", self._raw.decode("utf-8", "replace"), e.message)
                raise status.invalid("", "", [error]) from e
            raise

    def new_object(self, namespace: str, name: str) -> Manifest:
        """The object an apply patch creates."""
        body = self._document()
        self._check_apply(body)
        new = clone(self._objects.ownership.applied(self._kind, None, body, self._call))
        meta = new.get("metadata")
        if not isinstance(meta, dict) or not meta.get("name"):
            raise status.bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
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
        if isinstance(meta, dict) and meta.get("managedFields"):
            raise status.bad_request("metadata.managedFields must be nil")
