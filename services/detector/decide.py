"""Decides the facts and claims of one template or policy of the control plane (docs/sources.md#policies)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from schemas.events.binding import BindingReleased, BindingRequested, PolicyRef
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import INLINE_BYTES, Manifest
from services._rules import constants as const
from services._rules.absence import absence_guard as absence
from services._rules.interpreter import InterpretError
from services._rules.interpreter.result_cache import ResultPending
from services._rules.policies.matching import Template, template_of
from services._rules.policies.policy_claims import Claim, claim_template
from services._rules.policies.service_claims import claim_service, is_claimed_by_service
from services._rules.secrets.secret_objects import is_secret
from services.detector.binding_request import Unresolved, priority_class, same_request, succeeding
from services.detector.claims.policy_decision import REPLACED
from services.detector.claims.template_claim import ClaimChoice, choose_claim, missing_overrides
from services.detector.dependencies.owner_bindings import asked_for, left_standing, wanted_by_owners
from services.detector.effects import NOTHING, DetectorDecision, Effect, NeedKey, Tell
from services.detector.event_messages import not_interpreted, overrides_missing, preempted_by, told_of, unresolved
from services.detector.indexes.ranked_templates import rank_of
from services.detector.objects.manifest_content import stripped
from services.detector.policies.claim_writes import claim_write, foreseen, unclaimed
from services.detector.policies.lazy_activation import encode, held_back, ours, precedes
from services.detector.policies.policy_view import PolicyView
from services.detector.policies.reschedule_requests import with_request
from services.detector.policies.shared_services import ends_claims, sharing
from services.detector.state import DetectorState

Fact = TemplateChanged | TemplateDeleted | BindingRequested | BindingReleased


def decide_template(state: DetectorState, key: ObjectKey, now: float) -> DetectorDecision:
    """The facts about one object, and its claim labels; raises ResultPending when it needs an interpreter's result."""
    asked = state.rebalancing.requests.get(key)
    if asked is None:
        return _decided(state, key, now)
    binding = state.binding_facts.get(key)
    try:
        decision = _decided(state, key, now)
    except ResultPending:
        # The present binding can be placed afresh meanwhile.
        taken = with_request((), binding, asked)
        if not taken:
            raise
        return DetectorDecision(events=taken, also=(key,))
    return msgspec.structs.replace(decision, events=with_request(decision.events, binding, asked))


def _decided(state: DetectorState, key: ObjectKey, now: float) -> DetectorDecision:
    if not state.policies_listed:
        return NOTHING
    manifest = state.templates.get(key)
    if manifest is None:
        known = key.group_resource in state.listed and not state.guard.holds(key.group_resource, key)
        return _gone(state, key, absence.why_gone(state.guard, key, key in state.told)) if known else NOTHING
    template = template_of(manifest)
    metadata = manifest["metadata"]
    service = sharing(state, key)
    if service is not None and not state.skip.skips_object(template):
        return _shared(state, key, manifest, service, now)
    if is_claimed_by_service(manifest) and ends_claims(state):
        return _orphaned(state, key, manifest, unclaimed(manifest), "no MultiClusterService claims it any more")
    if (metadata.get("labels") or {}).get(const.TEMPLATE_CLAIMED_BY_LABEL):
        required = _required(state, key, manifest, manifest, now)
        return msgspec.structs.replace(required or NOTHING, waiting=_waits(state, key, False))
    if state.skip.skips_object(template):
        return _released(state, key, str(metadata.get("uid", "")))
    if template.kind == "Namespace" and template.api_version == "v1":
        return _namespace(state, key, manifest, template, now)
    return _propagated(state, key, manifest, template, now)


def _gone(state: DetectorState, key: ObjectKey, why: str) -> DetectorDecision:
    """Close the facts of an object that is proven absent; `why` is the proof."""
    events: list[Fact] = []
    template, binding = state.template_facts.get(key), state.binding_facts.get(key)
    if isinstance(template, TemplateChanged):
        events.append(TemplateDeleted(key=key, uid=template.uid, reason=why))
    if isinstance(binding, BindingRequested):
        events.append(BindingReleased(key=key, uid=binding.uid, reason="template deleted"))
    return DetectorDecision(events=events)


