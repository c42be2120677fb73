"""Projects the objects of the control plane, and the facts the detector has already recorded about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from schemas.events.policy import PolicyChanged, PolicyDeleted, PolicyEvent
from schemas.events.template import TemplateChanged, TemplateDeleted, TemplateEvent
from schemas.hints import Purged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import binding as binding_subject
from schemas.subjects import policy as policy_subject
from schemas.subjects import template as template_subject
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard
from services._rules.facets import ServiceState
from services._rules.history.retention import all_closed
from services._rules.interpreter import Interpreter
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.interpreter.configuration import Reinterpret, concerns, unconfigured
from services._rules.policies.matching import compile_policy, template_of
from services._rules.policies.policy_claims import read_claim
from services._rules.policies.skip_rules import SkipRules, compile_skip_rules
from services._rules.secrets.secret_objects import DigestKey
from services.detector.binding_request import NATIVE, DetectorOptions
from services.detector.manifest_content import stripped, unchanged
from services.detector.policy_view import PolicyView
from services.detector.recorded_objects import on_its_way_out, recorded, recorded_policies
from services.detector.template_bytes import Templates


class ScopeKey(Struct, frozen=True):
    """The key of decisions about the control plane as a whole: its identity, and the absences that are held."""

    scope: str

    def __str__(self) -> str:
        return self.scope


Key = ObjectKey | PolicyKey | ScopeKey
SCOPE: Final = ScopeKey("templates")

PROPAGATION_KINDS: Final = ("PropagationPolicy", "ClusterPropagationPolicy")
OVERRIDE_KINDS: Final = ("OverridePolicy", "ClusterOverridePolicy")
POLICY_KINDS: Final = (*PROPAGATION_KINDS, *OVERRIDE_KINDS)
PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"


class DetectorState(ServiceState):
    """Objects and policies of the control plane by key, and the last fact about each.

    `listed` names the kinds of which a complete list was seen; only for them does absence mean anything. `unlisted` are
    kinds of interpreters that cannot be listed: what was last recorded of them is in force.
    `waiting` are templates that no policy matched; `claimed` the templates of each policy.
    """

    skip: SkipRules = field(default_factory=compile_skip_rules)
    templates: Templates = field(default_factory=Templates)
    policies: dict[PolicyKey, PolicyView] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    waiting: set[ObjectKey] = field(default_factory=set)
    claimed: dict[PolicyKey, set[ObjectKey]] = field(default_factory=dict)
    template_facts: dict[ObjectKey, TemplateEvent] = field(default_factory=dict)
    binding_facts: dict[ObjectKey, BindingEvent] = field(default_factory=dict)
    policy_facts: dict[PolicyKey, PolicyEvent] = field(default_factory=dict)
    by_kind: dict[tuple[str, str], list[PolicyView]] = field(default_factory=dict)
    digest_keys: dict[str, DigestKey] = field(default_factory=dict)
    """What names the Secrets of a namespace; filled before a decision needs it."""
    options: DetectorOptions = DetectorOptions()
    interpreter: Interpreter = NATIVE
    reinterpret: Reinterpret = unconfigured
    """Takes in what users configured for interpretation; the kinds that it touches."""
    ranked: dict[str, set[ObjectKey]] = field(default_factory=dict)
    """Templates by the PriorityClass that their policy names: they are decided again when it changes."""
    guard: Guard[Key] = field(default_factory=lambda: Guard(scope=SCOPE.scope))
    """Whether what is missing counts as deleted."""
    told: set[Key] = field(default_factory=set)
    """Recorded objects whose deletion a watch reported."""

    def priority_of(self, name: str) -> int | None:
        """Value of a PriorityClass of the control plane; None where there is none."""
        manifest = self.templates.get(ObjectKey("scheduling.k8s.io", "priorityclasses", "", name))
        value = manifest.get("value") if manifest is not None else None
        return value if isinstance(value, int) else None

    @property
    def policies_listed(self) -> bool:
        """Whether every policy is known, and how objects are interpreted; before that nothing can be matched."""
        return all(kind in self.listed for kind in POLICY_KINDS) and all(
            kind in self.listed or kind in self.unlisted for kind in INTERPRETERS
        )

    def candidates(self, api_version: str, kind: str) -> list[PolicyView]:
        """Propagation policies with a selector for a kind."""
        return self.by_kind.get((api_version, kind), [])

    def forget(self, purged: Purged) -> None:
        """Drop facts that are gone from the log, unless newer facts of the same name exist."""
        for key in (gone.key for gone in purged.objects):
            if all_closed(self.template_facts.get(key), self.binding_facts.get(key)):
                self.template_facts.pop(key, None)
                self.binding_facts.pop(key, None)
                self.subjects.pop(template_subject(key), None)
                self.subjects.pop(binding_subject(key), None)
        for policy in purged.policies:
            if all_closed(self.policy_facts.get(policy)):
                self.policy_facts.pop(policy, None)
                self.subjects.pop(policy_subject(policy), None)


def fold(state: DetectorState, seq: int, subject: str, event: Known) -> Iterable[Key]:
    """Take in one of the detector's own facts."""
    state.subjects[subject] = seq
    match event:
        case TemplateChanged() | TemplateDeleted():
            state.template_facts[event.key] = event
            if isinstance(event, TemplateDeleted):
                return _ended(state, event.key)
        case BindingRequested() | BindingReleased():
            before = state.binding_facts.get(event.key)
            if isinstance(before, BindingRequested) and before.policy is not None:
                _forget_claim(state, before.policy.key, event.key)
            state.binding_facts[event.key] = event
            if isinstance(event, BindingRequested) and event.policy is not None:
                state.claimed.setdefault(event.policy.key, set()).add(event.key)
        case PolicyChanged() | PolicyDeleted():
            state.policy_facts[event.key] = event
            if isinstance(event, PolicyDeleted) and _ended(state, event.key):
                return (SCOPE, *_reinterpreted_by(state, event))
            return _reinterpreted_by(state, event)
        case ControlPlaneIdentified() | AbsenceHeld() | AbsenceReleased() | AbsenceConfirmed():
            return [*_confirmed(state, absence.fold(state.guard, seq, event)), SCOPE]
        case _:
            return ()
    return ()


