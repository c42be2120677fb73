"""Expressions of admission: match conditions of webhooks and policies, and the expressions of policies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    invalid,
    required,
)

MOST_CONDITIONS: Final = 64
BOOL: Final = ("bool",)
TEXT: Final = ("string",)
TEXT_OR_NULL: Final = ("string", "null")
ANY: Final = ()
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Expression(msgspec.Struct, frozen=True):
    """An expression of a policy: where it stands, the types that its result may have, and the variables before it."""

    text: str
    field: str
    wanted: tuple[str, ...]
    variables: tuple[str, ...] = ()
    params: bool = True

    def errors(self) -> list[FieldError]:
        """Return what is wrong with it."""
        # Loads the language, which servers without expressions do not need.
        from services._rules.kubernetes.cel.reviews import check_expression

        problem = check_expression(self.text.strip(), self.wanted, variables=self.variables, params=self.params)
        return [invalid(self.field, self.text, problem)] if problem else []


def is_identifier(name: str) -> bool:
    """Return whether an expression can name a variable so."""
    return _IDENTIFIER.fullmatch(name) is not None


def policy_expressions(spec: Manifest) -> Iterator[Expression]:
    """Iterate over all expressions of a policy that are not blank."""
    found = (expression for expression in _expressions(spec) if expression.text.strip())
    params = spec.get("paramKind") is not None
    return (msgspec.structs.replace(expression, params=params) for expression in found)


def _expressions(spec: Manifest) -> Iterator[Expression]:
    for index, item in enumerate(spec.get("matchConditions") or ()):
        yield Expression(item.get("expression") or "", f"matchConditions[{index}].expression", BOOL)
    known: tuple[str, ...] = ()
    for index, item in enumerate(spec.get("variables") or ()):
        yield Expression(item.get("expression") or "", f"variables[{index}].expression", ANY, known)
        name = item.get("name") or ""
        if is_identifier(name) and name not in known:
            known = (*known, name)
    for index, item in enumerate(spec.get("validations") or ()):
        where = f"validations[{index}]"
        yield Expression(item.get("expression") or "", f"{where}.expression", BOOL, known)
        yield Expression(item.get("messageExpression") or "", f"{where}.messageExpression", TEXT, known)
    for index, item in enumerate(spec.get("auditAnnotations") or ()):
        where = f"auditAnnotations[{index}].valueExpression"
        yield Expression(item.get("valueExpression") or "", where, TEXT_OR_NULL, known)


def match_conditions(conditions: list[Manifest], field: str) -> Errors:
    """Return what is wrong with match conditions, but for their expressions where they have some."""
    if len(conditions) > MOST_CONDITIONS:
        detail = f"must have at most {MOST_CONDITIONS} items"
        yield FieldError(ErrorType.TOO_MANY, field, detail, len(conditions))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path, name = f"{field}[{index}]", condition.get("name") or ""
        expression = condition.get("expression") or ""
        if not expression.strip():
            yield required(f"{path}.expression")
        if not name:
            yield required(f"{path}.name")
            continue
        for problem in names.qualified(name):
            yield invalid(f"{path}.name", name, problem)
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)


def webhook_conditions(hook: Manifest, path: str) -> Errors:
    """Return what is wrong with the match conditions of a webhook."""
    yield from match_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")
    for expression in policy_expressions({"matchConditions": hook.get("matchConditions")}):
        yield from msgspec.structs.replace(expression, field=f"{path}.{expression.field}").errors()
