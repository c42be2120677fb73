"""Reads samples of pods: which pods count, and the sums that a proposal of replicas is made of.

A reading is all that is remembered of samples: the same reading always gives the same proposal. Source:
docs/sources.md#autoscaling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from schemas.events.autoscaling import PodReading
from schemas.manifest import Manifest
from services._rules.autoscaling.timestamps import seconds
from services._rules.kubernetes.quantity import QuantityError, parse

NO_PODS: Final = "no pods returned by selector while calculating replica count"
NO_READY_SAMPLES: Final = "did not receive metrics for any ready pods"
LEAST_FALLBACK: Final = 100
"""Percent of its request that a pod without a sample counts as, at least, where replicas would go down."""


class MetricError(ValueError):
    """A metric of which nothing can be said; the message is for a condition."""


class PodView(Struct, frozen=True):
    """What of a pod decides whether its sample counts.

    `ready` is the status of its Ready condition, empty without one, `turned` when that changed last. `requests` are the
    amounts of its containers, in thousandths, by container and resource.
    """

    name: str
    phase: str = ""
    deleting: bool = False
    ready: str = ""
    turned: float = 0.0
    started: float | None = None
    requests: tuple[tuple[str, Mapping[str, int]], ...] = ()

    @property
    def serves(self) -> bool:
        """Whether it runs and is ready."""
        return self.phase == "Running" and self.ready == "True"


class Sample(Struct, frozen=True):
    """One value of one pod, in thousandths, taken at `at` over `window` seconds."""

    value: int
    at: float = 0.0
    window: float = 0.0


class Startup(Struct, frozen=True):
    """How long samples of starting pods are not trusted, in seconds."""

    cpu_initialization: float = 300.0
    initial_readiness: float = 30.0


def pod_view(pod: Manifest, name: str = "") -> PodView:
    """The view of a pod as an API server shows it; amounts that cannot be read count as not given."""
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    ready = next((item for item in status.get("conditions") or () if item.get("type") == "Ready"), None)
    return PodView(
        name=name or metadata.get("name") or "",
        phase=status.get("phase") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        ready=(ready or {}).get("status") or "",
        turned=seconds((ready or {}).get("lastTransitionTime")) or 0.0,
        started=seconds(status.get("startTime")),
        requests=tuple((item.get("name") or "", _amounts(item)) for item in spec.get("containers") or ()),
    )


def _amounts(container: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items():
        try:
            found[resource] = parse(amount).milli_value()
        except QuantityError:
            continue
    return found


def read_pods(
    pods: Iterable[PodView],
    samples: Mapping[str, Sample],
    now: float,
    startup: Startup,
    *,
    resource: str = "",
    container: str = "",
    utilization: int | None = None,
) -> PodReading:
    """Sum up the samples of those pods that count.

    With `utilization`, the target in percent, requests are summed up as well. Raises MetricError when there is no pod,
    no sample of a ready one, or a container without the request.
    """
    pods = tuple(pods)
    if not pods:
        raise MetricError(NO_PODS)
    counted = dict(samples)
    ready, unready, missing = 0, [], []
    for pod in pods:
        match _group(pod, samples.get(pod.name), now, startup, cpu=resource == "cpu"):
            case "ignored":
                counted.pop(pod.name, None)
            case "unready":
                counted.pop(pod.name, None)
                unready.append(pod)
            case "missing":
                missing.append(pod)
            case _:
                ready += 1
    if not counted:
        raise MetricError(NO_READY_SAMPLES)
    found = PodReading(
        ready=ready,
        unready=len(unready),
        missing=len(missing),
        sampled=len(counted),
        usage=sum(sample.value for sample in counted.values()),
    )
    if utilization is None:
        return found
    requests = {pod.name: _request(pod, resource, container) for pod in pods}
    matched = {name: sample.value for name, sample in counted.items() if name in requests}
    fallback = max(LEAST_FALLBACK, utilization)
    return PodReading(
        ready=found.ready,
        unready=found.unready,
        missing=found.missing,
        sampled=found.sampled,
        matched=len(matched),
        usage=sum(matched.values()),
        requested=sum(requests[name] for name in matched),
        unready_requested=sum(requests[pod.name] for pod in unready),
        missing_requested=sum(requests[pod.name] for pod in missing),
        missing_fallback=sum(requests[pod.name] * fallback // 100 for pod in missing),
    )


def _group(pod: PodView, sample: Sample | None, now: float, startup: Startup, *, cpu: bool) -> str:
    if pod.deleting or pod.phase == "Failed":
        return "ignored"
    if pod.phase == "Pending":
        return "unready"
    if sample is None:
        return "missing"
    return "unready" if cpu and _starting(pod, sample, now, startup) else "ready"


def _starting(pod: PodView, sample: Sample, now: float, startup: Startup) -> bool:
    """Whether what a pod used says more about its start than about its load."""
    if not pod.ready or pod.started is None:
        return True
    if pod.started + startup.cpu_initialization > now:
        return pod.ready == "False" or sample.at < pod.turned + sample.window
    return pod.ready == "False" and pod.started + startup.initial_readiness > pod.turned


def _request(pod: PodView, resource: str, container: str) -> int:
    total = 0
    for name, amounts in pod.requests:
        if container in ("", name):
            if resource not in amounts:
                raise MetricError(f"missing request for {resource} in container {name} of Pod {pod.name}")
            total += amounts[resource]
    return total
