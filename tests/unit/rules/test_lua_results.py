"""What scripts return becomes typed results: empty tables, requirements, components, dependencies, whole objects."""

from typing import Any

import pytest

from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.scripts.customizations import Customizations
from services._rules.interpreter.scripts.empty_tables import settle_empties
from services._rules.interpreter.scripts.kube_helpers import (
    pod_dependencies_of,
    pod_requirements,
    resource_add,
    resource_quantity,
)
from services._rules.interpreter.scripts.result_types import dependencies_of
from services._rules.interpreter.scripts.script_calls import LuaValue, arguments_of, result_of

NIL = LuaValue("nil")


def table(json: str) -> LuaValue:
    return LuaValue("table", json.encode(), empties="[]" in json)


def test_empty_table_takes_the_type_of_the_witness() -> None:
    witness = {"spec": {"map": {}, "list": [], "rows": [{"opts": {}}, {"opts": {"a": 1}}]}}
    value = {"spec": {"map": [], "list": [], "new": [], "rows": [{"opts": []}, {"opts": [], "x": []}]}}
    assert settle_empties(value, [witness]) == {
        "spec": {"map": {}, "list": [], "rows": [{"opts": {}}, {"opts": {}}]},
    }


def test_empty_table_is_an_object_where_witnesses_disagree() -> None:
    assert settle_empties({"a": [], "b": [1, [], 2]}, [{"a": []}, {"a": {}}]) == {"a": {}, "b": [1, 2]}


def test_members_that_become_empty_stay() -> None:
    assert settle_empties({"extra": {"app.kubernetes.io/name": []}}, []) == {"extra": {}}


@pytest.mark.parametrize(
    ("number", "replicas"),
    [(2.9, 2), (-3, -3), (2147483647, 2147483647), (2147483648, -(2**31)), (float("nan"), -(2**31))],
)
def test_replicas_are_cut_to_32_bits(number: float, replicas: int) -> None:
    assert result_of(Operation.REPLICA, LuaValue("number", scalar=number), NIL, [{}]) == {
        "replicas": replicas,
        "requirements": None,
    }


def test_requirements_are_canonical_and_keep_known_members_only() -> None:
    given = table(
        '{"resourceRequest":{"cpu":"1.5","memory":"1024Mi","n":2},"strange":1,"nodeClaim":{"tolerations":[]}}'
    )
    assert result_of(Operation.REPLICA, LuaValue("number", scalar=1), given, [{}])["requirements"] == {
        "nodeClaim": {},
        "resourceRequest": {"cpu": "1500m", "memory": "1Gi", "n": "2"},
    }


@pytest.mark.parametrize(
    ("operation", "value", "said"),
    [
        (Operation.REPLICA, LuaValue("string"), "GetReplicas returned a string, expected a number"),
        (Operation.HEALTH, NIL, "InterpretHealth returned a nil, expected a boolean"),
        (Operation.STATUS, NIL, "ReflectStatus returned a nil, expected a table"),
        (Operation.DEPENDENCY, NIL, "GetDependencies returned a nil, expected a table"),
        (Operation.DEPENDENCY, table('[{"kind":"Secret","name":"x"}]'), "dependencies[0].apiVersion: is required"),
        (Operation.DEPENDENCY, table('{"apiVersion":"v1"}'), "dependencies"),
        (Operation.COMPONENT, table('{"name":"x"}'), "components: Expected `array`, got `object`"),
        (Operation.COMPONENT, table('[{"name":"x","replicas":2.5}]'), "at `components[0].replicas`"),
        (Operation.REVISE, table("[]"), "returned a list"),
        (Operation.RETAIN, table('{"spec":{}}'), "without kind"),
        (
            Operation.AGGREGATE,
            table('[{"clusterName":"m1"}]'),
            "AggregateStatus returned a list, expected the whole object",
        ),
        (Operation.RETAIN, LuaValue("unfit", b"a list has gaps"), "Retain returned what is no JSON: a list has gaps"),
    ],
)
def test_another_result_is_refused_in_words(operation: str, value: LuaValue, said: str) -> None:
    with pytest.raises(InterpretError) as refused:
        result_of(operation, value, NIL, [{}, {}])
    assert said in str(refused.value)


