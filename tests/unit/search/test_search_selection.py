"""Which kinds of which members follow from registries and clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from services.search.registries.coverage import Coverage
from services.search.registries.member_facts import Gvr, MemberFacts, member_facts
from services.search.registries.wanted_kinds import EVERYWHERE, OpenSearch, SecretRef, registry_of, wanted_of
from services.search.state import SearchState, fold
from tests.support.facts import cluster, removed

DEPLOYMENTS = Gvr("apps", "v1", "deployments")
CONFIG_MAPS = Gvr("", "v1", "configmaps")


def registry(*selectors: dict[str, str], name: str = "r", **spec: Any) -> Any:
    manifest = {"metadata": {"name": name}, "spec": {"resourceSelectors": list(selectors), **spec}}
    return registry_of(manifest)


def of(version: str, kind: str, **more: str) -> dict[str, str]:
    return {"apiVersion": version, "kind": kind, **more}


def facts(name: str = "m1", *, ready: bool = True, **fields: Any) -> MemberFacts:
    fact = cluster(name, **fields)
    if not ready:
        manifest = msgspec.json.decode(fact.manifest)
        manifest["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        fact = replace(fact, manifest=Raw(msgspec.json.encode(manifest)))
    return member_facts(fact)


def test_member_serves_what_its_api_enablements_say() -> None:
    found = facts(provider="aws", region="eu", zones=["a"], labels={"x": "y"})
    assert found.kinds == {("apps/v1", "Deployment"): DEPLOYMENTS, ("v1", "ConfigMap"): CONFIG_MAPS}
    assert (found.provider, found.region, found.zones, found.labels) == ("aws", "eu", ("a",), {"x": "y"})
    assert found.reachable
    assert not facts(ready=False).reachable
    assert not facts(deleting=True).reachable


@pytest.mark.parametrize(
    ("target", "chosen"),
    [
        (None, True),
        ({}, True),
        ({"clusterNames": ["m1"]}, True),
        ({"clusterNames": ["m2"]}, False),
        ({"labelSelector": {"matchLabels": {"tier": "lead"}}}, False),
        ({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}}, True),
    ],
)
def test_target_cluster_chooses_members(target: Any, chosen: bool) -> None:
    member = facts(labels={"tier": "gold"}, region="eu")
    spec = {} if target is None else {"targetCluster": target}
    assert bool(wanted_of(member, [registry(of("apps/v1", "Deployment"), **spec)])) is chosen


def test_kinds_that_a_member_does_not_serve_are_skipped() -> None:
    found = wanted_of(facts(), [registry(of("batch/v1", "Job"), of("apps/v1", "Deployment"), of("v1", "Deployment"))])
    assert list(found) == [DEPLOYMENTS]


def test_namespaces_are_united_and_an_empty_one_means_all() -> None:
    two = [registry(of("v1", "ConfigMap", namespace="a")), registry(of("v1", "ConfigMap", namespace="b"))]
    assert wanted_of(facts(), two)[CONFIG_MAPS].namespaces == {"a", "b"}
    for registries in ([*two, registry(of("v1", "ConfigMap"))], [registry(of("v1", "ConfigMap")), *two]):
        assert wanted_of(facts(), registries)[CONFIG_MAPS].namespaces == EVERYWHERE


def test_backends_of_all_registries_count() -> None:
    store = {"openSearch": {"addresses": ["http://a:9200"], "secretRef": {"namespace": "n", "name": "s"}}}
    both = [registry(of("v1", "ConfigMap"), backendStore=store), registry(of("v1", "ConfigMap"))]
    assert wanted_of(facts(), both)[CONFIG_MAPS].backends == {OpenSearch(("http://a:9200",), SecretRef("n", "s"))}


def test_member_that_leaves_is_not_read() -> None:
    assert wanted_of(facts(deleting=True), [registry(of("v1", "ConfigMap"))]) == {}


def test_malformed_registry_names_its_field() -> None:
    with pytest.raises(msgspec.ValidationError, match="resourceSelectors"):
        registry_of({"metadata": {"name": "r"}, "spec": {"resourceSelectors": 5}})


def test_fold_reports_members_that_changed() -> None:
    state = SearchState()
    assert list(fold(state, cluster("m1"))) == ["m1"]
    assert list(fold(state, cluster("m1"))) == []
    assert list(fold(state, cluster("m1", labels={"a": "b"}))) == ["m1"]
    assert list(fold(state, removed("m1"))) == ["m1"]
    assert state.members == {}


def test_coverage_tells_of_members_that_come_and_go() -> None:
    coverage, told = Coverage(), []
    forget = coverage.subscribe(told.append)
    wanted = wanted_of(facts(), [registry(of("v1", "ConfigMap"))])
    for each in (wanted, wanted, {}):
        coverage.become("m1", each)
    assert told == ["m1", "m1"]
    assert not coverage.of(CONFIG_MAPS)
    forget()
    coverage.become("m2", wanted)
    assert (list(coverage.of(CONFIG_MAPS)), told) == (["m2"], ["m1", "m1"])
