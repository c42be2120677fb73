"""Decides the answer to one review: reads the request, asks the rules, and builds the response.

What a review says is not trusted: its types are checked before a rule sees them. Source: docs/sources.md#admission.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.admission import Admitted, Context, Denied, Operation
from services._rules.admission.webhook_table import DELETION, Hook
from services._rules.admission.write_steps import Write, check_raw, mutate, refusal
from services._rules.binding_versions import ConversionError, converted
from services._rules.kubernetes.patch.json_difference import json_difference

REVIEW_API: Final = "admission.k8s.io/v1"
CONVERSION_API: Final = "apiextensions.k8s.io/v1"
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
Outcome = Literal["allowed", "denied", "failed"]


class Malformed(ValueError):
    """A body that is no review; the message says what it has to be."""


class Kind(Struct, frozen=True):
    """The kind of the objects under review."""

    kind: str
    group: str = ""
    version: str = ""


class Resource(Struct, frozen=True):
    """The resource that the request names."""

    resource: str = ""
    group: str = ""


class Request(Struct, frozen=True, rename="camel"):
    """What of a review's request is used."""

    uid: str
    kind: Kind
    operation: str
    resource: Resource = Resource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class _Metadata(Struct, frozen=True, rename="camel"):
    """The types that rules rely on; an API server has checked them."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    finalizers: list[str] | None = None


class _Head(Struct, frozen=True):
    metadata: _Metadata | None = None


class _Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


class Conversion(Struct, frozen=True):
    """What of a conversion's request is used."""

    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    objects: list[dict[str, Any]]


class _ConversionReview(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Conversion


class Answer(Struct, frozen=True):
    """An answer: the operations that change the object, or the Status of a refusal."""

    patch: tuple[dict[str, Any], ...] = ()
    refused: Manifest | None = None

    @property
    def outcome(self) -> Outcome:
        """What happened to the request, as metrics count it."""
        if self.refused is None:
            return "allowed"
        return "failed" if self.refused["code"] >= 500 else "denied"


def read_review(body: bytes) -> Request:
    """The request of an AdmissionReview; raises Malformed."""
    review = _read(body, _Review, "AdmissionReview", REVIEW_API)
    return cast("_Review", review).request


def read_conversion(body: bytes) -> Conversion:
    """The request of a ConversionReview; raises Malformed."""
    review = _read(body, _ConversionReview, "ConversionReview", CONVERSION_API)
    return cast("_ConversionReview", review).request


def write_of(hook: Hook, request: Request) -> Write | Denied:
    """The write that a webhook is asked about; a Denied for one that it cannot answer for."""
    if hook.kind not in (DELETION, request.kind.kind):
        found = request.kind.kind
        text = f"{hook.path} answers for {hook.kind}, not for {found}: correct the rules of this webhook configuration"
        return Denied("decode", 400, text)
    if request.operation not in _OPERATIONS:
        text = f"operation {request.operation!r} is not reviewed here: name {', '.join(_OPERATIONS)} in the rules"
        return Denied("decode", 400, text)
    deletes = request.operation == "DELETE"
    for field, value in (("object", request.object), ("oldObject", request.old_object)):
        if value is None:
            if field == ("oldObject" if deletes else "object"):
                return Denied("decode", 400, f"request.{field}: Required value: {request.operation} needs it")
            continue
        try:
            msgspec.convert(value, _Head)
        except msgspec.ValidationError as problem:
            return Denied("decode", 400, f"request.{field}: {problem}")
    subject = request.old_object if deletes else request.object
    return Write(
        kind=request.kind.kind,
        version=request.kind.version,
        operation=cast("Operation", request.operation),
        namespace=request.namespace,
        # The deletion of a collection and a generated name come without one.
        name=request.name or ((subject or {}).get("metadata") or {}).get("name") or "",
        subresource=request.sub_resource,
        new=None if deletes else request.object,
        old=request.old_object if request.operation != "CREATE" else None,
        dry_run=bool(request.dry_run),
    )


def decide(hook: Hook, write: Write, context: Context) -> Admitted | Denied:
    """What the rules say of a write: with its defaults where the webhook mutates.

    A field of a wrong type stays as it is: between both steps the schema refuses it, with its place and what it may be.
    """
    if hook.step == "validating":
        # Another webhook answers for the protection from deletion.
        guards_only = write.operation == "DELETE" and hook.kind != DELETION
        return Admitted({}) if guards_only else check_raw(write, context)
    decision = mutate(write, context)
    if isinstance(decision, Denied) and decision.code == 400 and hook.checked_later:
        return Admitted(write.new or {})
    return decision


def answer_of(request: Request, write: Write | None, decision: Admitted | Denied) -> Answer:
    """The answer for a decision: what changes of the object, or why it is refused."""
    if isinstance(decision, Denied):
        write = write or Write(request.kind.kind, request.kind.version, "CREATE", name=request.name)
        return Answer(refused=refusal(write, decision, request.resource.group, request.resource.resource))
    if write is None or write.new is None:
        return Answer()
    return Answer(tuple(json_difference(write.new, decision.object)))


def review_document(uid: str, answer: Answer) -> bytes:
    """The AdmissionReview to answer with."""
    response: Manifest = {"uid": uid, "allowed": answer.refused is None}
    if answer.refused is not None:
        response["status"] = answer.refused
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": REVIEW_API, "response": response})


def conversion_document(conversion: Conversion) -> tuple[bytes, Outcome]:
    """The ConversionReview to answer with, and what happened; one object that cannot be converted refuses all."""
    response: Manifest = {"uid": conversion.uid}
    outcome: Outcome = "allowed"
    try:
        response["convertedObjects"] = [converted(obj, conversion.desired) for obj in conversion.objects]
        response["result"] = {"status": "Success"}
    except ConversionError as problem:
        outcome = "denied"
        response["result"] = {"status": "Failure", "code": 422, "reason": "Invalid", "message": str(problem)}
    review = {"kind": "ConversionReview", "apiVersion": CONVERSION_API, "response": response}
    return msgspec.json.encode(review), outcome


def _read(body: bytes, shape: type[Struct], kind: str, api: str) -> Struct:
    try:
        review = msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as problem:
        raise Malformed(f"the body is no {kind}: {problem}") from None
    except (msgspec.MsgspecError, UnicodeError) as problem:
        raise Malformed(f"the body is no JSON: {problem}; send a {kind} of {api}") from None
    except RecursionError:
        raise Malformed(f"the body is nested too deep; send a {kind} of {api}") from None
    found = (getattr(review, "kind", ""), getattr(review, "api_version", ""))
    if found != (kind, api):
        raise Malformed(f"{found[0]} of {found[1]} is not answered here; send a {kind} of {api}")
    return review
