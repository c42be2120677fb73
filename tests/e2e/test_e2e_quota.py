"""FederatedResourceQuotas as a user meets them: shares of members, and a limit that placements do not exceed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import installation, namespace
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("workloads")

SHARES = {"member1": "20", "member2": "50", "member3": "30"}
ANYWHERE: Manifest = {
    "clusterAffinity": {},
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """An installation that enforces quotas."""
    gate = {"FLEETLOG_FEATURE_GATES": "FederatedQuotaEnforcement=true"}
    with installation(tmp_path_factory, "quota", environment=gate) as made:
        yield made


@pytest.fixture
def limited(enforcing: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own where quotas are enforced."""
    with namespace(enforcing, request.node.name) as made:
        yield made


def quota(space: Space, overall: Manifest, shares: dict[str, str] | None = None) -> None:
    spec: Manifest = {"overall": overall}
    if shares:
        spec["staticAssignments"] = [{"clusterName": name, "hard": {"cpu": cpu}} for name, cpu in shares.items()]
    space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "FederatedResourceQuota",
            "metadata": {"name": "all", "namespace": space.name},
            "spec": spec,
        }
    )


def workload(space: Space, name: str, replicas: int, cpu: str = "1") -> Manifest:
    labels = {"app": name}
    container = {"name": "web", "image": "nginx:1.27", "resources": {"requests": {"cpu": cpu}}}
    return space.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": space.name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )


def status(space: Space) -> Manifest:
    found: Manifest = (space.control.get("federatedresourcequota", "all", space.name) or {}).get("status") or {}
    return found


def scheduled(space: Space, name: str) -> tuple[str, str]:
    """Status and reason of the Scheduled condition of a Deployment's binding."""
    binding = space.control.get("resourcebinding", f"{name}-deployment", space.name) or {}
    for item in (binding.get("status") or {}).get("conditions") or ():
        if item["type"] == "Scheduled":
            return item["status"], item["reason"]
    return "", ""


def running(space: Space, name: str) -> int:
    held = [space.held(member, "deployment", name) for member in space.member]
    return sum(item["spec"]["replicas"] for item in held if item is not None)


def test_members_get_their_share_and_report_its_use(space: Space) -> None:
    quota(space, {"cpu": "100"}, SHARES)
    space.until_in("resourcequota", "all", ("member1", "member2", "member3"))
    for member, cpu in SHARES.items():
        space.until_field(member, "resourcequota", "all", "spec.hard", {"cpu": cpu})
    web = workload(space, "web", 1)
    space.policy(web, ANYWHERE)
    until_equal("overall use", lambda: status(space).get("overallUsed"), {"cpu": "1"})
    assert status(space)["overall"] == {"cpu": "100"}
    shares = {item["clusterName"]: item["hard"]["cpu"] for item in status(space)["aggregatedStatus"]}
    assert shares == SHARES
    names = [work["metadata"] for work in space.control.items("works", "karmada-es-member1")]
    [work] = [item for item in names if item["name"].startswith("all-")]
    label = "federatedresourcequota.karmada.io"
    if work["labels"][f"{label}/namespace"] == space.name:
        assert work["labels"][f"{label}/name"] == "all"
    until("Events of the quota", lambda: any(reason == "SyncWorkSucceed" for _, reason, _ in space.events("all")))
    quota(space, {"cpu": "100"}, {"member2": "50"})
    space.until_in("resourcequota", "all", ("member2",))
    space.control.run("delete", "federatedresourcequota", "all", "--namespace", space.name)
    space.until_in("resourcequota", "all", ())


@pytest.mark.main_path
def test_nothing_is_placed_above_the_limit(limited: Space) -> None:
    quota(limited, {"cpu": "30"})
    first = workload(limited, "first", 20)
    limited.policy(first, ANYWHERE)
    until_equal("overall use", lambda: status(limited).get("overallUsed"), {"cpu": "20"})
    second = workload(limited, "second", 12)
    limited.policy(second, ANYWHERE)
    until_equal("refusal", lambda: scheduled(limited, "second"), ("False", "QuotaExceeded"))
    assert running(limited, "second") == 0

    def told() -> bool:
        failed = [said for _, reason, said in limited.events("second") if reason == "ScheduleBindingFailed"]
        return any("would use 32 cpu, the limit is 30" in said for said in failed)

    until("an Event that names sum and limit", told)
    # It is placed once others use less.
    workload(limited, "first", 18)
    until_equal("replicas that fit now", lambda: running(limited, "second"), 12)
    until_equal("overall use", lambda: status(limited).get("overallUsed"), {"cpu": "30"})
    # More for each pod is refused like more pods, and what runs stays.
    workload(limited, "second", 12, cpu="2")
    until_equal("refusal", lambda: scheduled(limited, "second"), ("False", "QuotaExceeded"))
    held = [limited.held(member, "deployment", "second") for member in limited.member]
    cpus = {
        container["resources"]["requests"]["cpu"]
        for item in held
        if item is not None
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert cpus == {"1"}
