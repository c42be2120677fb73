"""Checks the rules of a schema when it is defined: their form, their types, and what they can cost at most."""

import asyncio
import hashlib
import time
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from services._rules.kubernetes.cel import costs, estimates
from services._rules.kubernetes.cel.call_estimates import UNLIMITED
from services._rules.kubernetes.cel.programs import Checker, CompileError, load
from services._rules.kubernetes.cel.schema_types import LARGEST_REQUEST, Type, Types
from services._rules.kubernetes.cel.syntax import LOOP, Node
from services._rules.kubernetes.cel.value_sizes import SMALL
from services._rules.kubernetes.patch.go_text import go_quote
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    Raw,
    forbidden,
    invalid,
)
from services.apiserver.crds.rules import HAS_OLD, OLD, RULES, SELF, SLICE, compiled, has_rules, optional_old
from services.apiserver.crds.structural import check_structural, inconvertible
from services.apiserver.flow.work_aside import HEAVY_BYTES

Schema = dict[str, Any]

_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_SCHEMA_TOTAL: Final = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
_SHARE: Final = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_SHOWN_SHARES: Final = 4


class _Place(msgspec.Struct, frozen=True):
    """Where in the schema rules stand."""

    path: str
    times: int | None = 1
    """How often they can be evaluated on one object; None where only the size of a request limits that."""
    uncorrelated: str = ""
    """The outermost part around them whose items have no old value; empty where all have."""


class _Checks:
    """The checks of one schema; `spent` collects the places and costs of expressions."""

    def __init__(self, schema: Schema, broken: Collection[str] = ()) -> None:
        self.types = Types()
        self._schema = schema
        self._broken = broken
        """The places of what is wrong with the schema: rules at and around them are not looked at."""
        self._pool: Any = None
        self._checkers: dict[str, Checker] = {}
        self.spent: list[tuple[int, str]] = []

    def all(self, path: str) -> Iterator[FieldError]:
        """Check all rules of the schema."""
        return (error for error in self.steps(path) if error is not None)

    def steps(self, path: str) -> Iterator[FieldError | None]:
        """Check all rules of the schema, with a None after each expression."""
        # All types have to be known before the first expression is checked.
        self.types.of(self._schema, resource=True)
        for schema, _ in _parts(self._schema):
            self.types.of(schema)
        self._pool = self.types.pool()
        yield from self._node(self._schema, _Place(path), self._schema)
        total = min(sum(cost for cost, _ in self.spent), UNLIMITED)
        if total > costs.LIMIT_OF_SCHEMA:
            for cost, where in sorted(self.spent, reverse=True)[:_SHOWN_SHARES]:
                if cost * 100 >= costs.LIMIT_OF_SCHEMA:
                    yield forbidden(where, _SHARE)
            yield forbidden(path, _too_expensive(_SCHEMA_TOTAL, total, costs.LIMIT_OF_SCHEMA))

    def _node(self, schema: Schema, place: _Place, typed: Schema) -> Iterator[FieldError | None]:
        """Check the rules of `schema`, which speak of values of the schema `typed`."""
        yield from self._rules(schema, place, typed)
        for index, part in enumerate(schema.get("allOf") or ()):
            inner = msgspec.structs.replace(place, path=f"{place.path}.allOf[{index}]")
            yield from self._node(part, inner, typed) if has_rules(part) else ()
        for name, field in schema.get("properties", {}).items():
            if has_rules(field):
                inner = msgspec.structs.replace(place, path=f"{place.path}.properties[{name}]")
                yield from self._node(field, inner, typed.get("properties", {}).get(name, field))
        for name, limit in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
            item = schema.get(name)
            if isinstance(item, dict) and has_rules(item):
                real = typed.get(name) if isinstance(typed.get(name), dict) else item
                assert isinstance(real, dict)
                most = typed.get(limit)
                times = None if most is None or place.times is None else place.times * max(0, most)
                kept = {"items": typed.get("x-kubernetes-list-type") == "map"}
                related = kept.get(name, typed.get("x-kubernetes-map-type") != "atomic")
                apart = place.uncorrelated or ("" if related else place.path)
                inner = _Place(f"{place.path}.{name}", times, apart)
                yield from self._node(item, inner, real)

    def _rules(self, schema: Schema, place: _Place, typed: Schema) -> Iterator[FieldError | None]:
        rules = schema.get(RULES) or ()
        if not rules or any(_is_within(broken, place.path) for broken in self._broken):
            return
        kind = self.types.of(typed, resource=typed is self._schema) or Type("dyn", 1, SMALL)
        for index, rule in enumerate(rules):
            yield from self._expressions(rule, f"{place.path}.{RULES}[{index}]", place, kind)

    def _expressions(self, rule: dict[str, Any], where: str, place: _Place, kind: Type) -> Iterator[FieldError | None]:
        checker = self._checkers.get(kind.name)
        if checker is None:
            checker = Checker(self._pool, {SELF: kind.name, OLD: kind.name, HAS_OLD: "bool"})
            self._checkers[kind.name] = checker
        shapes = {SELF: kind.shape, OLD: kind.shape}
        optional = bool(rule.get("optionalOldSelf"))
        # However deep lists stand in lists: a request holds no more such values.
        times = LARGEST_REQUEST // (kind.smallest + 1) if place.times is None else place.times
        uses_old = False
        for name, wanted, problem in (
            ("rule", "bool", "cel expression must evaluate to a bool"),
            ("messageExpression", "string", "messageExpression must evaluate to a string"),
        ):
            text = (rule.get(name) or "").strip()
            if not text:
                continue
            text = optional_old(text) if optional and name == "rule" else text
            try:
                checked = checker.check(text)
                program = compiled(text)
            except CompileError as error:
                prefix = "" if name == "rule" else f"{name} "
                yield invalid(f"{where}.{name}", _go_rule(rule), f"{prefix}compilation failed: {error}")
                break
            if checked.gives != wanted:
                yield invalid(f"{where}.{name}", _go_rule(rule), problem)
                break
            if name == "rule":
                uses_old = OLD in program.uses
            yield None
            tree = _with_old(checked.tree) if optional and name == "rule" else checked.tree
            cost = estimates.estimate(tree, shapes, kind.shape)
            if name == "rule":
                cost = min(cost * times, UNLIMITED)
            self.spent.append((cost, f"{where}.{name}"))
            if cost > costs.LIMIT_OF_RULE:
                yield forbidden(f"{where}.{name}", _too_expensive(f"estimated {name} cost", cost, costs.LIMIT_OF_RULE))
        if uses_old and place.uncorrelated:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
            yield invalid(f"{where}.rule", rule["rule"], text)
        elif not uses_old and rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", optional, text)


