"""What expressions of admission see of a request: the declared types of their variables, and checks against them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from services._rules.kubernetes.cel.programs import Checker, CompileError, Program
from services._rules.kubernetes.cel.schema_types import Types

VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer")
_ANYTHING: Final = {"x-kubernetes-int-or-string": True}
_TEXT: Final = {"type": "string"}


def _fields(*names: str, **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**dict.fromkeys(names, _TEXT), **others}}


_KIND: Final = _fields("group", "version", "kind")
_RESOURCE: Final = _fields("group", "version", "resource")
_TEXTS: Final = {"type": "array", "items": _TEXT}
_REQUEST: Final = _fields(
    *("subResource", "requestSubResource", "name", "namespace", "operation", "uid"),
    kind=_KIND,
    resource=_RESOURCE,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    userInfo=_fields("username", "uid", groups=_TEXTS, extra={"type": "object", "additionalProperties": _TEXTS}),
    dryRun={"type": "boolean"},
    options=_ANYTHING,
)


@lru_cache(maxsize=64)
def _checker(variables: tuple[str, ...], *, params: bool) -> Checker:
    types = Types()
    request = types.of(_REQUEST)
    composed = types.of({"type": "object", "properties": dict.fromkeys(variables, _ANYTHING)})
    assert request is not None
    assert composed is not None
    declared = {
        "object": "dyn",
        "oldObject": "dyn",
        "request": request.name,
        "namespaceObject": "dyn",
        "variables": composed.name,
        "authorizer": "kubernetes.authorization.Authorizer",
        "authorizer.requestResource": "kubernetes.authorization.ResourceCheck",
    }
    if params:
        declared["params"] = "dyn"
    return Checker(types.pool(), declared)


@lru_cache(maxsize=2048)
def check_expression(
    expression: str, wanted: tuple[str, ...], *, variables: tuple[str, ...] = (), params: bool = True
) -> str:
    """Return why an expression cannot be used where one of the wanted types is needed; empty if it can."""
    try:
        given = _checker(variables, params=params).check(expression).gives
        compile_expression(expression)
    except CompileError as error:
        return f"compilation failed: {error}"
    if wanted and given not in (*wanted, "dyn"):
        return f"must evaluate to {' or '.join(wanted)}"
    return ""


@lru_cache(maxsize=2048)
def compile_expression(expression: str) -> Program:
    """Return an expression of admission compiled; raises CompileError."""
    return Program(expression, VARIABLES)
