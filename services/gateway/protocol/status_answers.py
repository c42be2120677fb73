"""Errors as Kubernetes Status objects, and which form of answer a request accepts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.content_negotiation import JSON, clauses, view_of
from services.gateway.protocol.served_resources import GROUP, Resource
from services.gateway.views.view_shapes import encode


class Failure(Exception):
    """An answer other than the one asked for."""

    def __init__(self, code: int, reason: str, message: str, details: Manifest | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def status(self) -> Manifest:
        """The Status object."""
        status: Manifest = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status

    def encode(self) -> bytes:
        """The Status object as JSON."""
        return encode(self.status)


def not_found(resource: Resource, name: str) -> Failure:
    """404 for an object."""
    details: Manifest = {"name": name, "group": GROUP, "kind": resource.plural}
    return Failure(404, "NotFound", f'{resource.full_name} "{name}" not found', details)


def no_such_path() -> Failure:
    """404 for a path that leads nowhere."""
    return Failure(404, "NotFound", "the server could not find the requested resource", {})


def bad_request(message: str) -> Failure:
    """400."""
    return Failure(400, "BadRequest", message)


def read_only(resource: Resource, method: str) -> Failure:
    """405 for every write."""
    message = (
        f"{method} is not possible: {resource.full_name} are projections of the log and cannot be written; "
        f"{resource.hint} instead"
    )
    return Failure(405, "MethodNotAllowed", message, {"group": GROUP, "kind": resource.plural})


def unauthorized(message: str) -> Failure:
    """401."""
    return Failure(401, "Unauthorized", message)


def expired(asked: str) -> Failure:
    """410: what follows a revision is not kept any more, or never was by this instance."""
    return Failure(410, "Expired", f"too old resource version: {asked}; list again")


def too_large(asked: str, current: str) -> Failure:
    """504: the log has not come so far."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return Failure(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


class Form(Struct, frozen=True):
    """The form of an answer: `view` is empty for the object itself, `version` that of meta.k8s.io."""

    view: str = ""
    version: str = "v1"

    @property
    def table(self) -> bool:
        """Whether rows for people are wanted."""
        return self.view == "Table"

    @property
    def partial(self) -> bool:
        """Whether only metadata is wanted."""
        return self.view.startswith("Partial")


@lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """The form an Accept header asks for; a wish for protobuf is fulfilled with JSON. Raises Failure 406."""
    if not accept:
        return Form()
    for media, parameters in clauses(accept):
        asked = view_of(parameters)
        if asked is not None and media in JSON:
            return Form(*asked)
    raise Failure(406, "NotAcceptable", "only the following media types are accepted: application/json")


@lru_cache(maxsize=64)
def discovery_version(accept: str) -> str:
    """Version of apidiscovery.k8s.io that an Accept header asks for; empty when it wants the plain documents."""
    for media, parameters in clauses(accept):
        if media not in JSON:
            continue
        wanted: Any = parameters.get("as", "")
        if wanted == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io":
            if parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
        elif not wanted:
            return ""
    return ""
