"""Checks of the parts of a pod."""

from pathlib import Path

import pytest

from schemas.manifest import Manifest
from tests.support.builtin_kinds import created, kind_of
from tests.support.case_files import Case, cases_of

CASES = Path(__file__).with_name("pod_checks.yaml")
VOLUMES = [{"name": "claim", "persistentVolumeClaim": {"claimName": "n"}}, {"name": "files", "emptyDir": {}}]


def assert_errors(case: Case, pod: Manifest, place: str) -> None:
    kind = kind_of("v1", "Pod")
    errors = [str(error) for error in kind.validate_create(created(kind, pod))]
    expected = [f"{place}{text}" for text in case["errors"]]
    assert len(errors) == len(expected), errors
    for error, beginning in zip(errors, expected, strict=True):
        assert error.startswith(beginning)


@pytest.mark.parametrize("case", cases_of(CASES, "containers"))
def test_errors_of_a_container(case: Case) -> None:
    container = {"name": "c", "image": "i", **case["given"]}
    assert_errors(case, {"spec": {"containers": [container], "volumes": VOLUMES}}, "spec.containers[0]")


@pytest.mark.parametrize("case", cases_of(CASES, "volumes"))
def test_errors_of_a_volume(case: Case) -> None:
    volume = {"name": "v", **case["given"]}
    assert_errors(case, {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}}, "spec.volumes[0]")


@pytest.mark.parametrize("case", cases_of(CASES, "specs"))
def test_errors_of_a_pod_spec(case: Case) -> None:
    assert_errors(case, {"spec": {"containers": [{"name": "c", "image": "i"}], **case["given"]}}, "spec")


@pytest.mark.parametrize("case", cases_of(CASES, "annotated"))
def test_errors_of_annotations_of_a_pod(case: Case) -> None:
    metadata = {"annotations": case["given"]}
    assert_errors(case, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "")


def test_volume_with_an_error_cannot_be_mounted() -> None:
    kind = kind_of("v1", "Pod")
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = created(kind, {"spec": {"containers": [container], "volumes": [{"name": "v", "configMap": {}}]}})
    assert [error.field for error in kind.validate_create(pod)] == [
        "spec.volumes[0].configMap.name",
        "spec.containers[0].volumeMounts[0].name",
    ]


@pytest.mark.parametrize(
    ("profile", "said", "field"),
    [
        ({"type": "RuntimeDefault"}, "unconfined", "type"),
        ({"type": "Localhost", "localhostProfile": "p"}, "localhost/q", "localhostProfile"),
        ({"type": "Localhost", "localhostProfile": "p"}, "runtime/default", "type"),
    ],
)
def test_seccomp_field_agrees_with_its_annotation(profile: Manifest, said: str, field: str) -> None:
    kind = kind_of("v1", "Pod")
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": said}
    spec = {"containers": [{"name": "c", "image": "i"}], "securityContext": {"seccompProfile": profile}}
    errors = kind.validate_create(created(kind, {"metadata": {"annotations": annotations}, "spec": spec}))
    assert [error.field for error in errors] == [f"spec.securityContext.seccompProfile.{field}"]
