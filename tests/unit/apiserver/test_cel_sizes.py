"""What is looked at and taken over of an object before an expression is evaluated, counted; and budgets."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.kubernetes.cel.costs import LIMIT_PER_EVALUATION
from services._rules.kubernetes.cel.programs import CostExceeded, EvaluationError, Inputs, Program
from services._rules.kubernetes.cel.selections import pruned, selected
from services._rules.kubernetes.cel.value_sizes import MOST_LOOKED_AT
from services.apiserver.core.rule_budget import Budget, BudgetSpent

LABELLED = "!has(object.metadata.labels) || object.metadata.labels.all(k, k != 'forbidden')"
SAFE_UPGRADES = (
    "object.spec.group != 'lab.example.com' || (has(object.metadata.annotations) && "
    "object.metadata.annotations.exists(k, k == 'lab.example.com/bundle-version') && "
    "!matches(object.metadata.annotations['lab.example.com/bundle-version'], 'v1.[0-4].\\\\d+') && "
    "object.metadata.annotations.all(k, k != 'forbidden'))"
)


def tree(depth: int, wide: int = 2) -> Any:
    return {f"f{number}": tree(depth - 1, wide) for number in range(wide)} if depth else 1


def box(depth: int, wide: int = 2) -> dict[str, Any]:
    notes = {"lab.example.com/bundle-version": "v1.5.0", "a": "b"}
    return {"metadata": {"labels": {"a": "b", "c": "d"}, "annotations": notes}, "spec": tree(depth, wide)}


def inputs(obj: Any) -> Inputs:
    return Inputs({"object": obj})


@pytest.mark.parametrize(("depth", "wide"), [(8, 2), (12, 2), (16, 2), (3, 40), (200, 1)])
@pytest.mark.parametrize("expression", [LABELLED, SAFE_UPGRADES])
def test_only_what_is_selected_is_looked_at(expression: str, depth: int, wide: int) -> None:
    program, given = Program(expression, ("object",)), inputs(box(depth, wide))
    assert program.cost_with(given) < 100
    assert given.looks.count < 20
    assert Budget().evaluate(program, given) is True


def test_nested_loops_look_at_every_value_once() -> None:
    program = Program("object.spec.all(a, object.spec[a].all(b, object.spec[a][b] >= 0))", ("object",))
    given = inputs({"spec": {str(a): {str(b): b for b in range(50)} for a in range(50)}})
    assert 50 * 50 < program.cost_with(given) < LIMIT_PER_EVALUATION
    assert given.looks.count < 4 * 50 * 50


def test_what_would_be_looked_at_without_end_is_not_begun() -> None:
    program = Program("object.l.all(x, x.l.all(y, y.l.all(z, z != 'a')))", ("object",))
    row = [{"l": [{"l": ["b"] * 100}] * 100}] * 100
    given = inputs({"l": row})
    assert program.cost_with(given) > LIMIT_PER_EVALUATION
    assert given.looks.count <= MOST_LOOKED_AT
    with pytest.raises(CostExceeded):
        Budget().evaluate(program, given)


def test_looks_of_one_expression_do_not_count_for_the_next() -> None:
    given = inputs({"l": list(range(MOST_LOOKED_AT - 10)), "m": list(range(1_000))})
    many, few = (Program(f"object.{name}.exists(x, x == 0)", ("object",)) for name in ("l", "m"))
    many.cost_with(given)
    assert few.cost_with(given) < LIMIT_PER_EVALUATION
    assert Budget().evaluate(few, given) is True


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        ("object.a.b == 1", {"a": {"b": 1}}),
        ("has(object.a.l) && has(object.l)", {"a": {"l": []}, "l": []}),
        ("has(object.a) && object.a.b == 1", {"a": {"b": 1}}),
        ("object.a == null", {"a": {"b": 1, "l": [1], "c": {"d": 2}}}),
        ("object.a.b == 1 || 'l' in object.a", {"a": {"b": 1, "l": [1], "c": {"d": 2}}}),
        ("object['a'].?c.?d.hasValue()", {"a": {"c": {"d": 2}}}),
        ("object.l.all(x, x.y == object.a.b)", {"a": {"b": 1}, "l": [{"y": 1, "z": 2}]}),
        ("object.nope.x == 1", {}),
        ("object.size() > 1", None),
    ],
)
def test_only_what_is_selected_is_taken_over(expression: str, seen: dict[str, Any] | None) -> None:
    whole = {"a": {"b": 1, "l": [1], "c": {"d": 2}}, "l": [{"y": 1, "z": 2}]}
    selection = selected(Program(expression, ("object",)).tree)
    assert pruned({"object": whole}, selection) == {"object": whole if seen is None else seen}


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("has(object.spec) && has(object.spec.f0) && !has(object.spec.x)", True),
        ("has(object.spec.f0.f1) && object.spec.f0.size() == 2", True),
        ("object.metadata.labels == {'a': 'b', 'c': 'd'}", True),
        ("object.?metadata.?labels.?a.orValue('none') == 'b' && !object.?status.hasValue()", True),
        ("object.metadata.labels['a'] == 'b' && 'c' in object.metadata.labels", True),
    ],
)
def test_results_are_those_with_the_whole_object(expression: str, result: bool) -> None:
    assert Program(expression, ("object",)).evaluate(inputs(box(3))) is result


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(EvaluationError, match="no such key: status"):
        Program("object.status.phase == 'x'", ("object",)).evaluate(inputs(box(1)))


def test_assumed_costs_are_looked_at_again() -> None:
    program, given = Program("object.l.all(x, x < 5)", ("object",)), inputs({"l": [1, 2, 3]})
    budget = Budget(cost=1_000)
    assert all(budget.evaluate(program, given, worst=400) for _ in range(20))


def test_a_budget_ends() -> None:
    program, given = Program("object.l.all(x, x < 500)", ("object",)), inputs({"l": list(range(100))})
    budget = Budget(cost=1_500)
    assert [budget.evaluate(program, given) for _ in range(2)] == [True, True]
    with pytest.raises(BudgetSpent):
        budget.evaluate(program, given)
    with pytest.raises(BudgetSpent):
        Budget(seconds=-1.0).evaluate(program, given)
