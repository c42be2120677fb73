"""Compiles a custom resource schema into a function that returns the errors of an object.

The order of complaints, their texts and their oddities (list items have no index in their path, a failed oneOf has no
path at all) are those of an API server. Lists of type set and map are checked apart from that, as it does.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_float, go_quote, go_syntax
from services._rules.kubernetes.patch.json_patch import same_json
from services._rules.kubernetes.patterns import matcher
from services._rules.kubernetes.validation.field_errors import ErrorType, FieldError, Raw, not_supported
from services.apiserver.crds import string_formats as formats

Schema = dict[str, Any]

_LARGEST_EXACT: Final = 2**53
NO_FIELD: Final = "<nil>"


class Result(msgspec.Struct):
    """Complaints about one value, and how much of the schema was matched (to choose the closest alternative)."""

    errors: list[FieldError] = []
    matched: int = 0

    def take(self, other: "Result") -> None:
        """Add the result of a schema within this one."""
        self.errors += other.errors
        self.matched += other.matched


Check = Callable[[Any, str, Result], None]


def compile_validate(schema: Schema) -> Callable[[Any], list[FieldError]]:
    """Return a function from an object to what is wrong with it."""
    check = _compile(schema)

    def validate(value: Any) -> list[FieldError]:
        result = Result()
        check(value, "", result)
        return result.errors

    return validate


def _compile(schema: Schema) -> Check:
    types = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else []
    if schema.get("type"):
        types = [schema["type"]]
    nullable = bool(schema.get("nullable"))
    format_name = str(schema.get("format", ""))
    enum = schema.get("enum")
    # In the order in which an API server complains.
    checks = [
        *_compositions(schema),
        *_strings(schema, format_name, types),
        *_numbers(schema),
        *_lists(schema),
    ]
    objects = _objects(schema)

    def check(value: Any, path: str, result: Result) -> None:
        result.matched += 1
        if value is None:
            if types and not nullable:
                result.errors.append(_type_error(path, ",".join(types), "null"))
        else:
            if types and (wrong := _wrong_type(value, types, format_name)):
                result.errors.append(_type_error(path, *wrong))
            for one in checks:
                one(value, path, result)
        if enum is not None and not any(same_json(value, allowed) for allowed in enum):
            shown = [item if isinstance(item, str) else msgspec.json.encode(item).decode() for item in enum]
            result.errors.append(not_supported(_field(path), _shown(value), shown))
        if objects is not None and isinstance(value, dict):
            objects(value, path, result)

    return check


def _wrong_type(value: Any, types: list[str], format_name: str) -> tuple[str, str] | None:
    """Return (wanted, found) if a value that is not null has none of the types."""
    found = _type_name(value)
    if found in types or (found == "integer" and "number" in types):
        return None
    if found == "number" and "integer" in types and value.is_integer():
        return None
    if format_name and formats.checker(format_name) and found not in ("string", "array"):
        go_format = {"integer": "int64", "number": "double"}.get(found, "")
        return format_name, go_format
    return ",".join(types), found


def _type_name(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _field(path: str) -> str:
    return path.removeprefix(".") or NO_FIELD


def _shown(value: Any) -> Any:
    if isinstance(value, dict | list):
        return Raw(go_syntax(value))
    return Raw(go_float(value)) if isinstance(value, float) else value


def _invalid(path: str, value: Any, text: str) -> FieldError:
    return FieldError(ErrorType.INVALID, _field(path), f"{path.removeprefix('.')} in body {text}", _shown(value))


def _type_error(path: str, wanted: str, found: str) -> FieldError:
    return _invalid(path, found, f"must be of type {wanted}: {go_quote(found)}")


def _number(value: float) -> str:
    return go_float(float(value))


def _compositions(schema: Schema) -> list[Check]:
    checks: list[Check] = []
    if schema.get("anyOf"):
        checks.append(_any_of([_compile(item) for item in schema["anyOf"]]))
    if schema.get("oneOf"):
        checks.append(_one_of([_compile(item) for item in schema["oneOf"]]))
    if schema.get("allOf"):
        checks.append(_all_of([_compile(item) for item in schema["allOf"]]))
    if isinstance(schema.get("not"), dict):
        checks.append(_not(_compile(schema["not"])))
    return checks


def _composed(path: str, text: str) -> FieldError:
    return FieldError(ErrorType.INVALID, NO_FIELD, f"{go_quote(path.removeprefix('.'))} {text}", "")


def _try(check: Check, value: Any, path: str) -> Result:
    result = Result()
    check(value, path, result)
    return result


def _any_of(alternatives: list[Check]) -> Check:
    def check(value: Any, path: str, result: Result) -> None:
        best: Result | None = None
        for alternative in alternatives:
            tried = _try(alternative, value, path)
            if not tried.errors:
                result.matched += tried.matched
                return
            if best is None or tried.matched > best.matched:
                best = tried
        result.errors.append(_composed(path, "must validate at least one schema (anyOf)"))
        if best is not None:
            result.take(best)

    return check


def _one_of(alternatives: list[Check]) -> Check:
    def check(value: Any, path: str, result: Result) -> None:
        best: Result | None = None
        valid = 0
        for alternative in alternatives:
            tried = _try(alternative, value, path)
            if not tried.errors:
                valid += 1
                best = None
            elif not valid and (best is None or tried.matched > best.matched):
                best = tried
        if valid == 1:
            return
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        result.errors.append(_composed(path, f"must validate one and only one schema (oneOf). {found}"))
        if best is not None:
            result.take(best)

    return check


def _all_of(parts: list[Check]) -> Check:
    def check(value: Any, path: str, result: Result) -> None:
        valid = 0
        for part in parts:
            tried = _try(part, value, path)
            valid += not tried.errors
            result.take(tried)
        if valid < len(parts):
            none = "" if valid else ". None validated"
            result.errors.append(_composed(path, f"must validate all the schemas (allOf){none}"))

    return check


def _not(unwanted: Check) -> Check:
    def check(value: Any, path: str, result: Result) -> None:
        if not _try(unwanted, value, path).errors:
            result.errors.append(_composed(path, "must not validate the schema (not)"))

    return check


def _strings(schema: Schema, format_name: str, types: list[str]) -> list[Check]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern")
    matches = matcher(pattern) if pattern else None
    known = formats.checker(format_name) if format_name and types == ["string"] else None
    if longest is None and shortest is None and matches is None and known is None:
        return []

    def check(value: Any, path: str, result: Result) -> None:
        if not isinstance(value, str):
            return
        if longest is not None and len(value) > longest:
            result.errors.append(_invalid(path, value, f"should be at most {longest} chars long"))
        elif shortest is not None and len(value) < shortest:
            result.errors.append(_invalid(path, value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            result.errors.append(_invalid(path, value, f"should match '{pattern}'"))
        if known is not None and not known(value):
            result.errors.append(_invalid(path, value, f"must be of type {format_name}: {go_quote(value)}"))

    return [check]


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        times = value / step
    except OverflowError:
        return False
    # Beyond these a number with a fraction cannot be told from one without.
    return abs(times) <= _LARGEST_EXACT and math.isclose(times, round(times), rel_tol=0, abs_tol=1e-9)


def _numbers(schema: Schema) -> list[Check]:
    most, least, step = schema.get("maximum"), schema.get("minimum"), schema.get("multipleOf")
    below, above = bool(schema.get("exclusiveMaximum")), bool(schema.get("exclusiveMinimum"))
    if most is None and least is None and step is None:
        return []

    def check(value: Any, path: str, result: Result) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if step is not None and step <= 0:
            text = f"factor MultipleOf declared for {path.removeprefix('.')} must be positive: {_number(step)}"
            result.errors.append(FieldError(ErrorType.INVALID, _field(path), text, value))
        elif step is not None and not _is_multiple(value, step):
            result.errors.append(_invalid(path, value, f"should be a multiple of {_number(step)}"))
        if most is not None and (value >= most if below else value > most):
            rule = "less than" if below else "less than or equal to"
            result.errors.append(_invalid(path, value, f"should be {rule} {_number(most)}"))
        if least is not None and (value <= least if above else value < least):
            rule = "greater than" if above else "greater than or equal to"
            result.errors.append(_invalid(path, value, f"should be {rule} {_number(least)}"))

    return [check]


def _lists(schema: Schema) -> list[Check]:
    items = _compile(schema["items"]) if isinstance(schema.get("items"), dict) else None
    most, least = schema.get("maxItems"), schema.get("minItems")
    if items is None and most is None and least is None:
        return []

    def check(value: Any, path: str, result: Result) -> None:
        if not isinstance(value, list):
            return
        if items is not None:
            for item in value:
                items(item, path, result)
        if least is not None and len(value) < least:
            result.errors.append(_invalid(path, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            result.errors.append(_invalid(path, len(value), f"should have at most {most} items"))

    return [check]


def _objects(schema: Schema) -> Callable[[dict[str, Any], str, Result], None] | None:
    fields = {name: _compile(field) for name, field in schema.get("properties", {}).items()}
    more = _compile(schema["additionalProperties"]) if isinstance(schema.get("additionalProperties"), dict) else None
    required = tuple(schema.get("required") or ())
    defaulted = {name for name, field in schema.get("properties", {}).items() if "default" in field}
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if not fields and more is None and not required and most is None and least is None:
        return None

    def check(value: dict[str, Any], path: str, result: Result) -> None:
        if least is not None and len(value) < least:
            result.errors.append(_invalid(path, least, f"should have at least {least} properties"))
            return
        if most is not None and len(value) > most:
            result.errors.append(_invalid(path, most, f"should have at most {most} properties"))
            return
        for name, item in value.items():
            field = fields.get(name, more)
            if field is not None:
                field(item, f"{path}.{name}", result)
        for name in required:
            if name not in value and name not in defaulted:
                result.errors.append(FieldError(ErrorType.REQUIRED, f"{path}.{name}".removeprefix(".")))

    return check
