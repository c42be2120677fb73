"""Reads, for all FederatedHPAs at once, what their decisions are made from.

A round asks each member once for samples, the control plane once for each distinct custom or external metric, and for
the scale of a template only after that has changed; members for theirs where it may be another than the log says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import product
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from schemas.events.autoscaling import ClusterScale, MetricReading
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, Unreachable
from services._rules.autoscaling.metric_specs import MetricSpec, metric_specs
from services._rules.autoscaling.pod_readings import MetricError, PodView, Sample, Startup, read_pods
from services._rules.autoscaling.scaling_conditions import SCALING_ACTIVE
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, parse_selector
from services._rules.metrics.metric_questions import CUSTOM, EXTERNAL
from services.autoscaler.reading.member_pods import MemberPods
from services.autoscaler.reading.metric_source import Answer, MetricSource, Question
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.reading.pod_index import Shape
from services.autoscaler.reading.round_rules import (
    Place,
    ambiguity,
    followed,
    pending,
    rivals,
    scales_to_zero,
    shared_samples,
    unique_views,
)
from services.autoscaler.reading.sample_questions import MemberSamples, Uses
from services.autoscaler.reading.scale_access import Scale, Scales, scale_path
from services.autoscaler.reading.scale_questions import MemberScales, corrected, doubtful
from services.autoscaler.replica_rules import follows_members
from services.autoscaler.scaling_effects import Refusal, Round
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.state import AutoscalerState, Target

_AT_ONCE: Final = 16
_BREATH: Final = 20
"""Autoscalers that are read before other tasks have their turn."""
_SAMPLES: Final = "metrics.k8s.io"
_SCALES: Final = "scale"
_SOURCES: Final = (_SAMPLES, CUSTOM, EXTERNAL, _SCALES)
_RESULTS: Final = ("success", "error")


class _Job(Struct):
    """One FederatedHPA on its way through a round."""

    key: PolicyKey
    watched: Watched
    specs: tuple[MetricSpec, ...]
    refusal: Refusal | None = None
    place: ObjectKey | None = None
    target: Target | None = None
    scale: Scale = Scale(0, "")
    selector: Selector | None = None
    clusters: tuple[ClusterScale, ...] = ()
    questions: dict[int, Question] = field(default_factory=dict)

    @property
    def reference(self) -> Manifest:
        """What it scales."""
        return self.watched.reference

    @property
    def present(self) -> list[str]:
        """Clusters that may be asked."""
        return [item.cluster for item in self.clusters if not item.away]

    @property
    def samples_wanted(self) -> bool:
        """Whether it needs what containers use."""
        return any(spec.of_resource and not spec.problem for spec in self.specs)

    @property
    def least_zero(self) -> bool:
        """Whether it may have no replicas: then a target with requests is in no cluster."""
        return scales_to_zero(self.watched.metadata["annotations"], self.specs)

    @property
    def pods_wanted(self) -> bool:
        """Whether it needs to know which pods there are."""
        return any((spec.of_pods or spec.value is not None) and not spec.problem for spec in self.specs)


class Rounds:
    """Reads rounds; `members` are those that are followed."""

    def __init__(
        self,
        settings: AutoscalerSettings,
        state: AutoscalerState,
        scales: Scales,
        source: MetricSource,
        members: Mapping[str, MemberPods],
        attend: Callable[[Mapping[str, frozenset[str]]], None],
    ) -> None:
        self._settings = settings
        self._state = state
        self._scales = scales
        self._source = source
        self.members = members
        self.answers = dict.fromkeys(product(_SOURCES, _RESULTS), 0.0)
        """Answers of metric sources, by source and result."""
        self.samples = MemberSamples(
            members, settings.metrics_at_once, settings.metrics_timeout, partial(self._heard, _SAMPLES)
        )
        self._member_scales = MemberScales(members, partial(self._heard, _SCALES))
        self._attend = attend
        self._startup = Startup(
            settings.horizontal_pod_autoscaler_cpu_initialization_period,
            settings.horizontal_pod_autoscaler_initial_readiness_delay,
        )
        self._ambiguous: dict[PolicyKey, str] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    def _heard(self, source: str, answered: bool) -> None:
        self.answers[source, _RESULTS[not answered]] += 1

    async def read(
        self, watched: Mapping[PolicyKey, Watched], now: Callable[[], float], only: Collection[PolicyKey] | None = None
    ) -> list[Round]:
        """What every FederatedHPA is decided from; `only` reads some of them, beside what was found of all before."""
        jobs = [_job(key, found) for key, found in watched.items() if only is None or key in only]
        await asyncio.gather(*(self._locate(job) for job in jobs))
        going = [job for job in jobs if job.refusal is None]
        # Those that wait for their replicas to be divided as well: they need the pods in a moment.
        self._follow(jobs, only is None)
        questions = frozenset(question for job in going for question in job.questions.values())
        uses, answers, *_ = await asyncio.gather(
            self._samples(going, only is None),
            self._source.ask(questions),
            self._ask_members(going),
            self._listed(going),
        )
        for question, answer in answers.items():
            self._heard(CUSTOM if question.resource else EXTERNAL, not answer.problem)
        owners: dict[tuple[str, str, str], PolicyKey] = {}
        if only is None:
            self._ambiguous = {}
        self._ambiguous.update(rivals((key, found.reference) for key, found in watched.items()))
        rounds = []
        for number, job in enumerate(jobs):
            rounds.append(self._round(job, uses, answers, owners, now()))
            if number % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
        return [self._unambiguous(each) for each in rounds]

    async def _locate(self, job: _Job) -> None:
        """Find the target on the log, its scale in the control plane, and its clusters."""
        async with self._room:
            try:
                job.refusal = await self._found(job)
            except (ApiError, Unreachable) as error:
                message = f"the HPA controller was unable to get the target's current scale: {error}"
                # Without its scale nothing is known of its replicas.
                job.place = None
                job.refusal = Refusal("FailedGetScale", "FailedGetScale", message[:1000])

    async def _found(self, job: _Job) -> Refusal | None:
        api_version, kind = str(job.reference.get("apiVersion") or ""), str(job.reference.get("kind") or "")
        name = str(job.reference.get("name") or "")
        place = self._state.named.get((api_version, kind, job.key.namespace, name))
        target = self._state.objects.get(place) if place is not None else None
        if place is None or target is None or target.bound is None:
            return await self._unbound(job, api_version, kind, name)
        job.place, job.target = place, target
        if self._settings.deployment_replicas_syncer and follows_members(target):
            return followed(job.key, kind, name)
        generation = target.template_generation
        job.scale = await self._scales.read(place, api_version, target.uid, generation)
        if not target.targets and not (job.least_zero and job.scale.replicas == 0):
            message = f"{kind} {job.key.namespace}/{name} is placed in no cluster"
            return Refusal("FailedGetTargetClusters", "FailedGetTargetClusters", message)
        if not job.scale.selector:
            message = "selector is required: the scale of the target has none in its status"
            return Refusal("InvalidSelector", "SelectorRequired", message, SCALING_ACTIVE)
        try:
            job.selector = parse_selector(job.scale.selector)
        except LabelSelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            return Refusal("InvalidSelector", "InvalidSelector", message, SCALING_ACTIVE)
        job.clusters = self._state.scales(target, job.scale.replicas)
        if (waits := pending(target, job.scale.replicas)) is not None:
            return waits
        for number, spec in enumerate(job.specs):
            if not spec.problem and not spec.of_resource:
                question = await self._question(job, spec)
                if question is not None:
                    job.questions[number] = question
        return None

    async def _unbound(self, job: _Job, api_version: str, kind: str, name: str) -> Refusal:
        """Say whether the target is missing, cannot be scaled, or is not propagated."""
        place = await self._scales.place(api_version, kind, job.key.namespace, name)
        if place is None:
            message = f"the control plane serves no {kind} of {api_version or 'no apiVersion'}"
            return Refusal("FailedGetScaleTargetRef", "FailedGetScaleTargetRef", message)
        try:
            job.place, job.scale = place, await self._scales.read(place, api_version, "", 0)
        except ApiError as error:
            if error.status != 404:
                raise
            message = f"{kind} {job.key.namespace}/{name} does not exist, or has no scale: {error}"
            return Refusal("FailedGetScaleTargetRef", "FailedGetScaleTargetRef", message[:1000])
        message = f"no policy propagates {kind} {job.key.namespace}/{name}: there is no binding of it"
        return Refusal("FailedGetBinding", "FailedGetBindings", message)

    async def _question(self, job: _Job, spec: MetricSpec) -> Question | None:
        namespace = job.key.namespace
        if spec.kind == "External":
            return Question(namespace, spec.name, metric_selector=spec.selector)
        if spec.kind == "Pods":
            selector = str(job.selector)
            return Question(namespace, spec.name, "pods", kind="Pod", selector=selector, metric_selector=spec.selector)
        api_version, kind, name = spec.object
        place = await self._scales.place(api_version or "v1", kind, namespace, name)
        if place is None:
            return None
        return Question(namespace, spec.name, place.group_resource, name, kind, metric_selector=spec.selector)

    def _follow(self, jobs: Iterable[_Job], everything: bool) -> None:
        """Have the members followed that run a target; a round of some autoscalers ends no following."""
        wanted: dict[str, set[str]] = {}
        for job in jobs:
            for cluster in job.present:
                wanted.setdefault(cluster, set()).add(job.key.namespace)
        if not everything:
            for cluster in self.members:
                wanted.setdefault(cluster, set())
        self._attend({cluster: frozenset(namespaces) for cluster, namespaces in wanted.items()})

    async def _listed(self, going: Iterable[_Job]) -> None:
        """Wait, no longer than for samples, until the pods are known that custom metrics are about."""
        clusters = {cluster for job in going if job.pods_wanted for cluster in job.present}
        members = [member for cluster in clusters if (member := self.members.get(cluster)) is not None]
        await asyncio.gather(*(member.opened(self._settings.metrics_timeout) for member in members))

    async def _samples(self, going: Iterable[_Job], everything: bool) -> dict[str, Uses]:
        wanted: dict[str, set[str]] = {}
        for job in going:
            if job.samples_wanted:
                for cluster in job.present:
                    wanted.setdefault(cluster, set()).add(job.key.namespace)
        return await self.samples.read(wanted, everything=everything)

    async def _ask_members(self, going: Iterable[_Job]) -> None:
        """Put the scales of members in place of those on the log, where they may differ."""
        asking: list[tuple[_Job, str]] = []
        wanted: dict[str, set[str]] = {}
        for job in going:
            if job.target is not None and job.place is not None and (asked := doubtful(job.target, job.clusters)):
                path = scale_path(job.place, str(job.reference.get("apiVersion") or ""))
                asking.append((job, path))
                for cluster in asked:
                    wanted.setdefault(cluster, set()).add(path)
        found = await self._member_scales.read(wanted, self._settings.metrics_timeout)
        for job, path in asking:
            job.clusters = corrected(job.clusters, path, found)

    def _round(
        self,
        job: _Job,
        uses: Mapping[str, Uses],
        answers: Mapping[Question, Answer],
        owners: dict[tuple[str, str, str], PolicyKey],
        now: float,
    ) -> Round:
        settings = self._settings
        readings: tuple[MetricReading, ...] = ()
        if job.refusal is None:
            pods, problem = self._pods(job, owners)
            readings = tuple(
                self._reading(job, number, spec, pods, problem, uses, answers, now)
                for number, spec in enumerate(job.specs)
            )
        return Round(
            key=job.key,
            uid=job.watched.uid,
            spec=job.watched.spec,
            generation=job.watched.generation,
            target=job.place,
            current=job.scale.replicas,
            scales=job.clusters if job.refusal is None else (),
            readings=readings,
            refusal=job.refusal,
            kinds=tuple(spec.kind for spec in job.specs),
            least_zero=job.least_zero,
            window=settings.horizontal_pod_autoscaler_downscale_stabilization,
            tolerance=settings.horizontal_pod_autoscaler_tolerance,
        )

    def _pods(self, job: _Job, owners: dict[tuple[str, str, str], PolicyKey]) -> tuple[list[tuple[str, Shape]], str]:
        """The pods of a target in all clusters that may be asked; why they are not all known."""
        found, problem = [], ""
        assert job.selector is not None
        for cluster in job.present:
            member = self.members.get(cluster)
            why = member.known if member is not None else "it is not followed yet"
            if member is None or why:
                problem = problem or f"pods of cluster {cluster} are not known: {why}"
                continue
            for shape in member.index.selected(job.key.namespace, job.selector):
                found.append((cluster, shape))
                owner = owners.setdefault((cluster, shape.namespace, shape.name), job.key)
                if owner != job.key:
                    self._ambiguous[job.key], self._ambiguous[owner] = owner.name, job.key.name
        return found, problem

    def _reading(
        self,
        job: _Job,
        number: int,
        spec: MetricSpec,
        pods: list[tuple[str, Shape]],
        problem: str,
        uses: Mapping[str, Uses],
        answers: Mapping[Question, Answer],
        now: float,
    ) -> MetricReading:
        """What was read for one metric of one autoscaler."""
        try:
            if spec.problem:
                return MetricReading(problem=spec.problem)
            answer = answers.get(job.questions[number]) if number in job.questions else None
            if not spec.of_pods:
                if answer is None:
                    raise MetricError(f"the control plane serves no {spec.object[1]} of {spec.object[0] or 'v1'}")
                total = answer.total
                if problem and spec.value is not None:
                    raise MetricError(problem)
                serving = sum(shape.view.serves for _, shape in pods) if pods else None
                return MetricReading(value=total, serving=serving)
            if problem:
                raise MetricError(problem)
            views = unique_views(pods)
            if answer is not None:
                if answer.problem:
                    raise MetricError(answer.problem)
                return MetricReading(
                    pods=read_pods(views.values(), shared_samples(views, answer.values), now, self._startup)
                )
            samples = self._of_containers(job.key.namespace, views, spec, uses)
            utilization = spec.utilization if spec.average is None else None
            reading = read_pods(
                views.values(),
                samples,
                now,
                self._startup,
                resource=spec.name,
                container=spec.container,
                utilization=utilization,
            )
            return MetricReading(pods=reading)
        except MetricError as error:
            return MetricReading(problem=str(error)[:1000])

    def _of_containers(
        self, namespace: str, views: Mapping[Place, PodView], spec: MetricSpec, uses: Mapping[str, Uses]
    ) -> dict[str, Sample]:
        """Samples by the names that views have. Raises MetricError where no member of a target has answered."""
        clusters = {cluster for cluster, _ in views}
        if clusters and not clusters & uses.keys():
            why = "; ".join(f"cluster {name}: {self.samples.why(name)}" for name in sorted(clusters)[:3])
            raise MetricError(f"unable to get metrics for resource {spec.name}: {why}")
        found = {}
        for (cluster, name), view in views.items():
            use = uses.get(cluster, {}).get((namespace, name))
            sample = use.sample(spec.name, spec.container) if use is not None else None
            if sample is not None:
                found[view.name] = sample
        return found

    def _unambiguous(self, given: Round) -> Round:
        other = self._ambiguous.get(given.key)
        if other is None or given.refusal is not None:
            return given
        return replace(given, refusal=ambiguity(given.key, other))


def _job(key: PolicyKey, watched: Watched) -> _Job:
    return _Job(key, watched, metric_specs(watched.fields))
