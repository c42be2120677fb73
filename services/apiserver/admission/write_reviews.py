"""What expressions see of one write, and evaluating them on it within its budget."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.cel.costs import LIMIT_OF_CONDITIONS
from services._rules.kubernetes.cel.functions import DECIDE
from services._rules.kubernetes.cel.programs import CompileError, EvaluationError, Inputs, Program
from services._rules.kubernetes.cel.reviews import compile_expression
from services._rules.kubernetes.cel.syntax import IDENT, SELECT, walk
from services.apiserver.admission.chain import Attributes
from services.apiserver.core.request_context import Identity
from services.apiserver.core.rule_budget import Budget, BudgetSpent
from services.apiserver.kinds.kind_model import Kind

Decide = Callable[[Identity, Mapping[str, str]], tuple[bool, str]]

_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


TURN: Final = 50_000
"""Units of cost after which others get their turn on the event loop."""


class ExpressionFailed(Exception):
    """An expression that has no result for this write; the text says why."""


class Review:
    """One write in the version in which a policy or webhook wants to see it."""

    def __init__(self, attributes: Attributes, kind: Kind, namespace: Manifest | None, decide: Decide | None) -> None:
        self._identity = attributes.call.user
        self._decide = decide
        self._budget = Budget()
        self._turn_at = TURN
        request = request_of(attributes, kind)
        self._values: dict[str, Any] = {
            "object": _as(attributes.new, attributes.kind, kind),
            "oldObject": _as(attributes.old, attributes.kind, kind),
            "request": request,
            "namespaceObject": namespace,
            "authorizer": {"requestResource": _question(request)},
            "params": None,
            "variables": {},
        }
        self._inputs = Inputs(self._values)
        self._sources: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def with_params(self, params: Manifest | None, variables: list[Manifest]) -> None:
        """Begin with another parameter and a budget of its own; variables are evaluated again."""
        self._begin(Budget())
        self._values = {**self._values, "params": params, "variables": {}}
        self._inputs = Inputs(self._values)
        self._sources = {item["name"]: item["expression"] for item in variables}
        self._problems = {}

    async def holds(self, conditions: list[Manifest]) -> bool:
        """Return whether the write meets all match conditions, which have a budget of their own.

        One that fails counts only if no other is false: then ExpressionFailed is raised.
        """
        failed: list[str] = []
        budget = self._budget
        self._begin(Budget(LIMIT_OF_CONDITIONS))
        try:
            for condition in conditions:
                try:
                    if await self.evaluate(condition["expression"]) is not True:
                        return False
                except ExpressionFailed as error:
                    failed.append(f"match condition {condition['name']!r} resulted in error: {error}")
        finally:
            self._begin(budget)
        if failed:
            raise ExpressionFailed("; ".join(failed))
        return True

    def _begin(self, budget: Budget) -> None:
        self._budget = budget
        self._turn_at = budget.spent + TURN

    async def evaluate(self, expression: str) -> Any:
        """Return the result of an expression, after a turn of others where one is due; raises ExpressionFailed."""
        if self._budget.spent >= self._turn_at:
            self._turn_at = self._budget.spent + TURN
            await asyncio.sleep(0)
        try:
            program = compile_expression(expression.strip())
        except CompileError as error:
            raise ExpressionFailed(f"compilation failed: {error}") from None
        if "variables" in program.uses:
            await self._provide(program)
        token = DECIDE.set(self._answer)
        try:
            return self._budget.evaluate(program, self._inputs)
        except BudgetSpent:
            raise ExpressionFailed(_OUT_OF_BUDGET) from None
        except EvaluationError as error:
            name = str(error).removeprefix("no such key: ")
            if name in self._problems:
                raise ExpressionFailed(
                    f"composited variable {name!r} fails to evaluate: {self._problems[name]}"
                ) from None
            raise ExpressionFailed(str(error)) from None
        finally:
            DECIDE.reset(token)

    async def _provide(self, program: Program) -> None:
        """Evaluate the variables that an expression mentions; one that fails stays out, as it may not be needed."""
        for part in walk(program.tree):
            if part.form != SELECT or part.target is None or part.target.form != IDENT:
                continue
            name = part.name
            known = self._values["variables"]
            if part.target.name != "variables" or name in known or name in self._problems or name not in self._sources:
                continue
            # Each sees the ones before it only, so that they cannot go in circles.
            source = self._sources.pop(name)
            try:
                value = await self.evaluate(source)
            except ExpressionFailed as error:
                self._problems[name] = str(error)
                continue
            self._values = {**self._values, "variables": {**self._values["variables"], name: value}}
            self._inputs = Inputs(self._values)

    def _answer(self, question: Mapping[str, str]) -> tuple[bool, str]:
        if self._decide is None:
            return False, "there is no authorizer"
        identity = self._identity
        if account := question.get("saName"):
            place = question.get("saNamespace", "")
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{place}", "system:authenticated")
            identity = Identity(f"system:serviceaccount:{place}:{account}", groups=groups)
        return self._decide(identity, question)


def request_of(attributes: Attributes, kind: Kind) -> Manifest:
    """Return what expressions see as `request`."""
    asked, call = attributes.kind, attributes.call
    namespace = attributes.name if asked.store_key == "/namespaces" else attributes.namespace
    user = call.user.user_info()
    request: Manifest = {
        "kind": _kind(kind),
        "resource": _resource(kind),
        "requestKind": _kind(asked),
        "requestResource": _resource(asked),
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "operation": attributes.operation,
        "userInfo": {"username": "", "groups": [], **user, "extra": user.get("extra") or {}},
        "dryRun": call.dry_run,
        "options": dict(call.options or {}),
    }
    if namespace:
        request["namespace"] = namespace
    return request


def _question(request: Manifest) -> dict[str, str]:
    resource = request["requestResource"]
    return {
        "group": resource["group"],
        "resource": resource["resource"],
        "subresource": request["subResource"],
        "namespace": request.get("namespace", ""),
        "name": request["name"],
    }


def _as(obj: Manifest | None, kind: Kind, other: Kind) -> Manifest | None:
    return obj if obj is None or kind is other else other.from_store(kind.to_store(obj))


def _kind(kind: Kind) -> Manifest:
    resource = kind.resource
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(kind: Kind) -> Manifest:
    resource = kind.resource
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
