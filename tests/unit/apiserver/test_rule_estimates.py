"""What rules of definitions are estimated to cost: figures of Kubernetes, and shapes of published definitions."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.kubernetes.cel.call_estimates import UNLIMITED
from services._rules.kubernetes.cel.estimates import estimate
from services._rules.kubernetes.cel.programs import Checker, CompileError
from services._rules.kubernetes.cel.schema_types import Types
from services.apiserver.crds.checks.demands import Demands
from services.apiserver.crds.schema_rules import check_schema

Schema = dict[str, Any]
INT: Schema = {"type": "integer"}
BOOL: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
DURATION: Schema = {"type": "string", "format": "duration"}
TIME: Schema = {"type": "string", "format": "date-time"}
BYTES: Schema = {"type": "string", "format": "byte"}
EITHER: Schema = {"x-kubernetes-int-or-string": True}


def short(length: int) -> Schema:
    return {"type": "string", "maxLength": length}


def some(items: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most})}


def keyed(values: Schema, most: int | None = None) -> Schema:
    return {"type": "object", "additionalProperties": values, **({} if most is None else {"maxProperties": most})}


def obj(required: tuple[str, ...] = (), **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(required)}


def ruled(schema: Schema, *rules: str) -> Schema:
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def cost_of(schema: Schema, rule: str) -> int:
    types = Types()
    kind = types.of(schema)
    assert kind is not None
    checked = Checker(types.pool(), {"self": kind.name}).check(rule)
    return estimate(checked.tree, {"self": kind.shape}, kind.shape)


@pytest.mark.parametrize(
    ("schema", "rule", "cost"),
    [
        # Loops: three for each round, with the smallest items that fill a request.
        (some(NUMBER), "self.all(x, true)", 4_718_591),
        (some(TEXT), "self.all(x, true)", 3_145_727),
        (some(BOOL), "self.all(x, true)", 1_887_437),
        (some(some(NUMBER)), "self.all(x, true)", 3_145_727),
        (some(DURATION), "self.all(x, true)", 2_359_295),
        (some(TIME), "self.all(x, true)", 428_963),
        (some(EITHER), "self.all(x, true)", 4_718_591),
        (keyed(NUMBER), "self.all(x, true)", 1_348_169),
        (keyed(TEXT), "self.all(x, true)", 1_179_647),
        (keyed(TIME, 25), "self.all(x, true)", 77),
        (some(NUMBER, 10), "self.all(x, self.all(y, true))", 352),
        (some(NUMBER, 10), "self.exists(x, x > 1.0)", 2 + 10 * 6),
        (some(TEXT, 10), "self.exists_one(x, x == 'a')", 3 + 10 * 4),
        (some(obj(a=short(5)), 4), "self.map(x, x.a).exists(y, y == 'a')", 12 + 4 * 14 + 1 + 4 * 6),
        # Texts, patterns and comparisons.
        (TEXT, "self.contains('test')", 314_574),
        (short(10), "self.contains('test')", 5),
        (TEXT, "self.startsWith('test')", 2),
        (TEXT, "size(self + 'hello') > size('hello')", 314_578),
        (TEXT, "self.matches('x')", 314_574),
        (short(50), "self.matches('x')", 22),
        (TEXT, "''.matches('(((((((((())))))))))[0-9]')", 7),
        (TEXT, "self.matches('')", 1),
        (some(TEXT, 8), "self[1] == self[1]", 4 + 314_573),
        (some(NUMBER), "self[1] == 0.0", 2),
        (short(0), "self == 'x'", 1),
        (BYTES, "self == b'x'", 2),
        ({"type": "string", "enum": ["a", "twelve chars"]}, "self == 'a much longer text'", 1 + 2),
        (TEXT, "self.find('[0-9]+') == ''", 1 + 314_573 * 2),
        (short(10), "self.split(',').all(x, x != '')", 1 + 8 + 1 + 40 * 4),
        (short(5), "self.replace('a', 'bb').size() < 9", 1 + 4 + 2),
        (short(5), "self.lowerAscii() == self", 1 + 2 + 1 + 2),
        (some(short(5), 3), "self.join(',').size() > 3", 1 + 7 + 2),
        # What has no rule of its own costs 1, and to ask for a field nothing more than to get to it.
        (obj(a=TEXT), "duration(self.a) < duration('1s')", 5),
        (obj(a=TEXT), "int(self.a) > 1", 4),
        (obj(a=TEXT), "!has(self.a)", 2),
        (obj(a=obj(b=TEXT)), "has(self.a) && has(self.a.b)", 1 + 2),
        (obj(a=INT, b=INT), "self.a == self.b", 4),
        (obj(q=EITHER), "type(self.q) == string", 4),
        (obj(a=TEXT), "self.?a.hasValue()", 3),
        # Libraries.
        (TEXT, "quantity(self).isGreaterThan(quantity('1'))", 1 + 314_573 + 1 + 1),
        (TEXT, "isSemver(self)", 1 + 314_573),
        (short(20), "semver(self, true) == semver('1.0.0')", 1 + 8 + 1 + 1),
        (short(20), "semver(self).major() > 1", 1 + 8 + 1 + 1),
        (short(20), "format.named('dns1123Label').value().validate(self).hasValue()", 1 + 1 + 1 + 8 * 32 + 1),
        (TEXT, "!format.uri().validate('my-name').hasValue()", 1 + 32 + 1 + 1),
        (TEXT, "format.named('byte').value() == format.byte()", 1 + 1 + 1 + 7),
        (TEXT, "isURL(self) && url(self).getHost() == 'a'", 1 + 1 + 1 + 314_573 + 1 + 1),
        (TEXT, "ip('1.2.3.4') == ip('1.2.3.5') && isIP(self)", 1 + 1 + 1 + 1 + 314_573),
        (TEXT, "cidr('1.2.3.0/24').containsIP(self)", 1 + 1 + 4 + 314_573),
        (some(TEXT, 4), "sets.contains(self, ['a', 'b'])", 1 + 10 + 9),
        (some(TEXT, 4), "self.isSorted()", 1 + 4 * (1 + 314_573)),
        (some(INT, 4), "self.distinct().size() == 4", 1 + 2 * 16 + 11 + 1 + 1),
        (some(INT, 4), "self.slice(0, 2).size() == 2", 1 + 2 + 11 + 1 + 1),
        (some(INT, 4), "2 in self", 1 + 4),
        (keyed(INT, 4), "'a' in self", 2),
        # Of two variables, bound names, and what one of two branches gives.
        (keyed(TEXT, 3), "self.all(k, v, v != '')", 2 + 3 * 4),
        (obj(a=some(TEXT, 3)), "cel.bind(l, self.a, l.all(x, x != ''))", 10 + 2 + 2 + 3 * 4),
        (obj(a=some(TEXT, 3)), "(has(self.a) ? self.a : []).all(x, x == '')", 1 + 10 + 1 + 3 * 4),
        (some(TEXT, 3), "dyn(self).size() == 3", 1 + 1 + 1 + 1),
        # What a text is made of is of unknown size.
        (some(INT, 3), "string(self[0]).split('').all(x, x == 'a')", UNLIMITED),
    ],
)
def test_costs_are_those_of_kubernetes(schema: Schema, rule: str, cost: int) -> None:
    assert cost_of(schema, rule) == cost


@pytest.mark.parametrize(
    "rule",
    [
        "format.date().validate(self).orValue([1]) == []",
        "format.named(1).hasValue()",
        "format.named('date') == format.date()",
    ],
)
def test_what_formats_give_has_a_type(rule: str) -> None:
    with pytest.raises(CompileError, match="found no matching overload"):
        cost_of(TEXT, rule)


def errors(schema: Schema) -> list[str]:
    whole = {"type": "object", "properties": {"spec": schema}}
    return [str(error) for error in check_schema(whole, "", Demands())]


ONE_OF = "(has(self.a) && !has(self.b)) || (!has(self.a) && has(self.b))"
PAIR = obj(a=TEXT, b=TEXT)


@pytest.mark.parametrize(
    "schema",
    [
        # Timeouts of routes, where texts are durations that no format tells.
        some(ruled(PAIR, "!(has(self.a) && has(self.b)) || duration(self.a) <= duration(self.b)"), 16),
        # A condition that must be among a list's.
        ruled(obj(c=some(obj(("type",), type=TEXT))), "!has(self.c) || self.c.exists(c, c.type == 'Ready')"),
        # Lists in lists without limits, with one choice of two fields inside.
        some(obj(inner=some(ruled(PAIR, "!has(self.a) || has(self.b)")))),
        some(ruled(PAIR, ONE_OF)),
        # Numbers that were texts, and what to do if a field is not there.
        some(ruled(obj(a=TEXT), "!has(self.a) || int(self.a) > 0"), 1024),
        ruled(
            obj(a=some(TEXT, 64), m=TEXT), "!(has(self.a) ? self.a : []).exists(k, k.contains('/')) || self.m == 'N'"
        ),
        # Maps of ports whose names and numbers are checked.
        some(obj(p=ruled(keyed(INT), "self.size() <= 8")), 4),
        # Names that must differ.
        ruled(some(obj(("n",), n=short(63)), 16), "self.all(a, self.exists_one(b, a.n == b.n))"),
    ],
)
def test_definitions_like_those_of_known_projects_are_taken(schema: Schema) -> None:
    assert errors(schema) == []


RULE = "estimated rule cost exceeds budget by factor of"


@pytest.mark.parametrize(
    ("schema", "factor"),
    [
        (ruled(obj(l=some(TEXT)), "self.l.all(x, self.l.exists(y, x == y))"), "more than 100x"),
        (some(ruled(obj(a=TEXT), "self.a.contains('x')")), "more than 100x"),
        (ruled(some(TEXT, 100), "self.all(x, x.matches('^[a-z]+$'))"), "6.3x"),
        (ruled(some(TEXT, 16), "self.all(x, x.matches('[a-z]+'))"), "1.0066"),
    ],
)
def test_what_costs_too_much_is_refused_with_the_factor(schema: Schema, factor: str) -> None:
    found = [error for error in errors(schema) if RULE in error]
    assert len(found) == 1
    assert f"Forbidden: {RULE} {factor}" in found[0]
    assert "(try simplifying the rule" in found[0]


def test_a_limit_inside_a_list_without_one_does_not_multiply() -> None:
    """As many values as a request holds, however the lists around them are divided."""
    rule = "self.a.size() < 4"
    outer, inner = some(some(ruled(obj(a=short(4)), rule), 100)), some(ruled(obj(a=short(4)), rule))
    assert errors(outer) == errors(inner) == []
    assert any(RULE in error for error in errors(some(some(ruled(obj(a=short(4)), rule), 30_000), 30_000)))


def test_many_affordable_rules_are_refused_together() -> None:
    rule = "self.matches('^[a-z]+$')"
    schema = obj(**{f"f{number}": some(ruled(short(1_000), rule), 5_000) for number in range(30)})
    found = errors(schema)
    assert [RULE in error for error in found].count(True) == 0
    assert sum("contributed to estimated rule cost total" in error for error in found) == 4
    assert "estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of" in found[-1]
