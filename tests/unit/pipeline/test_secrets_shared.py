"""Large and secret manifests: stored once for all clusters, each copy with its own marks, and no secret in a fact."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from schemas.topology import BLOBS
from services._kit.content.blobs import Blobs, digest_of
from services._rules import constants as const
from services._rules.delivery.work_labels import with_work_labels
from services._rules.secrets.secret_objects import WITHHELD, DigestKey
from services.override_renderer.decide import RenderDecision
from tests.support.facts import cluster, override, placement
from tests.support.harness import RendererHarness
from tests.support.memory_log import MemoryLog

CLUSTERS = tuple(f"m{number}" for number in range(20))
MIB = 1 << 20
PASSWORD = "aHVudGVyMg=="


def world(kind: str, body: dict[str, Any], *policies: PolicyChanged) -> tuple[RendererHarness, ObjectKey]:
    key = ObjectKey("", f"{kind.lower()}s", "default", "large")
    metadata = {"name": "large", "namespace": "default"}
    data = msgspec.json.encode({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})
    naming = DigestKey(b"k" * 32)
    renderer = RendererHarness()
    renderer.at_hand.digest_keys["default"] = naming
    digest = naming.digest(data) if kind == "Secret" else digest_of(data)
    renderer.at_hand.blobs[digest] = data
    named = {"key": key, "uid": "u1", "api_version": "v1", "kind": kind}
    renderer.given(
        *(cluster(name) for name in CLUSTERS),
        *policies,
        TemplateChanged(**named, digest=digest),
        BindingRequested(**named, spec=Raw(b"{}"), generation=1),
        replace(placement(**dict.fromkeys(CLUSTERS, 0)), key=key, uid="u1"),
    )
    return renderer, key


def rendered(works: RenderDecision) -> list[WorkRendered]:
    found = [event for event in works.events if isinstance(event, WorkRendered)]
    assert sorted(event.cluster for event in found) == sorted(CLUSTERS)
    return found


async def test_large_configmap_of_twenty_clusters_is_stored_once() -> None:
    renderer, key = world("ConfigMap", {"data": {"text": "x" * (3 * MIB // 2)}})
    works = renderer.decision(key)
    assert {event.digest for event in rendered(works)} == {digest for digest, _ in works.blobs}
    log = MemoryLog(BLOBS)
    blobs = Blobs(log)
    await blobs.put_many(dict(works.blobs).values())
    stored = [message async for message in log.read(["blob.*"])]
    assert sum(len(message.data) for message in stored) < 1.01 * 3 * MIB / 2
    assert sum(len(msgspec.json.encode(event)) for event in works.events) < 20 * 1000


def test_each_cluster_adds_its_labels_to_shared_bytes() -> None:
    renderer, key = world("ConfigMap", {"data": {"text": "x" * 8192}})
    works = renderer.decision(key)
    (data,) = {data for _, data in works.blobs}
    ids = set()
    for event in rendered(works):
        assert event.shared
        copy = with_work_labels(msgspec.json.decode(data), event.cluster, event.key, event.uid)
        assert copy["metadata"]["annotations"][const.WORK_NAMESPACE_ANNOTATION] == f"karmada-es-{event.cluster}"
        ids.add(copy["metadata"]["labels"][const.WORK_ID_LABEL])
        assert const.WORK_ID_LABEL in copy["metadata"]["annotations"][const.MANAGED_LABELS_ANNOTATION]
    assert len(ids) == len(CLUSTERS)


def test_small_secret_is_shared_and_in_no_fact() -> None:
    renderer, key = world("Secret", {"data": {"password": PASSWORD}})
    works = renderer.decision(key)
    assert works.secret
    assert len({digest for digest, _ in works.blobs}) == 1
    for event in rendered(works):
        assert event.manifest is UNSET
        assert PASSWORD.encode() not in msgspec.json.encode(event)
        assert event.digest not in {digest_of(data) for _, data in works.blobs}


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_override_problem_is_withheld_for_secrets(kind: str) -> None:
    rule = {"path": f"/data/password/{PASSWORD}", "operator": "replace", "value": "x"}
    selectors = [{"apiVersion": "v1", "kind": kind}]
    policy = override({"overriders": {"plaintext": [rule]}}, resourceSelectors=selectors)
    renderer, key = world(kind, {"data": {"password": PASSWORD}}, policy)
    problems = {event.problem for event in rendered(renderer.decision(key))}
    assert "" not in problems
    assert (problems == {WITHHELD}) is (kind == "Secret")
