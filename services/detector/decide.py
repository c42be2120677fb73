"""Decides the facts and claims of one template or policy of the control plane (docs/sources.md#policies)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from schemas.events.binding import BindingReleased, BindingRequested, PolicyRef
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import INLINE_BYTES, Manifest
from services._rules import constants as const
from services._rules.absence import absence_guard as absence
from services._rules.decision import Decision
from services._rules.interpreter import InterpretError
from services._rules.kubernetes.event_objects import Note
from services._rules.policies.matching import Template, match_policy, template_of
from services._rules.policies.policy_claims import Claim, claim_template
from services._rules.secrets.secret_objects import is_secret
from services.detector.binding_request import Unresolved, binding_spec, priority_class
from services.detector.claim_writes import WriteClaim, claim_write, claimed_policy, unclaimed
from services.detector.event_messages import not_interpreted, unresolved, unused
from services.detector.manifest_content import stripped
from services.detector.policy_view import PolicyView, id_label
from services.detector.state import PROPAGATION_KINDS, DetectorState, rank_of

_REPLACED: Final = "replaced by an object of the same name"

Fact = TemplateChanged | TemplateDeleted | BindingRequested | BindingReleased | PolicyChanged | PolicyDeleted
_encoder = msgspec.json.Encoder(order="deterministic")


class WritePolicyId(Struct, frozen=True):
    """Give a policy its permanent id."""

    key: PolicyKey
    uid: str
    label: str
    id: str


class ReleasePolicy(Struct, frozen=True):
    """Remove the finalizer from a policy that is deleted and claims nothing any more."""

    key: PolicyKey
    uid: str
    finalizer: str


class NeedKey(Struct, frozen=True):
    """A decision waits for the key of a namespace's Secrets."""

    key: ObjectKey
    uid: str


class Tell(Struct, frozen=True):
    """Something a person should know about an object that is on no log."""

    note: Note


Effect = WriteClaim | WritePolicyId | ReleasePolicy | NeedKey | Tell


class DetectorDecision(Decision, frozen=True):
    """Facts to append, the manifest bytes they name, and writes to the control plane that follow.

    `secret` marks bytes that must be encrypted before they are stored. After the decision, the state records of a
    template whether it is `waiting` for a policy, and the PriorityClass by which it is `ranked` (empty: by none); None
    keeps the present value.
    """

    blobs: Sequence[tuple[str, bytes]] = ()
    secret: bool = False
    waiting: bool | None = None
    ranked: str | None = None


NOTHING: Final = DetectorDecision()


def decide_policy(state: DetectorState, key: PolicyKey) -> DetectorDecision:
    """The fact about one policy, its permanent id, and the release of a deleted one."""
    fact = state.policy_facts.get(key)
    view = state.policies.get(key)
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
    elif key.kind in PROPAGATION_KINDS and not labels.get(label):
        effects.append(WritePolicyId(key, view.uid, label, view.permanent_id))
    manifest = Raw(_encoder.encode(stripped(view.manifest)))
    told = () if deleting else _told(unused(key, view.uid, view.manifest))
    changed = PolicyChanged(key=key, uid=view.uid, manifest=manifest, generation=view.generation, deleting=deleting)
    if isinstance(fact, PolicyChanged):
        if fact.uid == view.uid and fact.manifest == manifest and fact.deleting == deleting:
            return DetectorDecision(effects=effects)
        if fact.uid != view.uid:
            return DetectorDecision(
                events=(PolicyDeleted(key=key, uid=fact.uid, reason=_REPLACED), changed), effects=[*effects, *told]
            )
    return DetectorDecision(events=(changed,), effects=[*effects, *told])


def _claims(state: DetectorState, policy: PolicyKey) -> bool:
    """Whether a policy claims anything still: by a fact, and by the template as it stands.

    The fact alone may outlast the claim, where the next policy of a template asks for what cannot be interpreted.
    """
    return any(
        (manifest := state.templates.get(key)) is None or claimed_policy(manifest) == policy
        for key in state.claimed.get(policy, ())
    )


def decide_template(state: DetectorState, key: ObjectKey, now: float) -> DetectorDecision:
    """The facts about one object, and its claim labels; raises ResultPending when it needs an interpreter's result."""
    if not state.policies_listed:
        return NOTHING
    manifest = state.templates.get(key)
    if manifest is None:
        known = key.group_resource in state.listed and not state.guard.holds(key.group_resource, key)
        return _gone(state, key, absence.why_gone(state.guard, key, key in state.told)) if known else NOTHING
    template = template_of(manifest)
    metadata = manifest["metadata"]
    if (metadata.get("labels") or {}).get(const.TEMPLATE_CLAIMED_BY_LABEL):
        return DetectorDecision(waiting=_waits(state, key, False))
    if state.skip.skips_object(template):
        return _released(state, key, str(metadata.get("uid", "")))
    if template.kind == "Namespace" and template.api_version == "v1":
        return _namespace(state, key, manifest, now)
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
        return _gone(state, key, _REPLACED)
    return NOTHING


