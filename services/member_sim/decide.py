"""Decides the writes due for a dirty key: one pure function per kind of object behind one entry."""

from collections.abc import Callable

from services.member_sim.controllers.cronjob import decide_cronjob
from services.member_sim.controllers.daemonset import decide_daemonset
from services.member_sim.controllers.deployment import decide_deployment
from services.member_sim.controllers.disruption import decide_budget
from services.member_sim.controllers.job import decide_job
from services.member_sim.controllers.kubelet import decide_pod
from services.member_sim.controllers.namespace import decide_namespace
from services.member_sim.controllers.node import decide_node
from services.member_sim.controllers.pod_scheduling import decide_unplaced
from services.member_sim.controllers.quota_counts import decide_quota
from services.member_sim.controllers.replicaset import decide_replicaset
from services.member_sim.controllers.service_endpoints import decide_service
from services.member_sim.controllers.statefulset import decide_statefulset
from services.member_sim.world.volume_claims import decide_claim, decide_volume
from services.member_sim.world.world_model import (
    APPS,
    BUDGETS,
    CLAIMS,
    CRONJOBS,
    DAEMONSETS,
    JOBS,
    NAMESPACES,
    NODES,
    NOTHING,
    PODS,
    QUOTAS,
    REPLICASETS,
    SCHEDULER,
    SERVICES,
    STATEFULSETS,
    VOLUMES,
    Decision,
    Key,
    Turn,
)
from services.member_sim.world.world_state import State


def _unplaced(state: State, key: Key, turn: Turn) -> Decision:  # noqa: ARG001 - the shape of every decision
    return decide_unplaced(state, turn)


_DECISIONS: dict[str, Callable[[State, Key, Turn], Decision]] = {
    APPS: decide_deployment,
    REPLICASETS: decide_replicaset,
    STATEFULSETS: decide_statefulset,
    DAEMONSETS: decide_daemonset,
    JOBS: decide_job,
    CRONJOBS: decide_cronjob,
    PODS: decide_pod,
    NODES: decide_node,
    NAMESPACES: decide_namespace,
    SERVICES: decide_service,
    CLAIMS: decide_claim,
    VOLUMES: decide_volume,
    BUDGETS: decide_budget,
    QUOTAS: decide_quota,
    SCHEDULER: _unplaced,
}


def decide(state: State, key: Key, turn: Turn) -> Decision:
    """Return the writes that bring the cluster closer to what the key's object asks for, and when to decide again.

    Pure but for two things that ``turn`` hands in: names, and the promises of room that placing a pod makes.
    """
    rule = _DECISIONS.get(key.resource)
    return NOTHING if rule is None else rule(state, key, turn)