def _ended(state: DetectorState, key: Key) -> tuple[Key, ...]:
    """It is on record that an object is gone, and why; what is held may depend on it."""
    state.guard.passing.discard(key)
    state.told.discard(key)
    return (SCOPE,) if state.guard.held is not None else ()


def _confirmed(state: DetectorState, keys: list[Key]) -> list[Key]:
    """Let go of what was held, now that its absence is confirmed."""
    dirty: list[Key] = []
    for key in keys:
        match key:
            case ObjectKey() if key.group_resource in state.listed:
                dirty.extend(_absent(state, key))
            case PolicyKey() if key.kind in state.listed:
                dirty.extend(_absent_policy(state, key))
            case _:
                pass
    return dirty


def _reinterpreted_by(state: DetectorState, event: PolicyEvent) -> list[Key]:
    """The objects that a fact about an interpreter concerns, while the list of that kind is not complete."""
    if event.key.kind not in INTERPRETERS or event.key.kind in state.listed:
        return []
    return _reinterpreted(state, event)


def _reinterpreted(state: DetectorState, event: PolicyEvent) -> list[Key]:
    """The objects that a change of what users configured concerns."""
    touched = state.reinterpret(event)
    if not touched:
        return []
    return [
        key
        for key, manifest in state.templates.items()
        if concerns(touched, str(manifest.get("apiVersion")), str(manifest.get("kind")))
    ]


def _forget_claim(state: DetectorState, policy: PolicyKey, key: ObjectKey) -> None:
    held = state.claimed.get(policy, set())
    held.discard(key)
    if not held:
        state.claimed.pop(policy, None)


