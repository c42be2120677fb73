"""Templates and policies in, facts and claims out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import subject_of
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import INLINE_BYTES
from services._rules import constants as const
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.secrets.secret_objects import DigestKey
from services.detector import state as det
from services.detector.app import Detector, Store
from services.detector.claim_writes import WriteClaim
from services.detector.decide import (
    DetectorDecision,
    ReleasePolicy,
    WritePolicyId,
    decide_policy,
    decide_template,
)
from services.detector.settings import DetectorSettings
from tests.support.facts import KEY, STATIC, deployment

NOW = 1_793_232_000.0
POLICY = PolicyKey("PropagationPolicy", "default", "nginx-propagation")


def policy(name: str = "nginx-propagation", kind: str = "PropagationPolicy", **spec: Any) -> dict[str, Any]:
    namespace = {"namespace": "default"} if kind == "PropagationPolicy" else {}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, **namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": STATIC,
            **spec,
        },
    }


class World:
    """A detector's state, fed as its watches and its own facts would."""

    def __init__(self, *policies: dict[str, Any], listed: bool = True) -> None:
        self.state = det.DetectorState()
        self.seq = 0
        if listed:
            for kind in (*det.POLICY_KINDS, *INTERPRETERS):
                found = {self.key_of(item): item for item in policies if item["kind"] == kind}
                det.take_policy_list(self.state, kind, found)
            det.take_list(self.state, "deployments.apps", {})

    @staticmethod
    def key_of(manifest: dict[str, Any]) -> PolicyKey:
        metadata = manifest["metadata"]
        return PolicyKey(manifest["kind"], metadata.get("namespace", ""), metadata["name"])

    def sees(self, manifest: dict[str, Any] | None) -> bool:
        return KEY in det.take_template(self.state, KEY, manifest)

    def decides(self) -> DetectorDecision:
        verdict = decide_template(self.state, KEY, NOW)
        det.remember(self.state, KEY, waiting=verdict.waiting, ranked=verdict.ranked)
        for event in verdict.events:
            self.seq += 1
            det.fold(self.state, self.seq, subject_of(event), event)
        return verdict

    def settles(self) -> None:
        """Write the claim back and decide again, as the control plane would."""
        verdict = self.decides()
        for effect in verdict.effects:
            assert isinstance(effect, WriteClaim)
            manifest = self.state.templates[KEY]
            metadata = dict(manifest["metadata"])
            for part, changes in (("labels", effect.labels), ("annotations", effect.annotations)):
                merged = {**metadata.get(part, {}), **changes}
                metadata[part] = {name: value for name, value in merged.items() if value is not None}
            if effect.annotations and manifest["kind"] == "Deployment":
                # A Deployment's generation rises with its annotations.
                metadata["generation"] = metadata["generation"] + 1
            self.sees({**manifest, "metadata": metadata})
        again = self.decides()
        assert not again.events
        assert not again.effects


def kinds(verdict: DetectorDecision) -> list[str]:
    return [type(event).__name__ for event in verdict.events]


def test_nothing_is_decided_before_every_policy_is_known() -> None:
    world = World(listed=False)
    world.sees(deployment())
    assert decide_template(world.state, KEY, NOW) == DetectorDecision()


def test_an_unmatched_template_is_no_fact() -> None:
    world = World()
    world.sees(deployment())
    assert world.decides() == DetectorDecision(events=[], effects=[], waiting=True)
    assert KEY in world.state.waiting


def test_the_binding_that_a_leader_did_not_get_to_store_is_requested_by_the_next() -> None:
    world = World(policy())
    world.sees(deployment())
    template, binding = decide_template(world.state, KEY, NOW).events
    det.fold(world.state, 1, subject_of(template), template)
    assert kinds(world.decides()) == [type(binding).__name__]


def test_a_match_makes_template_and_binding_in_one_step_and_claims_the_object() -> None:
    world = World(policy())
    world.sees(deployment())
    verdict = world.decides()
    assert kinds(verdict) == ["TemplateChanged", "BindingRequested"]
    template, binding = verdict.events
    assert isinstance(template, TemplateChanged)
    assert isinstance(binding, BindingRequested)
    spec = msgspec.json.decode(binding.spec)
    assert spec["placement"] == STATIC
    assert (binding.replicas, binding.workload, spec["replicas"]) == (2, True, 2)
    assert binding.policy is not None
    assert binding.policy.key == POLICY
    claim = verdict.effects[0]
    assert isinstance(claim, WriteClaim)
    assert claim.labels == {const.PROPAGATION_POLICY_ID_LABEL: binding.policy.id}
    assert template.labels[const.PROPAGATION_POLICY_ID_LABEL] == binding.policy.id


def test_our_own_claim_and_status_writes_do_not_echo() -> None:
    world = World(policy())
    world.sees(deployment())
    world.settles()
    manifest = world.state.templates[KEY]
    assert not world.sees({**manifest, "status": {"replicas": 2}})
    touched = {**manifest["metadata"], "resourceVersion": "99", "managedFields": [{"manager": "x"}]}
    assert not world.sees({**manifest, "metadata": touched})


