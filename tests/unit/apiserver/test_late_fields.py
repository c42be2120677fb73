"""Fields whose feature was off in a release: dropped from new objects there, kept where they are in use."""

import copy
from typing import Any

import pytest

from services._rules.kubernetes.validation.field_rules import lookup
from services.apiserver.kinds.builtin import BuiltinKind
from tests.support.builtin_kinds import created, kind_named

POD = {"containers": [{"name": "c", "image": "i"}]}
EPHEMERAL = {
    "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
}
CASES = [
    ("v1 Service", {"spec": {"ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]}}, "spec.ipFamilyPolicy"),
    ("v1 Service", {"spec": {"topologyKeys": ["*"], "ports": [{"port": 80}]}}, "spec.topologyKeys"),
    ("v1 Pod", {"spec": {**POD, "ephemeralContainers": [{"name": "e", "image": "i"}]}}, "spec.ephemeralContainers"),
    ("storage.k8s.io/v1 CSIDriver", {"spec": {"requiresRepublish": True}}, "spec.requiresRepublish"),
    (
        "batch/v1 Job",
        {"spec": {"ttlSecondsAfterFinished": 5, "template": {"spec": {**POD, "restartPolicy": "Never"}}}},
        "spec.ttlSecondsAfterFinished",
    ),
]


def as_of(text: str, profile: str) -> BuiltinKind:
    kind = kind_named(text, profile)
    assert isinstance(kind, BuiltinKind)
    return kind


@pytest.mark.parametrize(("kind", "given", "path"), CASES)
def test_field_of_a_feature_that_is_off(kind: str, given: dict[str, Any], path: str) -> None:
    assert lookup(created(as_of(kind, "1.20"), copy.deepcopy(given)), path) is None
    if path != "spec.ephemeralContainers":
        assert lookup(created(as_of(kind, "current"), copy.deepcopy(given)), path) == lookup(given, path)


@pytest.mark.parametrize(("kind", "given", "path"), CASES)
def test_late_field_in_use_stays(kind: str, given: dict[str, Any], path: str) -> None:
    served = as_of(kind, "1.20")
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


def test_items_and_templates_lose_late_fields_too() -> None:
    spec = {**POD, "volumes": [{"name": "v", "ephemeral": EPHEMERAL}]}
    spec["containers"] = [{"name": "c", "image": "i", "securityContext": {"procMount": "Unmasked"}}]
    given = {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        }
    }
    made = created(as_of("apps/v1 Deployment", "1.20"), copy.deepcopy(given))["spec"]["template"]["spec"]
    assert made["volumes"] == [{"name": "v"}]
    assert made["containers"][0]["securityContext"] == {"procMount": "Default"}
    kept = created(as_of("apps/v1 Deployment", "current"), copy.deepcopy(given))["spec"]["template"]["spec"]
    assert "ephemeral" in kept["volumes"][0]
    assert kept["containers"][0]["securityContext"] == {"procMount": "Unmasked"}


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
    made = created(as_of("v1 PersistentVolumeClaim", "1.20"), {"spec": copy.deepcopy(claim)})
    assert ("dataSource" in made["spec"]) == kept
