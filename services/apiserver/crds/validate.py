"""Compiles a custom resource schema into a function that returns the errors of an object.

The order of complaints, their texts and their oddities (a failed oneOf has no path at all) are those of an API server.
Lists of type set and map are checked apart from that, as it does.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from services._rules.kubernetes.patch.json_patch import same_json
from services._rules.kubernetes.patterns import matcher
from services._rules.kubernetes.validation import string_formats as formats
from services._rules.kubernetes.validation.field_errors import ErrorType, FieldError, not_supported
from services.apiserver.crds.values.number_bounds import compile_number
from services.apiserver.crds.values.value_complaints import (
    composed,
    field_of,
    shown,
    too_few,
    too_long,
    too_many,
    unfit,
    wrong_type,
)

Schema = dict[str, Any]


class Result(msgspec.Struct):
    """Complaints about one value, and how much of the schema was matched (to choose the closest alternative)."""

    errors: list[FieldError] = []
    matched: int = 0

    def take(self, other: "Result") -> None:
        """Add the result of a schema within this one."""
        self.errors += other.errors
        self.matched += other.matched


Check = Callable[[Any, str, Result], None]


def compile_validate(schema: Schema, *, structural: bool = False) -> Callable[[Any], list[FieldError]]:
    """Return a function from an object to what is wrong with it.

    `structural`: the object is a default, of which an int-or-string schema demands no type.
    """
    check = _compile(schema, structural=structural)

    def validate(value: Any) -> list[FieldError]:
        result = Result()
        check(value, "", result)
        return list({(error.type, error.field, error.detail): error for error in result.errors}.values())

    return validate


def _compile(schema: Schema, *, structural: bool) -> Check:
    types = [schema["type"]] if schema.get("type") else []
    if schema.get("x-kubernetes-int-or-string") and not structural:
        types = types or ["integer", "string"]
    nullable = bool(schema.get("nullable"))
    format_name = str(schema.get("format", ""))
    enum = schema.get("enum")
    # In the order in which an API server complains.
    checks = [
        *_compositions(schema, structural=structural),
        *_strings(schema, format_name, types),
        *_numbers(schema),
        *_lists(schema, structural=structural),
    ]
    objects = _objects(schema, structural=structural)

    def check(value: Any, path: str, result: Result) -> None:
        result.matched += 1
        if value is None:
            if types and not nullable:
                result.errors.append(wrong_type(path, ",".join(types), "null"))
        else:
            if types and (wrong := _wrong_type(value, types, format_name)):
                result.errors.append(wrong_type(path, *wrong))
            for one in checks:
                one(value, path, result)
        if enum is not None and not any(same_json(value, allowed) for allowed in enum):
            allowed_texts = [item if isinstance(item, str) else msgspec.json.encode(item).decode() for item in enum]
            result.errors.append(not_supported(field_of(path), shown(value), allowed_texts))
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
    if found == "array" and formats.checker(format_name) and not {"integer", "number"}.intersection(types):
        return None  # Kubernetes takes a list for a text of a known format.
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


def _compositions(schema: Schema, *, structural: bool) -> list[Check]:
    checks: list[Check] = []
    if schema.get("anyOf"):
        checks.append(_any_of([_compile(item, structural=structural) for item in schema["anyOf"]]))
    if schema.get("oneOf"):
        checks.append(_one_of([_compile(item, structural=structural) for item in schema["oneOf"]]))
    if schema.get("allOf"):
        checks.append(_all_of([_compile(item, structural=structural) for item in schema["allOf"]]))
    if isinstance(schema.get("not"), dict):
        checks.append(_not(_compile(schema["not"], structural=structural)))
    return checks


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
        result.errors.append(composed(path, "must validate at least one schema (anyOf)"))
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
        result.errors.append(composed(path, f"must validate one and only one schema (oneOf). {found}"))
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
            result.errors.append(composed(path, f"must validate all the schemas (allOf){none}"))

    return check


def _not(unwanted: Check) -> Check:
    def check(value: Any, path: str, result: Result) -> None:
        if not _try(unwanted, value, path).errors:
            result.errors.append(composed(path, "must not validate the schema (not)"))

    return check


def _strings(schema: Schema, format_name: str, types: list[str]) -> list[Check]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern")
    matches = matcher(pattern) if pattern else None
    any_text = not types or "string" in types
    known = formats.checker(format_name) if format_name and any_text else None
    if longest is None and shortest is None and matches is None and known is None:
        return []

    def check(value: Any, path: str, result: Result) -> None:
        if not isinstance(value, str):
            return
        if longest is not None and len(value) > longest:
            result.errors.append(too_long(path, longest))
        elif shortest is not None and len(value) < shortest:
            result.errors.append(unfit(path, value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            result.errors.append(unfit(path, value, f"should match '{pattern}'"))
        if known is not None and not known(value):
            result.errors.append(wrong_type(path, format_name, value))

    return [check]


def _numbers(schema: Schema) -> list[Check]:
    problems = compile_number(schema)
    if problems is None:
        return []

    def check(value: Any, path: str, result: Result) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            result.errors += problems(value, path)

    return [check]


def _lists(schema: Schema, *, structural: bool) -> list[Check]:
    items = _compile(schema["items"], structural=structural) if isinstance(schema.get("items"), dict) else None
    most, least = schema.get("maxItems"), schema.get("minItems")
    if items is None and most is None and least is None:
        return []

    def check(value: Any, path: str, result: Result) -> None:
        if not isinstance(value, list):
            return
        if items is not None:
            for index, item in enumerate(value):
                items(item, f"{path}[{index}]", result)
        if least is not None and len(value) < least:
            result.errors.append(too_few(path, "items", len(value), least))
        if most is not None and len(value) > most:
            result.errors.append(too_many(path, len(value), most))

    return [check]


def _objects(schema: Schema, *, structural: bool) -> Callable[[dict[str, Any], str, Result], None] | None:
    fields = {name: _compile(field, structural=structural) for name, field in schema.get("properties", {}).items()}
    rest = schema.get("additionalProperties")
    more = _compile(rest, structural=structural) if isinstance(rest, dict) else None
    required = tuple(schema.get("required") or ())
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if not fields and more is None and not required and most is None and least is None:
        return None

    def check(value: dict[str, Any], path: str, result: Result) -> None:
        if least is not None and len(value) < least:
            result.errors.append(too_few(path, "properties", len(value), least))
        elif most is not None and len(value) > most:
            result.errors.append(too_many(path, len(value), most))
        for name, item in value.items():
            field = fields.get(name, more)
            if field is not None:
                field(item, f"{path}.{name}", result)
        for name in required:
            if name not in value:
                result.errors.append(FieldError(ErrorType.REQUIRED, f"{path}.{name}".removeprefix(".")))

    return check
