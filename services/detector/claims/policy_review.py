"""Decides what a user should hear of a policy that has less effect than it seems to (docs/sources.md#events).

A policy is looked at once, some seconds after it was last changed: what it needs is often applied a moment later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from services._rules.constants import SKIP_AUTO_PROPAGATION_LABEL
from services._rules.policies.matching import Policy, Template
from services.detector.claims.template_claim import missing_overrides
from services.detector.effects import NOTHING, DetectorDecision
from services.detector.event_messages import of_policy, some, told_of
from services.detector.policies.claim_writes import claimed_policy
from services.detector.policies.policy_view import PolicyView
from services.detector.state import DetectorState

QUIET: Final = 5.0
"""Seconds without a change of the policy before it is looked at."""
WINDOW: Final = 60.0
"""Seconds in which that can be made up for; later it is not worth an Event, such as after a restart."""
_REASON: Final = "SelectorsWithoutEffect"
_SHOWN: Final = 3


def review_policy(state: DetectorState, key: PolicyKey, now: float) -> DetectorDecision:
    """The Event about a propagation policy that is due, and when to look at it."""
    view = state.policies.get(key)
    if view is None or view.match is None or view.match.terminating:
        return NOTHING
    fact = state.policy_facts.get(key)
    if not isinstance(fact, PolicyChanged) or (fact.uid, fact.generation) != (view.uid, view.generation):
        return DetectorDecision(wake_at=now + QUIET)
    due = fact.provenance.decided_at + QUIET
    if now < due:
        return DetectorDecision(wake_at=due)
    if now > due + WINDOW:
        return NOTHING
    found = [*_selectors(state, view), *_overrides(state, view), *_synchronised(state, view.match)]
    others, mine = _claimed_elsewhere(state, view.match), bool(state.bearing.get(key))
    if others:
        named = some([f"{name} by {policy}" for name, policy in others.items()], _SHOWN)
        found.append(f"{len(others)} of the objects it selects are claimed already: {named}")
    elif not mine and not found and not any(True for _ in _matches(state, view.match)):
        found.append("no object of the control plane matches spec.resourceSelectors")
    if not found:
        return NOTHING
    harmless = mine and len(found) == bool(others)
    return DetectorDecision(effects=told_of(of_policy(view, _REASON, "; ".join(found), warning=not harmless)))


def _selectors(state: DetectorState, view: PolicyView) -> Iterator[str]:
    """Selectors that can never match anything."""
    seen: set[tuple[str, str, str]] = set()
    for position, item in enumerate(view.spec.get("resourceSelectors") or ()):
        if not isinstance(item, Mapping):
            continue
        api_version, kind = str(item.get("apiVersion") or ""), str(item.get("kind") or "")
        namespace = str(item.get("namespace") or view.key.namespace)
        if (api_version, kind, namespace) in seen:
            continue
        seen.add((api_version, kind, namespace))
        why = _unmatchable(state, api_version, kind, namespace)
        if why:
            yield f"spec.resourceSelectors[{position}]: {why}"
        if len(seen) > _SHOWN and why:
            return


def _unmatchable(state: DetectorState, api_version: str, kind: str, namespace: str) -> str:
    """Why objects of a kind and namespace are never propagated; empty where they are."""
    if state.skip.skips_kind(api_version, kind):
        return f"{kind} of {api_version} is never propagated"
    if state.skip.skips_object(Template(api_version, kind, namespace, "", {})):
        return f"objects in namespace {namespace} are never propagated"
    if not state.served or (api_version, kind) in state.served:
        return ""
    others = sorted(version for version, name in state.served if name == kind)
    hint = f"it serves {kind} in {', '.join(others)}" if others else "is its definition installed?"
    return f"the control plane does not serve {kind} in {api_version or 'an empty apiVersion'}; {hint}"


def _overrides(state: DetectorState, view: PolicyView) -> Iterator[str]:
    lacking = missing_overrides(state, view)
    if lacking:
        names = some(item.name for item in lacking)
        yield f"spec.dependentOverrides: {names} not found; what it selects waits for them"


def _synchronised(state: DetectorState, match: Policy) -> Iterator[str]:
    """Selected namespaces that go to every cluster whatever the policy says."""
    if ("v1", "Namespace") not in match.selectors.kinds():
        return
    facts = ((key, state.binding_facts.get(key)) for key in _matches(state, match) if key.resource == "namespaces")
    names = [key.name for key, fact in facts if isinstance(fact, BindingRequested) and fact.everywhere]
    if names:
        label = f'{SKIP_AUTO_PROPAGATION_LABEL}: "true"'
        yield f"namespaces go to every cluster by themselves ({some(names)}); a policy places those with label {label}"


def _claimed_elsewhere(state: DetectorState, match: Policy) -> dict[str, PolicyKey]:
    """Objects that a policy selects and others claim, with their policies."""
    kind = "PropagationPolicy" if match.namespace else "ClusterPropagationPolicy"
    ours = state.bearing.get(PolicyKey(kind, match.namespace, match.name), set())
    found: dict[str, PolicyKey] = {}
    for key in _matches(state, match):
        holder = claimed_policy(state.templates[key]) if key not in ours else None
        if holder is not None:
            found[f"{key.group_resource} {key.name}"] = holder
    return found


def _matches(state: DetectorState, match: Policy) -> Iterator[ObjectKey]:
    """The templates that a policy selects."""
    kinds = {state.resources[kind]: kind for kind in match.selectors.kinds() if kind in state.resources}
    for key in state.templates:
        kind = kinds.get((key.group, key.resource))
        if kind is None or match.namespace not in ("", key.namespace):
            continue
        labels = state.templates.labels(key) if match.selectors.reads_labels else {}
        if match.rank(Template(*kind, key.namespace, key.name, labels)):
            yield key
