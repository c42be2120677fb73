"""Warnings about deprecated versions of built-in kinds."""

import pytest

from services.apiserver.http.deprecations import deprecation
from services.apiserver.kinds.kind_catalog import builtin_registry

OF_1_20, OF_TODAY = builtin_registry("1.20"), builtin_registry()


def told(registry: object, api_version: str, name: str) -> str:
    kind = registry.by_api_version(api_version, name)
    assert kind is not None, (api_version, name)
    return deprecation(kind)


@pytest.mark.parametrize(
    ("api_version", "name", "text"),
    [
        ("v1", "ComponentStatus", "is deprecated in v1.19+"),
        (
            "extensions/v1beta1",
            "Ingress",
            "is deprecated in v1.14+, unavailable in v1.22+; use networking.k8s.io/v1 Ingress",
        ),
        (
            "scheduling.k8s.io/v1beta1",
            "PriorityClass",
            "is deprecated in v1.14+, unavailable in v1.22+; use scheduling.k8s.io/v1 PriorityClass",
        ),
        (
            "storage.k8s.io/v1beta1",
            "CSINode",
            "is deprecated in v1.17+, unavailable in v1.22+; use storage.k8s.io/v1 CSINode",
        ),
        (
            "storage.k8s.io/v1beta1",
            "CSIDriver",
            "is deprecated in v1.19+, unavailable in v1.22+; use storage.k8s.io/v1 CSIDriver",
        ),
    ],
)
def test_versions_that_end_are_told_in_every_release(api_version: str, name: str, text: str) -> None:
    assert told(OF_1_20, api_version, name) == f"{api_version} {name} {text}"
    assert told(OF_TODAY, api_version, name) == f"{api_version} {name} {text}"


@pytest.mark.parametrize(
    ("api_version", "name", "text"),
    [
        ("v1", "Endpoints", "is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("batch/v1beta1", "CronJob", "is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"),
        ("policy/v1beta1", "PodSecurityPolicy", "is deprecated in v1.21+, unavailable in v1.25+"),
        ("events.k8s.io/v1beta1", "Event", "is deprecated in v1.22+, unavailable in v1.25+"),
        (
            "autoscaling/v2beta2",
            "HorizontalPodAutoscaler",
            "is deprecated in v1.23+, unavailable in v1.26+; use autoscaling/v2 HorizontalPodAutoscaler",
        ),
    ],
)
def test_a_release_does_not_warn_of_later_deprecations(api_version: str, name: str, text: str) -> None:
    assert told(OF_1_20, api_version, name) == ""
    assert told(OF_TODAY, api_version, name) == f"{api_version} {name} {text}"


def test_every_beta_of_a_newest_server_is_deprecated() -> None:
    betas = [kind for kind in OF_TODAY.all() if "beta" in kind.resource.version]
    assert [kind.resource for kind in betas if not deprecation(kind)] == []
    stable = [kind for kind in OF_TODAY.all() if "beta" not in kind.resource.version]
    assert {kind.resource.kind for kind in stable if deprecation(kind)} == {"ComponentStatus", "Endpoints"}
