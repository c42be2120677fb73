"""What a FederatedHPA would recommend if one of its metrics were another: `web:cpu=90%` of `fleetlog simulate`.

The autoscaler's state is folded from the log, the metric is read as supposed, and the autoscaler's own code decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from schemas.events.autoscaling import ClusterScale, MetricReading, PodReading, ReplicasRecommended
from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import autoscaling
from services._rules.autoscaling.metric_specs import MetricSpec, metric_specs
from services._rules.constants import FEDERATED_HPA
from services._rules.kubernetes.quantity import QuantityError, parse
from services.autoscaler.decide import recommend
from services.autoscaler.reading.round_rules import ambiguity, pending, rivals
from services.autoscaler.scaling_effects import Refusal, Round
from services.autoscaler.state import AutoscalerState, Target
from services.cli.common.running import Failed

_FORM: Final = re.compile(r"(?P<name>[^:/=\s]+):(?:(?P<container>[^/=\s]+)/)?(?P<metric>[^=\s]+)=(?P<amount>\S+)")
_EXAMPLES: Final = "FHPA:METRIC=VALUE, for example web:cpu=90%, web:cpu=200m or web:http_requests=1.4"
_PERCENT: Final = re.compile(r"\d{1,9}%")
_MOST: Final = 1 << 53
_UNKNOWN_REQUEST: Final = 100_000
"""What a pod counts as requesting where that is not on record: only shares of it matter then, and none is shown."""
_STANDING: Final = frozenset({"AmbiguousSelector", "InvalidSelector", "SelectorRequired"})
"""Refusals that come from pods or the scale of the target, which the log does not hold."""


class SupposedMetric(Struct, frozen=True):
    """One metric of one FederatedHPA: percent of requests, or an amount in thousandths; `text` is as it was written."""

    name: str
    metric: str
    container: str
    percent: int | None
    milli: int
    text: str


class Recommendation(Struct, frozen=True):
    """What a FederatedHPA would decide; `supposed` says of each of its metrics whether that was supposed.

    `seen` is the position of its last fact, which the other metrics are taken from.
    """

    fact: ReplicasRecommended
    target: ObjectKey
    specs: tuple[MetricSpec, ...]
    supposed: tuple[bool, ...]
    seen: int

    @property
    def replicas(self) -> int | None:
        """The replicas that the template would get; None where it keeps those it has."""
        return self.fact.desired if self.fact.desired != self.fact.current else None

    @property
    def limits(self) -> tuple[int, int]:
        """Least and most replicas of its spec."""
        spec = msgspec.json.decode(self.fact.spec)
        least = spec.get("minReplicas", 1)
        return 1 if least is None else int(least), int(spec.get("maxReplicas") or 0)


def supposed_metric(text: str) -> SupposedMetric:
    """Read `web:cpu=90%`; raises Failed for what names no metric or has no value."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise Failed(f"--metric {text!r}: write {_EXAMPLES}")
    amount, percent, milli = found["amount"], None, 0
    if _PERCENT.fullmatch(amount):
        percent = int(amount[:-1])
    else:
        try:
            milli = parse(amount).milli_value()
        except (QuantityError, OverflowError, ValueError) as error:
            raise Failed(f"--metric {text!r}: {amount!r} is no quantity and no percentage: {error}") from None
        if not 0 <= milli <= _MOST:
            raise Failed(f"--metric {text!r}: {amount!r} is out of range: metrics are not below 0")
    return SupposedMetric(found["name"], found["metric"], found["container"] or "", percent, milli, text)


def recommendations(
    state: AutoscalerState, supposed: Sequence[SupposedMetric], namespace: str, now: float
) -> list[Recommendation]:
    """What every FederatedHPA that is named would decide at `now`; raises Failed for what is not on the log."""
    by_name: dict[str, list[SupposedMetric]] = {}
    for each in supposed:
        by_name.setdefault(each.name, []).append(each)
    return [_recommended(state, PolicyKey(FEDERATED_HPA, namespace, name), by_name[name], now) for name in by_name]


def unknown(state: AutoscalerState, supposed: Sequence[SupposedMetric], namespace: str) -> list[PolicyKey]:
    """FederatedHPAs that are named and of which the log holds no decision."""
    keys = dict.fromkeys(PolicyKey(FEDERATED_HPA, namespace, each.name) for each in supposed)
    return [key for key in keys if key not in state.scaling]


def _recommended(
    state: AutoscalerState, key: PolicyKey, supposed: Sequence[SupposedMetric], now: float
) -> Recommendation:
    last = state.scaling[key]
    spec: Manifest = msgspec.json.decode(last.spec)
    place, target, bound = _target(state, key, spec, supposed[0])
    scales = state.scales(target, bound.replicas)
    specs = metric_specs(spec)
    readings = [_recorded(last, number) for number in range(len(specs))]
    replaced: dict[int, SupposedMetric] = {}
    for each in supposed:
        number = _number(specs, each, key)
        if number in replaced:
            raise Failed(f"--metric {each.text!r} and {replaced[number].text!r} suppose one metric twice")
        replaced[number] = each
        readings[number] = _reading(specs[number], each, _request(last, number, specs[number], bound), scales)
    given = Round(
        key=key,
        uid=last.uid,
        spec=last.spec,
        generation=last.generation,
        target=place,
        current=bound.replicas,
        scales=scales,
        readings=tuple(readings),
        refusal=_refusal(state, key, last, target, bound),
        least_zero=spec.get("minReplicas") == 0,
        window=last.window,
        tolerance=last.tolerance,
        kinds=tuple(each.kind for each in specs),
    )
    fact = recommend(last, given, now)
    given_by_user = tuple(number in replaced for number in range(len(specs)))
    return Recommendation(fact, place, specs, given_by_user, state.last_seq(autoscaling(key)))


