"""How complaints about values of a schema are worded, and which reason they have."""

from typing import Any, Final

from services._rules.kubernetes.patch.go_text import go_float, go_quote, go_syntax
from services._rules.kubernetes.validation.field_errors import ErrorType, FieldError, Raw

NO_FIELD: Final = "<nil>"
"""What stands for the field of a complaint about a whole object."""


def wrong_type(path: str, wanted: str, found: str) -> FieldError:
    """Return the complaint about a value of another type or format."""
    detail = f"{path.removeprefix('.')} in body must be of type {wanted}: {go_quote(found)}"
    return FieldError(ErrorType.TYPE_INVALID, field_of(path), detail, found)


def too_long(path: str, most: int) -> FieldError:
    """Return the complaint about a text with too many characters."""
    detail = "value is too long" if most < 0 else f"may not be more than {most} byte{'' if most == 1 else 's'}"
    return FieldError(ErrorType.TOO_LONG, field_of(path), detail)


def too_many(path: str, found: int, most: int) -> FieldError:
    """Return the complaint about too many items or properties."""
    detail = "has too many items" if most < 0 else f"must have at most {most} item{'' if most == 1 else 's'}"
    return FieldError(ErrorType.TOO_MANY, field_of(path), detail, found)


def too_few(path: str, what: str, found: int, least: int) -> FieldError:
    """Return the complaint about too few `what` (items, properties)."""
    return unfit(path, found, f"should have at least {least} {what}")


def field_of(path: str) -> str:
    """Return the field of a complaint about the value at a path."""
    return path.removeprefix(".") or NO_FIELD


def shown(value: Any) -> Any:
    """Return a value as complaints show it."""
    if isinstance(value, dict | list):
        return Raw(go_syntax(value))
    return Raw(go_float(value)) if isinstance(value, float) else value


def unfit(path: str, value: Any, text: str) -> FieldError:
    """Return the complaint that a value is not as it should be."""
    return FieldError(ErrorType.INVALID, field_of(path), f"{path.removeprefix('.')} in body {text}", shown(value))


def composed(path: str, text: str) -> FieldError:
    """Return the complaint about alternatives, which names no field."""
    return FieldError(ErrorType.INVALID, NO_FIELD, f"{go_quote(path.removeprefix('.'))} {text}", "")
