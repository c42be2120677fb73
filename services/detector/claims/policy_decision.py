"""Decides the fact about one policy, its release, and which templates it concerns (docs/sources.md#policies)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.absence import absence_guard as absence
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.endpoints.multi_cluster_services import CROSS_CLUSTER
from services._rules.policies.matching import Policy, Template, template_of
from services.detector.effects import NOTHING, DetectorDecision, Effect, KeepPolicy, ReleasePolicy, Tell, WritePolicyId
from services.detector.event_messages import gated, unused
from services.detector.objects.manifest_content import stripped
from services.detector.policies.claim_writes import claimed_policy
from services.detector.policies.lazy_activation import encode
from services.detector.policies.policy_view import IDENTIFIED_KINDS, PROPAGATION_KINDS, PolicyView, id_label
from services.detector.state import DetectorState

REPLACED: Final = "replaced by an object of the same name"


def decide_policy(state: DetectorState, key: PolicyKey) -> DetectorDecision:
    """The fact about one policy, its permanent id, the release of a deleted one, and the templates it concerns."""
    concerned = tuple(_concerned(state, key)) if key in state.edited else ()
    return msgspec.structs.replace(_recorded(state, key), also=concerned)


def _recorded(state: DetectorState, key: PolicyKey) -> DetectorDecision:
    fact = state.policy_facts.get(key)
    view = state.policies.get(key)
    if key.kind == MULTI_CLUSTER_SERVICE and not state.options.services:
        return _not_acted_on(state, key)
    if view is None:
        if key.kind in state.listed and isinstance(fact, PolicyChanged) and not state.guard.holds(key.kind, key):
            why = absence.why_gone(state.guard, key, key in state.told)
            return DetectorDecision(events=(PolicyDeleted(key=key, uid=fact.uid, reason=why),))
        return NOTHING
    effects: list[Effect] = []
    label = id_label(key)
    labels = view.manifest["metadata"].get("labels") or {}
    deleting = "deletionTimestamp" in view.manifest["metadata"]
    if deleting:
        if view.finalizer and not _claims(state, key):
            effects.append(ReleasePolicy(key, view.uid, view.finalizer))
    elif key.kind in IDENTIFIED_KINDS and not labels.get(label):
        effects.append(WritePolicyId(key, view.uid, label, view.permanent_id))
    elif key.kind == MULTI_CLUSTER_SERVICE and not view.finalizer and CROSS_CLUSTER in (view.spec.get("types") or ()):
        effects.append(KeepPolicy(key, view.uid, view.due_finalizer))
    manifest = Raw(encode(_recordable(view)))
    note = unused(state, view) if key.kind in PROPAGATION_KINDS and not deleting else None
    told = () if note is None else (Tell(note),)
    changed = PolicyChanged(key=key, uid=view.uid, manifest=manifest, generation=view.generation, deleting=deleting)
    if isinstance(fact, PolicyChanged):
        if fact.uid == view.uid and fact.manifest == manifest and fact.deleting == deleting:
            return DetectorDecision(effects=effects)
        if fact.uid != view.uid:
            return DetectorDecision(
                events=(PolicyDeleted(key=key, uid=fact.uid, reason=REPLACED), changed), effects=[*effects, *told]
            )
    return DetectorDecision(events=(changed,), effects=[*effects, *told])


def _recordable(view: PolicyView) -> Manifest:
    """The object as it goes on record; a finalizer that the detector adds itself is no change of it."""
    kept = stripped(view.manifest)
    if view.key.kind != MULTI_CLUSTER_SERVICE:
        return kept
    return {**kept, "metadata": {name: value for name, value in kept["metadata"].items() if name != "finalizers"}}


def _not_acted_on(state: DetectorState, key: PolicyKey) -> DetectorDecision:
    """A kind that a feature gate turned off: what was made of it ends, and nothing keeps it from being deleted."""
    fact, view = state.policy_facts.get(key), state.policies.get(key)
    events: list[PolicyDeleted] = []
    if isinstance(fact, PolicyChanged):
        events.append(PolicyDeleted(key=key, uid=fact.uid, reason=f"feature gate {key.kind} is off"))
    effects: list[Effect] = []
    if view is not None and view.finalizer and not _claims(state, key):
        effects.append(ReleasePolicy(key, view.uid, view.finalizer))
    if view is not None and not view.terminating:
        effects.append(Tell(gated(view)))
    return DetectorDecision(events=events, effects=effects)


def _claims(state: DetectorState, policy: PolicyKey) -> bool:
    """Whether a policy claims anything still: by a fact, and by the template as it stands.

    The fact alone may outlast the claim, where the next policy of a template asks for what cannot be interpreted.
    """
    return any(
        (manifest := state.templates.get(key)) is None or claimed_policy(manifest) == policy
        for key in state.claimed.get(policy, ())
    )


def _concerned(state: DetectorState, key: PolicyKey) -> Iterator[ObjectKey]:
    """The templates whose decision a change of a policy may change, some of them twice."""
    yield from state.claimed.get(key, ())
    yield from state.bearing.get(key, ())
    yield from state.lacking.waiting_for(key)
    view = state.policies.get(key)
    if view is None or view.match is None or view.match.terminating:
        return
    yield from _selected(state, view.match, state.lacking)
    for kind in view.match.selectors.kinds():
        resource = state.resources.get(kind)
        if resource is not None:
            yield from _selected(state, view.match, state.waiting.of(*resource), kind)
    if view.match.preempts and state.options.preemption:
        yield from _named(state, view.match)


def _selected(
    state: DetectorState, match: Policy, keys: Iterable[ObjectKey], kind: tuple[str, str] | None = None
) -> Iterator[ObjectKey]:
    """Those templates that a policy selects; labels are read only where the policy asks for any."""
    for key in keys:
        if key not in state.templates or match.namespace not in ("", key.namespace):
            continue
        if kind is None:
            template = template_of(state.templates[key])
        else:
            labels = state.templates.labels(key) if match.selectors.reads_labels else {}
            template = Template(*kind, key.namespace, key.name, labels)
        if match.rank(template):
            yield key


def _named(state: DetectorState, match: Policy) -> Iterator[ObjectKey]:
    """The templates that a policy names, claimed or not."""
    for api_version, kind, namespace, name in match.selectors.named:
        resource = state.resources.get((api_version, kind))
        if resource is not None:
            key = ObjectKey(*resource, namespace or match.namespace, name)
            if key in state.templates:
                yield key
