"""Decides in memory what follows from a change set, with the code of detector, scheduler and override renderer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct, UnsetType, field

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.interpreter import Interpreter
from services._rules.interpreter.result_cache import InterpretationQuery, ResultPending
from services._rules.secrets.secret_objects import DigestKey, is_sealed, is_secret_resource
from services.detector.binding_request import NATIVE
from services.detector.claims.policy_decision import decide_policy
from services.detector.decide import decide_template
from services.detector.effects import DetectorDecision, NeedKey, Tell
from services.detector.indexes.template_index import remember
from services.detector.policies.claim_writes import WriteClaim, with_claim
from services.detector.policies.policy_view import PolicyView
from services.detector.state import Key, take_policy, take_template
from services.foresight.world import Marked, World
from services.override_renderer.decide import AtHand, needed_blobs
from services.override_renderer.decide import decide as decide_works
from services.override_renderer.state import RendererState
from services.scheduler.binding_spec import scheduler_of
from services.scheduler.decide import decide_with_trace

MOST_TURNS: Final = 16
"""Decisions of one key in one plan; more means that it does not come to rest."""
_NAMING: Final = DigestKey(b"foresight")


class Change(Struct, frozen=True):
    """One object of a change set as it would be stored; None: it is deleted."""

    key: ObjectKey | PolicyKey
    manifest: Manifest | None


class Needs(Struct):
    """What has to be fetched before the plan can go on.

    `digests` are manifests on stream BLOBS, `secrets` objects whose content only the control plane shows, `required`
    dependencies that are not on the log, `questions` are for interpreters.
    """

    digests: set[str] = field(default_factory=set)
    secrets: set[ObjectKey] = field(default_factory=set)
    required: set[ObjectKey] = field(default_factory=set)
    questions: list[tuple[ObjectKey, Sequence[InterpretationQuery]]] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether anything is missing."""
        return bool(self.digests or self.secrets or self.required or self.questions)


class Copy(Struct, frozen=True):
    """What one cluster would hold of an object: the manifest and its digest, or why there is none."""

    digest: str
    data: bytes
    problem: str
    keep: bool


