"""A control plane in memory as a detector sees it: objects in; facts, claims and Events out, until nothing is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.interpreter import NativeInterpreter, Operation
from services._rules.interpreter.result_cache import ResultPending
from services._rules.kubernetes.event_objects import Note
from services._rules.secrets.secret_objects import DigestKey
from services.detector import state as det
from services.detector.claims.policy_decision import decide_policy
from services.detector.decide import decide_template
from services.detector.dependencies.required_objects import Served
from services.detector.effects import Tell
from services.detector.indexes.template_index import remember
from services.detector.policies.claim_writes import WriteClaim
from tests.support.detector_harness import key_of, list_policies
from tests.support.facts import NOW
from tests.support.interpreted import Interpretation

KINDS: dict[tuple[str, str], Served] = {
    ("", "ConfigMap"): Served("configmaps", True),
    ("", "Secret"): Served("secrets", True),
    ("", "Service"): Served("services", True),
    ("", "ServiceAccount"): Served("serviceaccounts", True),
    ("", "PersistentVolumeClaim"): Served("persistentvolumeclaims", True),
    ("apps", "Deployment"): Served("deployments", True),
    ("discovery.k8s.io", "EndpointSlice"): Served("endpointslices", True),
    ("multicluster.x-k8s.io", "ServiceImport"): Served("serviceimports", True),
    ("rbac.authorization.k8s.io", "ClusterRole"): Served("clusterroles", False),
}


def obj(kind: str, name: str, *, api: str = "v1", namespace: str = "default", uid: str = "", **parts: Any) -> Manifest:
    """An object of any kind; `labels` go into its metadata."""
    metadata: Manifest = {"name": name, "namespace": namespace, "uid": uid or f"{kind}-{name}"}
    if "spec" in parts:
        metadata["generation"] = 1
    if "labels" in parts:
        metadata["labels"] = parts.pop("labels")
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **parts}


def owner(name: str = "web", *, config: Iterable[str] = ("app",), uid: str = "", **pod: Any) -> Manifest:
    """A Deployment that reads ConfigMaps."""
    volumes = [{"name": item, "configMap": {"name": item}} for item in config]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **pod}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return obj(
        "Deployment",
        name,
        api="apps/v1",
        uid=uid,
        spec={"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    )


def follows(
    name: str = "web", kind: str = "Deployment", api: str = "apps/v1", *, of: str = "", **spec: Any
) -> Manifest:
    """A policy for objects of a kind (one by name, unless `of` is *) that lets their dependencies follow."""
    selector = {"apiVersion": api, "kind": kind} | ({} if of == "*" else {"name": of or name})
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default", "uid": f"policy-{name}", "generation": 1},
        "spec": {"resourceSelectors": [selector], "placement": {}, "propagateDeps": True, **spec},
    }


def key(manifest: Manifest) -> ObjectKey:
    """The key of an object."""
    group = manifest["apiVersion"].rpartition("/")[0]
    metadata = manifest["metadata"]
    served = KINDS.get((group, manifest["kind"]))
    resource = served.resource if served is not None else f"{manifest['kind'].lower()}s"
    return ObjectKey(group, resource, metadata.get("namespace", ""), metadata["name"])


def config(name: str = "app", namespace: str = "default") -> ObjectKey:
    """The key of a ConfigMap."""
    return ObjectKey("", "configmaps", namespace, name)


WEB = ObjectKey("apps", "deployments", "default", "web")


class DependencyPlane:
    """The detector's state and what it decided; `facts` and `notes` are all since the beginning."""

    def __init__(
        self,
        *policies: Manifest,
        listed: bool = True,
        served: bool = True,
        asking: Interpretation | None = None,
        **state: Any,
    ) -> None:
        self._asking = asking
        if asking is not None:
            state |= {"interpreter": asking.interpreter, "reinterpret": asking.take}
        self.state = det.DetectorState(**state)
        self.state.digest_keys["default"] = DigestKey(b"k" * 32)
        self.facts: list[Known] = []
        self.notes: list[Note] = []
        self.dirty: dict[det.Key, None] = {}
        self._lasting: dict[det.Key, Note] = {}
        if served:
            self.discover()
        if listed:
            for served_kind in KINDS:
                self.list_kind(*served_kind)
        list_policies(self.state, *policies)
        self.dirty.update(dict.fromkeys(self.state.policies))

    def discover(self, kinds: dict[tuple[str, str], Served] | None = None) -> None:
        """Discovery finds kinds."""
        found = [(group, kind, item) for (group, kind), item in (kinds or KINDS).items()]
        self._mark(det.take_kinds(self.state, found))

    def list_kind(self, group: str, kind: str, *found: Manifest) -> None:
        """A complete list of a kind."""
        resource = KINDS[group, kind].resource
        name = f"{resource}.{group}" if group else resource
        self._mark(det.take_list(self.state, name, {key(item): item for item in found}))

    def replayed(self, facts: Iterable[Known]) -> None:
        """Take in what is on the log already."""
        for fact in facts:
            self._fold(fact)

    def put(self, *manifests: Manifest) -> None:
        """Objects are created or replaced."""
        for manifest in manifests:
            self._mark(det.take_template(self.state, key(manifest), manifest))

    def remove(self, manifest: Manifest) -> None:
        """A watch reports that an object is gone."""
        self._mark(det.take_template(self.state, key(manifest), None))

    def policy(self, manifest: Manifest, *, gone: bool = False) -> None:
        """A policy is created, replaced or deleted."""
        self._mark(det.take_policy(self.state, key_of(manifest), None if gone else manifest))

    def relabel(self, manifest: Manifest, **labels: str) -> None:
        """An object gets other labels."""
        self.put({**manifest, "metadata": {**manifest["metadata"], "labels": labels}})

    def settle(self) -> list[Known]:
        """Decide until nothing is due; the facts that were appended."""
        before = len(self.facts)
        for _ in range(100_000):
            if not self.dirty:
                return self.facts[before:]
            found = next(iter(self.dirty))
            del self.dirty[found]
            self._decide(found)
        raise AssertionError("decisions go on without end")

    def _decide(self, found: det.Key) -> None:
        if isinstance(found, PolicyKey):
            decision = decide_policy(self.state, found)
            self.state.edited.discard(found)
        elif isinstance(found, ObjectKey):
            try:
                decision = decide_template(self.state, found, NOW)
            except ResultPending as missing:
                assert self._asking is not None
                self._asking.ask(missing.questions)
                self.dirty[found] = None
                return
            remember(self.state, found, decision)
        else:
            return
        self._mark(decision.also)
        for event in decision.events:
            self.facts.append(event)
            self._fold(event)
        for effect in decision.effects:
            if isinstance(effect, Tell):
                # A problem that lasts is told once.
                if not effect.once or self._lasting.get(found) != effect.note:
                    self.notes.append(effect.note)
                if effect.once:
                    self._lasting[found] = effect.note
            elif isinstance(effect, WriteClaim):
                self._claim(effect)

    def _claim(self, effect: WriteClaim) -> None:
        manifest = self.state.templates[effect.key]
        metadata = dict(manifest["metadata"])
        for part, changes in (("labels", effect.labels), ("annotations", effect.annotations)):
            merged = {**(metadata.get(part) or {}), **changes}
            metadata[part] = {name: value for name, value in merged.items() if value is not None}
        if effect.annotations and manifest["kind"] == "Deployment":
            metadata["generation"] += 1
        self.put({**manifest, "metadata": metadata})

    def _fold(self, event: Known) -> None:
        self._mark(det.fold(self.state, len(self.facts), subject_of(event), event))

    def _mark(self, keys: Iterable[det.Key]) -> None:
        self.dirty.update(dict.fromkeys(keys))

    # -- what stands

    def binding(self, found: ObjectKey) -> BindingRequested | None:
        """The request that stands for an object."""
        fact = self.state.binding_facts.get(found)
        return fact if isinstance(fact, BindingRequested) else None

    def asked(self, found: ObjectKey = WEB) -> BindingRequested:
        """The same, which has to be there."""
        binding = self.binding(found)
        assert binding is not None, f"nothing asks for {found}"
        return binding

    def spec(self, found: ObjectKey) -> Manifest:
        """What it asks for."""
        spec: Manifest = msgspec.json.decode(self.asked(found).spec)
        return spec

    def count(self) -> Counter[ObjectKey]:
        """Appended facts by object."""
        return Counter(fact.key for fact in self.facts if isinstance(getattr(fact, "key", None), ObjectKey))

    def reasons(self) -> list[str]:
        """Reasons of the Events."""
        return [note.reason for note in self.notes]


APP = config("app")


def cm(name: str = "app", **parts: Any) -> Manifest:
    """A ConfigMap that the owner may need."""
    return obj("ConfigMap", name, data={"a": "1"}, **parts)


def settled(*objects: Manifest, policies: tuple[Manifest, ...] = (follows(),), **state: Any) -> DependencyPlane:
    """A plane that holds these objects under policies and has nothing left to do."""
    plane = DependencyPlane(*policies, **state)
    plane.put(*objects)
    plane.settle()
    return plane


class Answers(NativeInterpreter):
    """Answers InterpretDependency for one kind as a script or webhook would."""

    def __init__(self, kind: str, *references: Any) -> None:
        self.kind = kind
        self.references: Any = list(references)

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        return super().hook_enabled(api_version, kind, operation) or (
            (kind, operation) == (self.kind, Operation.DEPENDENCY)
        )

    def interpret(self, operation: Operation, obj: Manifest, *arguments: Any) -> Any:
        if operation == Operation.DEPENDENCY and obj["kind"] == self.kind:
            if isinstance(self.references, Exception):
                raise self.references
            return self.references
        return super().interpret(operation, obj, *arguments)