def _released(state: DetectorState, key: ObjectKey, uid: str) -> DetectorDecision:
    """An object of the same name replaced the recorded one and is not propagated itself."""
    template = state.template_facts.get(key)
    if isinstance(template, TemplateChanged) and template.uid != uid:
        return _gone(state, key, REPLACED)
    return NOTHING


def _namespace(
    state: DetectorState, key: ObjectKey, manifest: Manifest, template: Template, now: float
) -> DetectorDecision:
    """A namespace goes to every cluster without a policy, unless it is opted out (docs/sources.md#namespaces)."""
    metadata = manifest["metadata"]
    uid = str(metadata.get("uid", ""))
    if state.skip.skips_object(Template("v1", "ConfigMap", key.name, "", {})):
        # System namespaces are the clusters' own, whatever a policy selects.
        return _frozen(state, key, uid, _released(state, key, uid))
    labels = metadata.get("labels") or {}
    opted_out = str(labels.get(const.SKIP_AUTO_PROPAGATION_LABEL, "")).lower() == "true"
    if opted_out or key.name == "default" or not state.options.namespaces:
        return _frozen(state, key, uid, _propagated(state, key, manifest, template, now))
    if "deletionTimestamp" in metadata:
        return _released(state, key, uid)
    return _applied(state, key, manifest, None, now, everywhere=True)


def _frozen(state: DetectorState, key: ObjectKey, uid: str, decision: DetectorDecision) -> DetectorDecision:
    """What was synchronised to every cluster and is not any more stays where it is, and goes to no other cluster."""
    binding = state.binding_facts.get(key)
    if decision.events or not isinstance(binding, BindingRequested) or binding.uid != uid:
        return decision
    if not binding.everywhere or binding.frozen:
        return decision
    stays = _next(binding, frozen=binding.generation, reason="synchronised to new clusters no longer; copies stay")
    return msgspec.structs.replace(decision, events=[stays])


def _propagated(
    state: DetectorState, key: ObjectKey, manifest: Manifest, template: Template, now: float
) -> DetectorDecision:
    """An object that is propagated if a policy claims or matches it (docs/sources.md#policies)."""
    claim = choose_claim(state, key, manifest, template)
    if claim.stays:
        return _required(state, key, manifest, manifest, now) or _unselected(state, key, claim)
    view = claim.view
    if view is None:
        left = _left(state, key, manifest, claim, now)
        return msgspec.structs.replace(left, waiting=_waits(state, key, True), lacking=_lacks(state, key, ()))
    lacking = missing_overrides(state, view)
    if lacking:
        told = told_of(overrides_missing(key, manifest, view, lacking))
        if claim.held or claim.preempted is not None:
            # Neither the object nor its binding changes before the overrides exist.
            left = _required(state, key, manifest, manifest, now) or NOTHING
        else:
            left = _left(state, key, manifest, claim, now)
        return msgspec.structs.replace(left, effects=[*left.effects, *told], lacking=_lacks(state, key, lacking))
    claimed = claim_template(claim.cleaned, Claim(view.permanent_id, view.key.namespace, view.key.name))
    writes = claim_write(key, manifest, claimed, preempted_by(key, manifest, claim.preempted, view))
    if writes:
        claimed = foreseen(manifest, claimed)
    bears = claim.held or claim.preempted is not None
    waited = key in state.waiting and precedes(manifest, view)
    decision = _applied(state, key, claimed, view, now, bears=bears, waited=waited, reason=claim.reason)
    # A decision that lacks something is still to be made, and must know then why it is made.
    unfinished = any(isinstance(effect, NeedKey) for effect in decision.effects)
    return msgspec.structs.replace(
        decision,
        effects=[*decision.effects, *writes],
        waiting=None if unfinished else _waits(state, key, False),
        lacking=_lacks(state, key, ()),
    )


