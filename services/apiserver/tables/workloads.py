"""Table rows of workloads: deployments, replica sets, stateful sets, daemon sets, jobs and their like."""

import datetime as dt
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, age, duration, labels, parse_time, selector
from services.apiserver.tables.printer import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    SELECTOR,
    Cells,
    Column,
    Printer,
    name_of,
    part,
)

_READY_TEXT: Final = "Number of the pod with ready state"


def _created(obj: Manifest, now: dt.datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _containers(template: Manifest) -> list[str]:
    containers = part(template, "spec").get("containers") or ()
    return [
        ",".join(item.get("name", "") for item in containers),
        ",".join(item.get("image", "") for item in containers),
    ]


def _deployment(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    chosen = selector(spec.get("selector"))
    return [
        name_of(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        _created(obj, now),
        *_containers(part(spec, "template")),
        "" if chosen == NONE else chosen,
    ]


def _stateful_set(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name_of(obj), ready, _created(obj, now), *_containers(part(spec, "template"))]


def _replica_set(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    chosen = (
        labels(spec.get("selector")) if obj.get("kind") == "ReplicationController" else selector(spec.get("selector"))
    )
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        _created(obj, now),
        *_containers(part(spec, "template")),
        chosen,
    ]


def _daemon_set(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    return [
        name_of(obj),
        status.get("desiredNumberScheduled") or 0,
        status.get("currentNumberScheduled") or 0,
        status.get("numberReady") or 0,
        status.get("updatedNumberScheduled") or 0,
        status.get("numberAvailable") or 0,
        labels(part(spec, "template", "spec").get("nodeSelector")),
        _created(obj, now),
        *_containers(part(spec, "template")),
        selector(spec.get("selector")),
    ]


def _job(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    succeeded, completions = status.get("succeeded") or 0, spec.get("completions")
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        parallel = spec.get("parallelism") or 0
        done = f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    took = "" if start is None else duration((end or now) - start)
    return [
        name_of(obj),
        done,
        took,
        _created(obj, now),
        *_containers(part(spec, "template")),
        selector(spec.get("selector")),
    ]


def _cron_job(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    suspend = spec.get("suspend")
    last = status.get("lastScheduleTime")
    job = part(spec, "jobTemplate", "spec")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        "<unset>" if suspend is None else str(bool(suspend)),
        len(status.get("active") or ()),
        age(last, now) if last else NONE,
        _created(obj, now),
        *_containers(part(job, "template")),
        selector(job.get("selector")),
    ]


def _revision(obj: Manifest, now: dt.datetime) -> Cells:
    owner = next((item for item in obj["metadata"].get("ownerReferences") or () if item.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{owner.get('kind', '').lower()}{f'.{group}' if group else ''}/{owner.get('name', '')}"
    return [name_of(obj), controller, obj.get("revision") or 0, _created(obj, now)]


def _pod_template(obj: Manifest, now: dt.datetime) -> Cells:  # noqa: ARG001
    template = part(obj, "template")
    return [name_of(obj), *_containers(template), labels(part(template, "metadata").get("labels"))]


_REPLICAS: Final = Printer(
    (
        NAME,
        Column("Desired", "integer", description="Replicas that are wanted."),
        Column("Current", "integer", description="Replicas that exist."),
        Column("Ready", "integer", description="The number of ready replicas for this replica set."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    _replica_set,
)

WORKLOADS: Final[dict[tuple[str, str], Printer]] = {
    ("apps", "deployments"): Printer(
        (
            NAME,
            Column("Ready", description=_READY_TEXT),
            Column("Up-to-date", description="Replicas of the present template."),
            Column("Available", description="Replicas that have been ready for long enough."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ),
        _deployment,
    ),
    ("apps", "replicasets"): _REPLICAS,
    ("", "replicationcontrollers"): _REPLICAS,
    ("apps", "statefulsets"): Printer(
        (NAME, Column("Ready", description=_READY_TEXT), AGE, CONTAINERS, IMAGES), _stateful_set
    ),
    ("apps", "daemonsets"): Printer(
        (
            NAME,
            Column("Desired", "integer", description="Nodes that should run the pod."),
            Column("Current", "integer", description="Nodes that run the pod and should."),
            Column("Ready", "integer", description="Nodes whose pod is ready."),
            Column(
                "Up-to-date", "integer", description="The total number of nodes that are running updated daemon pod"
            ),
            Column("Available", "integer", description="Nodes whose pod is available."),
            Column("Node Selector", description="Labels that nodes have to have."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ),
        _daemon_set,
        hidden=frozenset({"deprecated.daemonset.template.generation"}),
    ),
    ("apps", "controllerrevisions"): Printer(
        (
            NAME,
            Column("Controller", description="Controller of the object"),
            Column("Revision", description="Revision indicates the revision of the state represented by Data."),
            AGE,
        ),
        _revision,
    ),
    ("batch", "jobs"): Printer(
        (
            NAME,
            Column("Completions", description="The number of pods which reached phase Succeeded."),
            Column("Duration", description="Time required to complete the job."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ),
        _job,
    ),
    ("batch", "cronjobs"): Printer(
        (
            NAME,
            Column("Schedule", description="The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
            Column("Suspend", "boolean", description="Whether further runs are held back."),
            Column("Active", "integer", description="A list of pointers to currently running jobs."),
            Column(
                "Last Schedule",
                description="Information when was the last time the job was successfully scheduled.",
            ),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ),
        _cron_job,
    ),
    ("", "podtemplates"): Printer(
        (
            NAME,
            Column("Containers", description="Names of each container in the template."),
            Column("Images", description="Images referenced by each container in the template."),
            Column("Pod Labels", description="The labels for the pod template."),
        ),
        _pod_template,
    ),
}
