"""A detector with WorkloadRebalancers whose writes come back as a control plane would return them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.kubernetes.patch.json_patch import merge_patch
from services.detector import state as det
from services.detector.decide import decide_template
from services.detector.effects import DeleteRebalancer, Tell, WriteRebalancer
from services.detector.rebalancing.rebalancer_decision import RebalancerDecision, decide_rebalancer
from tests.support.detector_harness import DetectorHarness
from tests.support.facts import NOW, binding

CREATED = "2026-10-29T00:00:00Z"
SERVED = (
    ("Deployment", "apps", "deployments"),
    ("ConfigMap", "", "configmaps"),
    ("ClusterRole", "rbac.authorization.k8s.io", "clusterroles"),
)
LISTED = ("deployments.apps", "configmaps", "clusterroles.rbac.authorization.k8s.io")


def workload(name: str, kind: str = "Deployment", namespace: str = "default", api: str = "apps/v1") -> Manifest:
    """One entry of a rebalancer's spec."""
    entry = {"apiVersion": api, "kind": kind, "name": name}
    return {**entry, "namespace": namespace} if namespace else entry


def bound_to(
    name: str, kind: str = "Deployment", namespace: str = "default", group: str = "apps", **fields: Any
) -> BindingRequested:
    """The binding of an object."""
    key = ObjectKey(group, f"{kind.lower()}s", namespace, name)
    return replace(binding(2), key=key, kind=kind, **fields)


class RebalancingHarness(DetectorHarness):
    """A detector that has listed everything, and the rebalancers of its control plane by name."""

    def __init__(self, *events: BindingRequested, listed: tuple[str, ...] = LISTED, served: bool = True) -> None:
        super().__init__()
        self.now = NOW
        self.deleted: list[str] = []
        self.notes: list[tuple[str, str]] = []
        self.writes = 0
        self.version = 1
        if served:
            self.state.rebalancing.serve(SERVED)
        self.given(*events)
        for name in listed:
            self.lists(name)

    def lists(self, group_resource: str, found: dict[ObjectKey, Manifest] | None = None) -> set[Any]:
        """Let a kind have these objects, and what is on record of it."""
        there = {key: self._object(key, fact) for key, fact in self.state.binding_facts.items()}
        known = {key: item for key, item in there.items() if key.group_resource == group_resource}
        return set(det.take_list(self.state, group_resource, {**known, **(found or {})}))

    @staticmethod
    def _object(key: ObjectKey, fact: Any) -> Manifest:
        metadata = {"name": key.name, "namespace": key.namespace, "uid": fact.uid, "generation": 1}
        return {"apiVersion": "x/v1", "kind": fact.kind, "metadata": metadata}

    def creates(self, name: str, *workloads: Manifest, created: str = CREATED, **spec: Any) -> PolicyKey:
        """Create a rebalancer, or edit the one of this name."""
        key = PolicyKey("WorkloadRebalancer", "", name)
        before = self.state.policies.get(key)
        metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": created}
        if before is not None:
            created = before.manifest["metadata"]["creationTimestamp"]
            metadata |= {"generation": before.generation + 1, "creationTimestamp": created}
        manifest = {
            "apiVersion": "apps.karmada.io/v1alpha1",
            "kind": "WorkloadRebalancer",
            "metadata": metadata,
            "spec": {"workloads": list(workloads), **spec},
        }
        self.shows(key, manifest, (before.manifest if before is not None else {}).get("status"))
        return key

    def shows(self, key: PolicyKey, manifest: Manifest, status: Manifest | None) -> None:
        """The watch brings the object in its next version."""
        self.version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.version)}
        shown = {**manifest, "metadata": metadata, **({"status": status} if status else {})}
        assert key in det.take_policy(self.state, key, shown)

    def rebalances(self, key: PolicyKey) -> RebalancerDecision:
        """Decide a rebalancer once and take in what comes of it."""
        decision = decide_rebalancer(self.state, key, self.now)
        self.state.rebalancing.remember(key, decision.waits)
        self.given(*decision.events)
        for effect in decision.effects:
            match effect:
                case WriteRebalancer():
                    self.writes += 1
                    view = self.state.policies[key]
                    status = merge_patch(view.manifest.get("status") or {}, effect.status)
                    self.shows(key, view.manifest, msgspec.json.decode(msgspec.json.encode(status)))
                case DeleteRebalancer():
                    self.deleted.append(effect.key.name)
                case Tell():
                    self.notes.append((effect.note.reason, effect.note.message))
                case _:
                    raise AssertionError(effect)
        return decision

    def binds(self, key: ObjectKey) -> None:
        """Decide an object and take in what comes of it."""
        self.given(*decide_template(self.state, key, self.now).events)

    def rests(self, *keys: PolicyKey) -> None:
        """Decide rebalancers, and what they mark, until none has anything to do."""
        for _ in range(10):
            decisions = [self.rebalances(key) for key in keys]
            marked = {key for decision in decisions for key in decision.also}
            # An Event that was told already is told again by the decision, and not written.
            written = [item for decision in decisions for item in decision.effects if not isinstance(item, Tell)]
            if not (marked or written or any(decision.events for decision in decisions)):
                return
            for key in marked:
                self.binds(key)
        raise AssertionError("it does not come to rest")

    def status(self, key: PolicyKey) -> Manifest:
        """The status in the control plane."""
        found: Manifest = self.state.policies[key].manifest.get("status") or {}
        return found

    def results(self, key: PolicyKey) -> list[str]:
        """Name and result of every observed workload, in the order of the status."""
        return [
            " ".join((item["workload"]["name"], item.get("result", ""), item.get("reason", ""))).strip()
            for item in self.status(key).get("observedWorkloads", [])
        ]

    def triggered(self, fact: BindingRequested) -> tuple[str, tuple[str, ...]]:
        """When a fresh schedule of a binding was asked for, and by whom."""
        present = self.state.binding_facts[fact.key]
        assert isinstance(present, BindingRequested)
        by = present.reschedule.by if present.reschedule is not None else ()
        return msgspec.json.decode(present.spec).get("rescheduleTriggeredAt", ""), by