def _shared(state: DetectorState, key: ObjectKey, manifest: Manifest, view: PolicyView, now: float) -> DetectorDecision:
    """A Service that belongs to a MultiClusterService, whatever policy selects it (docs/sources.md#services)."""
    claimed = claim_service(manifest, view.permanent_id, view.key)
    writes = claim_write(key, manifest, claimed)
    decision = _applied(state, key, claimed, view, now, bears=not writes, reason=f"{view.key} claims it")
    return msgspec.structs.replace(
        decision,
        effects=[*decision.effects, *writes],
        waiting=_waits(state, key, False),
        lacking=_lacks(state, key, ()),
    )


def _left(state: DetectorState, key: ObjectKey, manifest: Manifest, claim: ClaimChoice, now: float) -> DetectorDecision:
    """An object without a policy: a dependency of others, or one whose binding stays as it is."""
    required = _required(state, key, manifest, claim.cleaned, now)
    return required or _orphaned(state, key, manifest, claim.cleaned, claim.reason)


def _required(
    state: DetectorState, key: ObjectKey, manifest: Manifest, cleaned: Manifest, now: float
) -> DetectorDecision | None:
    """The facts about a dependency that no policy claims; None for any other object."""
    bound = _bound(state, key, str(manifest["metadata"].get("uid", "")))
    if wanted_by_owners(state, key, bound) is None:
        return None
    writes = claim_write(key, manifest, cleaned)
    decision = _applied(state, key, foreseen(manifest, cleaned) if writes else manifest, None, now)
    return msgspec.structs.replace(decision, effects=[*decision.effects, *writes])


def _bound(state: DetectorState, key: ObjectKey, uid: str) -> BindingRequested | None:
    """The request on record for the object with this uid."""
    binding = state.binding_facts.get(key)
    return binding if isinstance(binding, BindingRequested) and binding.uid == uid else None


def _unselected(state: DetectorState, key: ObjectKey, claim: ClaimChoice) -> DetectorDecision:
    """The claim of a policy that does not select the object any more stands until the policy changes; recorded once."""
    binding, view = state.binding_facts.get(key), claim.view
    uid = str(claim.cleaned["metadata"].get("uid", ""))
    if view is None or not isinstance(binding, BindingRequested) or binding.policy is None or binding.uid != uid:
        return DetectorDecision(lacking=_lacks(state, key, ()))
    kept = PolicyRef(view.key, view.permanent_id, view.generation, unselected=True)
    if binding.policy.unselected:
        return DetectorDecision(lacking=_lacks(state, key, ()))
    reason = f"{view.key} does not select it any more; the claim ends when that policy changes"
    return DetectorDecision(events=[_next(binding, policy=kept, reason=reason)], lacking=_lacks(state, key, ()))


def _waits(state: DetectorState, key: ObjectKey, wanted: bool) -> bool | None:
    """Whether a template waits for a policy, where that changes."""
    return wanted if (key in state.waiting) != wanted else None


def _ranked(state: DetectorState, key: ObjectKey, view: PolicyView | None) -> str | None:
    """The PriorityClass by which a template is placed, where that changes."""
    name = priority_class(view.spec) if view is not None and state.options.priorities else ""
    return name if name != rank_of(state.ranked, key) else None


def _lacks(state: DetectorState, key: ObjectKey, overrides: Sequence[PolicyKey]) -> Sequence[PolicyKey] | None:
    """The override policies that an object waits for, where these are others than before."""
    return overrides if tuple(overrides) != state.lacking.of(key) else None


def _orphaned(
    state: DetectorState, key: ObjectKey, manifest: Manifest, cleaned: Manifest, reason: str
) -> DetectorDecision:
    """No policy wants the object: an existing binding keeps its content and loses its policy."""
    events: list[Fact] = []
    uid = str(manifest["metadata"].get("uid", ""))
    binding = state.binding_facts.get(key)
    if isinstance(binding, BindingRequested):
        if binding.uid != uid:
            return _gone(state, key, REPLACED)
        if binding.policy is not None:
            events.append(_next(binding, policy=None, reason=reason))
    return DetectorDecision(events=events, effects=claim_write(key, manifest, cleaned))


