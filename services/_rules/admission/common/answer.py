"""Inputs of an admission decision beside the object, and its result."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, aggregate

_LONGEST_MESSAGE: Final = 16 * 1024
Stage = Literal["decode", "mutating", "validating"]


class Context(Struct, frozen=True):
    """The surroundings of a request.

    `identity` is a fresh UUID for the case that the object needs one, `now` the time in RFC 3339. `existing` are the
    stored objects of the same kind where the rules compare them.
    """

    namespace: str = ""
    identity: str = ""
    now: str = ""
    existing: Sequence[Mapping[str, Any]] = ()
    allow_no_execute_taint_policy: bool = False
    multiple_pod_templates: bool = False
    resource_models: bool = True


class Admitted(Struct, frozen=True):
    """The request goes on, with this object (for a deletion the one that is deleted)."""

    object: Manifest


class Denied(Struct, frozen=True):
    """The request ends here: the step that refused it, the HTTP status, the text for the user, the single causes.

    `reason` is the machine-readable reason of the answer where it is not the usual one of the status.
    """

    stage: Stage
    code: int
    message: str
    causes: tuple[FieldError, ...] = ()
    reason: str = ""


class Refusal(Exception):
    """Raised inside a step to deny a request with something else than a list of field causes."""

    def __init__(self, message: str, code: int = 403) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def denied(causes: Sequence[FieldError], code: int = 403) -> Denied:
    """A denial by field rules."""
    text = aggregate(causes)
    message = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
    return Denied("validating", code, message, tuple(causes))
