"""Large and secret manifests: stored once for all clusters, each copy with its own marks, and no secret in a fact."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey, PolicyKey
from schemas.topology import BLOBS
from services._kit.content.blobs import Blobs, digest_of
from services._rules import constants as const
from services._rules.delivery.work_labels import with_work_labels
from services._rules.secrets.secret_objects import WITHHELD, DigestKey
from services.override_renderer.decide import AtHand, RenderDecision, decide
from services.override_renderer.state import RendererState, fold
from tests.support.facts import cluster, placement
from tests.support.memory_log import MemoryLog

CLUSTERS = tuple(f"m{number}" for number in range(20))
MIB = 1 << 20
PASSWORD = "aHVudGVyMg=="


def world(
    kind: str, content: dict[str, Any], policy: PolicyChanged | None = None
) -> tuple[RendererState, ObjectKey, AtHand]:
    key = ObjectKey("", f"{kind.lower()}s", "default", "large")
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "large", "namespace": "default"}, **content}
    data = msgspec.json.encode(manifest)
    naming = DigestKey(b"k" * 32)
    state, at_hand = RendererState(), AtHand(digest_keys={"default": naming})
    digest = naming.digest(data) if kind == "Secret" else digest_of(data)
    at_hand.blobs[digest] = data
    named = {"key": key, "uid": "u1", "api_version": "v1", "kind": kind}
    events: list[Known] = [
        *(cluster(name) for name in CLUSTERS),
        *([policy] if policy is not None else []),
        TemplateChanged(**named, digest=digest),
        BindingRequested(**named, spec=Raw(b"{}"), generation=1),
        msgspec.structs.replace(placement(**dict.fromkeys(CLUSTERS, 0)), key=key, uid="u1"),
    ]
    for seq, event in enumerate(events, 1):
        fold(state, seq, subject_of(event), event)
    return state, key, at_hand


def rendered(works: RenderDecision) -> list[WorkRendered]:
    found = [event for event in works.events if isinstance(event, WorkRendered)]
    assert sorted(event.cluster for event in found) == sorted(CLUSTERS)
    return found


async def test_a_large_configmap_of_twenty_clusters_is_stored_once() -> None:
    state, key, at_hand = world("ConfigMap", {"data": {"text": "x" * (3 * MIB // 2)}})
    works = decide(state, key, at_hand)
    assert {event.digest for event in rendered(works)} == {digest for digest, _ in works.blobs}
    log = MemoryLog(BLOBS)
    blobs = Blobs(log)
    await blobs.put_many(dict(works.blobs).values())
    stored = [message async for message in log.read(["blob.*"])]
    assert sum(len(message.data) for message in stored) < 1.01 * 3 * MIB / 2
    assert sum(len(msgspec.json.encode(event)) for event in works.events) < 20 * 1000


def test_each_cluster_reads_its_own_marks_from_shared_bytes() -> None:
    state, key, at_hand = world("ConfigMap", {"data": {"text": "x" * 8192}})
    works = decide(state, key, at_hand)
    (data,) = {data for _, data in works.blobs}
    ids = set()
    for event in rendered(works):
        assert event.shared
        copy = with_work_labels(msgspec.json.decode(data), event.cluster, event.key, event.uid)
        assert copy["metadata"]["annotations"][const.WORK_NAMESPACE_ANNOTATION] == f"karmada-es-{event.cluster}"
        ids.add(copy["metadata"]["labels"][const.WORK_ID_LABEL])
        assert const.WORK_ID_LABEL in copy["metadata"]["annotations"][const.MANAGED_LABELS_ANNOTATION]
    assert len(ids) == len(CLUSTERS)


def test_a_small_configmap_rides_in_its_facts_with_its_marks() -> None:
    state, key, at_hand = world("ConfigMap", {"data": {"text": "x"}})
    works = decide(state, key, at_hand)
    assert not works.blobs
    for event in rendered(works):
        assert not event.shared
        assert isinstance(event.manifest, Raw)
        assert msgspec.json.decode(event.manifest)["metadata"]["labels"][const.WORK_ID_LABEL]


def test_a_small_secret_is_shared_too_and_no_fact_tells_of_it() -> None:
    state, key, at_hand = world("Secret", {"data": {"password": PASSWORD}})
    works = decide(state, key, at_hand)
    assert works.secret
    assert len({digest for digest, _ in works.blobs}) == 1
    for event in rendered(works):
        assert event.manifest is UNSET
        assert PASSWORD.encode() not in msgspec.json.encode(event)
        assert event.digest not in {digest_of(data) for _, data in works.blobs}


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_what_is_wrong_with_an_override_is_told_unless_it_may_quote_a_secret(kind: str) -> None:
    rule = {"path": f"/data/password/{PASSWORD}", "operator": "replace", "value": "x"}
    content = {
        "kind": "OverridePolicy",
        "metadata": {"name": "op", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": kind}],
            "overrideRules": [{"overriders": {"plaintext": [rule]}}],
        },
    }
    policy = PolicyChanged(
        key=PolicyKey("OverridePolicy", "default", "op"), uid="o", manifest=Raw(msgspec.json.encode(content))
    )
    state, key, at_hand = world(kind, {"data": {"password": PASSWORD}}, policy)
    problems = {event.problem for event in rendered(decide(state, key, at_hand))}
    assert "" not in problems
    assert (problems == {WITHHELD}) is (kind == "Secret")