def test_the_generation_that_the_claim_will_raise_is_said_at_once() -> None:
    world = World(policy())
    world.sees(deployment())
    verdict = world.decides()
    fact = verdict.events[0]
    assert isinstance(fact, TemplateChanged)
    assert fact.generation == 2


def test_scaling_changes_template_and_binding() -> None:
    world = World(policy())
    world.sees(deployment())
    world.settles()
    manifest = world.state.templates[KEY]
    metadata = {**manifest["metadata"], "generation": 3}
    assert world.sees({**manifest, "metadata": metadata, "spec": {**manifest["spec"], "replicas": 5}})
    verdict = world.decides()
    assert kinds(verdict) == ["TemplateChanged", "BindingRequested"]
    binding = verdict.events[1]
    assert isinstance(binding, BindingRequested)
    assert (binding.replicas, binding.generation) == (5, 2)


def test_a_deleted_template_is_closed_only_when_its_kind_was_listed() -> None:
    world = World(policy())
    world.sees(deployment())
    world.settles()
    world.sees(None)
    world.state.listed.discard("deployments.apps")
    assert world.decides() == DetectorDecision()
    dirty = det.take_list(world.state, "deployments.apps", {})
    assert KEY in dirty
    assert kinds(world.decides()) == ["TemplateDeleted", "BindingReleased"]
    assert world.decides() == DetectorDecision(events=[])


def test_an_object_recreated_under_the_same_name_is_closed_and_opened_in_one_batch() -> None:
    world = World(policy())
    world.sees(deployment())
    world.settles()
    world.sees(deployment(uid="u2"))
    verdict = world.decides()
    assert kinds(verdict) == ["TemplateDeleted", "BindingReleased", "TemplateChanged", "BindingRequested"]
    assert [getattr(event, "uid", "") for event in verdict.events] == ["u1", "u1", "u2", "u2"]


def test_deleting_the_policy_keeps_the_binding_and_takes_the_claim_away() -> None:
    world = World(policy())
    world.sees(deployment())
    world.settles()
    assert KEY in det.take_policy(world.state, POLICY, None)
    verdict = world.decides()
    (binding,) = verdict.events
    assert isinstance(binding, BindingRequested)
    assert binding.policy is None
    claim = verdict.effects[0]
    assert isinstance(claim, WriteClaim)
    assert claim.labels == {const.PROPAGATION_POLICY_ID_LABEL: None}


def test_a_deleted_policy_is_released_once_its_claims_are() -> None:
    kept = policy()
    kept["metadata"]["finalizers"] = [const.PROPAGATION_POLICY_FINALIZER]
    world = World(kept)
    world.sees(deployment())
    world.settles()
    leaving = {**kept, "metadata": {**kept["metadata"], "deletionTimestamp": "2026-11-01T00:00:00Z"}}
    assert set(det.take_policy(world.state, POLICY, leaving)) == {POLICY, KEY}
    assert not [one for one in decide_policy(world.state, POLICY).effects if isinstance(one, ReleasePolicy)]
    verdict = decide_template(world.state, KEY, NOW)
    (binding,) = verdict.events
    assert isinstance(binding, BindingRequested)
    assert binding.policy is None
    assert det.fold(world.state, 9, subject_of(binding), binding) == (POLICY,)
    released = ReleasePolicy(POLICY, kept["metadata"]["uid"], const.PROPAGATION_POLICY_FINALIZER)
    assert released in decide_policy(world.state, POLICY).effects


def test_a_template_without_the_claim_does_not_keep_a_deleted_policy() -> None:
    kept = policy()
    kept["metadata"]["finalizers"] = [const.PROPAGATION_POLICY_FINALIZER]
    world = World(kept)
    world.sees(deployment())
    world.settles()
    det.take_policy(world.state, POLICY, kept | {"metadata": kept["metadata"] | {"deletionTimestamp": "2026-11-01"}})
    assert set(det.take_template(world.state, KEY, deployment())) == {KEY, POLICY}
    assert POLICY in world.state.claimed
    assert any(isinstance(effect, ReleasePolicy) for effect in decide_policy(world.state, POLICY).effects)


def test_a_deleted_policy_without_our_finalizer_is_left_alone() -> None:
    leaving = policy()
    leaving["metadata"] |= {"deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["example.com/other"]}
    assert not decide_policy(World(leaving).state, POLICY).effects


def test_another_policy_takes_over_at_once() -> None:
    world = World(policy(), policy("second"))
    world.sees(deployment())
    world.settles()
    det.take_policy(world.state, POLICY, None)
    verdict = world.decides()
    binding = verdict.events[-1]
    assert isinstance(binding, BindingRequested)
    assert binding.policy is not None
    assert binding.policy.key.name == "second"


def test_a_claim_stays_when_the_template_changes_and_goes_when_the_policy_does() -> None:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "nginx"}}}
    world = World(policy(resourceSelectors=[selector]))
    world.sees(deployment())
    world.settles()
    manifest = world.state.templates[KEY]
    labels = {name: value for name, value in manifest["metadata"]["labels"].items() if name != "app"}
    world.sees({**manifest, "metadata": {**manifest["metadata"], "labels": labels}})
    assert world.decides() == DetectorDecision()
    changed = policy(resourceSelectors=[selector], priority=1)
    changed["metadata"]["generation"] = 2
    assert KEY in det.take_policy(world.state, POLICY, changed)
    verdict = world.decides()
    assert any(isinstance(effect, WriteClaim) for effect in verdict.effects)
    assert KEY in world.state.waiting


