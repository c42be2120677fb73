"""Jobs and CronJobs."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    go_map,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import apply, changed, choice, inside, lookup, not_negative, text
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks import schedules as cron
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.workloads import pod_defaults
from services.apiserver.kinds.workloads.deployments import MISMATCH, matches

CRON_NAME_LIMIT = 52
TTL_RELEASE = 21  # the first minor release that keeps ttlSecondsAfterFinished


def _completions(spec: Manifest) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1


def _ends(template: Manifest, path: str) -> Errors:
    if (template.get("spec") or {}).get("restartPolicy", "") in ("Always", ""):
        yield required(f"{path}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


_JOB_SPEC = (
    not_negative("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    inside("template", *pod_checks.TEMPLATE, _ends, absent={}),
)


def _own_labels(meta: Manifest) -> dict[str, str]:
    return {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}


def _generated(obj: Manifest, _: str) -> Errors:
    spec, own, selector = obj["spec"], _own_labels(obj["metadata"]), obj["spec"].get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    labels = lookup(spec, "template.metadata.labels") or {}
    yield from [
        invalid("spec.template.metadata.labels", go_map(labels), f"must be '{value}'")
        for key, value in own.items()
        if labels.get(key) != value
    ]
    if not matches(selector, own):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def _selector(spec: Manifest, path: str) -> list[FieldError]:
    selector, labels = spec.get("selector"), lookup(spec, "template.metadata.labels") or {}
    if selector is None:
        return [required(f"{path}.selector")]
    found = label_selector(selector, f"{path}.selector")
    if not matches(selector, labels):
        found.append(invalid(f"{path}.template.metadata.labels", go_map(labels), MISMATCH))
    return found


class Job(BuiltinKind):
    """batch/v1 Job."""

    defaults = {"spec": {"template": pod_defaults.template, "": _completions, "parallelism": 1, "backoffLimit": 6}}
    rules = (_generated, inside("spec", *_JOB_SPEC, _selector))
    status_rules = counts(("active", "succeeded", "failed"))
    fixed = ("spec.completions", "spec.selector", "spec.template")

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
        if self.release < TTL_RELEASE:
            spec.pop("ttlSecondsAfterFinished", None)
        if spec.get("manualSelector"):
            return
        own = _own_labels(meta)
        template = spec["template"].setdefault("metadata", {"creationTimestamp": None})
        given = template.get("labels") or {}
        template["labels"] = {**given, **{key: value for key, value in own.items() if key not in given}}
        # A Job without labels shows those of its template, as the defaulting of a stored object adds them on reading.
        if not meta.get("labels"):
            meta["labels"] = dict(template["labels"])
        selector = spec.setdefault("selector", {})
        if "controller-uid" not in (selector.get("matchLabels") or {}):
            selector["matchLabels"] = {**(selector.get("matchLabels") or {}), "controller-uid": own["controller-uid"]}

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Completions, selector and template may not change; the generated labels are not checked again."""
        return [*apply(_JOB_SPEC, new["spec"], "spec"), *changed(self.fixed, new, old)]

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the number of succeeded pods."""
        count = (obj.get("status") or {}).get("succeeded", 0)
        return {**super().field_selectors(obj), "status.successful": str(count)}


def _schedule(value: str) -> list[str]:
    return [problem] if (problem := cron.problem(value)) else []


def _own_selector(job: Manifest, path: str) -> list[FieldError]:
    return [not_supported(f"{path}.manualSelector", True, ("nil", "false"))] if job.get("manualSelector") else []


def _short_name(obj: Manifest, _: str) -> Errors:
    name = obj["metadata"].get("name", "")
    if not (len(name) <= CRON_NAME_LIMIT):
        yield invalid("metadata.name", name, f"must be no more than {CRON_NAME_LIMIT} characters")


class CronJob(BuiltinKind):
    """batch CronJob, v1 and v1beta1 alike."""

    defaults = {
        "spec": {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": pod_defaults.template}},
        }
    }
    rules = (
        inside(
            "spec",
            text("schedule", _schedule, need=""),
            not_negative("startingDeadlineSeconds"),
            choice("concurrencyPolicy", ("Allow", "Forbid", "Replace"), need=""),
            inside("jobTemplate", inside("spec", *_JOB_SPEC, _own_selector, absent={}), absent={}),
            not_negative("successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
        ),
        _short_name,
    )
