"""What an admission webhook is sent: the review of one write, with the object as the webhook knows it."""

from __future__ import annotations

import uuid
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.admission.chain import Attributes
from services.apiserver.admission.scales import scale_of
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry

BODIES: Final = frozenset({"binding", "eviction", "token"})
"""Subresources whose writes are of a body of their own, not of the object below which they are."""


def review_of(kind: Kind, attributes: Attributes, version: str, *, mutating: bool) -> tuple[Manifest, str]:
    """The AdmissionReview of a write and its uid; `kind` is the version of the object that the webhook asked for."""
    asked, call = attributes.kind, attributes.call
    uid = str(uuid.uuid4())
    request: Manifest = {
        "uid": uid,
        "kind": _kind(kind, attributes),
        "resource": _resource(kind),
    }
    if attributes.subresource:
        request["subResource"] = attributes.subresource
    request |= {"requestKind": _kind(asked, attributes), "requestResource": _resource(asked)}
    if attributes.subresource:
        request["requestSubResource"] = attributes.subresource
    if attributes.name and call.verb != "deletecollection":
        request["name"] = attributes.name
    namespace = attributes.name if asked.store_key == "/namespaces" else attributes.namespace
    if namespace:
        request["namespace"] = namespace
    request["operation"] = attributes.operation
    request["userInfo"] = call.user.user_info()
    new, old = attributes.new, attributes.old
    request["object"] = None if new is None else _dated(seen(new, kind, attributes), mutating=mutating)
    request["oldObject"] = None if old is None else seen(old, kind, attributes)
    request["dryRun"] = call.dry_run
    request["options"] = None if attributes.operation == "CONNECT" else _options(attributes)
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}, uid


def as_version(obj: Manifest, kind: Kind, other: Kind) -> Manifest:
    """An object in another version of its kind."""
    return obj if kind is other else other.from_store(kind.to_store(obj))


def seen(obj: Manifest, kind: Kind, attributes: Attributes) -> Manifest:
    """An object as a webhook sees it: in the version it asked for, and as the Scale of it at that subresource."""
    if attributes.subresource in BODIES or attributes.operation == "CONNECT":
        return obj
    if attributes.subresource == "scale":
        return scale_of(attributes.kind, obj, strict=False)
    return as_version(obj, attributes.kind, kind)


def _dated(obj: Manifest, *, mutating: bool) -> Manifest:
    meta = obj.get("metadata")
    if meta is None or "creationTimestamp" in meta or not mutating:
        return obj
    return {**obj, "metadata": {**meta, "creationTimestamp": None}}


def _options(attributes: Attributes) -> Manifest:
    call = attributes.call
    if attributes.operation == "DELETE":
        options = dict(call.options or {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"})
        if attributes.kind.store_key == "/namespaces" and attributes.old is not None:
            options.setdefault("preconditions", {"uid": attributes.old["metadata"]["uid"]})
        return options
    name = "CreateOptions" if attributes.operation == "CREATE" else "UpdateOptions"
    return {"kind": name, "apiVersion": "meta.k8s.io/v1", **(call.options or {})}


def _kind(kind: Kind, attributes: Attributes) -> Manifest:
    """The kind of the object sent: for a connection that of its options, at a subresource that of its body."""
    resource = kind.resource
    if attributes.operation == "CONNECT" and attributes.new is not None:
        return {"group": "", "version": "v1", "kind": attributes.new["kind"]}
    if attributes.subresource in BODIES and attributes.new is not None and attributes.new.get("kind"):
        group, _, version = str(attributes.new.get("apiVersion") or "v1").rpartition("/")
        return {"group": group, "version": version, "kind": attributes.new["kind"]}
    if attributes.subresource == "scale":
        return {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(kind: Kind) -> Manifest:
    resource = kind.resource
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def internal(text: str) -> ApiError:
    """A failure of a webhook as an answer."""
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})


def other_kind(old: Manifest, new: Manifest, registry: Registry) -> ApiError:
    """The answer to a patch that changes the type of an object."""
    version, name = str(new.get("apiVersion") or ""), str(new.get("kind") or "")
    if registry.by_api_version(version, name) is None:
        return internal(f'no kind "{name}" is registered for version "{version}" in scheme')
    parts = [(str(part.get("apiVersion") or "").rpartition("/"), part.get("kind")) for part in (new, old)]
    (_, _, has), kind = parts[0]
    (group, _, _), wanted = parts[1]
    inner = group.partition(".")[0] or "core"
    return internal(f"converting ({has}.{kind}) to ({inner}.{wanted}): unknown conversion")
