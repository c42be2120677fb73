"""Decides the works of one object: the manifest for every cluster of its placement, and which works are withdrawn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, TargetCluster
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.decision import Decision
from services._rules.delivery.cluster_rendering import RenderError, Target, suspends_dispatching
from services._rules.delivery.cluster_works import is_cut
from services._rules.failover.eviction_requests import awaits_removal, carried_labels
from services._rules.interpreter import Interpreter, InterpretError
from services._rules.interpreter.result_cache import InterpretationQuery, ResultPending
from services._rules.kubernetes.quantity import QuantityError
from services._rules.overrides import OverrideError, OverridePolicy
from services._rules.overrides.soundness import UnsoundError
from services._rules.quota.binding_usage import requests_of
from services._rules.scheduling.division.weights import DivisionError, divide_job_completions
from services._rules.scheduling.division.weights import TargetCluster as Share
from services._rules.secrets.secret_objects import WITHHELD, DigestKey, is_secret
from services.override_renderer.quota_works import assigned_works
from services.override_renderer.render import NATIVE, Rendered, base_of, render
from services.override_renderer.service_works import Works, service_works
from services.override_renderer.state import Bound, RendererState, concerns


class AtHand(Struct):
    """What decisions read besides facts, fetched before they need it.

    `blobs` are manifest bytes by digest, `digest_keys` name the Secrets of a namespace.
    """

    blobs: dict[str, bytes] = field(default_factory=dict)
    digest_keys: dict[str, DigestKey] = field(default_factory=dict)
    interpreter: Interpreter = NATIVE


class RenderDecision(Decision, frozen=True):
    """Events of one object's works and the manifest bytes that have to be stored before them.

    Works that wait for answers of interpreters are `lacking`. `missing` are manifests that stand in the log only, by
    digest and position: with any of them nothing is decided before they are read.
    """

    blobs: tuple[tuple[str, bytes], ...] = ()
    secret: bool = False
    lacking: tuple[InterpretationQuery, ...] = ()
    missing: tuple[tuple[str, int], ...] = ()


class _Scheduling(Struct, rename="camel"):
    replica_scheduling_type: str = "Divided"


class _Placement(Struct, rename="camel"):
    replica_scheduling: _Scheduling | None = None


class _Spec(Struct, rename="camel"):
    suspension: Manifest | None = None
    preserve_resources_on_deletion: bool | None = None
    placement: _Placement | None = None


_spec = msgspec.json.Decoder(_Spec).decode


def needed_blobs(state: RendererState, key: ObjectKey, at_hand: AtHand) -> Sequence[str]:
    """Digests of manifests that a decision on this key reads and that are not at hand."""
    bound = state.objects.get(key)
    if bound is None or not isinstance(bound.template, TemplateChanged) or bound.template.manifest is not UNSET:
        return ()
    return () if bound.template.digest in at_hand.blobs else (bound.template.digest,)


def needs_key(state: RendererState, key: ObjectKey) -> bool:
    """Whether the object is secret: its manifests are read and named with the key of its namespace only."""
    bound = state.objects.get(key)
    template = bound.template if bound is not None else None
    return isinstance(template, TemplateChanged) and is_secret(template.api_version, template.kind)


def decide(state: RendererState, key: ObjectKey, at_hand: AtHand) -> RenderDecision:
    """The facts due about the works of one object, so that they follow from its facets."""
    bound = state.objects.get(key)
    if bound is None:
        return RenderDecision()
    binding = bound.binding
    members = [name for name, member in state.clusters.items() if not member.deleting]
    where = state.effective(key, members)
    template = bound.template
    if isinstance(binding, BindingRequested) and _awaits_scheduling(binding, bound.placement):
        return RenderDecision()
    events: list[WorkEvent] = []
    blobs: list[tuple[str, bytes]] = []
    lacking: list[InterpretationQuery] = []
    missing: list[tuple[str, int]] = []
    if isinstance(binding, BindingRequested) and isinstance(template, TemplateChanged) and template.uid == binding.uid:
        frozen = binding.frozen > 0 and binding.everywhere
        removing = awaits_removal(bound.tasks, _to_be_removed(state, bound, key))
        if not (frozen or removing or _awaits_request(bound, template) or _awaits_admission(binding, bound.placed)):
            _render_all(state, at_hand, bound, binding, template, where.targets, events, blobs, lacking, missing)
        wanted = set(where.occupied) | _left_alone(bound, binding, members)
    elif isinstance(binding, BindingRequested):
        # The template's own fact has not arrived yet: whatever stands, stands.
        return RenderDecision()
    elif (asked := _asked_for(state, key, bound)) is not None:
        assigned, blobs, wanted = asked
        events.extend(
            msgspec.structs.replace(event, generation=_generation(bound.works.get(event.cluster), event))
            for event in assigned
        )
    else:
        wanted = set()
    if missing:
        return RenderDecision(missing=tuple(missing))
    events.extend(_withdrawals(bound, wanted))
    if not events and not lacking:
        return RenderDecision()
    seen = bound.seen("template", "binding", "placement", "eviction", "descheduling")
    return RenderDecision(
        tuple(msgspec.structs.replace(event, provenance=seen) for event in events),
        blobs=tuple(blobs),
        secret=needs_key(state, key),
        lacking=tuple(lacking),
    )


def _asked_for(state: RendererState, key: ObjectKey, bound: Bound) -> Works | None:
    """Works of an object that no template asks for; None where nothing else does either."""
    quota = state.quotas.get(key)
    return assigned_works(state, key, bound, quota) if quota is not None else service_works(state, key, bound)


def _left_alone(bound: Bound, binding: BindingRequested, members: Sequence[str]) -> set[str]:
    """Clusters whose copy stays as it is: it was made when the object went everywhere, and nothing placed it since."""
    if not binding.frozen:
        return set()
    works = ((name, bound.works[name][0]) for name in members if name in bound.works)
    return {
        name for name, work in works if isinstance(work, WorkRendered) and work.binding_generation <= binding.frozen
    }


def _to_be_removed(state: RendererState, bound: Bound, key: ObjectKey) -> set[str]:
    """Clusters with a copy that eviction may take away: where others require the object, it stays."""
    return bound.works.keys() - {target.name for target in state.required.targets(key)}


def _awaits_scheduling(binding: BindingRequested, placement: PlacementEvent | None) -> bool:
    """Whether the scheduler is about to decide: what stands would be rendered twice, or taken away and made again.

    It divides another number of replicas, or places an object that took the place of another of its name. A binding
    that no scheduler may touch is not waited for.
    """
    if not isinstance(placement, PlacementDecided) or binding.policy is None:
        return False
    if placement.uid == binding.uid and placement.replicas == binding.replicas:
        return False
    suspension = _spec(binding.spec).suspension or {}
    return not suspension.get("scheduling")


def _awaits_request(bound: Bound, template: TemplateChanged) -> bool:
    """Whether the request that this template changes was not read yet: the scheduler may refuse what it asks for."""
    return template.binding_follows and bound.template_seq > bound.binding_seq


def _awaits_admission(binding: BindingRequested, placed: PlacementDecided | PlacementFailed | None) -> bool:
    """Whether pods would take something else than quotas let them: the copies stay until the scheduler admits it."""
    if placed is None or placed.requests is None or binding.policy is None:
        return False
    spec: Manifest = msgspec.json.decode(binding.spec)
    if (spec.get("suspension") or {}).get("scheduling"):
        return False
    try:
        return requests_of(spec).texts() != placed.requests
    except QuantityError:
        return False


def _render_all(
    state: RendererState,
    at_hand: AtHand,
    bound: Bound,
    binding: BindingRequested,
    template: TemplateChanged,
    targets: Sequence[TargetCluster],
    events: list[WorkEvent],
    blobs: list[tuple[str, bytes]],
    lacking: list[InterpretationQuery],
    missing: list[tuple[str, int]],
) -> None:
    if not targets:
        return
    data = template.manifest if not isinstance(template.manifest, UnsetType) else at_hand.blobs[template.digest]
    base = base_of(msgspec.json.decode(data))
    spec = _spec(binding.spec)
    cluster_policies, policies = _override_policies(state, binding)
    shares = _completions(base, binding, spec, targets)
    secret = is_secret(template.api_version, template.kind)
    naming = at_hand.digest_keys[binding.key.namespace] if secret else None
    for target in targets:
        member = state.clusters[target.name]
        previous = bound.works.get(target.name)
        rendered: Rendered | None = None
        try:
            rendered = render(
                base,
                binding,
                target,
                member.facts,
                template_generation=template.generation,
                cluster_policies=cluster_policies,
                policies=policies,
                completions=shares,
                carried=carried_labels(bound.tasks, target.name, len(targets)),
                naming=naming,
                interpreter=at_hand.interpreter,
            )
        except ResultPending as asking:
            lacking.extend(asking.questions)
            continue
        except (InterpretError, OverrideError, UnsoundError, RenderError) as error:
            # What is wrong with a Secret may quote it.
            event = _problem(at_hand, binding, target.name, previous, WITHHELD if secret else str(error))
        else:
            event = _rendered(binding, bound.placement_seq, target.name, rendered, spec)
        if previous is None or not _same(previous[0], event):
            events.append(msgspec.structs.replace(event, generation=_generation(previous, event)))
            if previous is not None and rendered is None and event.digest and is_cut(event):
                missing.append((event.digest, previous[1]))
            if rendered is not None and rendered.shared:
                blobs.append((rendered.digest, rendered.data))


def _rendered(
    binding: BindingRequested, placement_seq: int, cluster: str, rendered: Rendered, spec: _Spec
) -> WorkRendered:
    return WorkRendered(
        cluster=cluster,
        key=binding.key,
        uid=binding.uid,
        api_version=binding.api_version,
        kind=binding.kind,
        digest=rendered.digest,
        manifest=Raw(rendered.data) if not rendered.shared else UNSET,
        shared=rendered.shared,
        binding_generation=binding.generation,
        placement_seq=placement_seq,
        conflict_resolution="Overwrite" if rendered.conflict_resolution == const.CONFLICT_OVERWRITE else "Abort",
        preserve_on_deletion=bool(spec.preserve_resources_on_deletion),
        suspended=suspends_dispatching(spec.suspension, cluster),
        cluster_overrides=rendered.cluster_overrides,
        overrides=rendered.overrides,
    )


def _problem(
    at_hand: AtHand, binding: BindingRequested, cluster: str, previous: tuple[WorkEvent, int] | None, message: str
) -> WorkRendered:
    """The copy cannot be rendered: the one before stays in force and the reason is on record."""
    before = previous[0] if previous is not None else None
    if isinstance(before, WorkRendered) and before.uid == binding.uid:
        manifest = at_hand.blobs.get(before.digest) if not before.shared else None
        return msgspec.structs.replace(before, problem=message, manifest=UNSET if manifest is None else Raw(manifest))
    return WorkRendered(
        cluster=cluster,
        key=binding.key,
        uid=binding.uid,
        api_version=binding.api_version,
        kind=binding.kind,
        digest="",
        problem=message,
    )


def _generation(previous: tuple[WorkEvent, int] | None, event: WorkRendered) -> int:
    """The number of a work in its cluster; what only cannot be rendered is none of its own."""
    before = previous[0] if previous is not None else None
    if not isinstance(before, WorkRendered) or before.uid != event.uid:
        return 1
    known = max(before.generation, 1)
    same = (before.digest, before.suspended, before.preserve_on_deletion)
    return known if same == (event.digest, event.suspended, event.preserve_on_deletion) else known + 1


def _same(before: WorkEvent, event: WorkRendered) -> bool:
    """Whether the previous work has the same content; its provenance does not count."""
    return (
        isinstance(before, WorkRendered)
        and before.uid == event.uid
        and before.digest == event.digest
        and before.problem == event.problem
        and before.suspended == event.suspended
        and before.preserve_on_deletion == event.preserve_on_deletion
        and before.conflict_resolution == event.conflict_resolution
        and before.api_version == event.api_version
    )


def _withdrawals(bound: Bound, wanted: set[str]) -> list[WorkEvent]:
    gone: list[WorkEvent] = []
    for cluster, (work, _) in bound.works.items():
        if isinstance(work, WorkRendered) and cluster not in wanted:
            gone.append(
                WorkWithdrawn(
                    cluster=cluster,
                    key=work.key,
                    uid=work.uid,
                    api_version=work.api_version,
                    kind=work.kind,
                    reason=_withdrawn_because(bound, work),
                    keep=work.preserve_on_deletion,
                    policy=work.policy,
                )
            )
    return gone


def _withdrawn_because(bound: Bound, work: WorkRendered) -> str:
    if isinstance(bound.binding, BindingRequested):
        return "nothing that runs here requires it" if bound.binding.attached else "not placed here"
    if work.policy is None:
        return "binding released"
    what = (
        "needs it there no longer"
        if work.policy.kind == const.MULTI_CLUSTER_SERVICE
        else "assigns nothing to it any more"
    )
    return f"{work.policy.kind} {what}"


def _override_policies(
    state: RendererState, binding: BindingRequested
) -> tuple[list[OverridePolicy], list[OverridePolicy]]:
    cluster_wide: list[OverridePolicy] = []
    namespaced: list[OverridePolicy] = []
    for key, (policy, _) in state.policies.items():
        if not concerns(policy, binding.api_version, binding.kind):
            continue
        if key.kind == "ClusterOverridePolicy":
            cluster_wide.append(policy)
        elif key.namespace == binding.key.namespace and not binding.everywhere:
            namespaced.append(policy)
    return cluster_wide, namespaced


def _completions(
    base: Manifest, binding: BindingRequested, spec: _Spec, targets: Sequence[TargetCluster]
) -> list[Target] | None:
    """Each cluster's share of a divided Job's completions (docs/sources.md#rendering)."""
    scheduling = spec.placement.replica_scheduling if spec.placement is not None else None
    divided = scheduling is not None and scheduling.replica_scheduling_type == "Divided"
    if binding.kind != "Job" or binding.replicas <= 0 or not divided:
        return None
    # Pruning took the uid away, and it decides ties.
    job = {**base, "metadata": {**base["metadata"], "uid": binding.uid}}
    try:
        shares = divide_job_completions(job, [Share(target.name, target.replicas or 0) for target in targets])
    except DivisionError:
        # The shape of the object is refused, cluster by cluster, by what renders it.
        return None
    return None if shares is None else [{"name": share.name, "replicas": share.replicas} for share in shares]