def take_template(state: DetectorState, key: ObjectKey, manifest: Manifest | None) -> Iterable[Key]:
    """Take in an object of the control plane (None: it is gone); the keys to decide."""
    before = state.templates.get(key)
    if manifest is None:
        absence.gone(state.guard, key.group_resource, key)
        state.waiting.discard(key)
        rank(state, key, "")
        if key not in state.templates:
            return ()
        del state.templates[key]
        if isinstance(state.template_facts.get(key), TemplateChanged):
            state.told.add(key)
        return _concerned(state, key)
    state.templates[key] = manifest
    state.told.discard(key)
    if absence.found(state.guard, key.group_resource, key):
        return (*_concerned(state, key), SCOPE)
    if before is not None and unchanged(before, manifest):
        return ()
    return _concerned(state, key)


def _concerned(state: DetectorState, key: ObjectKey) -> Iterable[Key]:
    """The object itself, and the objects it gives a priority."""
    if key.group_resource != PRIORITY_CLASSES:
        return (key,)
    return (key, *state.ranked.get(key.name, ()))


def remember(state: DetectorState, key: ObjectKey, *, waiting: bool | None, ranked: str | None) -> None:
    """Take in what was decided of a template: whether it waits for a policy, and its PriorityClass; None: as before."""
    if waiting is not None:
        (state.waiting.add if waiting else state.waiting.discard)(key)
    if ranked is not None:
        rank(state, key, ranked)


def rank_of(state: DetectorState, key: ObjectKey) -> str:
    """The PriorityClass by which an object is placed, as far as is remembered; empty for none."""
    return next((name for name, held in state.ranked.items() if key in held), "")


def rank(state: DetectorState, key: ObjectKey, name: str) -> None:
    """Remember by which PriorityClass an object is placed; an empty name for none."""
    for other, held in list(state.ranked.items()):
        if other != name and key in held:
            held.discard(key)
            if not held:
                del state.ranked[other]
    if name:
        state.ranked.setdefault(name, set()).add(key)


def take_list(state: DetectorState, group_resource: str, found: Mapping[ObjectKey, Manifest]) -> list[Key]:
    """Take in a complete list of one kind: what is missing from it is gone."""
    dirty: list[Key] = []
    if group_resource == PRIORITY_CLASSES and group_resource not in state.listed:
        # Until the list is complete, a missing class is not proven absent.
        dirty.extend(key for held in state.ranked.values() for key in held)
    known = {key for key in state.templates if key.group_resource == group_resource}
    on_record = recorded(state, group_resource)
    missing = on_record - found.keys()
    sudden = [key for key in missing if not on_its_way_out(state, key)]
    held = absence.lost(state.guard, group_resource, sudden, len(on_record))
    for key in (known | missing) - found.keys() - held:
        dirty.extend(_absent(state, key))
    dirty.append(SCOPE)
    state.listed.add(group_resource)
    for key, manifest in found.items():
        dirty.extend(take_template(state, key, manifest))
    return dirty


def _absent(state: DetectorState, key: ObjectKey) -> Iterable[Key]:
    """An object is proven absent."""
    if key in state.templates:
        del state.templates[key]
    state.waiting.discard(key)
    rank(state, key, "")
    return _concerned(state, key)


def take_policy(state: DetectorState, key: PolicyKey, manifest: Manifest | None) -> Iterable[Key]:
    """Take in a policy of the control plane (None: it is gone); the keys to decide."""
    if manifest is None:
        absence.gone(state.guard, key.kind, key)
        known = state.policies.pop(key, None)
        if isinstance(state.policy_facts.get(key), PolicyChanged):
            state.told.add(key)
        if key.kind in INTERPRETERS:
            return [key, *_reinterpreted(state, PolicyDeleted(key=key, uid=""))]
        if known is None:
            return ()
        _index(state)
        return [key, *state.claimed.get(key, ())]
    state.told.discard(key)
    if absence.found(state.guard, key.kind, key):
        return [*_entered(state, key, manifest), SCOPE]
    return _entered(state, key, manifest)


