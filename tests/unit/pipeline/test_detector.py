"""Templates and policies in, facts and claims out."""

from __future__ import annotations

import msgspec
import pytest

from schemas.codec import subject_of
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
    detector = settled(policy())
    assert scaled(detector, 5, 3)
    verdict = detector.decides()
    assert kinds(verdict) == ["TemplateChanged", "BindingRequested"]
    binding = request(verdict)
    assert (binding.replicas, binding.generation) == (5, 2)


def test_deleted_template_ends_once_its_kind_is_listed() -> None:
    detector = settled(policy())
    detector.sees(None)
    detector.state.listed.discard("deployments.apps")
    assert detector.decides() == DetectorDecision()
    dirty = det.take_list(detector.state, "deployments.apps", {})
    assert KEY in dirty
    assert kinds(detector.decides()) == ["TemplateDeleted", "BindingReleased"]
    assert detector.decides() == DetectorDecision(events=[])


def test_recreated_template_ends_and_begins_in_one_batch() -> None:
    detector = settled(policy())
    detector.sees(deployment(uid="u2"))
    verdict = detector.decides()
    assert kinds(verdict) == ["TemplateDeleted", "BindingReleased", "TemplateChanged", "BindingRequested"]
    assert [getattr(event, "uid", "") for event in verdict.events] == ["u1", "u1", "u2", "u2"]


def test_deleted_policy_keeps_the_binding_without_claim() -> None:
    detector = settled(policy())
    assert detector.takes(None)
    verdict = detector.decides()
    assert kinds(verdict) == ["BindingRequested"]
    assert request(verdict).policy is None
    claim = verdict.effects[0]
    assert isinstance(claim, WriteClaim)
    assert claim.labels == {const.PROPAGATION_POLICY_ID_LABEL: None}


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


def test_deleted_policy_is_released_once_its_claims_are() -> None:
    detector = settled(kept())
    assert detector.takes(leaving(kept()))
    assert not releases(detector)
    binding = request(detector.decided())
    assert binding.policy is None
    assert det.fold(detector.state, 9, subject_of(binding), binding) == (POLICY.key,)
    assert releases(detector)


def test_template_without_the_claim_keeps_no_deleted_policy() -> None:
    detector = settled(kept())
    detector.takes(leaving(kept()))
    assert set(det.take_template(detector.state, KEY, deployment())) == {KEY, POLICY.key}
    assert POLICY.key in detector.state.claimed
    assert releases(detector)


def test_policy_deleted_without_our_finalizer_is_left_alone() -> None:
    assert not decide_policy(DetectorHarness(leaving(policy())).state, POLICY.key).effects


def test_another_policy_takes_over_at_once() -> None:
    detector = settled(policy(), policy("second"))
    detector.takes(None)
    verdict = detector.decides()
    binding = request(verdict)
    assert binding.policy is not None
    assert binding.policy.key.name == "second"


def test_claim_outlives_label_change_until_policy_changes() -> None:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "nginx"}}}
    detector = settled(policy(resourceSelectors=[selector]))
    manifest = detector.state.templates[KEY]
    labels = {name: value for name, value in manifest["metadata"]["labels"].items() if name != "app"}
    detector.sees({**manifest, "metadata": {**manifest["metadata"], "labels": labels}})
    kept = request(detector.decides())
    assert kept.policy is not None
    assert kept.policy.unselected
    assert detector.decides() == DetectorDecision()
    changed = policy(resourceSelectors=[selector], priority=1)
    changed["metadata"]["generation"] = 2
    assert detector.takes(changed)
    verdict = detector.decides()
    assert any(isinstance(effect, WriteClaim) for effect in verdict.effects)
    assert KEY in detector.state.waiting


def test_namespaced_policy_precedes_cluster_policy() -> None:
    detector = seeing(policy(), policy("wide", "ClusterPropagationPolicy", priority=100))
    binding = request(detector.decides())
    assert binding.policy is not None
    assert binding.policy.key == POLICY.key


def test_policy_waits_for_dependent_overrides() -> None:
    detector = seeing(policy(dependentOverrides=["op"]))
    assert not detector.decides().events
    override = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "op", "namespace": "default", "uid": "o"},
        "spec": {},
    }
    assert detector.takes(override)
    assert kinds(detector.decides()) == ["TemplateChanged", "BindingRequested"]


def test_lazy_policy_binds_with_the_next_template_change() -> None:
    detector = seeing()
    detector.decides()
    lazy = policy(activationPreference="Lazy")
    assert detector.takes(lazy)
    verdict = detector.decides()
    assert kinds(verdict) == ["TemplateChanged"]
    assert verdict.effects
    scaled(detector, 3, 2)
    assert "BindingRequested" in kinds(detector.decides())


@pytest.mark.parametrize(
    ("name", "labels", "propagated"),
    [
        ("shop", {}, True),
        ("default", {}, False),
        ("kube-system", {}, False),
        ("karmada-es-m1", {}, False),
        ("quiet", {const.SKIP_AUTO_PROPAGATION_LABEL: "true"}, False),
    ],
)
def test_namespaces_are_propagated_everywhere(name: str, labels: dict[str, str], propagated: bool) -> None:
    detector = DetectorHarness()
    key = ObjectKey("", "namespaces", "", name)
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": "n", "labels": labels}}
    det.take_template(detector.state, key, manifest)
    verdict = detector.decided(key)
    binding = [event for event in verdict.events if isinstance(event, BindingRequested)]
    assert bool(binding) == propagated
    assert all(event.everywhere for event in binding)


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
