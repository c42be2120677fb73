"""Evaluates the rules of a schema (x-kubernetes-validations) on custom objects, within a budget of cost and time."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import msgspec

from services._rules.kubernetes.cel.programs import CompileError, CostExceeded, EvaluationError, Inputs, Program, load
from services._rules.kubernetes.cel.schema_types import Type, Types, seen
from services._rules.kubernetes.cel.selections import Selection, together
from services._rules.kubernetes.validation.field_errors import ErrorType, FieldError, forbidden, invalid, required
from services.apiserver.core.rule_budget import Budget, BudgetSpent
from services.apiserver.crds.structural import any_schema

Schema = dict[str, Any]

RULES: Final = "x-kubernetes-validations"
NO_FIELD: Final = "<nil>"
SELF, OLD, HAS_OLD = "self", "oldSelf", "hasOldSelf_"
SLICE: Final = 0.005
"""Seconds of compiling after which others get their turn."""
LONGEST_MESSAGE: Final = 5 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_INCOMPLETE: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_BLOCKING: Final = (ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY)


def has_rules(schema: Schema) -> bool:
    """Return whether a schema or one inside it has rules."""
    return any_schema(schema, lambda part: bool(part.get(RULES)))


def optional_old(expression: str) -> str:
    """Return an expression in which the old value is an optional one."""
    return (
        f"cel.bind({OLD}, {HAS_OLD} ? optional.of({OLD}) : optional.none(),\n{expression}\n)"
        if OLD in expression
        else expression
    )


@lru_cache(maxsize=4096)
def compiled(text: str) -> Program:
    """Return an expression of a rule compiled; raises CompileError."""
    return Program(text, (SELF, OLD, HAS_OLD))


class Rule:
    """One rule, compiled."""

    def __init__(self, raw: dict[str, Any], kind: Type) -> None:
        self.raw = raw
        self.optional = bool(raw.get("optionalOldSelf"))
        text = raw["rule"]
        self.program = compiled(optional_old(text) if self.optional else text)
        # A variable of a loop may have the name, too; that such a rule counts as one on transitions harms little.
        self.uses_old = OLD in self.program.uses
        self.worst = self.program.cost_of({SELF: kind.shape, OLD: kind.shape})
        self.message: Program | None = None
        if given := (raw.get("messageExpression") or "").strip():
            self.message = compiled(given)
        self.name = (raw.get("message") or text).strip()

    @property
    def programs(self) -> list[Program]:
        """The rule itself and its message."""
        return [self.program] if self.message is None else [self.program, self.message]

    def failed(self) -> str:
        """Return the text for a rule that does not hold, but for that of a message expression."""
        message = (self.raw.get("message") or "").strip()
        return message or f"failed rule: {self.raw['rule'].strip()}"


class Stop(Exception):
    """No further rules are evaluated."""


class Place(msgspec.Struct, frozen=True):
    """A value in the new object, with the old one of the same place if there is any."""

    path: str
    value: Any
    old: Any
    same: bool
    """Whether nothing changed here or around: what is wrong was wrong before."""


class RuleNode:
    """The rules of one schema and of those below it."""

    def __init__(self, schema: Schema, types: Types, *, resource: bool = False) -> None:
        self.kind = types.of(schema, resource=resource)
        self.type: str = schema.get("type", "")
        self._raw = list(_own_rules(schema)) if self.kind is not None else []
        self._rules: list[Rule] | None = None
        self._selection: Selection | None = None
        self._fields = {
            name: RuleNode(field, types) for name, field in schema.get("properties", {}).items() if has_rules(field)
        }
        more, items = schema.get("additionalProperties"), schema.get("items")
        self._more = RuleNode(more, types) if isinstance(more, dict) and has_rules(more) else None
        self._items = RuleNode(items, types) if isinstance(items, dict) and has_rules(items) else None
        self._known = schema.get("properties", {}).keys()
        self._keys: tuple[str, ...] = ()
        if schema.get("x-kubernetes-list-type") == "map":
            self._keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self._atomic = schema.get("x-kubernetes-map-type") == "atomic"

    def compile_one(self) -> Iterator[None]:
        """Compile the rules of all schemas, with a pause after each."""
        if self._raw and self._rules is None and self.kind is not None:
            rules = []
            for raw in self._raw:
                with suppress(CompileError):
                    rules.append(Rule(raw, self.kind))
                yield
            if len(rules) == len(self._raw):
                self._rules = rules
        for node in (*self._fields.values(), self._more, self._items):
            if node is not None:
                yield from node.compile_one()

    def validate(self, value: Any, old: Any) -> list[FieldError]:
        """Return what the rules find wrong with an object; `old` is what it replaces, None for a new one."""
        found: list[FieldError] = []
        with suppress(Stop):
            self._validate(Place("", value, old, same=False), Budget(), found)
        return found

    def _validate(self, place: Place, budget: Budget, found: list[FieldError]) -> None:
        if place.value is None:
            return
        if self._raw:
            self._evaluate(place, budget, found)
        if isinstance(place.value, dict) and (self._fields or self._more is not None):
            for name, item in place.value.items():
                node = self._fields.get(name)
                if node is not None:
                    node._validate(self._below(place, name, _join(place.path, name), item), budget, found)
                elif self._more is not None and name not in self._known:
                    self._more._validate(self._below(place, name, f"{place.path}[{name}]", item), budget, found)
        elif isinstance(place.value, list) and self._items is not None:
            before = self._by_keys(place.old)
            for index, item in enumerate(place.value):
                old = before.get(self._key(item)) if before else None
                same = place.same or (old is not None and old == item)
                self._items._validate(Place(f"{place.path}[{index}]", item, old, same), budget, found)

    def _below(self, place: Place, name: str, path: str, item: Any) -> Place:
        old = place.old.get(name) if isinstance(place.old, dict) else None
        same = place.same or (old is not None and old == item)
        return Place(path, item, None if self._atomic else old, same)

    def _key(self, item: Any) -> Any:
        return msgspec.json.encode([item.get(name) for name in self._keys]) if isinstance(item, dict) else None

    def _by_keys(self, old: Any) -> dict[Any, Any]:
        if not self._keys or not isinstance(old, list):
            return {}
        return {key: item for item in old if (key := self._key(item)) is not None}

    @property
    def rules(self) -> list[Rule]:
        """The rules of this schema itself, compiled when they are first needed."""
        if self._rules is None:
            assert self.kind is not None
            self._rules = [Rule(raw, self.kind) for raw in self._raw]
        return self._rules

    def _evaluate(self, place: Place, budget: Budget, found: list[FieldError]) -> None:
        assert self.kind is not None
        field = place.path or NO_FIELD
        try:
            rules = self.rules
        except CompileError as error:
            # Of a definition that was stored before its rules were checked.
            found.append(invalid(field, self.type, f"rule compile error: {error}"))
            return
        has_old = place.old is not None
        old = seen(self.kind, place.old) if has_old else None
        if self._selection is None:
            self._selection = together(program.selection for rule in rules for program in rule.programs)
        values = {SELF: seen(self.kind, place.value), OLD: old, HAS_OLD: has_old}
        inputs = Inputs(values, self._selection)
        for rule in rules:
            if rule.uses_old and not has_old and not rule.optional:
                continue
            try:
                holds = budget.evaluate(rule.program, inputs, rule.worst)
            except CostExceeded as error:
                text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
                found.append(invalid(field, self.type, text + rule.name))
                raise Stop from None
            except EvaluationError as error:
                found.append(invalid(field, self.type, _unevaluated(error, rule)))
                continue
            except BudgetSpent:
                found.append(invalid(field, self.type, _OUT_OF_BUDGET))
                raise Stop from None
            if holds is not True and (rule.uses_old or not place.same):
                found.append(self._failure(rule, place, inputs, budget))

    def _failure(self, rule: Rule, place: Place, inputs: Inputs, budget: Budget) -> FieldError:
        text = ""
        if rule.message is not None:
            try:
                given = budget.evaluate(rule.message, inputs)
                text = _usable(given)
            except (EvaluationError, BudgetSpent):
                text = ""
        text = text or rule.failed()
        field = (place.path + _normal(rule.raw.get("fieldPath") or "")).removeprefix(".") or NO_FIELD
        match rule.raw.get("reason"):
            case "FieldValueForbidden":
                return forbidden(field, text)
            case "FieldValueRequired":
                return required(field, text)
            case "FieldValueDuplicate":
                return FieldError(ErrorType.DUPLICATE, field, "", self.type)
            case _:
                return invalid(field, self.type, text)


def _own_rules(schema: Schema) -> Iterator[dict[str, Any]]:
    yield from schema.get(RULES) or ()
    for part in schema.get("allOf") or ():
        yield from _own_rules(part)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _normal(path: str) -> str:
    """Return a field path with names in brackets where they stand for keys."""
    return path.strip().replace("['", "[").replace("']", "]")


def _usable(message: Any) -> str:
    text = message.strip() if isinstance(message, str) else ""
    return "" if "\n" in text or len(text.encode()) > LONGEST_MESSAGE else text


def _unevaluated(error: EvaluationError, rule: Rule) -> str:
    if str(error).startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: "
            f"{rule.name}"
        )
    return f"{error} evaluating rule: {rule.name}"


def compile_rules(schema: Schema) -> RuleNode | None:
    """Return the rules of a schema; None if it has none."""
    # Most schemas have none; walking a large one would leave much to collect.
    if RULES.encode() not in msgspec.json.encode(schema) or not has_rules(schema):
        return None
    return RuleNode(schema, Types(), resource=True)


async def compile_ahead(node: RuleNode) -> None:
    """Compile all rules in slices, so that the first object does not hold up others."""
    await asyncio.to_thread(load)
    begun = time.monotonic()
    for _ in node.compile_one():
        if time.monotonic() - begun > SLICE:
            await asyncio.sleep(0)
            begun = time.monotonic()


def blocked(errors: list[FieldError]) -> bool:
    """Return whether an object has errors for which its rules are not evaluated."""
    return any(error.type in _BLOCKING or "must be of type" in error.detail for error in errors)


def incomplete() -> FieldError:
    """The hint that there may be more to complain about."""
    return invalid(NO_FIELD, None, _INCOMPLETE)
