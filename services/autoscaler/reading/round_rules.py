"""Works out what a round reads for one FederatedHPA from what was asked: names of pods, shares of values, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from schemas.events.placement import PlacementDecided
from schemas.keys import PolicyKey
from services._rules.autoscaling.metric_specs import MetricSpec
from services._rules.autoscaling.pod_readings import PodView, Sample
from services._rules.autoscaling.scaling_conditions import SCALING_ACTIVE
from services._rules.constants import LABEL_TRUE, RETAIN_REPLICAS_LABEL, SCALE_TO_ZERO_ANNOTATION
from services.autoscaler.reading.pod_index import Shape
from services.autoscaler.scaling_effects import Refusal
from services.autoscaler.state import Target

Place = tuple[str, str]
"""Cluster and name of a pod."""


def ambiguity(key: PolicyKey, other: str) -> Refusal:
    """Two autoscalers select the same pods, or name the same target: neither scales."""
    message = (
        f"pods by selector are controlled by multiple HPAs: {key.namespace}/{key.name} and {key.namespace}/{other}"
    )
    return Refusal("AmbiguousSelector", "AmbiguousSelector", message, SCALING_ACTIVE)


def rivals(references: Iterable[tuple[PolicyKey, Mapping[str, object]]]) -> dict[PolicyKey, str]:
    """Autoscalers that name the same target as another one, each with the name of one such."""
    first: dict[tuple[str, ...], PolicyKey] = {}
    found: dict[PolicyKey, str] = {}
    for key, reference in references:
        target = (key.namespace, *(str(reference.get(name) or "") for name in ("apiVersion", "kind", "name")))
        owner = first.setdefault(target, key)
        if owner != key:
            found[owner], found[key] = key.name, owner.name
    return found


def followed(key: PolicyKey, kind: str, name: str) -> Refusal:
    """The template takes over the replicas of its members: what an autoscaler sets would be taken back at once."""
    message = (
        f"the replicas of {kind} {key.namespace}/{name} follow those of its members (label {RETAIN_REPLICAS_LABEL}): "
        "what a FederatedHPA sets would be taken back"
    )
    return Refusal("ReplicasFollowMembers", "ReplicasFollowMembers", message)


def pending(target: Target, replicas: int) -> Refusal | None:
    """That clusters hold replicas of an earlier template: to compare those with the present one says nothing."""
    bound, placed = target.bound, target.placed
    if bound is None or not isinstance(placed, PlacementDecided):
        return None
    if placed.binding_generation >= bound.generation and bound.replicas == replicas:
        return None
    message = f"the {replicas} replicas of the template are not divided among clusters yet"
    return Refusal("PlacementPending", "PlacementPending", message)


def unique_views(pods: Sequence[tuple[str, Shape]]) -> dict[Place, PodView]:
    """The views of pods; those of one name in several clusters are told apart by their cluster."""
    names = Counter(shape.name for _, shape in pods)
    return {
        (cluster, shape.name): shape.view
        if names[shape.name] == 1
        else replace(shape.view, name=f"{cluster}/{shape.name}")
        for cluster, shape in pods
    }


def shared_samples(views: Mapping[Place, PodView], values: Mapping[str, Sample]) -> dict[str, Sample]:
    """Values of pods by the names that views have: pods of one name in several clusters share the sum of theirs."""
    names = Counter(name for _, name in views)
    found = {}
    for (_, name), view in views.items():
        sample = values.get(name)
        if sample is not None:
            found[view.name] = replace(sample, value=sample.value // names[name])
    return found


def scales_to_zero(annotations: Mapping[str, str], specs: Iterable[MetricSpec]) -> bool:
    """Whether an autoscaler may go down to no replicas: it says so, and has a metric that is there without pods."""
    return annotations.get(SCALE_TO_ZERO_ANNOTATION) == LABEL_TRUE and any(spec.scales_from_zero for spec in specs)
