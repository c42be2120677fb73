"""Decides which policy takes a template away from the one that claims it (docs/sources.md#policies)."""

from __future__ import annotations

from collections.abc import Iterable

from services._rules.policies.matching import Policy, Template


def may_preempt(policy: Policy, holder: Policy) -> bool:
    """Whether a policy may take a template that another policy has claimed.

    A namespaced policy always takes from a cluster-wide one and never the reverse; otherwise priority must be higher.
    """
    if not policy.preempts:
        return False
    if bool(policy.namespace) != bool(holder.namespace):
        return bool(policy.namespace)
    return policy.priority > holder.priority


def preemptor(template: Template, policies: Iterable[Policy], holder: Policy) -> Policy | None:
    """The policy that takes a template from its holder: namespaced before cluster-wide, highest priority, smaller name.

    Only a selector with the name and namespace of the template counts; in a namespaced policy, none means its own.
    Nothing may preempt the result.
    """
    able = (
        policy
        for policy in policies
        if not policy.terminating and may_preempt(policy, holder) and policy.selectors.names(template, policy.namespace)
    )
    return min(able, key=lambda policy: (not policy.namespace, -policy.priority, policy.name.encode()), default=None)


def requeued_after_priority_drop(policies: Iterable[Policy], old: int, new: int) -> list[Policy]:
    """Policies of the same scope that may now preempt one whose priority fell from old to new, highest first."""
    between = [policy for policy in policies if policy.preempts and new < policy.priority < old]
    return sorted(between, key=lambda policy: -policy.priority)
