"""Which node a pod goes to: readiness, cordon, taints, selector, required node affinity and free room."""

from collections import Counter
from functools import lru_cache
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, compile_expressions
from services.member_sim.world.pod_requests import pod_requests
from services.member_sim.world.world_model import (
    NODES,
    PODS,
    Decision,
    Key,
    Turn,
    Write,
    condition,
    is_true,
    key_of,
    stamp,
)
from services.member_sim.world.world_state import State

CORDONED: Manifest = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOT_READY: Manifest = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

_encode = msgspec.json.Encoder(order="sorted").encode


class Placer:
    """Places pods with one specification: predicates on the node alone are evaluated once per decision."""

    def __init__(self, state: State, turn: Turn, spec: Manifest) -> None:
        self._state = state
        self._turn = turn
        self.requests = pod_requests(spec)
        self._refusals: Counter[str] = Counter()
        self._open: list[str] = []
        self._total = 0
        for node in state.all_of(NODES):
            self._total += 1
            reason = refusal(spec, node)
            if reason is None:
                self._open.append(node["metadata"]["name"])
            else:
                self._refusals[reason] += 1

    def place(self, pod: Key) -> str | None:
        """Return the emptiest node with room and hold the room, or none."""
        best, best_score = None, -1.0
        for node in self._open:
            score = self._score(node)
            if score is not None and score > best_score:
                best, best_score = node, score
        if best is not None:
            self._turn.reserved.hold(pod, best, self.requests)
        return best

    def explain(self) -> str:
        """Return why nothing fits, in the form that Kubernetes gives it."""
        reasons = Counter(self._refusals)
        for node in self._open:
            reasons.update(self._lacking(node))
        if not self._total:
            return "0/0 nodes are available: the cluster has no nodes."
        listed = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
        return f"0/{self._total} nodes are available: {listed}."

    def _score(self, node: str) -> float | None:
        """Return the free share of cpu and memory after placing, or none when it does not fit."""
        capacity = self._state.capacity.get(node, {})
        used = self._state.used.get(node, {})
        held = self._turn.reserved.on_node.get(node, {})
        score = 0.0
        for name, wanted in self.requests.items():
            have = capacity.get(name, 0)
            free = have - used.get(name, 0) - held.get(name, 0) - wanted
            if free < 0 and wanted:
                return None
            if have:
                score += free / have
        return score

    def _lacking(self, node: str) -> list[str]:
        capacity = self._state.capacity.get(node, {})
        used = self._state.used.get(node, {})
        held = self._turn.reserved.on_node.get(node, {})
        return [
            "Too many pods" if name == "pods" else f"Insufficient {name}"
            for name, wanted in self.requests.items()
            if wanted and capacity.get(name, 0) - used.get(name, 0) - held.get(name, 0) < wanted
        ]


def decide_unplaced(state: State, turn: Turn) -> Decision:
    """Place the pods that wait for a node, oldest first, and mark those for which there is no room."""
    writes: list[Write] = []
    placers: dict[bytes, Placer] = {}
    full: dict[bytes, str] = {}
    for key, pod in list(state.unplaced.items()):
        spec = pod["spec"]
        if spec.get("schedulerName", "default-scheduler") != "default-scheduler" or spec.get("schedulingGates"):
            continue
        signature = _signature(spec)
        message = full.get(signature)
        if message is None:
            placer = placers.get(signature)
            if placer is None:
                placer = placers[signature] = Placer(state, turn, spec)
            node = placer.place(key)
            if node is not None:
                writes.append(Write("bind", key, {"node": node}, uid=pod["metadata"]["uid"]))
                continue
            message = full[signature] = placer.explain()
        write = _unschedulable(key, pod, message, turn)
        if write is not None:
            writes.append(write)
    return Decision(writes)


def refusal(spec: Manifest, node: Manifest) -> str | None:
    """Return why a pod may not go to a node whatever its room, or none."""
    wanted = spec.get("nodeName")
    if wanted and wanted != node["metadata"]["name"]:
        return "node(s) other than the requested one"
    tolerations = spec.get("tolerations") or ()
    if (node.get("spec") or {}).get("unschedulable") and not tolerated(CORDONED, tolerations):
        return "node(s) cordoned"
    taint = untolerated(node, tolerations)
    if taint is not None:
        return f"node(s) with untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    if not is_true(node, "Ready") and not tolerated(NOT_READY, tolerations):
        return "node(s) not ready"
    if not selected(spec, node):
        return "node(s) outside the pod's node selector or affinity"
    return None


def untolerated(node: Manifest, tolerations: Any) -> Manifest | None:
    """Return the first taint that keeps new pods away and is not tolerated."""
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
            found: Manifest = taint
            return found
    return None


def tolerates(toleration: Manifest, taint: Manifest) -> bool:
    """Return whether one toleration covers one taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    if toleration["key"] != taint.get("key"):
        return False
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


def tolerated(taint: Manifest, tolerations: Any) -> bool:
    """Return whether any toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def selected(spec: Manifest, node: Manifest) -> bool:
    """Return whether the pod's node selector and required node affinity accept the node."""
    labels = node["metadata"].get("labels") or {}
    selector = spec.get("nodeSelector")
    if selector and not selector.items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term_matches(term, labels, fields) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Manifest, labels: dict[str, str], fields: dict[str, str]) -> bool:
    expressions, on_fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not on_fields:
        return False
    for listed, values in ((expressions, labels), (on_fields, fields)):
        if listed:
            selector = _selector(_encode(listed))
            if selector is None or not selector.matches(values):
                return False
    return True


@lru_cache(maxsize=1024)
def _selector(expressions: bytes) -> Selector | None:
    try:
        return Selector(compile_expressions(msgspec.json.decode(expressions), node=True))
    except LabelSelectorError:
        return None


def _signature(spec: Manifest) -> bytes:
    requests = [c.get("resources") for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    return _encode([requests, spec.get("nodeSelector"), affinity, spec.get("tolerations"), spec.get("overhead")])


def _unschedulable(key: Key, pod: Manifest, message: str, turn: Turn) -> Write | None:
    old = condition(pod, "PodScheduled")
    if old is not None and old.get("reason") == "Unschedulable" and old.get("message") == message:
        return None
    since = stamp(turn.now)
    if old is not None and old.get("status") == "False":
        since = old.get("lastTransitionTime") or since
    entry = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    status = {**(pod.get("status") or {}), "phase": "Pending"}
    status["conditions"] = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"] + [entry]
    return Write("status", key, status, uid=pod["metadata"]["uid"])


def placed_pod(placer: Placer, pod: Manifest) -> Manifest:
    """Return the new pod with its node already set when one has room, otherwise as it is."""
    node = placer.place(key_of(PODS, pod))
    if node is not None:
        pod["spec"]["nodeName"] = node
    return pod
