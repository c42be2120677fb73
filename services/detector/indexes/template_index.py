"""Remembers of templates what finds them again: their claims, what they wait for, and what they are placed by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services.detector.indexes.ranked_templates import rank
from services.detector.policies.claim_writes import claimed_policy

if TYPE_CHECKING:
    from services.detector.effects import DetectorDecision
    from services.detector.state import DetectorState


def forget_claim(claims: dict[PolicyKey, set[ObjectKey]], policy: PolicyKey, key: ObjectKey) -> None:
    """A policy claims a template no more."""
    held = claims.get(policy, set())
    held.discard(key)
    if not held:
        claims.pop(policy, None)


def bear(state: DetectorState, key: ObjectKey, before: PolicyKey | None, now: PolicyKey | None) -> None:
    """A template bears the claim of another policy than before."""
    if before is not None:
        forget_claim(state.bearing, before, key)
    if now is not None:
        state.bearing.setdefault(now, set()).add(key)


def index_template(
    state: DetectorState, key: ObjectKey, manifest: Manifest, before: PolicyKey | None = None
) -> PolicyKey | None:
    """Let a template be found by its kind and by the claim that it bears instead of the one before; that claim."""
    state.resources[manifest["apiVersion"], manifest["kind"]] = (key.group, key.resource)
    claimed = claimed_policy(manifest)
    if claimed != before:
        bear(state, key, before, claimed)
    return claimed


def forget_template(state: DetectorState, key: ObjectKey) -> None:
    """An object is gone: it waits for nothing."""
    state.waiting.discard(key)
    state.lacking.put(key, ())
    rank(state.ranked, key, "")


def remember(state: DetectorState, key: object, decision: DetectorDecision) -> None:
    """Take in a decision: of a template what it waits for, lacks and is placed by; of a policy that it was looked at.

    What the decision leaves open (None) stays as it was.
    """
    if isinstance(key, PolicyKey):
        # What its change means for templates is marked with this decision.
        state.edited.discard(key)
    if not isinstance(key, ObjectKey):
        return
    if decision.waiting is not None:
        (state.waiting.add if decision.waiting else state.waiting.discard)(key)
    if decision.ranked is not None:
        rank(state.ranked, key, decision.ranked)
    if decision.lacking is not None:
        state.lacking.put(key, decision.lacking)
