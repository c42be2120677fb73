"""Reads, for all FederatedHPAs at once, what their decisions are made from.

A round asks each member once for samples, the control plane once for each distinct custom or external metric, and for
the scale of a template only after that was changed by others; members for theirs where it may be another than the log
says. All of it is asked at the same time, and each FederatedHPA goes on as soon as its own part is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import product
from typing import Final

from msgspec.structs import replace

from schemas.events.autoscaling import MetricReading
from schemas.keys import PolicyKey
from services._kit.concurrency.tasks import part_of
from services._kit.kube.client import ApiError, Unreachable
from services._rules.autoscaling.metric_specs import MetricSpec
from services._rules.autoscaling.pod_readings import MetricError, PodView, Sample, Startup, read_pods
from services._rules.autoscaling.scaling_conditions import SCALING_ACTIVE
from services._rules.kubernetes.selectors import LabelSelectorError, parse_selector
from services._rules.metrics.metric_questions import CUSTOM, EXTERNAL
from services.autoscaler.reading.member_pods import MemberPods
from services.autoscaler.reading.metric_source import MetricSource, Question, RoundAnswers
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.reading.pod_index import Shape
from services.autoscaler.reading.pod_owners import PodOwners
from services.autoscaler.reading.round_job import Job, job_of
from services.autoscaler.reading.round_rules import (
    Place,
    ambiguity,
    followed,
    pending,
    rivals,
    shared_samples,
    unique_views,
)
from services.autoscaler.reading.sample_questions import MemberSamples, Samples, Uses
from services.autoscaler.reading.scale_access import Scales, scale_path
from services.autoscaler.reading.scale_questions import MemberScales, corrected, doubtful
from services.autoscaler.replica_rules import follows_members
from services.autoscaler.scaling_effects import Refusal, Round
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.state import AutoscalerState

_AT_ONCE: Final = 16
_BREATH: Final = 20
"""Autoscalers that are read before other tasks have their turn."""
_SAMPLES: Final = "metrics.k8s.io"
_SCALES: Final = "scale"
_SOURCES: Final = (_SAMPLES, CUSTOM, EXTERNAL, _SCALES)
_RESULTS: Final = ("success", "error")


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
            members,
            settings.metrics_at_once,
            settings.metrics_timeout,
            settings.horizontal_pod_autoscaler_sync_period,
            partial(self._heard, _SAMPLES),
        )
        self._member_scales = MemberScales(members, partial(self._heard, _SCALES))
        self._attend = attend
        self._startup = Startup(
            settings.horizontal_pod_autoscaler_cpu_initialization_period,
            settings.horizontal_pod_autoscaler_initial_readiness_delay,
        )
        self._owners = PodOwners()
        self._room = asyncio.Semaphore(_AT_ONCE)

    def _heard(self, source: str, answered: bool) -> None:
        self.answers[source, _RESULTS[not answered]] += 1

    def _answered(self, question: Question, answered: bool) -> None:
        self._heard(CUSTOM if question.resource else EXTERNAL, answered)

    def forget(self) -> None:
        """Begin as after a start: whose pods are whose may have changed meanwhile."""
        self._owners = PodOwners()

    async def read(
        self,
        watched: Mapping[PolicyKey, Watched],
        now: Callable[[], float],
        found: Callable[[list[Round]], None],
        only: Collection[PolicyKey] | None = None,
    ) -> list[Round]:
        """What every FederatedHPA is decided from; `only` reads some of them.

        `found` gets each as soon as all that it needs has been read: a member that does not answer holds up those that
        run there, and no others. The first round of all is handed over as a whole, since it is known only then whose
        pods they are.
        """
        jobs = [job_of(key, item) for key, item in watched.items() if only is None or key in only]
        for job in jobs:
            self._aim(job)
        self._owners.begin(rivals((key, item.reference) for key, item in watched.items()), watched.keys(), only is None)
        self._follow(jobs, only is None)
        together = not self._owners.known
        try:
            rounds = await self._evaluate(jobs, now, only is None, None if together else found)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        self._owners.end(only is None)
        rounds = [self._unambiguous(each) for each in rounds]
        if together:
            found(rounds)
        return rounds

    async def _evaluate(
        self,
        jobs: Collection[Job],
        now: Callable[[], float],
        everything: bool,
        found: Callable[[list[Round]], None] | None,
    ) -> list[Round]:
        """Read and evaluate everything; raises BaseExceptionGroup."""
        ready: asyncio.Queue[Job] = asyncio.Queue()
        rounds: list[Round] = []
        fresh: list[Round] = []
        async with asyncio.TaskGroup() as group:
            samples = self._samples(jobs, group, everything)
            answers = RoundAnswers(self._source, group, self._settings.metrics_timeout, self._answered)
            for job in jobs:
                part_of(group, self._prepare(job, samples, answers, ready))
            for number in range(1, len(jobs) + 1):
                fresh.append(self._round(await ready.get(), samples, now()))
                if number % _BREATH == 0 or ready.empty():
                    rounds += fresh
                    if found is not None:
                        found([self._unambiguous(each) for each in fresh])
                    fresh = []
                    await asyncio.sleep(0)
        return rounds

    async def _prepare(self, job: Job, samples: Samples, answers: RoundAnswers, ready: asyncio.Queue[Job]) -> None:
        """Read what one of them needs; members are asked meanwhile."""
        await self._locate(job)
        if job.refusal is None:
            await self._ask_members(job)
            if job.pods_wanted:
                await self._listed(job)
            for number, question in job.questions.items():
                job.answers[number] = await answers.of(question)
            if job.samples_wanted:
                for cluster in job.present:
                    if cluster in samples:
                        await samples[cluster]
        ready.put_nowait(job)

    def _aim(self, job: Job) -> None:
        """Find the target and its clusters on the log."""
        api_version, kind = str(job.reference.get("apiVersion") or ""), str(job.reference.get("kind") or "")
        job.place = self._state.named.get((api_version, kind, job.key.namespace, str(job.reference.get("name") or "")))
        target = self._state.objects.get(job.place) if job.place is not None else None
        if target is not None and target.bound is not None:
            job.target = target
            job.clusters = self._state.scales(target, target.bound.replicas)

    async def _locate(self, job: Job) -> None:
        """Read the scale of the target, and compare it with what the log has of it."""
        try:
            job.refusal = await self._found(job)
        except (ApiError, Unreachable) as error:
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            # Without its scale nothing is known of its replicas.
            job.place = None
            job.refusal = Refusal("FailedGetScale", "FailedGetScale", message[:1000])

    async def _found(self, job: Job) -> Refusal | None:
        api_version, kind = str(job.reference.get("apiVersion") or ""), str(job.reference.get("kind") or "")
        name = str(job.reference.get("name") or "")
        place, target = job.place, job.target
        if place is None or target is None:
            async with self._room:
                return await self._unbound(job, api_version, kind, name)
        if self._settings.deployment_replicas_syncer and follows_members(target):
            return followed(job.key, kind, name)
        known = self._scales.known(place, target.uid, target.template_generation)
        if known is None:
            async with self._room:
                known = await self._scales.read(place, api_version, target.uid, target.template_generation)
        job.scale = known
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
        # The log may have gone on while the scale was read: what is compared has to be of one moment.
        job.clusters = self._state.scales(target, job.scale.replicas)
        if (waits := pending(target, job.scale.replicas)) is not None:
            return waits
        for number, spec in enumerate(job.specs):
            if not spec.problem and not spec.of_resource:
                question = await self._question(job, spec)
                if question is not None:
                    job.questions[number] = question
        return None

    async def _unbound(self, job: Job, api_version: str, kind: str, name: str) -> Refusal:
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

    async def _question(self, job: Job, spec: MetricSpec) -> Question | None:
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

    def _follow(self, jobs: Iterable[Job], everything: bool) -> None:
        """Have the members followed that run a target; a round of some autoscalers ends no following."""
        wanted: dict[str, set[str]] = {}
        for job in jobs:
            for cluster in job.present:
                wanted.setdefault(cluster, set()).add(job.key.namespace)
        if not everything:
            for cluster in self.members:
                wanted.setdefault(cluster, set())
        self._attend({cluster: frozenset(namespaces) for cluster, namespaces in wanted.items()})

    async def _listed(self, job: Job) -> None:
        """Wait, no longer than for samples, until the pods are known that its metrics are about."""
        members = (self.members.get(cluster) for cluster in job.present)
        new = [member for member in members if member is not None and member.known]
        if new:
            await asyncio.gather(*(member.opened(self._settings.metrics_timeout) for member in new))

    def _samples(self, jobs: Iterable[Job], group: asyncio.TaskGroup, everything: bool) -> Samples:
        """Ask for what pods use, one list from each cluster."""
        wanted: dict[str, set[str]] = {}
        for job in jobs:
            if job.samples_wanted:
                for cluster in job.present:
                    wanted.setdefault(cluster, set()).add(job.key.namespace)
        return self.samples.ask(wanted, group, everything=everything)

    async def _ask_members(self, job: Job) -> None:
        """Put the scales of members in place of those on the log, where they may differ."""
        if job.target is None or job.place is None or not (asked := doubtful(job.target, job.clusters)):
            return
        path = scale_path(job.place, str(job.reference.get("apiVersion") or ""))
        found = await self._member_scales.read(asked, path, self._settings.metrics_timeout)
        job.clusters = corrected(job.clusters, path, found)

    def _round(self, job: Job, samples: Samples, now: float) -> Round:
        settings = self._settings
        readings: tuple[MetricReading, ...] = ()
        if job.refusal is None:
            pods, problem = self._pods(job)
            uses = job.uses(samples)
            readings = tuple(
                self._reading(job, number, spec, pods, problem, uses, now) for number, spec in enumerate(job.specs)
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

    def _pods(self, job: Job) -> tuple[list[tuple[str, Shape]], str]:
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
                self._owners.take((cluster, shape.namespace, shape.name), job.key)
        return found, problem

    def _reading(
        self,
        job: Job,
        number: int,
        spec: MetricSpec,
        pods: list[tuple[str, Shape]],
        problem: str,
        uses: Mapping[str, Uses],
        now: float,
    ) -> MetricReading:
        """What was read for one metric of one autoscaler."""
        try:
            if spec.problem:
                return MetricReading(problem=spec.problem)
            answer = job.answers.get(number)
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
        other = self._owners.rival(given.key)
        if other is None or given.refusal is not None:
            return given
        return replace(given, refusal=ambiguity(given.key, other))