class _Unchanged(DigestKey):
    """Names whatever a Secret holds as it is named already: its content is not at hand, and not what changes."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__(b"")
        self._name = name

    def digest(self, data: bytes) -> str:
        """The name that is on record."""
        return self._name


class Planner:
    """One change set on its way through the decisions; `advance` until nothing is needed any more."""

    def __init__(self, world: World, now: float, *, interpreter: Interpreter = NATIVE, manifests: bool = True) -> None:
        self.world = world
        self.now = now
        self.changes: list[Change] = []
        self.affected: set[ObjectKey] = set()
        """Objects of which any facet would differ, and those that a changed override concerns."""
        self.copies: dict[ObjectKey, tuple[dict[str, Copy], dict[str, Copy]]] = {}
        """The copies of each object by cluster, before and after."""
        self.why: dict[ObjectKey, str] = {}
        self.notes: dict[str, None] = {}
        self.manifests = manifests
        self._at_hand = AtHand(interpreter=interpreter)
        self._dirty: dict[Key, None] = {}
        self._unplaced: set[ObjectKey] = set()
        self._turns: Counter[tuple[str, Key]] = Counter()
        self._lost: set[str] = set()
        self._sought: dict[ObjectKey, bool] = {}
        """Dependencies that are not on the log, and whether the control plane was asked for them."""

    def apply(self, changes: Iterable[Change]) -> None:
        """Let a change set happen, all of it before anything is decided."""
        state = self.world.detector
        for change in changes:
            self.changes.append(change)
            match change.key:
                case PolicyKey():
                    self._mark(take_policy(state, change.key, change.manifest))
                    if any(change.key.name in _dependencies(view) for view in state.policies.values()):
                        # Which templates lack an override is not on record.
                        self._mark(state.waiting)
                case ObjectKey():
                    state.listed.add(change.key.group_resource)
                    self.world.withheld.pop(change.key, None)
                    self._mark(take_template(state, change.key, change.manifest))

    def supply(self, digest: str, data: bytes) -> None:
        """Take in a manifest that was needed."""
        self._at_hand.blobs[digest] = data
        for key in [key for key, name in self.world.withheld.items() if name == digest]:
            del self.world.withheld[key]
            if not is_sealed(digest):
                self.world.kept[key] = data

    def leave_out(self, digest: str, why: str) -> None:
        """Take in that a manifest cannot be had: its objects are left out, and the plan says so."""
        self._lost.add(digest)
        self.notes.setdefault(f"manifest {digest[:12]} is not at hand, and its objects are left out: {why}")

    def supply_secret(self, key: ObjectKey, data: bytes | None) -> None:
        """Take in a Secret as the control plane holds it; without one, what is known of it has to do."""
        self.world.withheld.pop(key, None)
        if data is None:
            self.notes.setdefault(f"{key}: its content is not at hand; overrides of it are not foreseen")
        for state in (self.world.before, self.world.after):
            bound = state.objects.get(key)
            if bound is not None and isinstance(bound.template, TemplateChanged):
                self._at_hand.blobs.setdefault(bound.template.digest, data or self.world.kept[key])

    def supply_required(self, key: ObjectKey, data: bytes | None) -> None:
        """Take in a dependency as the control plane holds it; one that does not exist follows no owner."""
        self._sought[key] = True
        if data is not None:
            self.world.offer(key, data)
            self._mark((key,))

    def advance(self) -> Needs:
        """Go on until everything is decided or something is missing; what is missing is empty at the end."""
        needs = Needs()
        self._detect(needs)
        needs.required.update(key for key, asked in self._sought.items() if not asked)
        if needs.any:
            return needs
        self._place()
        if self.manifests:
            self._render(needs)
        return needs

    def _mark(self, keys: Iterable[Key]) -> None:
        self._dirty.update(dict.fromkeys(keys))

    def _turn(self, step: str, key: Key) -> bool:
        """Whether a key may be decided once more."""
        self._turns[step, key] += 1
        if self._turns[step, key] <= MOST_TURNS:
            return True
        self.notes.setdefault(f"{key}: the {step} does not come to rest; the plan shows it as it was then")
        return False

    # -- the detector

    def _detect(self, needs: Needs) -> None:
        stuck: dict[Key, None] = {}
        state = self.world.detector
        while self._dirty:
            key = next(iter(self._dirty))
            del self._dirty[key]
            if isinstance(key, PolicyKey):
                if self._turn("detector", key):
                    self._decided(key, decide_policy(state, key))
                continue
            if not isinstance(key, ObjectKey) or self._lacks(key, needs):
                if isinstance(key, ObjectKey):
                    stuck[key] = None
                continue
            if not self._turn("detector", key):
                continue
            self._name_secret(key)
            try:
                decision = decide_template(state, key, self.now)
            except ResultPending as missing:
                needs.questions.append((key, missing.questions))
                stuck[key] = None
                continue
            self._decided(key, decision)
        self._dirty = stuck

    def _lacks(self, key: ObjectKey, needs: Needs) -> bool:
        """Whether the manifest of a template has to be fetched before it is decided."""
        digest = self.world.withheld.get(key)
        # What can be matched of a Secret is on record.
        if digest is None or is_sealed(digest):
            return False
        if digest not in self._lost:
            needs.digests.add(digest)
        return True

    def _name_secret(self, key: ObjectKey) -> None:
        if not is_secret_resource(key.group, key.resource):
            return
        fact = self.world.detector.template_facts.get(key)
        touched = any(change.key == key for change in self.changes)
        known = fact.digest if isinstance(fact, TemplateChanged) and not touched else ""
        self.world.detector.digest_keys[key.namespace] = _Unchanged(known) if known else _NAMING

    def _decided(self, key: Key, decision: DetectorDecision) -> None:
        state = self.world.detector
        self._at_hand.blobs.update(decision.blobs)
        self._mark(decision.also)
        for event in decision.events:
            self._happens(event)
        for effect in decision.effects:
            match effect:
                case WriteClaim():
                    manifest = state.templates.get(effect.key)
                    if manifest is not None:
                        self._mark(take_template(state, effect.key, with_claim(manifest, effect)))
                case NeedKey():
                    state.digest_keys[effect.key.namespace] = _NAMING
                    self._dirty[effect.key] = None
                case Tell():
                    if effect.note.warning:
                        self.notes.setdefault(f"{effect.note.key}: {effect.note.message}")
                case _:
                    # Ids and finalizers of policies: nothing follows from them.
                    pass
        remember(state, key, decision)

    def _happens(self, event: Known) -> None:
        if isinstance(event, BindingRequested):
            gone = {change.key for change in self.changes if change.manifest is None}
            for key in event.requires:
                if key not in self.world.kept and key not in gone:
                    self._sought.setdefault(key, False)
        marked: Marked = self.world.happens(subject_of(event), event, self.now)
        self._mark(marked.detector)
        self._unplaced.update(marked.scheduler)
        self.affected.update(marked.renderer)

    # -- the scheduler

    def _place(self) -> None:
        """Decide every placement that may differ; the capacity that one takes counts for those after it."""
        state = self.world.scheduler
        while self._unplaced:
            batch = sorted(self._unplaced)
            self._unplaced.clear()
            for key in batch:
                scheduled = state.objects.get(key)
                if scheduled is None or not self._turn("scheduler", key):
                    continue
                if scheduled.estimate is not None:
                    # What members said of their nodes is the best that is known, although it saw nothing of this.
                    seen = msgspec.structs.replace(scheduled.estimate.provenance, as_of=self.world.position + 1)
                    scheduled.estimate = msgspec.structs.replace(scheduled.estimate, provenance=seen)
                self._unplaced.update(state.reopen(key, self.now))
                held = scheduled.unreleased
                spec = scheduled.spec
                scheduler = held.scheduler if spec is None and held is not None else scheduler_of(spec)
                event, _ = decide_with_trace(state, key, self.now, scheduler)
                if event is None:
                    continue
                if isinstance(event, PlacementDecided | PlacementFailed):
                    self.why[key] = event.trigger
                self._happens(event)

    # -- the override renderer

    def _render(self, needs: Needs) -> None:
        world = self.world
        for key in sorted(self.affected):
            if key in self.copies:
                continue
            missing = [digest for state in (world.before, world.after) for digest in self._missing(state, key)]
            if missing:
                if is_secret_resource(key.group, key.resource):
                    needs.secrets.add(key)
                else:
                    needs.digests.update(set(missing) - self._lost)
                continue
            before, after = self._copies(world.before, key, needs), self._copies(world.after, key, needs)
            if before is not None and after is not None:
                self.copies[key] = before, after

    def _missing(self, state: RendererState, key: ObjectKey) -> Sequence[str]:
        bound = state.objects.get(key)
        if bound is None or not isinstance(bound.binding, BindingRequested):
            return ()
        return needed_blobs(state, key, self._at_hand)

    def _copies(self, state: RendererState, key: ObjectKey, needs: Needs) -> dict[str, Copy] | None:
        """The copies of an object by cluster; None where an interpreter has to be asked first."""
        bound = state.objects.get(key)
        if bound is None or not isinstance(bound.binding, BindingRequested):
            return {}
        if is_secret_resource(key.group, key.resource):
            self._at_hand.digest_keys[key.namespace] = _NAMING
        decision = decide_works(state, key, self._at_hand)
        if decision.lacking:
            needs.questions.append((key, decision.lacking))
            return None
        blobs = dict(decision.blobs)
        found: dict[str, Copy] = {}
        for event in decision.events:
            if isinstance(event, WorkRendered):
                data = blobs.get(event.digest, b"") if isinstance(event.manifest, UnsetType) else bytes(event.manifest)
                found[event.cluster] = Copy(event.digest, data, event.problem, event.preserve_on_deletion)
        return found


def _dependencies(view: PolicyView) -> Sequence[str]:
    """Names of the override policies that a policy waits for."""
    found: Sequence[str] = view.spec.get("dependentOverrides") or ()
    return found
