"""Expressions: Kubernetes' functions, errors in its words, what evaluation costs, and hostile texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from services._rules.kubernetes.cel import costs
from services._rules.kubernetes.cel.programs import CompileError, CostExceeded, EvaluationError, Inputs, Program
from services._rules.kubernetes.cel.reviews import check_expression
from services._rules.kubernetes.cel.schema_types import escaped
from services._rules.kubernetes.patterns import PatternError, matcher, whole_matcher

BIG = {"l": list(range(300)), "s": "a" * 100_000}


def value_of(expression: str, value: Any = None) -> Any:
    program = Program(expression, ("self",))
    return program.evaluate(Inputs({"self": value}))


@pytest.mark.parametrize(
    "expression",
    [
        "'a1b22'.find('[0-9]+') == '1' && 'x'.find('[0-9]') == ''",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [].isSorted()",
        "[1, 2].sum() == 3 && [1.5, 0.5].sum() == 2.0 && [3, 1].min() == 1 && ['a', 'b'].max() == 'b'",
        "quantity('1') == quantity('1000m') && quantity('1Gi').isGreaterThan(quantity('1G'))",
        "quantity('50k').add(quantity('1')).compareTo(quantity('50001')) == 0 && quantity('-1').sign() == -1",
        "quantity('2').sub(1).asInteger() == 1 && quantity('500m').asApproximateFloat() == 0.5",
        "isQuantity('1Ki') && !isQuantity('x') && quantity('1').isInteger() && !quantity('1m').isInteger()",
        "url('https://u@a.b:80/x%20y?k=1&k=2').getHost() == 'a.b:80' && isURL('/x') && !isURL('x y')",
        "url('https://a.b:80/x').getPort() == '80' && url('https://[::1]:80/x').getHostname() == '::1'",
        "url('https://a/x%20y?k=1&k=2').getEscapedPath() == '/x%20y' && url('/?k=1&k=2').getQuery()['k'][1] == '2'",
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && isIP('1.2.3.4') && !isIP('1.2.3')",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && ip('0:0::1') == ip('::1')",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('8.8.8.8').isGlobalUnicast() && ip('0.0.0.0').isUnspecified()",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.1/8').ip() == ip('10.0.0.1')",
        "cidr('::/0').prefixLength() == 0 && isCIDR('1.2.3.0/24') && !isCIDR('1.2.3.4')",
        "semver('1.2.3') == semver('1.2.3+b.1') && semver('1.2.3') != semver('1.2.3-b') && isSemver('1.2.3-b.1+c')",
        "semver('v01.01', true) == semver('1.1.0') && semver('7', true).major() == 7 && isSemver('0.00.1-x.0', true)",
        "semver('1.20.3').minor() == 20 && semver('1.20.3').patch() == 3 && isSemver('1.2.3', false)",
        "semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
        "semver('1.0.0-2').compareTo(semver('1.0.0-10')) == -1 && semver('1.0.0-b').compareTo(semver('1.0.0-1')) == 1",
        "semver('1.0.0-a').compareTo(semver('1.0.0-a.0')) == -1 && semver('1.0.0-a').compareTo(semver('1.0.0-a')) == 0",
        "['', '1', '1.2', 'v1.0.0', ' 1.0.0', '1. 0.0', '1.0.0 ', '..'].all(x, !isSemver(x))",
        "['01.1.1', '1.1.1-', '1.1.1-01', '1.1.1+', '1.1.1+b..c', '1.1.1-é'].all(x, !isSemver(x))",
        "['', ' 1.0.0', '1. 0.0', '1.0.0 ', '1-a', '1.0.18446744073709551616', 'vv1'].all(x, !isSemver(x, true))",
        "!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('My').hasValue()",
        "format.named('byte').value() == format.byte() && format.byte() != format.date()",
        "!format.named('dns1123label').hasValue() && format.named('date').optMap(f, 1).hasValue()",
        "['2021-02-30', 'x'].map(x, format.date().validate(x).value()) == [['invalid date'], ['invalid date']]",
        "[{'a': format.uuid().validate('x').orValue([])}][0].a == ['does not match the UUID format']",
        "!format.dns1123LabelPrefix().validate('a-').hasValue() && format.dns1035Label().validate('').hasValue()",
        "format.qualifiedName().validate('a/b/c').value()[0].startsWith('a qualified name')",
        "!format.labelValue().validate('').hasValue() && format.uri().validate('x y').value()[0].contains('request')",
        "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue() && format.byte().validate('aGVs=').hasValue()",
        "sets.contains([1, 2], [2]) && 'a,b'.split(',') == ['a', 'b'] && 'A'.lowerAscii() == 'a'",
        "[1, 2].all(i, v, i < v) && {'a': 1}.?b.orValue(2) == 2 && cel.bind(x, 1, x + x == 2)",
        "[3, 1].sort() == [1, 3] && [[1], [2]].flatten() == [1, 2] && [1, 1].distinct() == [1]",
        "'%s-%d'.format(['a', 1]) == 'a-1' && math.greatest(1, 2) == 2",
        "duration('1h') > duration('30m') && timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",
    ],
)
def test_functions(expression: str) -> None:
    assert value_of(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("self.x", "no such key: x"),
        ("self.l[500]", "index out of bounds: 500"),
        ("1 / (self.l[0])", "division by zero"),
        ("self.l[0] + self.s", "no such overload"),
        ("self.l[1] + 9223372036854775807", "integer overflow"),
        ("quantity('x').sign()", "quantities must match"),
        ("format.named('none').value()", "optional"),
        ("format.date().validate('2021-02-03').value()", "optional"),
        ("quantity('1').validate('x')", "no such overload"),
        ("semver('v1.0').major()", "No Major.Minor.Patch elements found"),
        ("semver('1.0-a', true).major()", "short version cannot contain PreRelease/Build meta data"),
        ("semver('1.0.0').compareTo(quantity('1'))", "no such overload"),
        ("quantity('1').isLessThan(semver('1.0.0'))", "no such overload"),
        ("[self.l[0]].filter(x, x > 1).max()", "max called on empty list"),
        ("self.s.find('(')", "illegal regex: error parsing regexp: missing closing ): `(`"),
        ("ip('1.2.3.4.5').family()", "parse error during conversion from string"),
        ("{'@quantity': '1'}.containsIP('1.2.3.4')", "no such overload"),
        ("optional.of(1)", "the result has a type that cannot be used"),
    ],
)
def test_errors(expression: str, text: str) -> None:
    with pytest.raises(EvaluationError, match=text.replace("(", r"\(").replace(")", r"\)").replace("`", ".")):
        value_of(expression, BIG)


def test_loops_without_end_are_stopped() -> None:
    with pytest.raises(CostExceeded):
        value_of("self.l.all(x, self.l.all(y, self.l.all(z, true)))", BIG)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 500 + "true" + ")" * 500,
        "self" + ".a" * 500,
        "true" + " && true" * 4_000,
        "[" * 500 + "]" * 500,
        "'\\ud800'",
        "self.{",
        "\x00",
        "lists.range(9) == []",
        "{'a': 1}.transformMap(k, v, v) == {}",
    ],
    ids=range(9),
)
def test_hostile_expressions_are_refused(expression: str) -> None:
    with pytest.raises(CompileError):
        Program(expression, ("self",))


@settings(max_examples=60, deadline=None)
@given(some.text(alphabet="self.abx()[]{}'\"\\ &|!?:<>=+-*/%,123\n", max_size=40))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    problem = check_expression(text, ("bool",))
    assert isinstance(problem, str)


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("self.l[0] == 1", 1, 10),
        ("self.l.all(x, x > 1)", 300 * 2, 300 * 10),
        ("self.l.all(x, self.l.all(y, x != y))", 300 * 300 * 2, 300 * 300 * 10),
        ("self.s.matches('^a+$')", 10_000, 20_000),
        ("self.s.contains('aaaaaaaaaaaaaaaaaaaa')", 20_000, 40_000),
        ("format.dns1123Subdomain().validate(self.s).hasValue()", 150_000, 150_100),
        ("format.uri().validate(self.s).hasValue()", 2_760_000, 2_761_000),
        ("isSemver(self.s, true)", 10_000, 10_010),
        ("(self.s + self.s + self.s).size() > 1", 50_000, 100_000),
        ("self.l.map(x, self.s).map(y, y + 'b').size() > 1", 3_000_000, 4_000_000),
        ("cel.bind(a, self.s + self.s, cel.bind(b, a + a, b + b)) == ''", 140_000, 200_000),
        ("self.s.replace('a', self.s) == ''", 1_000_000_000, 2_000_000_000),
        ("self.s.split('').all(c, c == 'a')", 300_000, 1_000_000),
    ],
)
def test_costs_grow_with_the_sizes(expression: str, least: int, most: int) -> None:
    program = Program(expression, ("self",))
    assert least <= program.cost_with(Inputs({"self": BIG})) <= most


def test_costs_are_bounded_before_anything_is_evaluated() -> None:
    program = Program("self.s.replace('a', self.s) == ''", ("self",))
    assert program.cost_with(Inputs({"self": BIG})) > costs.LIMIT_PER_EVALUATION


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", "plain"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("1a", None),
        ("a b", None),
        ("é", None),
    ],
)
def test_names_are_escaped(name: str, shown: str | None) -> None:
    assert escaped(name) == shown


def test_patterns_are_those_of_re2() -> None:
    # Python's own engine would not finish the first one.
    assert not matcher("^(a+)+$")("a" * 50_000 + "!")
    assert matcher(r"^\pL+[[:digit:]]\z")("é1")
    assert whole_matcher("kube-.*")("kube-system")
    assert not whole_matcher("kube")("kube-system")
    for pattern in ("(?=a)", "((a{1,1000}){1,1000}){1,1000}", "(", r"\1", "a**"):
        with pytest.raises(PatternError, match="error parsing regexp"):
            matcher(pattern)
