"""Table rows of configuration, access and policy kinds: config maps, secrets, events, roles, quotas, autoscalers."""

import datetime as dt
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.tables.autoscaling import autoscaler
from services.apiserver.tables.human import age
from services.apiserver.tables.printer import (
    AGE,
    CREATED_TEXT,
    NAME,
    Cells,
    Column,
    Printer,
    name_of,
    part,
)


def _created(obj: Manifest, now: dt.datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _config_map(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), _created(obj, now)]


def _secret(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), _created(obj, now)]


def _service_account(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(obj.get("secrets") or ()), _created(obj, now)]


def _event(obj: Manifest, now: dt.datetime) -> Cells:
    """Both event APIs: core/v1 and events.k8s.io/v1 name the same things differently."""
    first = age(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)
    last_time = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    last = age(last_time, now) if last_time else first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count") or 0
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    kind, name = target.get("kind", "").lower(), target.get("name", "")
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    reporter = [
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or "",
        source.get("host") or obj.get("reportingInstance") or "",
    ]
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        target.get("fieldPath", ""),
        ", ".join(item for item in reporter if item),
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name_of(obj),
    ]


def _quota(obj: Manifest, now: dt.datetime) -> Cells:
    hard, used = part(obj, "status", "hard"), part(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        where = limits if name.startswith("limits.") else requests
        where.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), _created(obj, now), ", ".join(requests), ", ".join(limits)]


def _role(obj: Manifest, now: dt.datetime) -> Cells:  # noqa: ARG001
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _binding(obj: Manifest, now: dt.datetime) -> Cells:
    role, subjects = part(obj, "roleRef"), obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(item.get("name", "") for item in subjects if item.get("kind") == kind)

    accounts = ", ".join(
        f"{item.get('namespace', '')}/{item.get('name', '')}"
        for item in subjects
        if item.get("kind") == "ServiceAccount"
    )
    return [
        name_of(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        _created(obj, now),
        named("User"),
        named("Group"),
        accounts,
    ]


def _disruption_budget(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    allowed = part(obj, "status").get("disruptionsAllowed") or 0
    least, most = (str(spec[name]) if name in spec else "N/A" for name in ("minAvailable", "maxUnavailable"))
    return [name_of(obj), least, most, allowed, _created(obj, now)]


def _lease(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), part(obj, "spec").get("holderIdentity", ""), _created(obj, now)]


def _flow_schema(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    dangling = next(
        (item.get("status") for item in part(obj, "status").get("conditions") or () if item.get("type") == "Dangling"),
        "?",
    )
    return [
        name_of(obj),
        part(spec, "priorityLevelConfiguration").get("name", ""),
        spec.get("matchingPrecedence") or 0,
        part(spec, "distinguisherMethod").get("type") or "<none>",
        _created(obj, now),
        dangling,
    ]


def _priority_level(obj: Manifest, now: dt.datetime) -> Cells:
    spec, limited = part(obj, "spec"), part(obj, "spec", "limited")
    queuing = part(limited, "limitResponse", "queuing")
    shares = limited.get("assuredConcurrencyShares") or limited.get("nominalConcurrencyShares") or "<none>"
    queues = [queuing.get(name) or "<none>" for name in ("queues", "handSize", "queueLengthLimit")]
    return [name_of(obj), spec.get("type", ""), shares, *queues, _created(obj, now)]


def _bindings(kind: str) -> Printer:
    return Printer(
        (
            NAME,
            Column("Role", description="The role it grants."),
            AGE,
            Column("Users", priority=1, description=f"Users in the {kind}"),
            Column("Groups", priority=1, description=f"Groups in the {kind}"),
            Column("ServiceAccounts", priority=1, description=f"ServiceAccounts in the {kind}"),
        ),
        _binding,
    )


_ROLE: Final = Printer((NAME, Column("Created At", "date", description=CREATED_TEXT)), _role)
_EVENT: Final = Printer(
    (
        Column("Last Seen", description="The time at which the most recent occurrence of this event was recorded."),
        Column("Type", description="Type of this event (Normal, Warning), new types could be added in the future"),
        Column("Reason", description="Why it happened, in one word."),
        Column("Object", description="The object that this event is about."),
        Column("Subobject", priority=1, description="The part of the object."),
        Column("Source", priority=1, description="Who reports it."),
        Column("Message", description="A human-readable description of the status of this operation."),
        Column("First Seen", priority=1, description="When it was first recorded."),
        Column("Count", priority=1, description="The number of times this event has occurred."),
        Column("Name", priority=1, description="The name of the event.", format="name"),
    ),
    _event,
)

CONFIG: Final[dict[tuple[str, str], Printer]] = {
    ("", "configmaps"): Printer((NAME, Column("Data", description="How many keys it has."), AGE), _config_map),
    ("", "secrets"): Printer(
        (
            NAME,
            Column("Type", description="Used to facilitate programmatic handling of secret data."),
            Column("Data", description="How many keys it has."),
            AGE,
        ),
        _secret,
    ),
    ("", "serviceaccounts"): Printer(
        (NAME, Column("Secrets", description="How many secrets it may use."), AGE), _service_account
    ),
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): _EVENT,
    ("", "resourcequotas"): Printer(
        (
            NAME,
            AGE,
            Column(
                "Request",
                description="Request represents a minimum amount of cpu/memory that a container may consume.",
            ),
            Column("Limit", description="Limits that are used and allowed."),
        ),
        _quota,
    ),
    ("rbac.authorization.k8s.io", "roles"): _ROLE,
    ("rbac.authorization.k8s.io", "clusterroles"): _ROLE,
    ("rbac.authorization.k8s.io", "rolebindings"): _bindings("roleBinding"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _bindings("clusterRoleBinding"),
    ("autoscaling", "horizontalpodautoscalers"): Printer(
        (
            NAME,
            Column("Reference", description="What it scales."),
            Column("Targets", description="Present and wanted values of its metrics."),
            Column("MinPods", description="The least replicas."),
            Column("MaxPods", description="The most replicas."),
            Column("Replicas", description="The present replicas."),
            AGE,
        ),
        autoscaler,
    ),
    ("policy", "poddisruptionbudgets"): Printer(
        (
            NAME,
            Column("Min Available", description="The minimum number of pods that must be available."),
            Column("Max Unavailable", description="The maximum number of pods that may be unavailable."),
            Column(
                "Allowed Disruptions",
                "integer",
                description="Calculated number of pods that may be disrupted at this time.",
            ),
            AGE,
        ),
        _disruption_budget,
    ),
    ("coordination.k8s.io", "leases"): Printer(
        (NAME, Column("Holder", description="Who holds the lease."), AGE), _lease
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): Printer(
        (
            NAME,
            Column("PriorityLevel", description="The priority level of its requests."),
            Column("MatchingPrecedence", description="Which schema wins; the lowest does."),
            Column("DistinguisherMethod", description="What tells its flows apart."),
            AGE,
            Column("MissingPL", description="references a broken or non-existent PriorityLevelConfiguration"),
        ),
        _flow_schema,
    ),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): Printer(
        (
            NAME,
            Column("Type", description="Whether its requests are limited."),
            Column("AssuredConcurrencyShares", description="Its share of the server."),
            Column("Queues", description="How many queues it has."),
            Column("HandSize", description="How many queues one flow may use."),
            Column("QueueLengthLimit", description="How many requests wait in a queue."),
            AGE,
        ),
        _priority_level,
    ),
}
