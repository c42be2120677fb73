"""Templates and policies in, facts and claims out."""

from __future__ import annotations

import msgspec
import pytest

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import INLINE_BYTES, Manifest
from services._rules import constants as const
from services._rules.secrets.secret_objects import DigestKey
from services.detector import state as det
from services.detector.app import Detector
from services.detector.claims.policy_decision import decide_policy
from services.detector.effects import DetectorDecision, ReleasePolicy, WritePolicyId
from services.detector.manifest_storage import Store
from services.detector.policies.claim_writes import WriteClaim
from services.detector.settings import DetectorSettings
from tests.support.detector_harness import DetectorHarness, kinds, policy, request
from tests.support.facts import KEY, NOW, POLICY, STATIC, deployment


def seeing(*policies: Manifest) -> DetectorHarness:
    """A detector of these policies and the example."""
    made = DetectorHarness(*policies)
    made.sees(deployment())
    return made


def settled(*policies: Manifest) -> DetectorHarness:
    """As above, when all is said and written."""
    made = seeing(*policies)
    made.settles()
    return made


def scaled(detector: DetectorHarness, replicas: int, generation: int) -> bool:
    """Whether a change of the replicas makes the template dirty."""
    manifest = detector.state.templates[KEY]
    metadata = {**manifest["metadata"], "generation": generation}
    return detector.sees({**manifest, "metadata": metadata, "spec": {**manifest["spec"], "replicas": replicas}})


def test_nothing_is_decided_before_policies_are_listed() -> None:
    detector = DetectorHarness(listed=False)
    detector.sees(deployment())
    assert detector.decided() == DetectorDecision()


def test_an_unmatched_template_is_no_fact() -> None:
    detector = seeing()
    assert detector.decides() == DetectorDecision(events=[], effects=[], waiting=True)
    assert KEY in detector.state.waiting


def test_next_leader_requests_the_binding_not_stored() -> None:
    detector = seeing(policy())
    template, binding = detector.decided().events
    detector.given(template)
    assert kinds(detector.decides()) == [type(binding).__name__]


def test_match_requests_a_binding_and_claims_the_template() -> None:
    detector = seeing(policy())
    verdict = detector.decides()
    assert kinds(verdict) == ["TemplateChanged", "BindingRequested"]
    template, binding = verdict.events
    assert isinstance(template, TemplateChanged)
    assert isinstance(binding, BindingRequested)
    spec = msgspec.json.decode(binding.spec)
    assert spec["placement"] == STATIC
    assert (binding.replicas, binding.workload, spec["replicas"]) == (2, True, 2)
    assert binding.policy is not None
    assert binding.policy.key == POLICY.key
    claim = verdict.effects[0]
    assert isinstance(claim, WriteClaim)
    assert claim.labels == {const.PROPAGATION_POLICY_ID_LABEL: binding.policy.id}
    assert template.labels[const.PROPAGATION_POLICY_ID_LABEL] == binding.policy.id


def test_own_claim_and_status_writes_are_no_change() -> None:
    detector = settled(policy())
    manifest = detector.state.templates[KEY]
    assert not detector.sees({**manifest, "status": {"replicas": 2}})
    touched = {**manifest["metadata"], "resourceVersion": "99", "managedFields": [{"manager": "x"}]}
    assert not detector.sees({**manifest, "metadata": touched})


def test_template_fact_has_the_generation_after_the_claim() -> None:
    detector = seeing(policy())
    verdict = detector.decides()
    fact = verdict.events[0]
    assert isinstance(fact, TemplateChanged)
    assert fact.generation == 2


def test_scaling_changes_template_and_binding() -> None:
    """given a scaled template, when recording it, then it says that its request follows."""
    detector = settled(policy())
    assert scaled(detector, 5, 3)
    verdict = detector.decides()
    assert kinds(verdict) == ["TemplateChanged", "BindingRequested"]
    binding = request(verdict)
    assert (binding.replicas, binding.generation) == (5, 2)
    assert [event.binding_follows for event in verdict.events if isinstance(event, TemplateChanged)] == [True]


def test_deleted_template_ends_once_its_kind_is_listed() -> None:
    detector = settled(policy())
    detector.sees(None)
    detector.state.listed.discard("deployments.apps")
    assert detector.decides() == DetectorDecision()
    dirty = det.take_list(detector.state, "deployments.apps", {})
    assert KEY in dirty
    assert kinds(detector.decides()) == ["TemplateDeleted", "BindingReleased"]
    assert detector.decides() == DetectorDecision(events=[])


