"""PodDisruptionBudgets: how many pods serve, how many must, and so how many may be evicted now."""

from schemas.manifest import Manifest
from services._rules.interpreter.common.int_or_percent import scaled_value
from services._rules.kubernetes.selectors import LabelSelectorError, compile_selector
from services.member_sim.world.pod_reading import is_active, is_ready, starting
from services.member_sim.world.world_model import NOTHING, PODS, Decision, Key, Turn, Write, condition, stamp
from services.member_sim.world.world_state import State


def decide_budget(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one budget."""
    budget = state.find(key)
    if budget is None or "deletionTimestamp" in budget["metadata"] or state.closing(key.namespace):
        return NOTHING
    spec = budget["spec"]
    try:
        matches = compile_selector(spec.get("selector")).matches
    except LabelSelectorError:
        return NOTHING
    pods = [
        pod
        for pod in state.in_namespace(PODS, key.namespace).values()
        if is_active(pod) and matches(pod["metadata"].get("labels") or {})
    ]
    moment = starting(state, pods, turn.config, turn.now)
    if moment is not None and moment <= turn.now:
        return Decision([], moment + 1)
    expected, desired = _wanted(state, spec, pods)
    healthy = sum(1 for pod in pods if is_ready(pod))
    allowed = max(healthy - desired, 0) if expected else 0
    old = budget.get("status") or {}
    status: Manifest = {
        **old,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [_condition(budget, allowed, turn.now)],
    }
    # Evictions that the API server granted stay on record until their pod is gone.
    if old.get("disruptedPods"):
        names = {pod["metadata"]["name"] for pod in pods}
        status["disruptedPods"] = {name: at for name, at in old["disruptedPods"].items() if name in names}
    return Decision([] if status == old else [Write("status", key, status, uid=budget["metadata"]["uid"])])


def _wanted(state: State, spec: Manifest, pods: list[Manifest]) -> tuple[int, int]:
    """Return how many pods there should be and how many of them must serve."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if isinstance(least, int):
        return len(pods), least
    expected = _expected(state, pods)
    if most is not None:
        return expected, max(expected - scaled_value(most, expected, up=True), 0)
    return expected, scaled_value(least if least is not None else 0, expected, up=True)


def _expected(state: State, pods: list[Manifest]) -> int:
    """Return the sum of the sizes of the workloads above the pods; a pod without one counts for itself."""
    owners: set[Key] = set()
    alone = 0
    for pod in pods:
        owner = state.owner_key(pod)
        manifest = state.find(owner) if owner is not None else None
        above = state.owner_key(manifest) if manifest is not None else None
        top = above if above is not None and state.find(above) is not None else owner
        if top is None or manifest is None:
            alone += 1
        else:
            owners.add(top)
    found = [state.find(owner) for owner in owners]
    wanted: int = sum(owner["spec"].get("replicas", 1) for owner in found if owner is not None)
    return alone + wanted


def _condition(budget: Manifest, allowed: int, now: float) -> Manifest:
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    old = condition(budget, "DisruptionAllowed")
    if old is not None and old.get("status") == status:
        return old
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": stamp(now),
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
