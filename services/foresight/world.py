"""Folds the facts that detector, scheduler and override renderer decide from into their states, all in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, UnsetType, field

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.interpreter import Interpreter
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.interpreter.configuration import Reinterpret, unconfigured
from services._rules.policies.policy_claims import Claim, claim_template
from services._rules.policies.skip_rules import SkipRules
from services.detector.binding_request import NATIVE, DetectorOptions, options_of
from services.detector.dependencies.required_objects import Served
from services.detector.indexes.template_index import index_template
from services.detector.objects.template_bytes import Templates
from services.detector.policies.claim_writes import claimed_policy, unclaimed
from services.detector.state import POLICY_KINDS, DetectorState, Key, take_kinds, take_policy
from services.detector.state import fold as fold_detector
from services.override_renderer.state import RendererState
from services.override_renderer.state import fold as fold_renderer
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.state import SchedulerState
from services.scheduler.state import fold as fold_scheduler

_encode = msgspec.json.Encoder().encode
_KNOWN: Final = (*POLICY_KINDS, MULTI_CLUSTER_SERVICE)


class Circumstances(Struct, frozen=True):
    """What the services would know besides the log.

    `kinds` are those that the control plane serves, by group and kind: with them it is told which objects a reference
    names. Kinds of which an object is on the log are known anyway. `quotas` says whether scheduling obeys quotas.
    """

    options: DetectorOptions = DetectorOptions()
    kinds: Mapping[tuple[str, str], Served] = {}
    quotas: bool = False


USUAL: Final = Circumstances()
"""Nothing but the log is known, and every gate is as it is by default."""


def circumstances_of(gates: Mapping[str, bool], kinds: Mapping[tuple[str, str], Served] | None = None) -> Circumstances:
    """The circumstances that feature gates and the kinds of a control plane make."""
    return Circumstances(options_of(gates), kinds or {}, gates["FederatedQuotaEnforcement"])


class Marked(Struct, frozen=True):
    """The keys that a fact makes dirty, by the service that decides them."""

    detector: tuple[Key, ...]
    scheduler: tuple[ObjectKey, ...]
    renderer: tuple[ObjectKey, ...]


class World(Struct):
    """The states of three services, and that of the renderer a second time: as it stays before the change.

    `withheld` are templates of which only metadata is known so far, by the digest of their manifest: the bytes are on
    stream BLOBS, or the object is secret.
    """

    detector: DetectorState
    scheduler: SchedulerState = field(default_factory=SchedulerState)
    before: RendererState = field(default_factory=RendererState)
    after: RendererState = field(default_factory=RendererState)
    position: int = 0
    withheld: dict[ObjectKey, str] = field(default_factory=dict)
    kept: dict[ObjectKey, bytes] = field(default_factory=dict)
    """The templates of the detector, as it keeps them."""
    kinds: Mapping[tuple[str, str], Served] = field(default_factory=dict)

    def take(self, seq: int, subject: str, event: Known, at: float) -> None:
        """Fold a fact of the log."""
        for _ in fold_detector(self.detector, seq, subject, event):
            pass
        list(fold_scheduler(self.scheduler, seq, subject, event, at))
        list(fold_renderer(self.before, seq, subject, event))
        list(fold_renderer(self.after, seq, subject, event))
        self.position = max(self.position, seq)

    def happens(self, subject: str, event: Known, at: float) -> Marked:
        """Fold a fact that exists nowhere else, decided in view of everything before it."""
        seen = self.position
        self.position += 1
        event = msgspec.structs.replace(event, provenance=Provenance(as_of=seen))
        return Marked(
            tuple(fold_detector(self.detector, self.position, subject, event)),
            tuple(fold_scheduler(self.scheduler, self.position, subject, event, at)),
            tuple(fold_renderer(self.after, self.position, subject, event)),
        )

    def begin(self) -> None:
        """Take the objects of the control plane from the facts about them, once all facts are folded."""
        state = self.detector
        state.listed |= {*_KNOWN, *INTERPRETERS}
        for policy, known in list(state.policy_facts.items()):
            if isinstance(known, PolicyChanged) and policy.kind in _KNOWN:
                list(take_policy(state, policy, msgspec.json.decode(known.manifest)))
        # What they mean for templates was decided when they were recorded.
        state.edited.clear()
        for key, fact in state.template_facts.items():
            if isinstance(fact, TemplateChanged):
                state.listed.add(key.group_resource)
                self._remember(key, fact)
        take_kinds(state, ((group, kind, served) for (group, kind), served in self._kinds().items()))

    def _kinds(self) -> dict[tuple[str, str], Served]:
        """The kinds on the log, and those that the control plane serves."""
        found = {
            (key.group, fact.kind): Served(key.resource, bool(key.namespace))
            for key, fact in self.detector.template_facts.items()
            if isinstance(fact, TemplateChanged)
        }
        return {**found, **self.kinds}

    def _remember(self, key: ObjectKey, fact: TemplateChanged) -> None:
        binding = self.detector.binding_facts.get(key)
        outline = _outline(key, fact, binding)
        if isinstance(fact.manifest, UnsetType):
            self.kept[key] = _encode(outline)
            self.withheld[key] = fact.digest
        else:
            self.kept[key] = bytes(fact.manifest)
        live = binding if isinstance(binding, BindingRequested) and binding.uid == fact.uid else None
        orphaned = live is not None and live.policy is None and not live.everywhere
        if orphaned:
            # The claim was taken away after this fact, which is about what users wrote.
            outline = unclaimed(outline)
            self.kept[key] = _encode(unclaimed(self.detector.templates[key]))
        self._index(key, outline, awaits=live is None or orphaned)

    def offer(self, key: ObjectKey, data: bytes) -> None:
        """Take in an object of the control plane as it stands; what no policy has claimed waits for one."""
        self.detector.listed.add(key.group_resource)
        if key not in self.kept:
            self.kept[key] = data
            self._index(key, self.detector.templates[key], awaits=True)

    def _index(self, key: ObjectKey, manifest: Manifest, *, awaits: bool) -> None:
        """Let a template be found; without a claim, it may wait for a policy."""
        if index_template(self.detector, key, manifest) is None and awaits:
            self.detector.waiting.add(key)


def new_world(
    skip: SkipRules,
    interpreter: Interpreter = NATIVE,
    reinterpret: Reinterpret = unconfigured,
    circumstances: Circumstances = USUAL,
) -> World:
    """A world in which nothing has happened yet."""
    kept: dict[ObjectKey, bytes] = {}
    state = DetectorState(
        skip=skip,
        templates=Templates(kept),
        interpreter=interpreter,
        reinterpret=reinterpret,
        options=circumstances.options,
    )
    scheduler = SchedulerState(quotas=NamespaceQuotas() if circumstances.quotas else None)
    return World(detector=state, scheduler=scheduler, kept=kept, kinds=circumstances.kinds)


def _outline(key: ObjectKey, fact: TemplateChanged, binding: object) -> Manifest:
    """What a fact without its manifest tells of a template: enough to match it."""
    metadata = {
        "name": key.name,
        "uid": fact.uid,
        "generation": fact.generation,
        "labels": dict(fact.labels),
        "annotations": dict(fact.annotations),
    }
    if key.namespace:
        metadata["namespace"] = key.namespace
    outline: Manifest = {"apiVersion": fact.api_version, "kind": fact.kind, "metadata": metadata}
    policy = binding.policy if isinstance(binding, BindingRequested) else None
    if policy is not None and claimed_policy(outline) is None:
        # The annotations of a Secret are not on record.
        return claim_template(outline, Claim(policy.id, policy.key.namespace, policy.key.name))
    return outline
