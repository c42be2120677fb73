"""Errors of the API as Status objects, worded and coded as clients of Kubernetes expect them."""

from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, aggregate
from services.apiserver.kinds.kind_model import Kind, Resource


class ApiError(Exception):
    """A refused request; `status` is the Status object of the answer and `code` its HTTP code."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.headers = headers
        self.continue_ = ""
        """The token of a list that can go on all the same."""
        self.warnings: list[str] = []

    @property
    def status(self) -> Manifest:
        meta = {"continue": self.continue_} if self.continue_ else {}
        out: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Failure"}
        out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details
        out["code"] = self.code
        return out

    def encode(self) -> bytes:
        return msgspec.json.encode(self.status)


class PlainError(Exception):
    """A refusal in plain text, as for paths that no API serves."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def _details(resource: Resource | None, name: str, subresource: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    if name:
        out["name"] = name
    if resource is not None:
        if resource.group:
            out["group"] = resource.group
        out["kind"] = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return out


def not_found(resource: Resource, name: str, subresource: str = "") -> ApiError:
    shown = f"{resource.plural}/{subresource}" if subresource else resource.plural
    if resource.group:
        shown += f".{resource.group}"
    return ApiError(404, "NotFound", f'{shown} "{name}" not found', _details(resource, name, subresource))


def unnamed(name: str) -> ApiError:
    """400 for an object without a name, at the path of one with this name."""
    return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def other_name(given: str, name: str) -> ApiError:
    text = f"the name of the object ({given}) does not match the name on the URL ({name})"
    return bad_request(text)


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.group_resource} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, text: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {text}'
    return ApiError(409, "Conflict", message, _details(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def precondition_failed(kind: Kind, name: str, text: str) -> ApiError:
    """A delete precondition that does not hold; names the kind instead of the resource."""
    shown, details = kind.group_kind, {"name": name, "kind": kind.resource.kind}
    if kind.resource.group:
        details = {"name": name, "group": kind.resource.group, "kind": kind.resource.kind}
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {shown} "{name}": {text}', details)


def forbidden(resource: Resource, name: str, text: str, causes: list[dict[str, str]] | None = None) -> ApiError:
    details = _details(resource, name)
    if causes:
        details["causes"] = causes
    shown = f'{resource.group_resource} "{name}"' if name else resource.group_resource
    return ApiError(403, "Forbidden", f"{shown} is forbidden: {text}", details)


_MOST_TEXT = 512 * 1024


def _told(errors: list[FieldError]) -> list[FieldError]:
    """Return the errors that an answer has room for: all but for objects that are made to have very many."""
    size = 0
    for number, error in enumerate(errors, start=1):
        size += len(error.message()) + len(error.field)
        if size > _MOST_TEXT:
            return errors[:number]
    return errors


def invalid(group_kind: str, name: str, errors: list[FieldError]) -> ApiError:
    """Several field errors as one 422; `group_kind` is Kind or Kind.group."""
    errors = _told(errors)
    short, _, group = group_kind.partition(".")
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if short:
        details["kind"] = short
    details["causes"] = [e.cause() for e in errors]
    return ApiError(422, "Invalid", f'{group_kind} "{name}" is invalid: {aggregate(errors)}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def method_not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, {})


def too_many_requests(text: str = "Too many requests, please try again later.") -> ApiError:
    """429 with the time after which to try again."""
    return ApiError(429, "TooManyRequests", text, {"retryAfterSeconds": 1}, {"Retry-After": "1"})


def create_while(resource: Resource, state: str) -> ApiError:
    """405 for a new object of a kind that takes none in its present state."""
    return ApiError(405, "MethodNotAllowed", f"create not allowed while {state}", _details(resource, ""))


def internal(message: str) -> ApiError:
    """An error without a reason, code 500."""
    return ApiError(500, "", message)


def unsupported_media(accepted: list[str]) -> ApiError:
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", text)


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def timed_out() -> ApiError:
    """504 for a request that took longer than it may."""
    text = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    return ApiError(504, "Timeout", text, {})


def expired(requested: int, floor: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {requested} ({floor})")


def success(resource: Resource, name: str, uid: str) -> Manifest:
    """The answer to a deletion that removed the object."""
    details = {**_details(resource, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
