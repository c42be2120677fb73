"""A detector that is fed as its watches and its own facts would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.detector import state as det
from services.detector.claims.policy_decision import decide_policy
from services.detector.decide import decide_template
from services.detector.effects import DetectorDecision, Tell
from services.detector.indexes.template_index import remember
from services.detector.policies.claim_writes import WriteClaim
from services.detector.state import Key
from tests.support.facts import KEY, NOW, POLICY, STATIC


def policy(name: str = POLICY.key.name, kind: str = POLICY.key.kind, **spec: Any) -> Manifest:
    """A policy that selects the example."""
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


def key_of(manifest: Manifest) -> PolicyKey:
    """The key of a policy."""
    metadata = manifest["metadata"]
    return PolicyKey(manifest["kind"], metadata.get("namespace", ""), metadata["name"])


def list_policies(state: det.DetectorState, *policies: Manifest, kinds: Iterable[str] = INTERPRETERS) -> None:
    """Let the policies be all that a control plane has, interpreters of these kinds included."""
    for kind in (*det.POLICY_KINDS, *kinds):
        found = {key_of(item): item for item in policies if item["kind"] == kind}
        det.take_policy_list(state, kind, found)


class DetectorHarness:
    """A detector's state: given policies and templates, then facts and claims."""

    def __init__(self, *policies: Manifest, listed: bool = True) -> None:
        self.state = det.DetectorState()
        self.seq = 0
        if listed:
            list_policies(self.state, *policies)
            det.take_list(self.state, "deployments.apps", {})

    def given(self, *events: Known) -> None:
        """Fold facts."""
        for event in events:
            self.seq += 1
            list(det.fold(self.state, self.seq, subject_of(event), event))

    def sees(self, manifest: Manifest | None) -> bool:
        """Whether a change of the template makes it dirty."""
        return KEY in det.take_template(self.state, KEY, manifest)

    def takes(self, manifest: Manifest | None) -> bool:
        """Whether a change of the policy, or its end, makes the template dirty."""
        key = key_of(manifest) if manifest else POLICY.key
        marked = set(det.take_policy(self.state, key, manifest))
        return KEY in marked | self.concerned(*marked)

    def concerned(self, *policies: Key) -> set[Key]:
        """The templates that the decisions about these policies mark."""
        found: set[Key] = set()
        for key in policies:
            if isinstance(key, PolicyKey):
                found.update(decide_policy(self.state, key).also)
                self.state.edited.discard(key)
        return found

    def decided(self, key: ObjectKey = KEY) -> DetectorDecision:
        """What would be decided of a template."""
        return decide_template(self.state, key, NOW)

    def decides(self) -> DetectorDecision:
        """Decide the template and fold what comes out."""
        decision = self.decided()
        remember(self.state, KEY, decision)
        self.given(*decision.events)
        return decision

    def settles(self) -> None:
        """Write the claim back and decide again, as the control plane would."""
        for effect in self.decides().effects:
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


def kinds(decision: DetectorDecision) -> list[str]:
    """Types of the decided events."""
    return [type(event).__name__ for event in decision.events]


def request(decision: DetectorDecision) -> BindingRequested:
    """The one binding that is requested."""
    (found,) = [event for event in decision.events if isinstance(event, BindingRequested)]
    return found


def notes(decision: DetectorDecision) -> list[tuple[str, str]]:
    """Reasons and messages of Kubernetes Events that are to be written."""
    return [(effect.note.reason, effect.note.message) for effect in decision.effects if isinstance(effect, Tell)]
