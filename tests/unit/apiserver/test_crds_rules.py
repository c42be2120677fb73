"""Rules of custom resource schemas: what is refused at definition, and what objects are told."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.kubernetes.validation.field_errors import invalid, required
from services.apiserver.crds.checks.demands import Demands
from services.apiserver.crds.rules import blocked, compile_rules
from services.apiserver.crds.schema_rules import check_schema

Schema = dict[str, Any]
INT: Schema = {"type": "integer"}
TEXT: Schema = {"type": "string"}
SHORT: Schema = {"type": "string", "maxLength": 10}


def rules(*given: str | dict[str, Any]) -> list[dict[str, Any]]:
    return [{"rule": rule} if isinstance(rule, str) else rule for rule in given]


def obj(*given: str | dict[str, Any], **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "x-kubernetes-validations": rules(*given)}


def listed(items: Schema, **marks: Any) -> Schema:
    return {"type": "array", "items": items, **marks}


def keyed(items: Schema) -> Schema:
    return listed(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]})


def of_spec(spec: Schema) -> Schema:
    return {"type": "object", "properties": {"spec": spec}}


def definition_errors(spec: Schema) -> list[str]:
    return [str(e) for e in check_schema(of_spec(spec), "", Demands())]


def found(spec: Schema, new: Any, old: Any = None) -> list[str]:
    node = compile_rules(of_spec(spec))
    assert node is not None
    before = None if old is None else {"spec": old}
    return [str(error) for error in node.validate({"spec": new}, before)]


RULE = ".properties[spec].x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    ("rule", "field", "text"),
    [
        ({"rule": " "}, "rule", "Required value: rule is not specified"),
        (
            "self.nope > 1",
            "rule",
            "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^",
        ),
        ("self.a > 'x'", "rule", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.a", "rule", "cel expression must evaluate to a bool"),
        ("self.a >", "rule", "Syntax error"),
        ("other == 1", "rule", "undeclared reference to 'other'"),
        ("self.l.exists(x, x.nope == 1)", "rule", "undefined field 'nope'"),
        ("self.s.matches(self.a)", "rule", "found no matching overload for 'matches'"),
        ("lists.range(1000000000).size() > 1", "rule", "undeclared reference to 'range'"),
        ({"rule": "true", "message": " "}, "message", "must be non-empty if specified"),
        ({"rule": "true", "message": "a\nb"}, "message", "must not contain line breaks"),
        ({"rule": "self.a >\n1"}, "message", "message must be specified if rule contains line breaks"),
        ({"rule": "true", "messageExpression": "self.a"}, "messageExpression", "must evaluate to a string"),
        ({"rule": "true", "messageExpression": "self.x"}, "messageExpression", "messageExpression compilation failed"),
        ({"rule": "true", "reason": "Odd"}, "reason", 'Unsupported value: "Odd"'),
        ({"rule": "true", "fieldPath": ".x"}, "fieldPath", "must be a valid path"),
        ({"rule": "true", "fieldPath": "a"}, "fieldPath", "must be a valid path"),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf", "may not be set if oldSelf is not used in rule"),
        ("self.m.all(x, self.m.all(y, x == y))", "rule", "exceeds budget by factor of more than 100x"),
    ],
)
def test_definitions_are_refused(rule: str | dict[str, Any], field: str, text: str) -> None:
    fields = {"a": INT, "s": TEXT, "l": listed(obj(n=INT), maxItems=3), "m": listed(TEXT)}
    errors = definition_errors(obj(rule, **fields))
    assert errors[0].startswith(f"{RULE}.{field}: ")
    assert text in errors[0]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (obj(l=listed(obj("self == oldSelf", n=INT), maxItems=3)), "uncorrelatable portion of the schema within"),
        (obj(l=listed(obj("self.n > 1", n=INT))), ""),
        (obj(l=keyed(obj("self.n == oldSelf.n", n=SHORT) | {"required": ["n"]}) | {"maxItems": 9}), ""),
        (obj(l=listed(obj("self.s.contains('x')", s=TEXT))), "estimated rule cost exceeds budget"),
        (obj("self.all(x, x > 1)") | {"anyOf": [obj("true")]}, "must be empty to be structural"),
        ({"type": "object", "additionalProperties": obj("self.a > 1", a=INT), "maxProperties": 5}, ""),
    ],
)
def test_rules_inside_lists_and_maps(spec: Schema, text: str) -> None:
    errors = " ".join(definition_errors(spec))
    assert text in errors
    assert bool(text) == bool(errors)


def test_the_whole_schema_has_a_limit_of_cost() -> None:
    costly = {f"f{n}": listed(obj("self.s.startsWith('x')", s=TEXT), maxItems=1_000_000) for n in range(50)}
    errors = definition_errors(obj(**costly))
    total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds"
    assert total in errors[-1]


@pytest.mark.parametrize(
    ("spec", "new", "errors"),
    [
        (obj("self.a > 3", a=INT), {"a": 4}, []),
        (obj("self.a > 3", a=INT), {"a": 3}, ['spec: Invalid value: "object": failed rule: self.a > 3']),
        (obj({"rule": "false", "message": " no "}), {}, ['spec: Invalid value: "object": no']),
        (obj({"rule": "false", "messageExpression": "'is ' + string(self.a)"}, a=INT), {"a": 1}, ["is 1"]),
        (obj({"rule": "false", "message": "m", "messageExpression": "string(self.a)"}, a=INT), {}, ['object": m']),
        (
            obj({"rule": "false", "fieldPath": ".a", "reason": "FieldValueRequired"}, a=INT),
            {},
            ["spec.a: Required value"],
        ),
        (obj({"rule": "false", "reason": "FieldValueForbidden"}), {}, ["spec: Forbidden: failed rule: false"]),
        (obj({"rule": "false", "reason": "FieldValueDuplicate"}), {}, ['spec: Duplicate value: "object"']),
        (obj("self.a > 3", a=INT), {}, ["no such key: a evaluating rule: self.a > 3"]),
        (obj("1 / self.a > 3", a=INT), {"a": 0}, ["division by zero evaluating rule"]),
        (obj("self.x > 3", x={"x-kubernetes-int-or-string": True}), {"x": "a"}, ["'no such overload': call arguments"]),
        (obj(a=INT | {"x-kubernetes-validations": rules("self < 5")}), {"a": 7}, ['spec.a: Invalid value: "integer"']),
        (obj(l=listed(obj("self.n < 2", n=INT))), {"l": [{"n": 1}, {"n": 2}]}, ["spec.l[1]: "]),
        ({"type": "object", "additionalProperties": obj("self.n < 2", n=INT)}, {"k": {"n": 2}}, ["spec[k]: "]),
        ({"allOf": [{"x-kubernetes-validations": rules("self.a > 1")}], **obj(a=INT)}, {"a": 1}, ["self.a > 1"]),
        (obj("self.a > 1", a=INT | {"nullable": True}), None, []),
        # Names that are no identifiers, times, durations, bytes and numbers are what they are declared to be.
        (
            obj("self.a__dash__b == 1 && self.__namespace__ == 2", **{"a-b": INT, "namespace": INT}),
            {"a-b": 1, "namespace": 2},
            [],
        ),
        (obj("self.d > duration('90s')", d=TEXT | {"format": "duration"}), {"d": "1h2m"}, []),
        (
            obj("self.t < timestamp('2021-01-01T00:00:00Z')", t=TEXT | {"format": "date-time"}),
            {"t": "2020-01-01T00:00:00Z"},
            [],
        ),
        (obj("self.b == b'hi'", b=TEXT | {"format": "byte"}), {"b": "aGk="}, []),
        (obj("self.f / 2.0 == 1.5", f={"type": "number"}), {"f": 3}, []),
    ],
)
def test_new_objects_obey(spec: Schema, new: Any, errors: list[str]) -> None:
    given = found(spec, new)
    assert len(given) == len(errors)
    for text, error in zip(errors, given, strict=True):
        assert text in error


GROWING = obj({"rule": "self.a >= oldSelf.a", "message": "shrinks"}, a=INT)
ITEMS = obj(l=keyed(obj({"rule": "self.v >= oldSelf.v", "message": "shrinks"}, n=TEXT, v=INT)))
OPTIONAL = obj({"rule": "oldSelf.hasValue() || self.a < 5", "optionalOldSelf": True}, a=INT)
STRICT = obj(s=obj("self.a < 5", a=INT), o=INT)


@pytest.mark.parametrize(
    ("spec", "new", "old", "errors"),
    [
        (GROWING, {"a": 1}, None, 0),
        (GROWING, {"a": 1}, {"a": 2}, 1),
        (GROWING, {"a": 2}, {"a": 2}, 0),
        # Items of a map list are compared with those of the same keys, wherever they are.
        (ITEMS, {"l": [{"n": "b", "v": 1}, {"n": "a", "v": 1}]}, {"l": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]}, 1),
        (ITEMS, {"l": [{"n": "c", "v": 0}]}, {"l": [{"n": "a", "v": 1}]}, 0),
        (OPTIONAL, {"a": 9}, None, 1),
        (OPTIONAL, {"a": 9}, {"a": 1}, 0),
        # What an update leaves as it was is not held against it.
        (STRICT, {"s": {"a": 9}, "o": 2}, {"s": {"a": 9}, "o": 1}, 0),
        (STRICT, {"s": {"a": 8}, "o": 2}, {"s": {"a": 9}, "o": 1}, 1),
    ],
)
def test_updates_obey(spec: Schema, new: Any, old: Any, errors: int) -> None:
    assert definition_errors(spec) in ([], definition_errors(ITEMS))
    assert len(found(spec, new, old)) == errors


def test_expensive_objects_are_cut() -> None:
    spec = obj("self.l.all(x, self.l.exists(y, self.l.exists(z, x == y && y == z)))", l=listed(INT))
    errors = found(spec, {"l": list(range(300))})
    assert len(errors) == 1
    assert "no further validation rules will be run due to call cost exceeds limit for rule" in errors[0]


def test_the_budget_of_an_object_is_shared() -> None:
    item = obj("self.s.matches('^(a|b|c|d|e|f|g|h)+$') || true", s=TEXT)
    errors = found(obj(l=listed(item)), {"l": [{"s": "x" * 100_000}] * 200})
    assert errors[-1].endswith(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )


def test_a_rule_that_no_longer_compiles_is_an_error() -> None:
    assert "rule compile error: " in found(obj("self.a >", a=INT), {"a": 1})[0]


def test_objects_of_wrong_types_are_not_evaluated() -> None:
    assert blocked([required("a")])
    assert blocked([invalid("a", 1, 'a in body must be of type string: "integer"')])
    assert not blocked([invalid("a", 1, "should be less than 3")])
