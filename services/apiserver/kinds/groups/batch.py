"""Jobs and CronJobs."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, go_map, invalid, not_supported, required
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks import schedules as cron
from services.apiserver.kinds.checks import status_fields as status_checks
from services.apiserver.kinds.workloads import pod_defaults
from services.apiserver.kinds.workloads.deployments import MISMATCH, matches, not_negative

RESTART_TEXT = 'valid values: "OnFailure", "Never"'
CONCURRENCY = ("Allow", "Forbid", "Replace")
CRON_NAME_LIMIT = 52
TTL_RELEASE = 21  # the first minor release that keeps ttlSecondsAfterFinished


def default_job_spec(spec: Manifest) -> None:
    """Fill in a job's spec."""
    pod_defaults.template(spec.setdefault("template", {}))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)


def check_job_spec(spec: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a job's numbers and template."""
    names = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    found = not_negative(spec, names, field)
    template = spec.get("template") or {}
    found += pod_checks.template(template, f"{field}.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        found.append(required(f"{field}.template.spec.restartPolicy", RESTART_TEXT))
    return found


class Job(BuiltinKind):
    """batch/v1 Job."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """Fill in the spec and copy the template's labels to a job without any."""
        spec = obj["spec"]
        default_job_spec(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_create(self, obj: Manifest) -> None:
        """Give the job its own selector, unless the user manages the selector."""
        super().prepare_create(obj)
        spec, meta = obj["spec"], obj["metadata"]
        if self.release < TTL_RELEASE:
            spec.pop("ttlSecondsAfterFinished", None)
        if spec.get("manualSelector"):
            return
        own = {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}
        template = spec["template"].setdefault("metadata", {"creationTimestamp": None})
        template["labels"] = {**(template.get("labels") or {}), **_missing(template.get("labels"), own)}
        # A Job without labels shows those of its template, as the defaulting of a stored object adds them on reading.
        if not meta.get("labels"):
            meta["labels"] = dict(template["labels"])
        selector = spec.setdefault("selector", {})
        if "controller-uid" not in (selector.get("matchLabels") or {}):
            selector["matchLabels"] = {**(selector.get("matchLabels") or {}), "controller-uid": own["controller-uid"]}

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the generated selector and labels, the spec, and that they fit together."""
        spec = obj["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        selector = spec.get("selector")
        found: list[FieldError] = []
        if not spec.get("manualSelector") and selector is not None:
            own = {"controller-uid": obj["metadata"].get("uid", ""), "job-name": obj["metadata"].get("name", "")}
            for key, value in own.items():
                if labels.get(key) != value:
                    found.append(invalid("spec.template.metadata.labels", go_map(labels), f"must be '{value}'"))
            if not matches(selector, own):
                found.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
        found += check_job_spec(spec, "spec")
        if selector is None:
            return [*found, required("spec.selector")]
        found += affinity_checks.label_selector(selector, "spec.selector")
        if not matches(selector, labels):
            found.append(invalid("spec.template.metadata.labels", go_map(labels), MISMATCH))
        return found

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Numbers are none below zero."""
        return status_checks.counts(new, ("active", "succeeded", "failed"))

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Completions, selector and template may not change."""
        spec, before = new["spec"], old["spec"]
        found = check_job_spec(spec, "spec")
        for name in ("completions", "selector", "template"):
            found += immutable(f"spec.{name}", spec.get(name), before.get(name))
        return found

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the number of succeeded pods."""
        count = (obj.get("status") or {}).get("succeeded", 0)
        return {**super().field_selectors(obj), "status.successful": str(count)}


def _missing(labels: dict[str, str] | None, own: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in own.items() if key not in (labels or {})}


class CronJob(BuiltinKind):
    """batch CronJob, v1 and v1beta1 alike."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """Fill in policies, limits and the template's pods."""
        spec = obj["spec"]
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        pod_defaults.template(job.setdefault("template", {}))

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the schedule, policies and the job template."""
        spec = obj["spec"]
        found: list[FieldError] = []
        schedule = spec.get("schedule", "")
        if not schedule:
            found.append(required("spec.schedule"))
        elif text := cron.problem(schedule):
            found.append(invalid("spec.schedule", schedule, text))
        found += not_negative(spec, ("startingDeadlineSeconds",), "spec")
        policy = spec.get("concurrencyPolicy", "")
        if policy not in CONCURRENCY:
            field = "spec.concurrencyPolicy"
            found.append(not_supported(field, policy, CONCURRENCY) if policy else required(field))
        job: Any = (spec.get("jobTemplate") or {}).get("spec") or {}
        found += check_job_spec(job, "spec.jobTemplate.spec")
        if job.get("manualSelector"):
            supported: tuple[str, ...] = ("nil", "false")
            found.append(not_supported("spec.jobTemplate.spec.manualSelector", True, supported))
        found += not_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
        name = obj["metadata"].get("name", "")
        if len(name) > CRON_NAME_LIMIT:
            found.append(invalid("metadata.name", name, f"must be no more than {CRON_NAME_LIMIT} characters"))
        return found