def kept() -> Manifest:
    """The policy with the finalizer that admission sets."""
    made = policy()
    return made | {"metadata": made["metadata"] | {"finalizers": [const.PROPAGATION_POLICY_FINALIZER]}}


def leaving(manifest: Manifest) -> Manifest:
    """The policy while it is deleted."""
    return manifest | {"metadata": manifest["metadata"] | {"deletionTimestamp": "2026-11-01T00:00:00Z"}}


def releases(detector: DetectorHarness) -> bool:
    """Whether the policy is let go."""
    effects = decide_policy(detector.state, POLICY.key).effects
    return ReleasePolicy(POLICY.key, policy()["metadata"]["uid"], const.PROPAGATION_POLICY_FINALIZER) in effects


def test_template_without_the_claim_keeps_no_deleted_policy() -> None:
    detector = settled(kept())
    detector.takes(leaving(kept()))
    assert set(det.take_template(detector.state, KEY, deployment())) == {KEY, POLICY.key}
    assert POLICY.key in detector.state.claimed
    assert releases(detector)


def test_policy_deleted_without_our_finalizer_is_left_alone() -> None:
    assert not decide_policy(DetectorHarness(leaving(policy())).state, POLICY.key).effects


def test_secret_content_is_in_no_fact() -> None:
    selector = {"apiVersion": "v1", "kind": "Secret"}
    detector = DetectorHarness(policy(resourceSelectors=[selector]))
    key = ObjectKey("", "secrets", "default", "token")
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": "default", "uid": "s"},
        "data": {"password": "aHVudGVyMg=="},
    }
    det.take_template(detector.state, key, manifest)
    detector.state.digest_keys["default"] = DigestKey(b"k" * 32)
    verdict = detector.decided(key)
    assert verdict.events
    assert all(b"aHVudGVyMg" not in msgspec.json.encode(event) for event in verdict.events)
    assert any(b"aHVudGVyMg" in data for _, data in verdict.blobs)
    assert verdict.secret


def test_policies_become_facts_and_get_a_permanent_id() -> None:
    detector = DetectorHarness(policy())
    verdict = decide_policy(detector.state, POLICY.key)
    assert isinstance(verdict.events[0], PolicyChanged)
    assert isinstance(verdict.effects[0], WritePolicyId)
    detector.given(*verdict.events)
    assert not decide_policy(detector.state, POLICY.key).events
    detector.takes(None)
    (gone,) = decide_policy(detector.state, POLICY.key).events
    assert isinstance(gone, PolicyDeleted)


@pytest.mark.parametrize("size", [10, 10_000], ids=["inline", "as a blob"])
def test_lazy_policy_holds_back_inline_and_blob_templates(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    service, stored = Detector(DetectorSettings(control_kubeconfig="unused")), False
    monkeypatch.setattr(service, "_may_name", lambda _: stored)
    detector = DetectorHarness()
    detector.sees(deployment(annotations={"much": "x" * size}))
    assert service.decide(detector.state, KEY, NOW).events == []
    detector.takes(policy(activationPreference="Lazy"))
    decision = service.decide(detector.state, KEY, NOW)
    if size > INLINE_BYTES:
        assert [type(effect) for effect in decision.effects] == [Store]
        stored = True
        decision = service.decide(detector.state, KEY, NOW)
    assert [type(event) for event in decision.events] == [TemplateChanged]
    assert KEY not in detector.state.waiting


@pytest.mark.parametrize("kind", det.RECORDED_KINDS)
def test_recorded_kinds_become_facts(kind: str) -> None:
    """given an object that asks something of bindings, when it comes and goes, then both are facts."""
    detector = DetectorHarness()
    manifest = {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": {"name": "all", "uid": "u1", "generation": 1},
        "spec": {"a": 1},
        "status": {"b": 1},
    }
    key = PolicyKey(kind, "", "all")
    assert det.take_policy_list(detector.state, kind, {key: manifest})[:2] == [det.SCOPE, key]
    [changed] = decide_policy(detector.state, key).events
    assert isinstance(changed, PolicyChanged)
    assert b"status" not in bytes(changed.manifest)
    detector.given(changed)
    assert not decide_policy(detector.state, key).events
    assert next(iter(det.take_policy(detector.state, key, None))) == key
    assert [type(event) for event in decide_policy(detector.state, key).events] == [PolicyDeleted]
