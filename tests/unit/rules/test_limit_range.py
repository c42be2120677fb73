"""LimitRanges: what containers get, and what is refused in which words."""

from __future__ import annotations

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.limit_range import ANNOTATION, apply_defaults, claim_violations, pod_violations


def pod(*resources: Manifest, first: tuple[Manifest, ...] = ()) -> Manifest:
    spec: Manifest = {"containers": [{"name": f"c{n}", "resources": one} for n, one in enumerate(resources)]}
    if first:
        spec["initContainers"] = [{"name": f"i{n}", "resources": one} for n, one in enumerate(first)]
    return {"metadata": {"name": "p"}, "spec": spec}


def limits(kind: str, **fields: Manifest) -> list[Manifest]:
    return [{"spec": {"limits": [{"type": kind, **fields}]}}]


def both(name: str, request: str, limit: str) -> Manifest:
    return {"requests": {name: request}, "limits": {name: limit}}


def test_limit_range_defaults_fill_open_fields() -> None:
    made = pod({}, {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}, first=({},))
    apply_defaults(made, limits("Container", default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "100m"}))
    containers = made["spec"]["containers"]
    assert containers[0]["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert containers[1]["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu request for container c0; cpu, memory limit for container c0; "
        "memory limit for container c1; cpu request for init container i0; cpu, memory limit for init container i0"
    )


def test_without_ranges_a_pod_stays_as_it_is() -> None:
    made = pod({})
    apply_defaults(made, limits("Pod", max={"cpu": "1"}))
    assert made == pod({})


@pytest.mark.parametrize(
    ("resources", "bounds", "said"),
    [
        (both("cpu", "1", "2"), {"max": {"cpu": "1"}}, "maximum cpu usage per Container is 1, but limit is 2"),
        ({}, {"max": {"cpu": "1"}}, "maximum cpu usage per Container is 1.  No limit is specified"),
        (
            both("cpu", "50m", "1"),
            {"min": {"cpu": "0.1"}},
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        ({}, {"min": {"cpu": "1"}}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            both("cpu", "1", "4"),
            {"maxLimitRequestRatio": {"cpu": "2"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        ),
        (
            {"limits": {"cpu": "4"}},
            {"maxLimitRequestRatio": {"cpu": "2"}},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
    ],
)
def test_container_violates_a_named_bound(resources: Manifest, bounds: Manifest, said: str) -> None:
    assert pod_violations(pod(resources), limits("Container", **bounds)) == [said]


def test_a_container_on_its_bounds_is_fine() -> None:
    bounds = {"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}
    assert pod_violations(pod(both("cpu", "1", "2")), limits("Container", **bounds)) == []


def test_pod_is_checked_by_sum_or_largest_init_container() -> None:
    half = both("cpu", "500m", "500m")
    bounds = limits("Pod", max={"cpu": "1"})
    assert pod_violations(pod(half, half), bounds) == []
    assert pod_violations(pod(half, half, half), bounds) == ["maximum cpu usage per Pod is 1, but limit is 1500m"]
    assert pod_violations(pod(half, first=(both("cpu", "2", "2"),)), bounds) == [
        "maximum cpu usage per Pod is 1, but limit is 2"
    ]


def test_a_claim_is_held_to_the_bounds_of_claims() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    kind = "PersistentVolumeClaim"
    assert claim_violations(claim, limits(kind, max={"storage": "1Gi"})) == [
        f"maximum storage usage per {kind} is 1Gi, but request is 2Gi"
    ]
    assert claim_violations(claim, limits(kind, min={"storage": "3Gi"})) == [
        f"minimum storage usage per {kind} is 3Gi, but request is 2Gi"
    ]
    assert claim_violations(claim, limits("Pod", max={"storage": "1Gi"})) == []