def _next(binding: BindingRequested, **changes: Any) -> BindingRequested:
    changed: BindingRequested = msgspec.structs.replace(binding, generation=binding.generation + 1, **changes)
    return changed


def _applied(
    state: DetectorState,
    key: ObjectKey,
    manifest: Manifest,
    view: PolicyView | None,
    now: float,
    *,
    everywhere: bool = False,
    bears: bool = False,
    waited: bool = False,
    reason: str = "",
) -> DetectorDecision:
    """Template and binding facts of an object that is propagated; `view` is None for namespaces and dependencies.

    It `bears` the claim already, by its user's doing or by preemption, or it `waited` for a policy.
    """
    metadata = manifest["metadata"]
    uid = str(metadata.get("uid", ""))
    kept = stripped(manifest)
    data = encode(kept)
    secret = is_secret(manifest["apiVersion"], manifest["kind"])
    if secret:
        naming = state.digest_keys.get(key.namespace)
        if naming is None:
            return DetectorDecision(effects=(NeedKey(key, uid),))
        name = naming.digest
    else:
        name = _digest
    digest = name(data)
    inline = len(data) <= INLINE_BYTES and not secret
    changed = TemplateChanged(
        key=key,
        uid=uid,
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        digest=digest,
        generation=int(metadata.get("generation", 0)),
        labels=metadata.get("labels") or {},
        annotations=_annotations(kept["metadata"], secret),
        manifest=Raw(data) if inline else UNSET,
    )
    events: list[Fact] = []
    blobs: list[tuple[str, bytes]] = []
    template, binding = state.template_facts.get(key), state.binding_facts.get(key)
    live = template if isinstance(template, TemplateChanged) and template.uid == uid else None
    bound = _bound(state, key, uid)
    if isinstance(template, TemplateChanged) and live is None:
        events.append(TemplateDeleted(key=key, uid=template.uid, reason=REPLACED))
    if isinstance(binding, BindingRequested) and bound is None:
        events.append(BindingReleased(key=key, uid=binding.uid, reason="template replaced"))
    changed_at_all = live is None or live.digest != digest
    ranked = _ranked(state, key, view)
    try:
        said = asked_for(state, key, kept, view, bound, now, everywhere=everywhere)
    except Unresolved as error:
        # Neither object nor request: both are said once what is missing is there.
        told = told_of(unresolved(state, key, manifest, view, str(error)))
        return DetectorDecision(events=events, effects=told, ranked=ranked)
    except InterpretError as error:
        told = told_of(not_interpreted(state, key, manifest, str(error)))
        return DetectorDecision(events=events, effects=told, ranked=ranked)
    if view is not None and held_back(view, live, kept, name, bears=bears, waited=waited):
        said = left_standing(state, key, kept, bound, now)
    news: list[Effect] = []
    requested: list[Fact] = []
    if said is not None:
        news += [Tell(note) for note in said.problems]
        if bound is None or not same_request(bound, said.binding):
            requested.append(said.binding if bound is None else succeeding(bound, said.binding, reason))
            news += [Tell(note, once=False) for note in said.news]
    if changed_at_all:
        again = bound is not None and bool(requested)
        events.append(msgspec.structs.replace(changed, binding_follows=True) if again else changed)
        if not inline:
            blobs.append((digest, data))
    events += requested
    return DetectorDecision(events=events, effects=news, blobs=blobs, secret=secret, ranked=ranked)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _annotations(metadata: Manifest, secret: bool) -> dict[str, str]:
    """Annotations that may stand in a fact; those of a Secret may quote it, except for what controllers set."""
    found: dict[str, str] = metadata.get("annotations") or {}
    return {name: value for name, value in found.items() if ours(name)} if secret else found
