"""What clients are told of pods and templates that are taken and do not do what they seem to ask for."""

from typing import Any

import pytest

from services.apiserver.kinds.workloads.template_warnings import name_warnings, template_warnings
from tests.support.builtin_kinds import created, kind_of


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"terminationGracePeriodSeconds": -1}, ["spec.terminationGracePeriodSeconds: must be >= 0"]),
        ({"imagePullSecrets": [{}]}, ['spec.imagePullSecrets[0].name: invalid empty name ""']),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            ['spec.imagePullSecrets[1].name: duplicate name "a"'],
        ),
        ({"hostAliases": [{"ip": "1.1.1.1"}] * 2}, ['spec.hostAliases[1].ip: duplicate ip "1.1.1.1"']),
        ({"volumes": [{"name": "v", "glusterfs": {}}]}, ["spec.volumes[0].glusterfs: deprecated in v1.25"]),
        (
            {"containers": [{"env": [{"name": "A"}, {"name": "A"}]}]},
            ['spec.containers[0].env[1]: hides previous definition of "A"'],
        ),
    ],
)
def test_parts_of_a_pod_that_have_no_effect(spec: dict[str, Any], told: list[str]) -> None:
    found = template_warnings({"spec": spec}, "")
    assert len(found) == len(told)
    assert all(text.startswith(beginning) for text, beginning in zip(found, told, strict=True))


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"containerPort": 80}, {"containerPort": 80}, "duplicate port definition with"),
        ({"containerPort": 80}, {"containerPort": 80, "hostPort": 1}, "overlapping port definition with"),
        (
            {"containerPort": 80, "hostPort": 1, "hostIP": "1.1.1.1"},
            {"containerPort": 80, "hostPort": 1},
            "dangerously ambiguous port definition with",
        ),
        ({"containerPort": 80}, {"containerPort": 81}, ""),
    ],
)
def test_ports_that_other_ports_hide(one: dict[str, Any], other: dict[str, Any], told: str) -> None:
    containers = [{"ports": [one]}, {"ports": [other]}]
    found = template_warnings({"spec": {"containers": containers}}, "t")
    place = "t.spec.containers[1].ports[0]"
    assert found == ([f"{place}: {told} t.spec.containers[0].ports[0]"] if told else [])


def test_address_of_a_port_that_is_not_of_the_host() -> None:
    port = {"containerPort": 80, "hostIP": "a", "protocol": "TCP"}
    assert template_warnings({"spec": {"containers": [{"ports": [port]}]}}, "") == [
        (
            "spec.containers[0].ports[0]: hostIP set without hostPort: "
            "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:a}"
        )
    ]


def test_names_that_are_no_names_of_hosts() -> None:
    assert name_warnings({"metadata": {"name": "a-b"}}) == []
    [text] = name_warnings({"metadata": {"name": "a.b"}})
    assert text.endswith("a DNS label is recommended: [must not contain dots]")


@pytest.mark.parametrize(
    ("version", "name", "field"),
    [
        ("apps/v1", "Deployment", "spec.template.spec"),
        ("apps/v1", "StatefulSet", "spec.template.spec"),
        ("batch/v1", "Job", "spec.template.spec"),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template.spec"),
        ("v1", "PodTemplate", "template.spec"),
        ("v1", "Pod", "spec"),
    ],
)
def test_every_kind_that_makes_pods_tells(version: str, name: str, field: str) -> None:
    kind = kind_of(version, name)
    obj: dict[str, Any] = {"terminationGracePeriodSeconds": -1, "containers": [{"name": "c", "image": "i"}]}
    for part in reversed(field.split(".")):
        obj = {part: obj}
    made = created(kind, obj)
    told = [
        f"{field}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    ]
    assert kind.warnings(made) == told
    newer = {**made, "metadata": {**made["metadata"], "generation": 2}}
    assert kind.change_warnings(newer, made) == told


def test_an_update_that_changes_no_pod_tells_nothing() -> None:
    kind = kind_of("apps/v1", "Deployment")
    spec = {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}
    made = created(kind, {"spec": spec})
    assert kind.change_warnings(made, made) == []