def _with_old(tree: Node) -> Node:
    """Return what was written of a rule whose old value is made optional around it."""
    return (
        tree.loop.result if tree.form == LOOP and tree.loop is not None and tree.loop.result_variable == OLD else tree
    )


def _parts(schema: Schema) -> Iterator[tuple[Schema, None]]:
    yield schema, None
    for part in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            yield from _parts(part)


_ROOT: Final = "\0"
"""Stands for the place of the schema in the answers that are kept."""
_answers: dict[bytes, list[FieldError]] = {}
_MOST_ANSWERS: Final = 8


def check_rules(schema: Schema, path: str, broken: Collection[str] = ()) -> list[FieldError]:
    """Return what is wrong with the rules of a structural schema; `broken`: the places of its other errors."""
    if RULES.encode() not in msgspec.json.encode(schema) or not has_rules(schema):
        return []
    if broken:
        return list(_Checks(schema, broken).all(path))
    known = _answers.get(_digest(schema))
    found = list(_Checks(schema).all(_ROOT)) if known is None else known
    return [_placed(error, path) for error in found]


async def check_ahead(schema: Schema) -> None:
    """Check the rules of a schema in slices, so that others are served meanwhile; `check_rules` then knows the answer.

    Compiling takes a millisecond for each rule, and a definition may have thousands. Large ones are checked aside as a
    whole, without this.
    """
    encoded = msgspec.json.encode(schema)
    if (
        RULES.encode() not in encoded
        or len(encoded) >= HEAVY_BYTES
        or inconvertible(schema)
        or check_structural(schema, "")
    ):
        return
    await asyncio.to_thread(load)
    found: list[FieldError] = []
    begun = time.monotonic()
    for error in _Checks(schema).steps(_ROOT):
        if error is not None:
            found.append(error)
        if time.monotonic() - begun > SLICE:
            await asyncio.sleep(0)
            begun = time.monotonic()
    while len(_answers) >= _MOST_ANSWERS:
        del _answers[next(iter(_answers))]
    _answers[_digest(schema)] = found


def _digest(schema: Schema) -> bytes:
    return hashlib.sha256(msgspec.json.encode(schema)).digest()


def _is_within(place: str, path: str) -> bool:
    return place == path or place.startswith((f"{path}.", f"{path}["))


def _placed(error: FieldError, path: str) -> FieldError:
    return msgspec.structs.replace(
        error, field=error.field.replace(_ROOT, path), detail=error.detail.replace(_ROOT, path)
    )


def _go_rule(rule: dict[str, Any]) -> Raw:
    """Return a rule in the spelling in which complaints about its expressions show it."""
    reason = "(*apiextensions.FieldValueErrorReason)(nil)" if rule.get("reason") is None else "(0x0)"
    optional = "(*bool)(nil)" if rule.get("optionalOldSelf") is None else "(0x0)"
    texts = [go_quote(rule.get(name) or "") for name in ("rule", "message", "messageExpression", "fieldPath")]
    return Raw(
        f"apiextensions.ValidationRule{{Rule:{texts[0]}, Message:{texts[1]}, MessageExpression:{texts[2]}, "
        f"Reason:{reason}, FieldPath:{texts[3]}, OptionalOldSelf:{optional}}}"
    )


def _too_expensive(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.1f}x" if factor >= 1.5 else f"{factor:f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"
