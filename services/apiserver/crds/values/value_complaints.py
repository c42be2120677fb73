"""How complaints about values of a schema are worded and which reason they have, which depends on the release."""

from typing import Any, Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_float, go_quote, go_syntax
from services._rules.kubernetes.validation.field_errors import ErrorType, FieldError, Raw

NO_FIELD: Final = "<nil>"
"""What stands for the field of a complaint about a whole object."""
_PRECISE_SINCE: Final = 24
"""The first release with reasons for wrong types and lengths, and with the places of items."""
_IN_RANGE_SINCE: Final = 36
"""The first release that holds numbers against the range of their type and format."""


class Dialect(msgspec.Struct, frozen=True):
    """The rules and words of a release; `structural` of the schemas that defaults are held against."""

    release: int
    structural: bool = False
    """An int-or-string schema says nothing about types."""

    @property
    def precise(self) -> bool:
        """Whether complaints have reasons of their own and name the items of lists."""
        return self.release >= _PRECISE_SINCE

    @property
    def ranges(self) -> bool:
        """Whether numbers are held against the range of their type and format."""
        return self.release >= _IN_RANGE_SINCE

    def item(self, path: str, index: int) -> str:
        """Return the path of an item of a list."""
        return f"{path}[{index}]" if self.precise else path

    def wrong_type(self, path: str, wanted: str, found: str) -> FieldError:
        """Return the complaint about a value of another type or format."""
        kind = ErrorType.TYPE_INVALID if self.precise else ErrorType.INVALID
        detail = f"{path.removeprefix('.')} in body must be of type {wanted}: {go_quote(found)}"
        return FieldError(kind, field_of(path), detail, found)

    def too_long(self, path: str, value: str, most: int) -> FieldError:
        """Return the complaint about a text with too many characters."""
        if not self.precise:
            return unfit(path, value, f"should be at most {most} chars long")
        detail = "value is too long" if most < 0 else f"may not be more than {most} byte{'' if most == 1 else 's'}"
        return FieldError(ErrorType.TOO_LONG, field_of(path), detail)

    def too_many(self, path: str, what: str, found: int, most: int) -> FieldError:
        """Return the complaint about too many `what` (items, properties)."""
        if not self.precise:
            return unfit(path, most if what == "properties" else found, f"should have at most {most} {what}")
        detail = "has too many items" if most < 0 else f"must have at most {most} item{'' if most == 1 else 's'}"
        return FieldError(ErrorType.TOO_MANY, field_of(path), detail, found)

    def too_few(self, path: str, what: str, found: int, least: int) -> FieldError:
        """Return the complaint about too few `what` (items, properties)."""
        shown = least if what == "properties" and not self.precise else found
        return unfit(path, shown, f"should have at least {least} {what}")


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
