"""Replays the recorded matching of policies, selectors and clusters."""

from collections.abc import Callable
from typing import Any

from services._rules.policies import matching as policy_match
from services._rules.policies import preemption
from services._rules.policies.cluster_affinity import affinity_of, compile_affinity, facts_of
from services.detector.binding_request import affinity_groups

Case = dict[str, Any]


def _named(policy: policy_match.Policy | None) -> dict[str, str] | None:
    if policy is None:
        return None
    found = {"kind": "PropagationPolicy" if policy.namespace else "ClusterPropagationPolicy", "name": policy.name}
    return found | ({"namespace": policy.namespace} if policy.namespace else {})


def _match(case: Case) -> bool:
    template = policy_match.template_of(case["template"])
    namespaced = [policy_match.compile_policy(item) for item in case.get("propagationPolicies") or ()]
    cluster_wide = [policy_match.compile_policy(item) for item in case.get("clusterPropagationPolicies") or ()]
    winner = _named(policy_match.match_policy(template, namespaced, cluster_wide))
    cluster_winner = _named(policy_match.best_policy(cluster_wide, template))
    return bool(winner == case["winner"] and cluster_winner == case["clusterWinner"])


def _priority(case: Case) -> bool:
    selector = policy_match.compile_selector(case["selector"])
    return bool(selector.rank(policy_match.template_of(case["template"])) == case["priority"])


def _requeue(case: Case) -> bool:
    policies = [
        policy_match.compile_policy({"metadata": {"name": item["name"]}, "spec": item})
        for item in case["policies"] or ()
    ]
    found = preemption.requeued_after_priority_drop(policies, case["oldPriority"], case["newPriority"])
    return [policy.name for policy in found] == (case["queued"] or [])


def _groups(case: Case) -> bool:
    labels = policy_match.template_of(case["template"]).labels
    return bool(affinity_groups(case["policySpec"], dict(labels)) == (case["groups"] or {}))


def _cluster(case: Case) -> bool:
    matches = compile_affinity(affinity_of(case["affinity"]))(facts_of(case["cluster"]))
    return bool(matches == case["matches"])


FUNCTIONS: dict[str, Callable[[Case], bool]] = {
    "MatchPolicy": _match,
    "ResourceSelectorPriority": _priority,
    "RequeueAfterPriorityDrop": _requeue,
    "WorkloadAffinityGroups": _groups,
    "ClusterMatches": _cluster,
}


def check_match(case: Case) -> bool | None:
    """Whether the case comes out as recorded."""
    check = FUNCTIONS.get(case["function"])
    return check(case) if check else None


FILES: dict[str, Callable[[Case], bool | None]] = {"policy-match": check_match}
