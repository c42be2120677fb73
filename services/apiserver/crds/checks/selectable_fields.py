"""Checks the fields by which a definition lets its objects be selected."""

from collections.abc import Iterator
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, invalid, required, too_many
from services.apiserver.crds.checks.field_paths import PathError, field_at

MOST: Final = 8
"""Fields that one version may have."""
_TYPES: Final = ("string", "boolean", "integer")


def check_selectable_fields(
    fields: list[Manifest], schema: dict[str, Any], path: str, *, any_number: bool = False
) -> Iterator[FieldError]:
    """Yield what is wrong with the selectable fields of a version; `any_number` lifts the limit of their number."""
    known: set[str] = set()
    for index, item in enumerate(fields):
        where, given = f"{path}[{index}].jsonPath", item.get("jsonPath", "")
        if not given:
            yield required(where)
            continue
        try:
            found = field_at(given, schema, arrays=False)
        except PathError as error:
            yield invalid(where, given, f"is an invalid path: {error}")
            continue
        if found.path.partition(".")[0] == "metadata":
            yield invalid(where, given, "must not point to fields in metadata")
        if found.schema.get("type") not in _TYPES:
            text = "must point to a field of type string, boolean or integer. "
            yield invalid(where, given, f"{text}Enum string fields and strings with formats are allowed.")
        if found.path in known:
            yield duplicate(where, given)
        known.add(found.path)
    if len(known) > MOST and not any_number:
        yield too_many(path, len(known), MOST)
