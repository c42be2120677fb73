"""A control plane with its detector: users act, decisions are carried out until nothing is left to decide."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.kubernetes.event_objects import Note
from services.detector import state as det
from services.detector.binding_request import DetectorOptions
from services.detector.claims.policy_decision import decide_policy
from services.detector.decide import decide_template
from services.detector.effects import KeepPolicy, ReleasePolicy, Tell, WritePolicyId
from services.detector.indexes.template_index import remember
from services.detector.policies.claim_writes import WriteClaim, claimed_policy

NOW: Final = 1_800_000_000.0
_KINDS: Final = {
    "deployments": "deployments.apps",
    "namespaces": "namespaces",
    "clusterroles": "clusterroles",
    "services": "services",
}
FINALIZERS: Final = {
    "PropagationPolicy": const.PROPAGATION_POLICY_FINALIZER,
    "ClusterPropagationPolicy": const.CLUSTER_PROPAGATION_POLICY_FINALIZER,
}
DEPLOYMENT: Final = {"apiVersion": "apps/v1", "kind": "Deployment"}


def selector(name: str = "", namespace: str = "", **labels: str) -> Manifest:
    """A selector of Deployments by name, by labels, or of all."""
    made: Manifest = dict(DEPLOYMENT)
    if name:
        made["name"] = name
    if namespace:
        made["namespace"] = namespace
    if labels:
        made["labelSelector"] = {"matchLabels": labels}
    return made


def policy_key(name: str) -> PolicyKey:
    """`pp/…` is a PropagationPolicy of namespace default, `cpp/…` a cluster-wide one, `op/…` and `cop/…` override.

    `mcs/…` is a MultiClusterService.
    """
    kind, _, short = name.partition("/")
    kinds = {
        "pp": "PropagationPolicy",
        "cpp": "ClusterPropagationPolicy",
        "op": "OverridePolicy",
        "cop": "ClusterOverridePolicy",
        "mcs": const.MULTI_CLUSTER_SERVICE,
    }
    return PolicyKey(kinds[kind], "" if kind.startswith("c") else "default", short)


class PolicyWorld:
    """Policies and Deployments of a control plane, the facts about them, and what the detector says of them."""

    def __init__(self, *, preemption: bool = True, namespaces: bool = True, services: bool = True) -> None:
        self.options = DetectorOptions(preemption=preemption, namespaces=namespaces, services=services)
        self.log: list[Known] = []
        self.policies: dict[PolicyKey, Manifest] = {}
        self.templates: dict[ObjectKey, Manifest] = {}
        self.notes: list[Note] = []
        self._uids = 0
        self._versions = 0
        self._dirty: dict[Any, None] = {}
        self.state = det.DetectorState(options=self.options)
        self._list_all([])

    def goes_on_after(self, version: int) -> None:
        """Give what is written next the versions after this one: what was written earlier may be seen later."""
        self._versions = version

    # What users do.

    def applies(self, name: str, *selectors: Manifest, **spec: Any) -> None:
        """Create or change a policy; what is not given is as before."""
        key = policy_key(name)
        before = self.policies.get(key)
        if before is None:
            finalizer = FINALIZERS.get(key.kind)
            metadata: Manifest = {"name": key.name, "uid": self._uid(), "generation": 0}
            metadata |= {"finalizers": [finalizer]} if finalizer else {}
            metadata |= {"namespace": key.namespace} if key.namespace else {}
            before = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": key.kind, "metadata": metadata, "spec": {}}
        found: Manifest = {**before["spec"], **spec}
        if selectors:
            found["resourceSelectors"] = list(selectors)
        metadata = {**before["metadata"], "generation": before["metadata"]["generation"] + 1}
        self._set_policy(key, {**before, "metadata": metadata, "spec": found})

    def deletes(self, name: str) -> None:
        """Delete a policy; it disappears once its finalizer is removed."""
        key = policy_key(name)
        manifest = self.policies[key]
        if manifest["metadata"].get("finalizers"):
            metadata = {**manifest["metadata"], "deletionTimestamp": "2027-01-15T08:00:00Z"}
            self._set_policy(key, {**manifest, "metadata": metadata})
        else:
            self._set_policy(key, None)

    def creates(self, name: str, labels: dict[str, str] | None = None, replicas: int = 1, **metadata: Any) -> None:
        """Create a Deployment."""
        key = ObjectKey("apps", "deployments", "default", name)
        meta = {"name": name, "namespace": "default", "uid": self._uid(), "generation": 1, **metadata}
        if labels:
            meta["labels"] = labels
        containers = [{"name": "web", "image": "web:1"}]
        spec = {"replicas": replicas, "template": {"spec": {"containers": containers}}}
        self._set_template(key, {**DEPLOYMENT, "metadata": meta, "spec": spec})

    def scales(self, name: str, replicas: int) -> None:
        """Change the replicas of a Deployment."""
        manifest = self.template(name)
        metadata = {**manifest["metadata"], "generation": manifest["metadata"]["generation"] + 1}
        self._set_template(
            self.key(name), {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "replicas": replicas}}
        )

    def labels(self, name: str, **labels: str | None) -> None:
        """Set labels of a Deployment; None removes one. `_` in names stands for `/`."""
        self._patch(self.key(name), {key.replace("_", "/"): value for key, value in labels.items()}, {})

    def annotates(self, name: str, **annotations: str | None) -> None:
        """Set annotations of a Deployment; None removes one."""
        self._patch(self.key(name), {}, {key.replace("_", "/"): value for key, value in annotations.items()})

    def strips_labels(self, name: str) -> None:
        """Replace a Deployment by a manifest without labels."""
        manifest = self.template(name)
        metadata = {part: value for part, value in manifest["metadata"].items() if part != "labels"}
        self._set_template(self.key(name), {**manifest, "metadata": metadata})

    def removes(self, name: str) -> None:
        """Delete a Deployment."""
        self._set_template(self.key(name), None)

    def namespace(self, name: str, labels: dict[str, str] | None = None, **metadata: Any) -> ObjectKey:
        """Create or replace a Namespace."""
        key = ObjectKey("", "namespaces", "", name)
        uid = self.templates[key]["metadata"]["uid"] if key in self.templates else self._uid()
        meta = {"name": name, "uid": uid, "labels": {"kubernetes.io/metadata.name": name, **(labels or {})}, **metadata}
        self._set_template(key, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        return key

    # What is seen of it.

    def key(self, name: str) -> ObjectKey:
        """The key of a Deployment."""
        return ObjectKey("apps", "deployments", "default", name)

    def template(self, name: str) -> Manifest:
        """A Deployment as it stands."""
        return self.templates[self.key(name)]

    def binding(self, name: str) -> BindingRequested | None:
        """The request for a Deployment, if one is in force."""
        found = self.state.binding_facts.get(self.key(name))
        return found if isinstance(found, BindingRequested) else None

    def spec(self, name: str) -> Manifest:
        """What is asked for a Deployment."""
        binding = self.binding(name)
        assert binding is not None
        spec: Manifest = msgspec.json.decode(binding.spec)
        return spec

    def claim(self, name: str) -> str:
        """The policy whose claim a Deployment bears, as in `applies`; empty for none."""
        return _short(claimed_policy(self.template(name)))

    def policy(self, name: str) -> str:
        """The policy of a binding, as in `applies`; empty for none."""
        binding = self.binding(name)
        return "" if binding is None or binding.policy is None else _short(binding.policy.key)

    def reasons(self) -> list[str]:
        """Reasons of Kubernetes Events since the last question."""
        found = [note.reason for note in self.notes]
        self.notes.clear()
        return found

    # The detector.

    def settles(self, shuffle: random.Random | None = None) -> list[str]:
        """Decide and carry out until nothing is left; the types of the facts that were appended."""
        began = len(self.log)
        for _ in range(10_000):
            if not self._dirty:
                return [type(event).__name__ for event in self.log[began:]]
            keys = list(self._dirty)
            key = shuffle.choice(keys) if shuffle is not None else keys[0]
            del self._dirty[key]
            self._decide(key)
        raise AssertionError(f"decisions without end: {list(self._dirty)}")

    def restarts(self, order: Iterable[str] = ()) -> list[str]:
        """Another instance reads the last fact of every subject and lists of the control plane; what it appends."""
        self.state = det.DetectorState(options=self.options)
        self._dirty = {}
        self.notes.clear()
        last = {subject_of(event): (position, event) for position, event in enumerate(self.log, 1)}
        for position, event in sorted(last.values(), key=lambda item: item[0]):
            list(det.fold(self.state, position, subject_of(event), event))
        self._list_all(list(order))
        return self.settles()

    def lists(self) -> list[str]:
        """Everything that is listed at a start."""
        return [*det.POLICY_KINDS, const.MULTI_CLUSTER_SERVICE, *INTERPRETERS, *_KINDS]

    def _list_all(self, order: list[str]) -> None:
        for kind in order or self.lists():
            if kind in _KINDS:
                found = {key: manifest for key, manifest in self.templates.items() if key.resource == kind}
                self._mark(det.take_list(self.state, _KINDS[kind], found))
            else:
                policies = {key: manifest for key, manifest in self.policies.items() if key.kind == kind}
                self._mark(det.take_policy_list(self.state, kind, policies))

    def _decide(self, key: Any) -> None:
        if isinstance(key, PolicyKey):
            decision = decide_policy(self.state, key)
            self.state.edited.discard(key)
        else:
            decision = decide_template(self.state, key, NOW)
            remember(self.state, key, decision)
        self._mark(decision.also)
        for decided in decision.events:
            event = replace(decided, provenance=replace(decided.provenance, decided_at=NOW))
            self.log.append(event)
            self._mark(det.fold(self.state, len(self.log), subject_of(event), event))
        for effect in decision.effects:
            match effect:
                case WriteClaim():
                    self._patch(effect.key, effect.labels, effect.annotations, effect.uid)
                    self.notes.extend([effect.preemption] if effect.preemption is not None else [])
                case WritePolicyId():
                    manifest = self.policies[effect.key]
                    labels = {**manifest["metadata"].get("labels", {}), effect.label: effect.id}
                    self._set_policy(effect.key, {**manifest, "metadata": {**manifest["metadata"], "labels": labels}})
                case KeepPolicy():
                    manifest = self.policies[effect.key]
                    kept = [*manifest["metadata"].get("finalizers", ()), effect.finalizer]
                    metadata = {**manifest["metadata"], "finalizers": kept}
                    self._set_policy(effect.key, {**manifest, "metadata": metadata})
                case ReleasePolicy():
                    self._set_policy(effect.key, None)
                case Tell():
                    self.notes.append(effect.note)
                case _:
                    raise AssertionError(f"unexpected {effect!r}")

    def _mark(self, keys: Iterable[Any]) -> None:
        self._dirty.update((key, None) for key in keys if key != det.SCOPE)

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _set_policy(self, key: PolicyKey, manifest: Manifest | None) -> None:
        if manifest is None:
            self.policies.pop(key, None)
        else:
            manifest = self.policies[key] = self._versioned(manifest)
        self._mark(det.take_policy(self.state, key, manifest))

    def _set_template(self, key: ObjectKey, manifest: Manifest | None) -> None:
        if manifest is None:
            del self.templates[key]
        else:
            manifest = self.templates[key] = self._versioned(manifest)
        self._mark(det.take_template(self.state, key, manifest))

    def _versioned(self, manifest: Manifest) -> Manifest:
        """The object as the control plane stores it: all kinds share one sequence of versions."""
        self._versions += 1
        return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self._versions)}}

    def _patch(
        self, key: ObjectKey, labels: dict[str, str | None], annotations: dict[str, str | None], uid: str = ""
    ) -> None:
        manifest = self.templates.get(key)
        if manifest is None or (uid and manifest["metadata"]["uid"] != uid):
            return
        metadata = dict(manifest["metadata"])
        for part, changes in (("labels", labels), ("annotations", annotations)):
            merged = {**metadata.get(part, {}), **changes}
            metadata[part] = {name: value for name, value in merged.items() if value is not None}
            if not metadata[part]:
                del metadata[part]
        if annotations and key.resource == "deployments":
            # A Deployment's generation rises with its annotations.
            metadata["generation"] = metadata["generation"] + 1
        self._set_template(key, {**manifest, "metadata": metadata})


def _short(key: PolicyKey | None) -> str:
    if key is None:
        return ""
    kinds = {"PropagationPolicy": "pp", "ClusterPropagationPolicy": "cpp", const.MULTI_CLUSTER_SERVICE: "mcs"}
    return f"{kinds[key.kind]}/{key.name}"