def test_empty_result_is_object_or_list_by_operation() -> None:
    assert result_of(Operation.STATUS, table("[]"), NIL, [{}]) == {}
    assert result_of(Operation.DEPENDENCY, table("[]"), NIL, [{}]) == []
    assert result_of(Operation.COMPONENT, table("[]"), NIL, [{}]) == []
    assert result_of(Operation.COMPONENT, NIL, NIL, [{}]) is None
    assert result_of(Operation.REPLICA, LuaValue("number", scalar=1), table("[]"), [{}])["requirements"] == {}


def test_only_retention_and_revision_have_witnesses() -> None:
    empty = table('{"kind":"W","spec":{"map":[]}}')
    witness = {"spec": {"map": {}}}
    kept = {"kind": "W", "spec": {"map": {}}}
    assert result_of(Operation.REVISE, empty, NIL, [witness, 3]) == kept
    assert result_of(Operation.RETAIN, empty, NIL, [{}, witness]) == kept
    assert result_of(Operation.AGGREGATE, empty, NIL, [witness, []]) == {"kind": "W", "spec": {}}


def test_status_items_drop_empty_members() -> None:
    items = [{"clusterName": "m1", "applied": False, "appliedMessage": "", "status": None, "health": "Healthy"}]
    assert arguments_of(Operation.AGGREGATE, [{}, items]) == ({}, [{"clusterName": "m1", "health": "Healthy"}])
    assert arguments_of(Operation.AGGREGATE, [{}, None]) == ({}, None)


def test_dependencies_of_scripts_are_united_without_selectors() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "namespace": "a", "name": "s"}
    chosen = {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "x"}}}
    assert dependencies_of([[secret, chosen], [chosen, secret]]) == [chosen, chosen, secret]


def test_quantities_add_up_in_the_family_of_the_first() -> None:
    assert resource_add([]) == "0"
    assert resource_add(["2G", "64Mi", "1k"]) == "2067109864"
    assert resource_add(["0", "1Gi", "1Gi"]) == "2Gi"
    assert resource_quantity("100m") == 0.1
    for bad in ("-1", "x", ""):
        with pytest.raises(InterpretError):
            resource_quantity(bad)


def test_a_pod_template_tells_needs_and_dependencies() -> None:
    template = {
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"resources": {"limits": {"cpu": "1"}}, "envFrom": [{"secretRef": {"name": "s"}}]}],
        }
    }
    assert pod_requirements(template) == {
        "nodeClaim": {"nodeSelector": {"disk": "ssd"}},
        "resourceRequest": {"cpu": "1"},
    }
    assert pod_dependencies_of(template, "a") == [{"apiVersion": "v1", "kind": "Secret", "namespace": "a", "name": "s"}]
    assert pod_requirements({}) is None
    assert pod_dependencies_of([], "a") is None
    with pytest.raises(InterpretError):
        pod_requirements("text")


def customization(name: str, kind: str = "Widget", **scripts: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": kind},
            "customizations": {member: {"luaScript": script} for member, script in scripts.items()},
        },
    }


def test_first_customization_answers_and_dependencies_add_up() -> None:
    found = Customizations(
        [
            customization("b", retention="B", dependencyInterpretation="DB"),
            customization("a", retention="", replicaResource="A", dependencyInterpretation="DA"),
            customization("c", retention="C", replicaResource="C"),
            customization("d", "Gadget", retention="G"),
            {"metadata": {"name": "e"}, "spec": {}},
        ]
    )
    target = ("example.io/v1", "Widget")
    assert found.scripts(*target, Operation.RETAIN) == ("B",)
    assert found.scripts(*target, Operation.REPLICA) == ("A",)
    assert found.scripts(*target, Operation.DEPENDENCY) == ("DA", "DB")
    assert found.scripts(*target, Operation.HEALTH) == ()
    assert found.hook_enabled("example.io/v1", "Gadget", Operation.RETAIN)
    assert not found.hook_enabled("example.io/v2", "Gadget", Operation.RETAIN)