def test_a_namespaced_policy_beats_a_cluster_wide_one_whatever_their_priorities() -> None:
    world = World(policy(), policy("wide", "ClusterPropagationPolicy", priority=100))
    world.sees(deployment())
    binding = world.decides().events[1]
    assert isinstance(binding, BindingRequested)
    assert binding.policy is not None
    assert binding.policy.key == POLICY


def test_a_policy_waits_for_the_overrides_it_depends_on() -> None:
    world = World(policy(dependentOverrides=["op"]))
    world.sees(deployment())
    assert not world.decides().events
    override = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "op", "namespace": "default", "uid": "o"},
        "spec": {},
    }
    assert KEY in det.take_policy(world.state, PolicyKey("OverridePolicy", "default", "op"), override)
    assert kinds(world.decides()) == ["TemplateChanged", "BindingRequested"]


def test_a_lazy_policy_claims_a_waiting_template_and_binds_it_with_its_next_change() -> None:
    world = World()
    world.sees(deployment())
    world.decides()
    lazy = policy(activationPreference="Lazy")
    assert KEY in det.take_policy(world.state, POLICY, lazy)
    verdict = world.decides()
    assert kinds(verdict) == ["TemplateChanged"]
    assert verdict.effects
    manifest = world.state.templates[KEY]
    metadata = {**manifest["metadata"], "generation": 2}
    world.sees({**manifest, "metadata": metadata, "spec": {**manifest["spec"], "replicas": 3}})
    assert "BindingRequested" in kinds(world.decides())


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
def test_namespaces_go_everywhere_by_themselves(name: str, labels: dict[str, str], propagated: bool) -> None:
    world = World()
    key = ObjectKey("", "namespaces", "", name)
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": "n", "labels": labels}}
    det.take_template(world.state, key, manifest)
    verdict = decide_template(world.state, key, NOW)
    binding = [event for event in verdict.events if isinstance(event, BindingRequested)]
    assert bool(binding) == propagated
    assert all(event.everywhere for event in binding)


def test_secrets_never_ride_in_facts() -> None:
    selector = {"apiVersion": "v1", "kind": "Secret"}
    world = World(policy(resourceSelectors=[selector]))
    key = ObjectKey("", "secrets", "default", "token")
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": "default", "uid": "s"},
        "data": {"password": "aHVudGVyMg=="},
    }
    det.take_template(world.state, key, manifest)
    world.state.digest_keys["default"] = DigestKey(b"k" * 32)
    verdict = decide_template(world.state, key, NOW)
    assert verdict.events
    assert all(b"aHVudGVyMg" not in msgspec.json.encode(event) for event in verdict.events)
    assert any(b"aHVudGVyMg" in data for _, data in verdict.blobs)
    assert verdict.secret


def test_policies_become_facts_and_get_a_permanent_id() -> None:
    world = World(policy())
    verdict = decide_policy(world.state, POLICY)
    assert isinstance(verdict.events[0], PolicyChanged)
    assert isinstance(verdict.effects[0], WritePolicyId)
    det.fold(world.state, 1, "", verdict.events[0])
    assert not decide_policy(world.state, POLICY).events
    det.take_policy(world.state, POLICY, None)
    (gone,) = decide_policy(world.state, POLICY).events
    assert isinstance(gone, PolicyDeleted)


def test_closing_is_said_once() -> None:
    world = World(policy())
    world.sees(deployment())
    world.settles()
    world.sees(None)
    events = world.decides().events
    assert any(isinstance(event, TemplateDeleted) for event in events)
    assert any(isinstance(event, BindingReleased) for event in events)
    assert not world.decides().events


@pytest.mark.parametrize("size", [10, 10_000], ids=["inline", "as a blob"])
def test_a_lazy_policy_holds_back_templates_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    service, stored = Detector(DetectorSettings(control_kubeconfig="unused")), False
    monkeypatch.setattr(service, "_may_name", lambda _: stored)
    world = World()
    world.sees(deployment(annotations={"much": "x" * size}))
    assert service.decide(world.state, KEY, NOW).events == []
    det.take_policy(world.state, POLICY, policy(activationPreference="Lazy"))
    decision = service.decide(world.state, KEY, NOW)
    if size > INLINE_BYTES:
        assert [type(effect) for effect in decision.effects] == [Store]
        stored = True
        decision = service.decide(world.state, KEY, NOW)
    assert [type(event) for event in decision.events] == [TemplateChanged]
    assert KEY not in world.state.waiting
