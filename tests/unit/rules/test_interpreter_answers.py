"""A bounded memory of answers, and what decisions get from it."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.common.interpretation import InterpretLater
from services._rules.interpreter.configuration import EVERY
from services._rules.interpreter.result_cache import Answers, CachedInterpreter, InterpretationQuery, ResultPending

WIDGET: dict[str, Any] = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "ns", "labels": {"a": "b"}},
    "spec": {"size": 3},
}


def customized(api_version: str, kind: str, operation: str) -> bool:
    return (api_version, kind) == ("example.io/v1", "Widget")


def asked(call: Any) -> InterpretationQuery:
    with pytest.raises(ResultPending) as missing:
        call()
    (question,) = missing.value.questions
    return question


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def interpreter(answers: Answers) -> CachedInterpreter:
    return CachedInterpreter(customized, answers)


def test_missing_result_is_queried_and_then_found(interpreter: CachedInterpreter, answers: Answers) -> None:
    question = asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET))
    assert (question.operation, question.arguments) == (Operation.REPLICA, (WIDGET,))
    assert question not in answers
    answers.put(question, (3, {"resourceRequest": {"cpu": "1"}}))
    assert question in answers
    assert interpreter.interpret(Operation.REPLICA, WIDGET) == (3, {"resourceRequest": {"cpu": "1"}})
    _, requirements = interpreter.interpret(Operation.REPLICA, WIDGET, True)
    assert requirements == {"resourceRequest": {"cpu": "1"}, "namespace": "ns"}


def test_other_arguments_are_another_question(interpreter: CachedInterpreter, answers: Answers) -> None:
    answers.put(asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET)), (3, None))
    asked(lambda: interpreter.interpret(Operation.REPLICA, {**WIDGET, "spec": {"size": 4}}))
    two = asked(lambda: interpreter.interpret(Operation.REVISE, WIDGET, 2))
    assert (two.operation, two.arguments) == (Operation.REVISE, (WIDGET, 2))
    answers.put(two, WIDGET)
    asked(lambda: interpreter.interpret(Operation.REVISE, WIDGET, 3))
    assert asked(lambda: interpreter.interpret(Operation.COMPONENT, WIDGET)).operation == Operation.COMPONENT


def test_an_error_is_an_answer(interpreter: CachedInterpreter, answers: Answers) -> None:
    question = asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET))
    answers.put(question, InterpretLater("webhook w.example.io: no connection"))
    for _ in range(2):
        with pytest.raises(InterpretLater, match=r"webhook w\.example\.io: no connection"):
            interpreter.interpret(Operation.REPLICA, WIDGET)
    answers.drop(question)
    asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET))


@pytest.mark.parametrize(
    ("touched", "again"), [(("example.io/v1", "Widget"), True), (("apps/v1", "Deployment"), False), (EVERY, True)]
)
def test_result_is_cached_until_its_kind_is_reconfigured(
    interpreter: CachedInterpreter, answers: Answers, touched: tuple[str, str], again: bool
) -> None:
    answers.put(asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET)), (3, None))
    answers.changed((touched,))
    if again:
        asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET))
    else:
        assert interpreter.interpret(Operation.REPLICA, WIDGET) == (3, None)


def test_native_kinds_are_answered_at_once(interpreter: CachedInterpreter) -> None:
    spec = {"replicas": 2, "template": {"spec": {"containers": []}}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    assert interpreter.interpret(Operation.REPLICA, deployment)[0] == 2
    assert interpreter.interpret(Operation.REVISE, deployment, 5)["spec"]["replicas"] == 5
    assert interpreter.hook_enabled("apps/v1", "Deployment", Operation.REPLICA)
    assert not interpreter.hook_enabled("apps/v1", "Deployment", Operation.COMPONENT)
    with pytest.raises(InterpretError, match="no interpreter offers InterpretComponent"):
        interpreter.interpret(Operation.COMPONENT, deployment)


def test_customized_kinds_offer_operations_of_decisions(interpreter: CachedInterpreter) -> None:
    assert interpreter.hook_enabled("example.io/v1", "Widget", Operation.REVISE)
    assert not interpreter.hook_enabled("example.io/v1", "Widget", Operation.RETAIN)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({**WIDGET, "kind": "Gadget"}, "kind: ReviseReplica answered with 'Gadget'"),
        ({**WIDGET, "apiVersion": "v1"}, "apiVersion: ReviseReplica answered with 'v1'"),
        ({**WIDGET, "metadata": []}, "metadata: ReviseReplica answered with None"),
        ({**WIDGET, "metadata": {"name": "other", "namespace": "ns"}}, r"metadata\.name: .* 'other'"),
        ({**WIDGET, "metadata": {"name": "w"}}, r"metadata\.namespace: .* None"),
        ({**WIDGET, "metadata": {"name": "w", "namespace": "ns", "labels": []}}, r"metadata\.labels: .* no texts"),
        ({**WIDGET, "metadata": {"name": "w", "namespace": "ns", "annotations": {"a": 1}}}, r"metadata\.annotations: "),
    ],
)
def test_a_revised_object_is_the_one_that_was_asked_about(
    interpreter: CachedInterpreter, answers: Answers, answer: dict[str, Any], why: str
) -> None:
    answers.put(asked(lambda: interpreter.interpret(Operation.REVISE, WIDGET, 1)), answer)
    with pytest.raises(InterpretError, match=why):
        interpreter.interpret(Operation.REVISE, WIDGET, 1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((-1, None), r"replicas: is -1, expected 0 to 10000000; mend"),
        ((-(2**31), None), r"replicas: is -2147483648, .* does not fit into 32 bits"),
        ((2**31 - 1, None), r"replicas: is 2147483647, expected 0 to 10000000"),
        ((1.5, None), r"replicas: is a number, expected a whole number"),
        ((True, None), r"replicas: is a boolean"),
        ((None, None), r"replicas: is null"),
        ((1, {"resourceRequest": {"cpu": "-1"}}), r"resourceRequest\.cpu: is -1, expected no less than 0"),
        ((1, {"resourceRequest": {"memory": "much"}}), r"resourceRequest\.memory: "),
    ],
)
def test_implausible_replicas_are_refused(
    interpreter: CachedInterpreter, answers: Answers, answer: tuple[Any, Any], why: str
) -> None:
    answers.put(asked(lambda: interpreter.interpret(Operation.REPLICA, WIDGET)), answer)
    with pytest.raises(InterpretError, match=f"InterpretReplica answered {why}"):
        interpreter.interpret(Operation.REPLICA, WIDGET)


@pytest.mark.parametrize(
    ("component", "why"),
    [
        ({"name": "a", "replicas": -3}, "component 'a': replicas: is -3"),
        ({"name": "a", "replicas": 2**31 - 1}, "component 'a': replicas: is 2147483647"),
        (
            {"name": "a", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "-5m"}}},
            "component 'a': res",
        ),
    ],
)
def test_implausible_component_is_refused(
    interpreter: CachedInterpreter, answers: Answers, component: dict[str, Any], why: str
) -> None:
    answers.put(
        asked(lambda: interpreter.interpret(Operation.COMPONENT, WIDGET)), [{"name": "b", "replicas": 1}, component]
    )
    with pytest.raises(InterpretError, match=f"InterpretComponent answered {why}"):
        interpreter.interpret(Operation.COMPONENT, WIDGET)


def test_least_recently_used_result_is_dropped() -> None:
    answers = Answers(capacity=3_000)
    questions = [answers.question(Operation.REPLICA, {**WIDGET, "n": n}) for n in range(3)]
    for question in questions[:2]:
        answers.put(question, ["x" * 1_000])
        answers.find(question)
    answers.find(questions[0])
    answers.put(questions[2], ["x" * 1_000])
    assert [question in answers for question in questions] == [True, False, True]


def test_unused_results_are_kept_within_a_bound() -> None:
    answers = Answers(capacity=2_000)
    questions = [answers.question(Operation.REPLICA, {**WIDGET, "n": n}) for n in range(40)]
    for question in questions[:5]:
        answers.put(question, "x" * 1_000)
    assert all(question in answers for question in questions[:5])
    for question in questions[5:]:
        answers.put(question, "x" * 1_000)
    assert sum(question in answers for question in questions) < 10, "but not without end"
    for question in questions:
        answers.drop(question)
    assert not any(question in answers for question in questions)


def test_cached_result_is_copied_for_each_caller(interpreter: CachedInterpreter, answers: Answers) -> None:
    answers.put(asked(lambda: interpreter.interpret(Operation.REVISE, WIDGET, 1)), WIDGET)
    interpreter.interpret(Operation.REVISE, WIDGET, 1)["spec"]["size"] = 99
    assert interpreter.interpret(Operation.REVISE, WIDGET, 1) == WIDGET


def test_secrets_are_never_interpreted_by_customizations(answers: Answers) -> None:
    interpreter = CachedInterpreter(lambda *_: True, answers)
    assert interpreter.hook_enabled("v1", "ConfigMap", Operation.REVISE)
    assert not interpreter.hook_enabled("v1", "Secret", Operation.REVISE)
    assert not interpreter.hook_enabled("v1", "Secret", Operation.REPLICA)