def _entered(state: DetectorState, key: PolicyKey, manifest: Manifest) -> Iterable[Key]:
    """Take in a policy as it stands; the keys to decide."""
    before = state.policies.get(key)
    view = PolicyView(
        key=key,
        manifest=manifest,
        uid=str(manifest["metadata"].get("uid", "")),
        generation=int(manifest["metadata"].get("generation", 0)),
        match=compile_policy(manifest) if key.kind in PROPAGATION_KINDS else None,
    )
    state.policies[key] = view
    if before is not None and unchanged(before.manifest, manifest):
        return ()
    if key.kind in INTERPRETERS:
        # In force at once; other services follow when it is on the log.
        changed = PolicyChanged(key=key, uid=view.uid, manifest=Raw(msgspec.json.encode(stripped(manifest))))
        return [key, *_reinterpreted(state, changed)]
    _index(state)
    if view.match is None:
        # Templates wait for the overrides their policy depends on.
        return [key, *state.waiting]
    touched: list[Key] = [key, *state.claimed.get(key, ())]
    match = view.match
    touched.extend(
        waiting
        for waiting in state.waiting
        if waiting in state.templates and match.rank(template_of(state.templates[waiting]))
    )
    return touched


def take_policy_list(state: DetectorState, kind: str, found: dict[PolicyKey, Manifest]) -> list[Key]:
    """Take in a complete list of one kind of policy."""
    complete_before = state.policies_listed
    dirty: list[Key] = []
    known = {key for key in state.policies if key.kind == kind}
    on_record = recorded_policies(state, kind)
    missing = on_record - found.keys()
    held = absence.lost(state.guard, kind, missing, len(on_record), vital=kind in POLICY_KINDS)
    for key in (known | missing) - found.keys() - held:
        dirty.extend(_absent_policy(state, key))
    for key in missing & held:
        fact = state.policy_facts.get(key)
        if key not in state.policies and isinstance(fact, PolicyChanged):
            # After a start it is known from the log only.
            dirty.extend(_entered(state, key, msgspec.json.decode(fact.manifest)))
    dirty.append(SCOPE)
    state.listed.add(kind)
    state.unlisted.discard(kind)
    for key, manifest in found.items():
        dirty.extend(take_policy(state, key, manifest))
    if state.policies_listed and not complete_before:
        dirty.extend(_everything(state))
    return dirty


def _absent_policy(state: DetectorState, key: PolicyKey) -> list[Key]:
    """A policy is proven absent."""
    dirty = [key, *take_policy(state, key, None), *state.claimed.get(key, ())]
    state.told.discard(key)
    return dirty


def take_absence(state: DetectorState, kind: str) -> list[Key]:
    """Take in that a kind of interpreters cannot be listed, if it never was: objects wait for it no longer."""
    if kind in state.listed or kind in state.unlisted:
        return []
    complete_before = state.policies_listed
    state.unlisted.add(kind)
    return _everything(state) if state.policies_listed and not complete_before else []


def _everything(state: DetectorState) -> list[Key]:
    """Only now can templates be matched at all."""
    return [*state.templates, *state.template_facts, *state.policies, *state.policy_facts]


def _index(state: DetectorState) -> None:
    by_kind: dict[tuple[str, str], list[PolicyView]] = {}
    for view in state.policies.values():
        if view.match is None:
            continue
        for kind in {(selector.api_version, selector.kind) for selector in view.match.selectors}:
            by_kind.setdefault(kind, []).append(view)
    state.by_kind = by_kind


def claimed_policy(manifest: Manifest) -> PolicyKey | None:
    """Key of the policy whose complete claim an object bears."""
    claim = read_claim(manifest)
    if claim is None:
        return None
    kind = "ClusterPropagationPolicy" if claim.cluster_wide else "PropagationPolicy"
    return PolicyKey(kind, claim.namespace, claim.name)
