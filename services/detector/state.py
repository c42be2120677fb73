"""Projects the objects of the control plane, and the facts the detector has already recorded about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
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
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.facets import ServiceState
from services._rules.history.retention import all_closed
from services._rules.interpreter import Interpreter
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.interpreter.configuration import Reinterpret, concerns, unconfigured
from services._rules.policies.matching import Policy, Template
from services._rules.policies.policy_index import PolicyIndex
from services._rules.policies.skip_rules import SkipRules, compile_skip_rules
from services._rules.secrets.secret_objects import DigestKey
from services.detector.binding_request import NATIVE, DetectorOptions
from services.detector.change_sets import ChangeSets, SetKey
from services.detector.dependencies.required_objects import Dependencies, Served
from services.detector.indexes.ranked_templates import Ranked
from services.detector.indexes.template_index import bear, forget_claim, forget_template, index_template
from services.detector.objects.manifest_content import stripped, unchanged
from services.detector.objects.recorded_objects import on_its_way_out, recorded, recorded_policies
from services.detector.objects.template_bytes import Templates
from services.detector.policies.claim_writes import claimed_policy
from services.detector.policies.policy_view import PROPAGATION_KINDS, PolicyView, viewed
from services.detector.policies.reschedule_requests import Rebalancing
from services.detector.policies.shared_services import Members, concerned_by
from services.detector.policies.template_keys import KeysByKind, LackingTemplates


class ScopeKey(Struct, frozen=True):
    """The key of decisions about the control plane as a whole: its identity, and the absences that are held."""

    scope: str

    def __str__(self) -> str:
        return self.scope


Key = ObjectKey | PolicyKey | ScopeKey | SetKey
SCOPE: Final = ScopeKey("templates")

OVERRIDE_KINDS: Final = ("OverridePolicy", "ClusterOverridePolicy")
POLICY_KINDS: Final = (*PROPAGATION_KINDS, *OVERRIDE_KINDS)
RECORDED_KINDS: Final = ("FederatedResourceQuota", "WorkloadRebalancer", MULTI_CLUSTER_SERVICE)
"""Kinds that are put on record like policies, and that no matching of templates depends on."""
PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"


class DetectorState(ServiceState):
    """Objects and policies of the control plane by key, and the last fact about each.

    `listed` names the kinds of which a complete list was seen; only for them does absence mean anything. `unlisted` are
    kinds of interpreters that cannot be listed: what was last recorded of them is in force.
    `waiting` are templates that no policy matched, `lacking` those whose policy names missing override policies;
    `claimed` are the templates of each policy by its facts, `bearing` those that bear its claim.
    `edited` policies have changed since they were decided; what that means for templates is part of that decision.
    """

    skip: SkipRules = field(default_factory=compile_skip_rules)
    templates: Templates = field(default_factory=Templates)
    policies: dict[PolicyKey, PolicyView] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    waiting: KeysByKind = field(default_factory=KeysByKind)
    lacking: LackingTemplates = field(default_factory=LackingTemplates)
    claimed: dict[PolicyKey, set[ObjectKey]] = field(default_factory=dict)
    bearing: dict[PolicyKey, set[ObjectKey]] = field(default_factory=dict)
    edited: set[PolicyKey] = field(default_factory=set)
    template_facts: dict[ObjectKey, TemplateEvent] = field(default_factory=dict)
    binding_facts: dict[ObjectKey, BindingEvent] = field(default_factory=dict)
    policy_facts: dict[PolicyKey, PolicyEvent] = field(default_factory=dict)
    selecting: PolicyIndex[PolicyKey] = field(default_factory=PolicyIndex)
    """Propagation policies by what they select."""
    resources: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Group and resource by apiVersion and kind, of every kind that templates were seen of."""
    served: frozenset[tuple[str, str]] = frozenset()
    """apiVersion and kind of what the control plane serves; empty while that is not known."""
    digest_keys: dict[str, DigestKey] = field(default_factory=dict)
    """What names the Secrets of a namespace; filled before a decision needs it."""
    options: DetectorOptions = DetectorOptions()
    interpreter: Interpreter = NATIVE
    reinterpret: Reinterpret = unconfigured
    """Takes in what users configured for interpretation; the kinds that it touches."""
    ranked: Ranked = field(default_factory=dict)
    dependencies: Dependencies = field(default_factory=Dependencies)
    guard: Guard[Key] = field(default_factory=lambda: Guard(scope=SCOPE.scope))
    """Whether what is missing counts as deleted."""
    sets: ChangeSets = field(default_factory=ChangeSets)
    """Change sets of which some members are in sight, or that are being decided."""
    told: set[Key] = field(default_factory=set)
    """Recorded objects whose deletion a watch reported."""
    rebalancing: Rebalancing = field(default_factory=Rebalancing)
    """What WorkloadRebalancers ask of bindings."""
    members: Members = field(default_factory=Members)

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

    def candidates(self, template: Template, namespace: str) -> Iterator[Policy]:
        """Propagation policies of a namespace (empty: cluster-wide) with a selector that may match a template."""
        for key in self.selecting.candidates(template, namespace):
            view = self.policies.get(key)
            if view is not None and view.match is not None:
                yield view.match

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
    """Take in one of the detector's own facts, or which clusters are members."""
    if isinstance(event, ClusterChanged | ClusterRemoved):
        return state.members.take(event, state.policies)
    state.subjects[subject] = seq
    match event:
        case TemplateChanged() | TemplateDeleted():
            state.template_facts[event.key] = event
            if isinstance(event, TemplateDeleted):
                return _ended(state, event.key)
        case BindingRequested() | BindingReleased():
            before = state.binding_facts.get(event.key)
            rebalanced = state.rebalancing.take(event, before)
            if isinstance(before, BindingRequested) and before.policy is not None:
                forget_claim(state.claimed, before.policy.key, event.key)
            state.binding_facts[event.key] = event
            dirty: Iterable[Key] = state.dependencies.follow(event, state.templates)
            if isinstance(event, BindingRequested) and event.policy is not None:
                state.claimed.setdefault(event.policy.key, set()).add(event.key)
            policy = before.policy if isinstance(before, BindingRequested) else None
            if policy is not None and policy.key not in state.claimed:
                dirty = (*dirty, *_released(state, policy.key))
            return (*dirty, *rebalanced)
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


