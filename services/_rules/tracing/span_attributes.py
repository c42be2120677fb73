"""Names and attributes of spans, by OpenTelemetry's semantic conventions for messages and for Kubernetes."""

from __future__ import annotations

from typing import Final

from schemas.codec import Known
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementFailed
from schemas.events.work import WorkRendered
from schemas.subjects import BY_KIND, SubjectError, cluster_of, object_key, policy_key, split
from services._rules.history.event_words import summarize
from services._rules.tracing.logged_event import Step, acted
from services._rules.tracing.span_model import Value

_VERBS: Final = {
    "template": "detect",
    "policy": "detect",
    "binding": "request",
    "estimate": "measure",
    "placement": "schedule",
    "eviction": "evict",
    "descheduling": "lower",
    "work": "render",
    "rollup": "aggregate",
    "cluster": "probe",
    "autoscaling": "recommend",
    "endpoints": "collect",
}
"""What a service does when it writes on a subject."""
_TEMPLATES: Final = {
    **dict.fromkeys(
        ("template", "binding", "estimate", "placement", "eviction", "descheduling", "rollup"),
        "{shard}.{resource}.{namespace}.{name}",
    ),
    **dict.fromkeys(("work", "observed"), "{cluster}.{resource}.{namespace}.{name}"),
    **dict.fromkeys(("policy", "autoscaling"), "{kind}.{namespace}.{name}"),
    "endpoints": "{cluster}.{namespace}.{name}",
    "cluster": "{cluster}",
}
_KINDS: Final = {
    "deployments.apps": "deployment",
    "statefulsets.apps": "statefulset",
    "daemonsets.apps": "daemonset",
    "replicasets.apps": "replicaset",
    "jobs.batch": "job",
    "cronjobs.batch": "cronjob",
    "pods": "pod",
    "services": "service",
    "nodes": "node",
    "persistentvolumeclaims": "persistentvolumeclaim",
    "persistentvolumes": "persistentvolume",
    "replicationcontrollers": "replicationcontroller",
    "resourcequotas": "resourcequota",
    "horizontalpodautoscalers.autoscaling": "hpa",
}
"""Kinds that the conventions have names for, by plural and group."""
_LONGEST: Final = 256
"""Characters of a text in a span."""


def name_of(step: Step) -> str:
    """Name of a span: what was done, and to which sort of subject; there are few such names."""
    aggregate = split(step.at.subject)[0]
    if isinstance(step.event, WorkObserved):
        return "apply work" if acted(step.event) else "reflect status"
    return f"{_VERBS.get(aggregate, 'write')} {aggregate}"


def attributes_of(step: Step) -> dict[str, Value]:
    """Attributes of the span of a step."""
    logged = step.at
    aggregate = split(logged.subject)[0]
    found: dict[str, Value] = {
        "messaging.system": "nats",
        "messaging.operation.type": "process",
        "messaging.operation.name": name_of(step).partition(" ")[0],
        "messaging.destination.name": logged.subject,
        "messaging.message.body.size": len(logged.data),
        "fleetlog.event": step.name,
        "fleetlog.log.stream": logged.stream,
        "fleetlog.log.position": logged.seq,
    }
    if aggregate in _TEMPLATES:
        found["messaging.destination.template"] = f"{aggregate}.{_TEMPLATES[aggregate]}"
    if logged.event_id:
        found["messaging.message.id"] = logged.event_id
    if logged.correlation:
        found["messaging.message.conversation_id"] = logged.correlation
    if step.event is not None:
        found["fleetlog.summary"] = summarize(step.event)[:_LONGEST]
        found.update(_uid(step.event))
    found.update(place_of(logged.subject))
    kind = _KINDS.get(str(found.get("fleetlog.object.resource", "")))
    if kind is not None:
        found[f"k8s.{kind}.name"] = found["fleetlog.object.name"]
        if "fleetlog.object.uid" in found:
            found[f"k8s.{kind}.uid"] = found["fleetlog.object.uid"]
    return found


def place_of(subject: str) -> dict[str, Value]:
    """Cluster, namespace and object that a subject names; nothing of a malformed one."""
    aggregate = split(subject)[0]
    found: dict[str, Value] = {}
    try:
        if aggregate in ("work", "observed", "endpoints", "cluster"):
            found["k8s.cluster.name"] = cluster_of(subject)
        if aggregate in BY_KIND:
            policy = policy_key(subject)
            resource, namespace, name = policy.kind, policy.namespace, policy.name
        elif aggregate in ("endpoints", "cluster") or aggregate not in _TEMPLATES:
            return found
        else:
            key = object_key(subject)
            resource, namespace, name = key.group_resource, key.namespace, key.name
    except SubjectError:
        return found
    found["fleetlog.object.resource"], found["fleetlog.object.name"] = resource, name
    namespace = name if resource == "namespaces" else namespace
    if namespace:
        found["k8s.namespace.name"] = namespace
    return found


def error_of(event: Known | None) -> tuple[str, str]:
    """Reason and message of a step that failed; both empty for any other."""
    match event:
        case PlacementFailed():
            return event.reason or "PlacementFailed", event.message[:_LONGEST]
        case WorkRendered() if event.problem:
            return "RenderFailed", event.problem[:_LONGEST]
        case WorkObserved() if not event.applied and not event.absent and event.reason:
            return event.reason[:_LONGEST], event.message[:_LONGEST]
        case _:
            return "", ""


def _uid(event: Known) -> dict[str, Value]:
    uid = getattr(event, "uid", "")
    return {"fleetlog.object.uid": uid[:_LONGEST]} if uid else {}
