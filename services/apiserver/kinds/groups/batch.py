"""Jobs and CronJobs."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    go_map,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import Rules, changed, choice, inside, not_negative, text
from services._rules.kubernetes.validation.job_status import job_status
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.checks import job_specs
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.affinities import is_usable, label_selector
from services.apiserver.kinds.workloads import pod_defaults
from services.apiserver.kinds.workloads.deployments import labels_of, matches, mismatch
from services.apiserver.kinds.workloads.template_warnings import PodMaker

CRON_NAME_LIMIT = 52


_NO_LIMIT = (1 << 31) - 1
_HOLDS = {"onPodConditions[]": {"status": "True"}}


def _counts_and_replacement(spec: Manifest) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    # Where each index has a limit of its own, the Job has none unless it says so.
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _NO_LIMIT)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")


_ENDING = ("OnFailure", "Never")


def _ends(template: Manifest, path: str) -> Errors:
    policy, field = (template.get("spec") or {}).get("restartPolicy", ""), f"{path}.spec.restartPolicy"
    if policy in ("Always", ""):
        yield required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in _ENDING:
        yield not_supported(field, policy, _ENDING)


_JOB_SPEC: Rules = (
    not_negative("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    job_specs.newer_rules,
    inside("template", *pod_checks.TEMPLATE, _ends, absent={}),
)
"""The rules that the spec of a Job and that of a CronJob's template have in common."""


_PREFIX = "batch.kubernetes.io/"
_UID_LABEL = f"{_PREFIX}controller-uid"


def _own_labels(meta: Manifest) -> dict[str, str]:
    """The labels of a Job's pods, under their old names and under those with a prefix."""
    own = {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}
    return own | {f"{_PREFIX}{name}": value for name, value in own.items()}


def _generated(obj: Manifest, _: str) -> Errors:
    spec, own, selector = obj["spec"], _own_labels(obj["metadata"]), obj["spec"].get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    labels = labels_of(spec)
    for key, value in own.items():
        field = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield required(field, f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(field, go_map(labels), f"must be '{value}'")
    if is_usable(selector) and not matches(selector, own):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def _selector(spec: Manifest, path: str) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [required(f"{path}.selector"), *mismatch(spec, path)]
    found = label_selector(selector, f"{path}.selector")
    return [*found, *mismatch(spec, path)] if is_usable(selector) else found


_SPEC_OF_JOB = inside("spec", *_JOB_SPEC, _selector)


def _completed(job: Manifest) -> Errors:
    """What is wrong with the numbers of the pods that ended, of a Job whose pods have numbers."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    if spec.get("completionMode") != "Indexed":
        return
    for name in ("completedIndexes", "failedIndexes"):
        if status.get(name):
            _, problem = job_specs.parsed_indexes(status[name], spec.get("completions") or 0)
            if problem:
                yield invalid(f"status.{name}", status[name], f"error parsing {name}: {problem}")


def _numbered_names(job: Manifest) -> Errors:
    """What is wrong with the names of the hosts of pods that have numbers."""
    spec, name = job["spec"], job["metadata"].get("name") or ""
    if spec.get("completionMode") == "Indexed" and spec.get("completions"):
        problems = names.label(f"{name}-{spec['completions'] - 1}")
        text = f"will not able to create pod with invalid DNS label: {name}-{spec['completions'] - 1}"
        yield from [invalid("metadata.name", name, text)] if problems else ()


class Job(PodMaker):
    """batch/v1 Job."""

    generation = True
    defaults = {
        "spec": {
            "template": pod_defaults.template,
            "": _counts_and_replacement,
            "parallelism": 1,
            "manualSelector": False,
            "podFailurePolicy?": {"rules[]": _HOLDS},
            "completionMode": "NonIndexed",
            "suspend": False,
        }
    }
    rules = (_generated, _SPEC_OF_JOB)
    status_rules = counts(("active", "succeeded", "failed", "ready", "terminating"))
    fixed = (
        "spec.selector",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.successPolicy",
        "spec.managedBy",
    )

    def default(self, obj: Manifest) -> None:
        """Fill in the spec and copy the template's labels to a job without any."""
        super().default(obj)
        labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_create(self, obj: Manifest) -> None:
        """Give the job its own selector, unless the user manages the selector."""
        super().prepare_create(obj)
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        own = _own_labels(meta)
        template = spec["template"].setdefault("metadata", {})
        given = template.get("labels") or {}
        template["labels"] = {**given, **{key: value for key, value in own.items() if key not in given}}
        # A Job without labels of its own has those of its template, the added ones included.
        if (meta.get("labels") or given) == given:
            meta["labels"] = dict(template["labels"])
        selector = spec.setdefault("selector", {})
        if _UID_LABEL not in (selector.get("matchLabels") or {}):
            selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _UID_LABEL: own[_UID_LABEL]}

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """The pods of a new Job need names."""
        return [*super().validate_create(obj), *_numbered_names(obj)]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Completions, selector and template may not change; the spec is checked as a new one and as an update."""
        return [
            *self.check(new),
            *_SPEC_OF_JOB(new, ""),
            *job_specs.completions(new["spec"], old["spec"], "spec"),
            *job_specs.template(new, old, "spec"),
            *changed(self.fixed, new, old),
        ]

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what the rules of the status find wrong, and those of how a Job ends."""
        return [*super().validate_status(new, old), *job_status(new, old), *_completed(new)]

    def check_metadata(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with the metadata; labels taken from the template are blamed there."""
        found = super().check_metadata(obj)
        if obj["metadata"].get("labels") == labels_of(obj["spec"]):
            found = [error for error in found if error.field != "metadata.labels"]
        return found

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the number of succeeded pods."""
        count = (obj.get("status") or {}).get("succeeded", 0)
        return {**super().field_selectors(obj), "status.successful": str(count)}


def _schedule(value: str) -> list[str]:
    return [problem] if (problem := job_specs.schedule_problem(value)) else []


def _own_selector(job: Manifest, path: str) -> list[FieldError]:
    found = []
    if (selector := job.get("selector")) is not None:
        found.append(invalid(f"{path}.selector", selector, "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        found.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    return found


def _short_name(obj: Manifest, _: str) -> Errors:
    name = obj["metadata"].get("name", "")
    if not (len(name) <= CRON_NAME_LIMIT):
        yield invalid("metadata.name", name, f"must be no more than {CRON_NAME_LIMIT} characters")


class CronJob(PodMaker):
    """batch CronJob."""

    template_at = "spec.jobTemplate.spec.template"
    generation = True
    defaults = {
        "spec": {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": pod_defaults.template}},
        }
    }

    spec_rules = (
        text("schedule", _schedule, need=""),
        not_negative("startingDeadlineSeconds"),
        choice("concurrencyPolicy", ("Allow", "Forbid", "Replace"), need=""),
        inside("jobTemplate", inside("spec", *_JOB_SPEC, _own_selector, absent={}), absent={}),
        not_negative("successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
        job_specs.zone,
    )

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with a new CronJob; the Jobs made of it have longer names than its own."""
        return [*self.check(obj), *_own_zone(obj), *_short_name(obj, "")]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a CronJob by itself; a schedule that had its time zone in it may keep it."""
        kept = "TZ" in old["spec"].get("schedule", "")
        return [*super().check_update(new, old), *(() if kept else _own_zone(new))]


def _own_zone(obj: Manifest) -> Errors:
    return job_specs.no_zone_in_schedule(obj["spec"], "spec")