def _released(state: DetectorState, policy: PolicyKey) -> tuple[Key, ...]:
    """A policy that claims nothing any more, and may disappear by that."""
    view = state.policies.get(policy)
    return (policy,) if view is not None and view.awaits_release else ()


def take_kinds(state: DetectorState, found: Iterable[tuple[str, str, Served]]) -> list[Key]:
    """Take in the kinds that discovery found, by group and kind; the owners of dependencies of a new one."""
    owners = state.dependencies.serve(((group, kind), served) for group, kind, served in found)
    for owner in owners:
        fact = state.binding_facts.get(owner)
        if fact is not None:
            state.dependencies.follow(fact, state.templates)
    return list(owners)


def take_template(state: DetectorState, key: ObjectKey, manifest: Manifest | None) -> Iterable[Key]:
    """Take in an object of the control plane (None: it is gone); the keys to decide."""
    owners = state.dependencies.seen(key, manifest)
    dirty = _taken(state, key, manifest)
    return (*dirty, *owners) if owners else dirty


def _taken(state: DetectorState, key: ObjectKey, manifest: Manifest | None) -> Iterable[Key]:
    before = state.templates.get(key)
    policy = claimed_policy(before) if before is not None else None
    if manifest is None:
        absence.gone(state.guard, key.group_resource, key)
        forget_template(state, key)
        if before is None:
            return ()
        del state.templates[key]
        bear(state, key, policy, None)
        if isinstance(state.template_facts.get(key), TemplateChanged):
            state.told.add(key)
        return _concerned(state, key)
    state.templates[key] = manifest
    state.told.discard(key)
    claimed = index_template(state, key, manifest, policy)
    if absence.found(state.guard, key.group_resource, key):
        return (*_concerned(state, key), SCOPE)
    if before is not None and unchanged(before, manifest):
        return ()
    if policy is not None and claimed != policy:
        return (*_concerned(state, key), *_released(state, policy))
    return _concerned(state, key)


def _concerned(state: DetectorState, key: ObjectKey) -> Iterable[Key]:
    """The object itself, and the objects it gives a priority."""
    if key.group_resource != PRIORITY_CLASSES:
        return (key,)
    return (key, *state.ranked.get(key.name, ()))


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
    if group_resource not in state.listed:
        # What they name may have been on its way here.
        dirty.extend(state.rebalancing.open)
        dirty.extend(state.dependencies.listed(group_resource))
    state.listed.add(group_resource)
    for key, manifest in found.items():
        dirty.extend(take_template(state, key, manifest))
    return dirty


def _absent(state: DetectorState, key: ObjectKey) -> Iterable[Key]:
    """An object is proven absent."""
    manifest = state.templates.pop(key, None)
    if manifest is not None:
        bear(state, key, claimed_policy(manifest), None)
    forget_template(state, key)
    return (*_concerned(state, key), *state.dependencies.seen(key, None))


def take_policy(state: DetectorState, key: PolicyKey, manifest: Manifest | None) -> Iterable[Key]:
    """Take in a policy of the control plane (None: it is gone); the keys to decide."""
    if manifest is None:
        absence.gone(state.guard, key.kind, key)
        known = state.policies.pop(key, None)
        if isinstance(state.policy_facts.get(key), PolicyChanged):
            state.told.add(key)
        if key.kind in INTERPRETERS:
            return [key, *_reinterpreted(state, PolicyDeleted(key=key, uid=""))]
        if key.kind in RECORDED_KINDS:
            return concerned_by(key)
        if known is None:
            return ()
        state.selecting.drop(key)
        state.edited.add(key)
        return (key,)
    state.told.discard(key)
    if absence.found(state.guard, key.kind, key):
        return [*_entered(state, key, manifest), SCOPE]
    return _entered(state, key, manifest)


def _entered(state: DetectorState, key: PolicyKey, manifest: Manifest) -> Iterable[Key]:
    """Take in a policy as it stands; the keys to decide."""
    before = state.policies.get(key)
    view = viewed(key, manifest, before)
    state.policies[key] = view
    if key.kind == "WorkloadRebalancer":
        # Its status says what is left to do.
        return [key]
    if before is not None and unchanged(before.manifest, manifest):
        return ()
    if key.kind in INTERPRETERS:
        # In force at once; other services follow when it is on the log.
        changed = PolicyChanged(key=key, uid=view.uid, manifest=Raw(msgspec.json.encode(stripped(manifest))))
        return [key, *_reinterpreted(state, changed)]
    if key.kind in RECORDED_KINDS:
        return concerned_by(key)
    if view.match is not None:
        state.selecting.put(key, key.namespace, view.match.selectors)
    state.edited.add(key)
    return (key,)


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
    dirty = [key, *take_policy(state, key, None), *state.claimed.get(key, ()), *state.bearing.get(key, ())]
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
