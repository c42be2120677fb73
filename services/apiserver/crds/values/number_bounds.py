"""Compiles the bounds of numbers in a schema, and the range that type and format imply."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from services._rules.kubernetes.patch.go_text import go_float
from services._rules.kubernetes.validation.field_errors import ErrorType, FieldError
from services.apiserver.crds.values.value_complaints import NO_FIELD, field_of, unfit

Schema = dict[str, Any]
Check = Callable[[float, str], list[FieldError]]

_LARGEST_EXACT: Final = 2**53
_LARGEST_FLOAT32: Final = 3.4028235677973366e38
"""What is smaller rounds to a number of 32 bits."""
_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def compile_number(schema: Schema) -> Check | None:
    """Return a function from a number and its path to what is wrong with it; None if everything fits."""
    limits = [schema.get(name) for name in ("multipleOf", "maximum", "minimum")]
    kind, name = str(schema.get("type", "")), str(schema.get("format", ""))
    ranged = kind == "integer" or (kind == "number" and name == "float")
    if not ranged and limits == [None, None, None]:
        return None
    step, most, least = limits
    below, above = bool(schema.get("exclusiveMaximum")), bool(schema.get("exclusiveMinimum"))

    def check(value: float, path: str) -> list[FieldError]:
        found: list[FieldError] = []

        def fits(number: float, what: str) -> bool:
            text = _out_of_range(number, kind, name) if ranged else ""
            if text:
                detail = f"{what} value must be of type {text} in {path.removeprefix('.')}"
                found.append(FieldError(ErrorType.INVALID, NO_FIELD, detail, ""))
            return not text

        fits(value, "Checked")
        if step is not None:
            found += _step(value, _native(step, value, fits(step, "MultipleOf")), path)
        if most is not None:
            bound = _native(most, value, fits(most, "Maximum boundary"))
            if value >= bound if below else value > bound:
                rule = "less than" if below else "less than or equal to"
                found.append(unfit(path, value, f"should be {rule} {_text(bound)}"))
        if least is not None:
            bound = _native(least, value, fits(least, "Minimum boundary"))
            if value <= bound if above else value < bound:
                rule = "greater than" if above else "greater than or equal to"
                found.append(unfit(path, value, f"should be {rule} {_text(bound)}"))
        return found

    return check


def _native(limit: float, value: float, in_range: bool) -> float:
    """Return a limit as Kubernetes compares it: a whole number is held against a whole number."""
    return int(limit) if in_range and isinstance(value, int) else limit


def _step(value: float, step: float, path: str) -> Iterator[FieldError]:
    if step <= 0:
        text = f"factor MultipleOf declared for {path.removeprefix('.')} must be positive: {_text(step)}"
        yield FieldError(ErrorType.INVALID, field_of(path), text, step)
    elif not _is_multiple(value, step):
        yield unfit(path, value, f"should be a multiple of {_text(step)}")


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        times = value / step
    except OverflowError:
        return False
    # Beyond these a number with a fraction cannot be told from one without.
    return abs(times) <= _LARGEST_EXACT and math.isclose(times, round(times), rel_tol=0, abs_tol=1e-9)


def _out_of_range(number: float, kind: str, name: str) -> str:
    """Return the type and format that a number exceeds; empty if it fits."""
    known = name if name in _FORMATS[kind] else ""
    if kind == "integer":
        bits = 31 if known == "int32" else 63
        fits = float(number).is_integer() and -(1 << bits) <= int(number) < 1 << bits
    else:
        fits = abs(number) < _LARGEST_FLOAT32
    return "" if fits else f"{kind} with format {known}" if known else f"{kind} (default format)"


def _text(value: float) -> str:
    return go_float(float(value))
