"""Bindings and works of a MultiClusterService have the labels and annotations by which Karmada finds them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from schemas.events.binding import PolicyRef
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered
from services._rules.endpoints.dispatched_slices import slice_key
from services._rules.endpoints.multi_cluster_services import marker_key
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from tests.integration.gateway.story import raw, requested
from tests.support.facts import SHARED
from tests.unit.gateway.gateway_facts import Shown, entries

SHARED_LABELS = {
    "multiclusterservice.karmada.io/namespace": "default",
    "multiclusterservice.karmada.io/name": "web",
    "multiclusterservice.karmada.io/permanent-id": "id-1",
}
MARKER = WorkRendered(
    cluster="member1",
    key=marker_key("default", "web"),
    uid="s1",
    api_version="networking.karmada.io/v1alpha1",
    kind="MultiClusterService",
    digest="d",
    manifest=raw({"kind": "MultiClusterService", "metadata": {"name": "web", "namespace": "default"}}),
    suspended=True,
    policy=SHARED,
    policy_id="id-1",
)
SLICE = replace(
    MARKER,
    cluster="member2",
    key=slice_key("default", "member1-web-a"),
    api_version="discovery.k8s.io/v1",
    kind="EndpointSlice",
    manifest=raw({"kind": "EndpointSlice", "metadata": {"name": "member1-web-a", "namespace": "default"}}),
    suspended=False,
    provider="member1",
)


def the_work(shown: Any) -> Any:
    (entry,) = entries(shown.catalog.works)
    return msgspec.json.decode(msgspec.json.encode(works.build(entry.source, entry.version, entry.created)))


def labels_beside_its_id(work: Any) -> dict[str, str]:
    labels = work["metadata"]["labels"]
    return {name: value for name, value in labels.items() if name != "work.karmada.io/permanent-id"}


def test_a_marker_is_suspended_and_never_applied() -> None:
    report = WorkObserved(cluster="member1", key=MARKER.key, uid="s1", digest="d", endpoints=(), at=1.0)
    work = the_work(Shown(MARKER, report))
    assert work["metadata"]["namespace"] == "karmada-es-member1"
    assert work["spec"]["suspendDispatching"] is True
    assert work["spec"]["workload"]["manifests"][0]["kind"] == "MultiClusterService"
    assert labels_beside_its_id(work) == SHARED_LABELS
    assert "finalizers" not in work["metadata"]
    assert [item["type"] for item in work["status"]["conditions"]] == ["Dispatching"]


def test_a_dispatched_slice_names_its_provider() -> None:
    work = the_work(Shown(SLICE))
    assert work["metadata"]["namespace"] == "karmada-es-member2"
    assert labels_beside_its_id(work) == SHARED_LABELS
    assert work["metadata"]["annotations"] == {"endpointslice.karmada.io/provision-cluster": "member1"}
    assert work["metadata"]["finalizers"] == ["karmada.io/execution-controller"]
    assert work["spec"]["suspendDispatching"] is False


def test_the_binding_is_managed_by_it() -> None:
    shown = Shown(requested(policy=PolicyRef(SHARED, "id-1", 1)))
    (entry,) = entries(shown.catalog.bindings)
    metadata = bindings.build(entry.source, entry.version, "work.karmada.io/v1alpha2")["metadata"]
    labels, annotations = metadata["labels"], metadata["annotations"]
    assert labels["binding.karmada.io/managed-by"] == "MultiClusterService"
    assert labels["multiclusterservice.karmada.io/permanent-id"] == "id-1"
    assert annotations["multiclusterservice.karmada.io/namespace"] == "default"
    assert annotations["multiclusterservice.karmada.io/name"] == "web"
    assert not [name for name in (*labels, *annotations) if name.startswith("propagationpolicy")]
