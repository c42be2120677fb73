"""Fields whose feature is off: dropped from new objects, kept where they are in use."""

import copy
from typing import Any

import pytest

from services._rules.kubernetes.validation.field_rules import lookup
from tests.support.builtin_kinds import created, kind_named

POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD, "schedulingGroup": {"podGroupName": "g"}}}
CASES = [
    ("v1 Pod", {"spec": TEMPLATE["spec"]}, "spec.schedulingGroup"),
    (
        "apps/v1 Deployment",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
        "spec.template.spec.schedulingGroup",
    ),
    ("coordination.k8s.io/v1 Lease", {"spec": {"strategy": "OldestEmulationVersion"}}, "spec.strategy"),
]


@pytest.mark.parametrize(("kind", "given", "path"), CASES)
def test_field_of_a_feature_that_is_off(kind: str, given: dict[str, Any], path: str) -> None:
    assert lookup(created(kind_named(kind), copy.deepcopy(given)), path) is None


@pytest.mark.parametrize(("kind", "given", "path"), CASES)
def test_field_in_use_stays(kind: str, given: dict[str, Any], path: str) -> None:
    served = kind_named(kind)
    plain = created(served, copy.deepcopy(given))
    holder, _, name = path.rpartition(".")
    using = copy.deepcopy(plain)
    lookup(using, holder)[name] = lookup(given, path)
    new = copy.deepcopy(using)
    served.prepare_update(new, plain)
    assert lookup(new, path) is None
    new = copy.deepcopy(using)
    served.prepare_update(new, using)
    assert lookup(new, path) == lookup(given, path)


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ({"kind": "PersistentVolumeClaim", "name": "s"}, True),
        ({"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "s"}, True),
        ({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}, True),
        ({"kind": "VolumeSnapshot", "name": "s"}, False),
        ({"apiGroup": "a.b", "kind": "PersistentVolumeClaim", "name": "s"}, False),
    ],
)
def test_claims_keep_known_sources_of_data(source: dict[str, str], kept: bool) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}, "dataSource": source}
    made = created(kind_named("v1 PersistentVolumeClaim"), {"spec": copy.deepcopy(claim)})
    assert ("dataSource" in made["spec"]) == kept