def _target(
    state: AutoscalerState, key: PolicyKey, spec: Manifest, supposed: SupposedMetric
) -> tuple[ObjectKey, Target, BindingRequested]:
    reference = spec.get("scaleTargetRef") or {}
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    place = state.named.get((str(reference.get("apiVersion") or ""), kind, key.namespace, name))
    target = state.objects.get(place) if place is not None else None
    if place is None or target is None or target.bound is None:
        raise Failed(f"--metric {supposed.text!r}: no policy propagates its target {kind} {key.namespace}/{name}")
    return place, target, target.bound


def _number(specs: Sequence[MetricSpec], supposed: SupposedMetric, key: PolicyKey) -> int:
    """The metric that is meant: by name, and by container where that is given or several have the name."""
    named = [number for number, spec in enumerate(specs) if spec.name == supposed.metric]
    found = [number for number in named if specs[number].container == supposed.container]
    if not found and not supposed.container:
        found = named
    if len(found) == 1:
        return found[0]
    known = ", ".join(_path(spec) for spec in specs) or "none"
    if found:
        raise Failed(f"--metric {supposed.text!r}: {key} has several metrics of that name: {known}")
    wanted = f"{supposed.container}/{supposed.metric}" if supposed.container else supposed.metric
    raise Failed(f"--metric {supposed.text!r}: {wanted} is not a metric of {key}; it has: {known}")


def _path(spec: MetricSpec) -> str:
    return f"{spec.container}/{spec.name}" if spec.container else spec.name or spec.kind


def _recorded(last: ReplicasRecommended, number: int) -> MetricReading:
    if number < len(last.readings):
        return last.readings[number]
    return MetricReading(problem="nothing of it is on the log, and nothing was supposed")


def _request(last: ReplicasRecommended, number: int, spec: MetricSpec, bound: BindingRequested) -> int | None:
    """What a pod requests, in thousandths: as it was read last, or as the binding has it."""
    pods = last.readings[number].pods if number < len(last.readings) else None
    if pods is not None and pods.matched and pods.requested:
        return max(pods.requested // pods.matched, 1)
    if spec.container:
        return None
    requirements = msgspec.json.decode(bound.spec).get("replicaRequirements") or {}
    try:
        found = parse((requirements.get("resourceRequest") or {})[spec.name]).milli_value()
    except (KeyError, QuantityError, OverflowError, ValueError):
        return None
    return found if found > 0 else None


def _reading(
    spec: MetricSpec, supposed: SupposedMetric, request: int | None, scales: Sequence[ClusterScale]
) -> MetricReading:
    """The metric as supposed: every pod that clusters report is ready and has that value.

    Of an object, or outside of clusters, it is the value that the API of metrics would answer.
    """
    pods = sum(item.existing for item in scales if not item.away)
    by_share = spec.utilization is not None and spec.average is None
    if supposed.percent is not None and not (spec.of_resource and by_share):
        raise Failed(f"--metric {supposed.text!r}: its target is no utilization; write a quantity such as 200m")
    if not spec.of_pods:
        return MetricReading(value=supposed.milli, serving=pods or None)
    if not pods:
        return MetricReading(problem="no cluster reports a pod of the target")
    if not by_share:
        return MetricReading(pods=PodReading(ready=pods, sampled=pods, usage=supposed.milli * pods))
    if supposed.percent is None and request is None:
        raise Failed(
            f"--metric {supposed.text!r}: its target is a utilization and what pods request of {spec.name} is not on "
            "the log; write a percentage such as 90%"
        )
    # Shares of less than a hundredth cannot be told of fewer thousandths.
    requested = max((request or _UNKNOWN_REQUEST) * pods, 100)
    used = -(-requested * supposed.percent // 100) if supposed.percent is not None else supposed.milli * pods
    return MetricReading(
        pods=PodReading(ready=pods, sampled=pods, matched=pods, usage=used, requested=requested),
    )


def _refusal(
    state: AutoscalerState, key: PolicyKey, last: ReplicasRecommended, target: Target, bound: BindingRequested
) -> Refusal | None:
    """Why the autoscaler would not look at metrics at all."""
    references = ((each, _reference(event)) for each, event in state.scaling.items())
    other = rivals(references).get(key)
    if other is not None:
        return ambiguity(key, other)
    if not target.targets:
        message = f"{bound.kind} {key.namespace}/{bound.key.name} is placed in no cluster"
        return Refusal("FailedGetTargetClusters", "FailedGetTargetClusters", message)
    standing = next((item for item in last.conditions if item.status == "False" and item.reason in _STANDING), None)
    if standing is not None:
        return Refusal(standing.reason, standing.reason, standing.message, standing.type)
    return pending(target, bound.replicas)


def _reference(event: ReplicasRecommended) -> Mapping[str, object]:
    found: Mapping[str, object] = msgspec.json.decode(event.spec).get("scaleTargetRef") or {}
    return found
