"""Renders one object for one cluster: pruned, with the cluster's replicas, overrides and work labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.events.placement import TargetCluster
from schemas.events.work import AppliedOverride
from schemas.manifest import INLINE_BYTES, Manifest
from services._rules import constants as const
from services._rules.delivery.cluster_rendering import (
    RenderError,
    Target,
    apply_job_completions,
    conflict_resolution,
    with_labels,
)
from services._rules.delivery.metadata_retention import record_managed
from services._rules.delivery.work_labels import without_marks
from services._rules.identities import binding_id, work_id
from services._rules.interpreter import Interpreter, NativeInterpreter, Operation
from services._rules.interpreter.native.prune import prune
from services._rules.kubernetes.document_bounds import is_deeper, may_be_deep
from services._rules.names import binding_name, execution_namespace, work_name
from services._rules.overrides import Applied, OverridePolicy
from services._rules.overrides import apply as apply_overrides
from services._rules.overrides.soundness import check_sound
from services._rules.policies.cluster_affinity import ClusterFacts
from services._rules.secrets.secret_objects import DigestKey

NATIVE: Final[Interpreter] = NativeInterpreter()
"""What is understood without any customization."""
_encoder = msgspec.json.Encoder(order="deterministic")


class Rendered(Struct, frozen=True):
    """A copy for one cluster; `data` is its JSON and `digest` its name.

    `shared` bytes lack what differs between clusters of equal content, and their reader puts it back.
    """

    data: bytes
    digest: str
    shared: bool
    conflict_resolution: str
    cluster_overrides: tuple[AppliedOverride, ...] = ()
    overrides: tuple[AppliedOverride, ...] = ()


def base_of(template: Manifest) -> Manifest:
    """The part of a rendering that all clusters share: the template without what servers wrote."""
    return prune(template)


def render(
    base: Manifest,
    binding: BindingRequested,
    target: TargetCluster,
    cluster: ClusterFacts,
    *,
    template_generation: int,
    cluster_policies: Sequence[OverridePolicy],
    policies: Sequence[OverridePolicy],
    completions: Sequence[Target] | None = None,
    carried: Mapping[str, str] | None = None,
    naming: DigestKey | None = None,
    interpreter: Interpreter = NATIVE,
) -> Rendered:
    """The copy of a pruned template for one cluster (docs/sources.md#rendering).

    `completions` is each cluster's share of a Job's completions, `carried` the labels that an application brings along
    from the cluster it left, `naming` names Secrets. Raises InterpretError, OverrideError, UnsoundError, RenderError,
    and ResultPending when the interpreter has to be asked first.
    """
    manifest = base
    # A cluster that only others require the object in has no share of its replicas.
    counted = binding.workload and target.replicas is not None
    if counted and interpreter.hook_enabled(binding.api_version, binding.kind, Operation.REVISE):
        manifest = interpreter.interpret(Operation.REVISE, manifest, target.replicas)
    if completions is not None:
        manifest = apply_job_completions(manifest, target.name, completions)
    overridden = apply_overrides(manifest, cluster, cluster_policies, policies)
    check_sound(manifest, overridden)
    manifest = with_labels(overridden.manifest, carried)
    resolution = conflict_resolution(manifest, _spec(binding.spec).conflict_resolution)
    marked = _marked(manifest, binding, target.name, template_generation, resolution)
    try:
        rendered = rendered_bytes(marked, resolution, naming)
        deep = may_be_deep(rendered.data, _DEEPEST) and is_deeper(marked, _DEEPEST)
    except RecursionError:
        deep = True
    if deep:
        raise RenderError(f"{binding.kind} {binding.key.name}: what overrides made of it is nested too deeply")
    return replace(
        rendered,
        cluster_overrides=_recorded(overridden.applied_cluster_overrides),
        overrides=_recorded(overridden.applied_overrides),
    )


def rendered_bytes(marked: Manifest, resolution: str, naming: DigestKey | None = None) -> Rendered:
    """The bytes of a manifest with its marks, and their digest; raises RecursionError for one nested too deeply."""
    data = _encoder.encode(marked)
    shared = naming is not None or len(data) > INLINE_BYTES
    if shared:
        data = _encoder.encode(without_marks(marked))
    digest = hashlib.sha256(data).hexdigest() if naming is None else naming.digest(data)
    return Rendered(data, digest, shared, resolution)


def _recorded(applied: Sequence[Applied]) -> tuple[AppliedOverride, ...]:
    return tuple(AppliedOverride(item.policy_name, Raw(msgspec.json.encode(item.overriders))) for item in applied)


_DEEPEST: Final = 1000
"""Levels of a manifest that every service can work on."""


class _BindingSpec(Struct, rename="camel"):
    conflict_resolution: str = ""


_spec = msgspec.json.Decoder(_BindingSpec).decode


def _marked(
    manifest: Manifest, binding: BindingRequested, cluster: str, template_generation: int, resolution: str
) -> Manifest:
    """The manifest with the labels and annotations of docs/sources.md#rendering."""
    key, uid = binding.key, binding.uid
    metadata = manifest["metadata"]
    labels = dict(metadata.get("labels") or {})
    annotations = dict(metadata.get("annotations") or {})
    if not binding.everywhere:
        if key.namespace:
            labels[const.RESOURCE_BINDING_ID_LABEL] = binding_id(key, uid)
            annotations[const.RESOURCE_BINDING_NAMESPACE_ANNOTATION] = key.namespace
            annotations[const.RESOURCE_BINDING_NAME_ANNOTATION] = binding_name(binding.kind, key.name)
        else:
            labels[const.CLUSTER_RESOURCE_BINDING_ID_LABEL] = binding_id(key, uid)
            annotations[const.CLUSTER_RESOURCE_BINDING_NAME_ANNOTATION] = binding_name(binding.kind, key.name)
        annotations[const.CONFLICT_RESOLUTION_ANNOTATION] = resolution
    if template_generation > 0:
        annotations[const.TEMPLATE_GENERATION_ANNOTATION] = str(template_generation)
    annotations[const.TEMPLATE_UID_ANNOTATION] = uid
    annotations[const.WORK_NAMESPACE_ANNOTATION] = execution_namespace(cluster)
    annotations[const.WORK_NAME_ANNOTATION] = work_name(binding.kind, key.name, key.namespace)
    labels[const.MANAGED_LABEL] = const.LABEL_TRUE
    labels[const.WORK_ID_LABEL] = work_id(cluster, key, uid)
    return record_managed({**manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}})
