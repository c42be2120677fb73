"""Field errors and decode errors, rendered as a Kubernetes Status shows them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from services._rules.kubernetes.patch.go_text import go_quote


class ErrorType(enum.Enum):
    """What is wrong with a field; the value is (machine reason, beginning of the message)."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    NOT_FOUND = ("FieldValueNotFound", "Not found")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")


_WITHOUT_VALUE = (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL)


class Raw(msgspec.Struct, frozen=True):
    """A value that a message shows exactly as written here."""

    text: str


def show(value: Any) -> str:
    """Return the value as a field error shows it: strings quoted, numbers and booleans bare, the rest as JSON.

    A value that is not there is the text null.
    """
    if isinstance(value, Raw):
        return value.text
    if value is None:
        return '"null"'
    return go_quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def go_map(values: dict[str, str] | None) -> Raw:
    """Return a map of strings in the spelling in which label mismatches are reported."""
    if not values:
        return Raw("map[string]string(nil)")
    pairs = ", ".join(f"{show(key)}:{show(values[key])}" for key in sorted(values))
    return Raw(f"map[string]string{{{pairs}}}")


def go_strings(values: list[str]) -> Raw:
    """Return a list of strings in the spelling in which repeated and conflicting values are reported."""
    shown = ", ".join(f'"{value}"' for value in values)
    return Raw(f"[]string{{{shown}}}")


class FieldError(msgspec.Struct, frozen=True):
    """One thing wrong with one field of an object; `detail` may be empty."""

    type: ErrorType
    field: str
    detail: str = ""
    bad_value: Any = None

    @property
    def reason(self) -> str:
        """The machine-readable reason of the Status cause."""
        return self.type.value[0]

    def message(self) -> str:
        """The message of the Status cause (without the field)."""
        text = self.type.value[1]
        if self.type not in _WITHOUT_VALUE:
            text = f"{text}: {show(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def cause(self) -> dict[str, str]:
        """The entry of `details.causes` in a Status."""
        return {"reason": self.reason, "message": self.message(), "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message()}"


def aggregate(errors: Iterable[FieldError]) -> str:
    """Join errors as the message of an Invalid Status does: one bare, several in brackets, equal ones once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


Errors = Iterator[FieldError]


class DecodeError(ValueError):
    """The JSON does not have the shape of the kind; the text has the place and the error (answered with status 400)."""


def required(field: str, detail: str = "") -> FieldError:
    """A field that has to be there is not."""
    return FieldError(ErrorType.REQUIRED, field, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """A field has a value that breaks a rule."""
    return FieldError(ErrorType.INVALID, field, detail, value)


def duplicate(field: str, value: Any) -> FieldError:
    """A value occurs twice where it must be unique."""
    return FieldError(ErrorType.DUPLICATE, field, "", value)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """A value is outside its enumeration, which the message lists in the given order."""
    listed = ", ".join(show(item) for item in supported)
    return FieldError(ErrorType.NOT_SUPPORTED, field, f"supported values: {listed}" if listed else "", value)


def not_found(field: str, value: Any) -> FieldError:
    """A value names something that is not there."""
    return FieldError(ErrorType.NOT_FOUND, field, "", value)


def forbidden(field: str, detail: str) -> FieldError:
    """A field may not be set or changed here."""
    return FieldError(ErrorType.FORBIDDEN, field, detail)


def each(field: str, value: Any, problems: Iterable[str]) -> list[FieldError]:
    """One invalid value per problem found with it."""
    return [invalid(field, value, problem) for problem in problems]


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list has more items than `limit`."""
    return FieldError(ErrorType.TOO_MANY, field, f"must have at most {limit} items", count)


def too_long(field: str, value: Any, limit: int) -> FieldError:
    """A value has more bytes than `limit`."""
    return FieldError(ErrorType.TOO_LONG, field, f"must have at most {limit} bytes", value)
