"""Causes of a refusal: one per field, in the classes that Kubernetes uses."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

_LONGEST_VALUE: Final = 256


class Cause(Struct, frozen=True):
    """One violated rule; `reason` is the machine-readable class, `field` the path of the value."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, detail: str = "") -> Cause:
    """A value is missing."""
    return Cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> Cause:
    """A value breaks a rule."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: Any, accepted: Iterable[str]) -> Cause:
    """A value is none of those that are known."""
    values = ", ".join(f'"{item}"' for item in accepted)
    return Cause("FieldValueNotSupported", field, f"Unsupported value: {_shown(value)}: supported values: {values}")


def duplicate(field: str, value: Any) -> Cause:
    """A value appears twice where it must be unique."""
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}")


def forbidden(field: str, detail: str) -> Cause:
    """A value must not be set here."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def each(field: str, value: Any, problems: Iterable[str]) -> list[Cause]:
    """One invalid value per problem found with it."""
    return [invalid(field, value, problem) for problem in problems]


def summary(causes: Iterable[Cause]) -> str:
    """All causes as one message."""
    texts = list(dict.fromkeys(map(str, causes)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