def _namespace(state: DetectorState, key: ObjectKey, manifest: Manifest, now: float) -> DetectorDecision:
    """A namespace goes to every cluster without a policy (docs/sources.md#namespaces)."""
    metadata = manifest["metadata"]
    labels = metadata.get("labels") or {}
    skipped = (
        key.name == "default"
        or state.skip.skips_object(Template("v1", "ConfigMap", key.name, "", {}))
        or str(labels.get(const.SKIP_AUTO_PROPAGATION_LABEL, "")).lower() == "true"
        or "deletionTimestamp" in metadata
    )
    if skipped:
        return _released(state, key, str(metadata.get("uid", "")))
    return _applied(state, key, manifest, None, now)


def _propagated(
    state: DetectorState, key: ObjectKey, manifest: Manifest, template: Template, now: float
) -> DetectorDecision:
    policy_driven = key in state.waiting
    holder = claimed_policy(manifest)
    view = state.policies.get(holder) if holder is not None else None
    cleaned = manifest
    match = view.match if view is not None else None
    if view is not None and match is not None:
        if match.terminating:
            # The policy waits for the end of its claims before it disappears.
            view, cleaned = None, unclaimed(manifest)
        elif not match.rank(template):
            if not _policy_moved_on(state, key, view):
                return NOTHING
            view, cleaned = None, unclaimed(manifest)
    elif holder is not None:
        cleaned = unclaimed(manifest)
    if view is None:
        view = _best(state, template)
    if view is None or not _overrides_exist(state, view):
        orphaned = _orphaned(state, key, manifest, cleaned)
        return msgspec.structs.replace(orphaned, waiting=_waits(state, key, True))
    claim = Claim(view.permanent_id, view.key.namespace, view.key.name)
    claimed = claim_template(cleaned, claim)
    writes = claim_write(key, manifest, claimed)
    if writes:
        claimed = _foreseen(manifest, claimed)
    decision = _applied(state, key, claimed, view, now, policy_driven=policy_driven)
    # A decision that lacks something is still to be made, and must know then why it is made.
    lacking = any(isinstance(effect, NeedKey) for effect in decision.effects)
    waiting = None if lacking else _waits(state, key, False)
    return msgspec.structs.replace(decision, effects=[*decision.effects, *writes], waiting=waiting)


def _waits(state: DetectorState, key: ObjectKey, wanted: bool) -> bool | None:
    """Whether a template waits for a policy, where that changes."""
    return wanted if (key in state.waiting) != wanted else None


def _ranked(state: DetectorState, key: ObjectKey, view: PolicyView | None) -> str | None:
    """The PriorityClass by which a template is placed, where that changes."""
    name = priority_class(view.spec) if view is not None and state.options.priorities else ""
    return name if name != rank_of(state, key) else None


def _foreseen(manifest: Manifest, claimed: Manifest) -> Manifest:
    """The template as the server will answer the write of its claim.

    A Deployment's generation rises with its annotations too: a fact with the old one would be outdated, and every copy
    rendered from it delivered twice.
    """
    before, after = manifest["metadata"], claimed["metadata"]
    annotated = (before.get("annotations") or {}) != (after.get("annotations") or {})
    if not annotated or manifest["kind"] != "Deployment" or not manifest["apiVersion"].startswith("apps/"):
        return claimed
    return {**claimed, "metadata": {**after, "generation": int(before.get("generation", 0)) + 1}}


def _best(state: DetectorState, template: Template) -> PolicyView | None:
    """The policy that wins an unclaimed template."""
    candidates = state.candidates(template.api_version, template.kind)
    matches = [view.match for view in candidates if view.match is not None]
    winner = match_policy(
        template,
        (match for match in matches if match.namespace),
        (match for match in matches if not match.namespace),
    )
    return next((view for view in candidates if winner is not None and view.match is winner), None)


def _policy_moved_on(state: DetectorState, key: ObjectKey, view: PolicyView) -> bool:
    """Whether the claiming policy itself changed since it was applied; only then is a stale claim taken away."""
    binding = state.binding_facts.get(key)
    if not isinstance(binding, BindingRequested) or binding.policy is None:
        return False
    return view.generation > binding.policy.generation or binding.policy.id != view.permanent_id


def _overrides_exist(state: DetectorState, view: PolicyView) -> bool:
    kind = "ClusterOverridePolicy" if not view.key.namespace else "OverridePolicy"
    names = view.spec.get("dependentOverrides") or ()
    return all(PolicyKey(kind, view.key.namespace, name) in state.policies for name in names)


