"""Decides which policy an object is to bear the claim of: sticky claims, preemption, the best match.

Sources: docs/sources.md#policies.
"""

from __future__ import annotations

from itertools import chain

from msgspec import Struct

from schemas.events.binding import BindingRequested
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.policies.matching import Policy, Template, match_policy
from services._rules.policies.preemption import preemptor
from services.detector.policies.claim_writes import claimed_policy, unclaimed
from services.detector.policies.policy_view import PolicyView
from services.detector.state import DetectorState


class ClaimChoice(Struct, frozen=True):
    """Which policy an object is to bear the claim of.

    `cleaned` is the object without claims that have ended. `held`: the policy claims the object already. `stays`: it
    does, and selects the object no longer. `preempted` is the policy that the object is taken from. `reason` tells why
    the policy is another than before.
    """

    view: PolicyView | None
    cleaned: Manifest
    held: bool = False
    stays: bool = False
    preempted: PolicyKey | None = None
    reason: str = ""


def choose_claim(state: DetectorState, key: ObjectKey, manifest: Manifest, template: Template) -> ClaimChoice:
    """The claim that is due on an object as it stands."""
    holder = claimed_policy(manifest)
    view = state.policies.get(holder) if holder is not None else None
    match = view.match if view is not None else None
    if holder is None:
        found = _best(state, template)
        return ClaimChoice(found, manifest, reason=_chosen(state, key, found, "it had no policy"))
    if view is None or match is None or match.terminating:
        # The policy waits for the end of its claims before it disappears.
        why = f"{holder} was deleted" if match is None else f"{holder} is being deleted"
    else:
        taker = _preemptor(state, template, manifest, match)
        if taker is not None:
            why = f"{taker.key} preempts {holder}"
            return ClaimChoice(taker, manifest, preempted=holder, reason=why)
        if match.rank(template):
            return ClaimChoice(view, manifest, held=True)
        if not _policy_moved_on(state, key, view):
            return ClaimChoice(view, manifest, held=True, stays=True)
        why = f"{holder} was changed and selects it no longer"
    found = _best(state, template)
    return ClaimChoice(found, unclaimed(manifest), reason=_chosen(state, key, found, why))


def _chosen(state: DetectorState, key: ObjectKey, found: PolicyView | None, why: str) -> str:
    """Why a binding that exists gets another policy than before, or none."""
    if not isinstance(state.binding_facts.get(key), BindingRequested):
        return ""
    return f"{why}; no other policy selects it" if found is None else f"{why}; {found.key} selects it"


def _preemptor(state: DetectorState, template: Template, manifest: Manifest, holder: Policy) -> PolicyView | None:
    """The policy that takes an object from its holder, if any."""
    if not state.options.preemption or "deletionTimestamp" in manifest["metadata"]:
        return None
    able = state.candidates(template, "")
    if template.namespace:
        able = chain(state.candidates(template, template.namespace), able)
    taker = preemptor(template, able, holder)
    return None if taker is None else state.policies[_key_of(taker)]


def _best(state: DetectorState, template: Template) -> PolicyView | None:
    """The policy that wins an unclaimed template."""
    winner = match_policy(template, state.candidates(template, template.namespace), state.candidates(template, ""))
    return None if winner is None else state.policies[_key_of(winner)]


def _policy_moved_on(state: DetectorState, key: ObjectKey, view: PolicyView) -> bool:
    """Whether the policy changed since the object was last selected; only then is a stale claim taken away.

    An object that changed itself keeps the claim: as it is on record, the policy selects it still.
    """
    binding, template = state.binding_facts.get(key), state.template_facts.get(key)
    if not isinstance(binding, BindingRequested) or binding.policy is None or binding.policy.key != view.key:
        return False
    if binding.policy.id != view.permanent_id:
        return True
    if binding.policy.unselected:
        return view.generation > binding.policy.generation
    if view.match is None or not isinstance(template, TemplateChanged):
        return False
    recorded = Template(template.api_version, template.kind, key.namespace, key.name, template.labels)
    return not view.match.rank(recorded)


def missing_overrides(state: DetectorState, view: PolicyView) -> list[PolicyKey]:
    """The override policies that a policy depends on and that do not exist."""
    kind = "ClusterOverridePolicy" if not view.key.namespace else "OverridePolicy"
    names = view.spec.get("dependentOverrides") or ()
    wanted = (PolicyKey(kind, view.key.namespace, name) for name in names)
    return [key for key in wanted if key not in state.policies]


def _key_of(policy: Policy) -> PolicyKey:
    kind = "PropagationPolicy" if policy.namespace else "ClusterPropagationPolicy"
    return PolicyKey(kind, policy.namespace, policy.name)
