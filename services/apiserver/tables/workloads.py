"""Table rows of workloads: deployments, replica sets, stateful sets, daemon sets, jobs and their like."""

import datetime as dt
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, age, created, duration, labels, parse_time, selector
from services.apiserver.tables.printer import Cell, Cells, name_of, part


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
        created(obj, now),
        *_containers(part(spec, "template")),
        "" if chosen == NONE else chosen,
    ]


def _stateful_set(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name_of(obj), ready, created(obj, now), *_containers(part(spec, "template"))]


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
        created(obj, now),
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
        created(obj, now),
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
        created(obj, now),
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
        created(obj, now),
        *_containers(part(job, "template")),
        selector(job.get("selector")),
    ]


def _revision(obj: Manifest, now: dt.datetime) -> Cells:
    owner = next((item for item in obj["metadata"].get("ownerReferences") or () if item.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{owner.get('kind', '').lower()}{f'.{group}' if group else ''}/{owner.get('name', '')}"
    return [name_of(obj), controller, obj.get("revision") or 0, created(obj, now)]


def _pod_template(obj: Manifest, now: dt.datetime) -> Cells:  # noqa: ARG001
    template = part(obj, "template")
    return [name_of(obj), *_containers(template), labels(part(template, "metadata").get("labels"))]


WORKLOADS: Final[dict[str, Cell]] = {
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replica_set,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "controllerrevisions.apps": _revision,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "podtemplates": _pod_template,
}