def _orphaned(state: DetectorState, key: ObjectKey, manifest: Manifest, cleaned: Manifest) -> DetectorDecision:
    """No policy wants the object: an existing binding keeps its content and loses its policy."""
    events: list[Fact] = []
    uid = str(manifest["metadata"].get("uid", ""))
    binding = state.binding_facts.get(key)
    if isinstance(binding, BindingRequested):
        if binding.uid != uid:
            return _gone(state, key, _REPLACED)
        if binding.policy is not None:
            events.append(_next(binding, policy=None))
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
    policy_driven: bool = False,
) -> DetectorDecision:
    """Template and binding facts of an object that is propagated; `view` is None for namespaces."""
    metadata = manifest["metadata"]
    uid = str(metadata.get("uid", ""))
    kept = stripped(manifest)
    data = _encoder.encode(kept)
    secret = is_secret(manifest["apiVersion"], manifest["kind"])
    if secret:
        naming = state.digest_keys.get(key.namespace)
        if naming is None:
            return DetectorDecision(effects=(NeedKey(key, uid),))
        digest = naming.digest(data)
    else:
        digest = hashlib.sha256(data).hexdigest()
    inline = len(data) <= INLINE_BYTES and not secret
    changed = TemplateChanged(
        key=key,
        uid=uid,
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        digest=digest,
        generation=int(metadata.get("generation", 0)),
        labels=metadata.get("labels") or {},
        annotations={} if secret else metadata.get("annotations") or {},
        manifest=Raw(data) if inline else UNSET,
    )
    events: list[Fact] = []
    blobs: list[tuple[str, bytes]] = []
    template, binding = state.template_facts.get(key), state.binding_facts.get(key)
    live = template if isinstance(template, TemplateChanged) and template.uid == uid else None
    bound = binding if isinstance(binding, BindingRequested) and binding.uid == uid else None
    if isinstance(template, TemplateChanged) and live is None:
        events.append(TemplateDeleted(key=key, uid=template.uid, reason=_REPLACED))
    if isinstance(binding, BindingRequested) and bound is None:
        events.append(BindingReleased(key=key, uid=binding.uid, reason="template replaced"))
    user_changed = live is None or live.digest != digest
    ranked = _ranked(state, key, view)
    try:
        wanted = _requested(state, key, kept, view, bound, now)
    except Unresolved as error:
        # Neither object nor request: both are said once what is missing is there.
        told = _told(unresolved(state, key, manifest, view, str(error)))
        return DetectorDecision(events=events, effects=told, ranked=ranked)
    except InterpretError as error:
        told = _told(not_interpreted(state, key, manifest, str(error)))
        return DetectorDecision(events=events, effects=told, ranked=ranked)
    if user_changed:
        events.append(changed)
        if not inline:
            blobs.append((digest, data))
    if view is not None and view.lazy and _held_back(live, bound, user_changed, policy_driven):
        return DetectorDecision(events=events, blobs=blobs, secret=secret, ranked=ranked)
    if bound is None or not _same_request(bound, wanted):
        events.append(wanted)
    return DetectorDecision(events=events, blobs=blobs, secret=secret, ranked=ranked)


def _told(note: Note | None) -> tuple[Tell, ...]:
    return (Tell(note),) if note is not None else ()


def _held_back(
    live: TemplateChanged | None, bound: BindingRequested | None, user_changed: bool, policy_driven: bool
) -> bool:
    """Whether a lazy policy waits for a change of the template (docs/sources.md#policies)."""
    if bound is not None:
        return not user_changed
    return policy_driven or (live is not None and not user_changed)


def _requested(
    state: DetectorState,
    key: ObjectKey,
    manifest: Manifest,
    view: PolicyView | None,
    bound: BindingRequested | None,
    now: float,
) -> BindingRequested:
    policy = view.spec if view is not None else None
    asked = binding_spec(manifest, policy, state.options, state.priority_of, state.interpreter)
    return BindingRequested(
        key=key,
        uid=str(manifest["metadata"].get("uid", "")),
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        spec=Raw(_encoder.encode(asked.spec)),
        generation=bound.generation + 1 if bound is not None else 1,
        policy=PolicyRef(view.key, view.permanent_id, view.generation) if view is not None else None,
        everywhere=view is None,
        replicas=asked.replicas,
        workload=asked.workload,
        created_at=bound.created_at if bound is not None else now,
    )


def _same_request(bound: BindingRequested, wanted: BindingRequested) -> bool:
    return bound.spec == wanted.spec and bound.policy == wanted.policy and bound.everywhere == wanted.everywhere
