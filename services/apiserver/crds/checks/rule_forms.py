"""Checks the form of the rules of a schema: what each has to say besides its expressions."""

import re
from collections.abc import Iterator
from typing import Any, Final

from services._rules.kubernetes.validation.field_errors import FieldError, invalid, not_supported, required
from services.apiserver.crds.checks.field_paths import PathError, field_at
from services.apiserver.crds.structural import inconvertible

Schema = dict[str, Any]

REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BREAK: Final = re.compile(r"[\n\r]")
_NOT_EMPTY: Final = "must be non-empty if specified"
_NO_BREAKS: Final = "must not contain line breaks"


def check_rule_forms(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the form of the rules that stand at a schema itself."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        yield from _texts(rule, where)
        reason = rule.get("reason")
        if reason is not None and reason not in REASONS:
            yield not_supported(f"{where}.reason", reason, REASONS)
        yield from _field_path(rule.get("fieldPath") or "", f"{where}.fieldPath", schema)


def _texts(rule: dict[str, Any], where: str) -> Iterator[FieldError]:
    text, message, expression = (rule.get(name) or "" for name in ("rule", "message", "messageExpression"))
    if not text.strip():
        yield required(f"{where}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{where}.message", message, _NOT_EMPTY)
    elif _BREAK.search(message.strip()):
        yield invalid(f"{where}.message", message, _NO_BREAKS)
    elif _BREAK.search(text.strip()) and not message.strip():
        yield required(f"{where}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        yield required(f"{where}.messageExpression", f"messageExpression {_NOT_EMPTY}")


def _field_path(given: str, where: str, schema: Schema) -> Iterator[FieldError]:
    if given and not given.strip():
        yield invalid(where, given, _NOT_EMPTY)
    if _BREAK.search(given):
        yield invalid(where, given, _NO_BREAKS)
    if given and not _leads_somewhere(given, schema):
        yield invalid(where, given, "must be a valid path")


def _leads_somewhere(path: str, schema: Schema) -> bool:
    if inconvertible(schema):
        return True
    try:
        field_at(path, schema)
    except PathError:
        return False
    return True
