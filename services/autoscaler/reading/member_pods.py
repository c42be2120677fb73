"""Follows the pods of one member by one watch, and reads the samples of all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Annotated, Final

import msgspec
import structlog
from msgspec import Meta, Raw, Struct

from services._kit.base import durations
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import first_of, set_within
from services._kit.kube.answers.shapes import readable
from services._kit.kube.api import BadAnswer
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import Reflector
from services._rules.autoscaling.pod_readings import Sample
from services._rules.autoscaling.timestamps import seconds
from services._rules.kubernetes.quantity import QuantityError, parse
from services.autoscaler.reading.pod_index import PodIndex, Shape, Shapes

log = structlog.get_logger("autoscaler")

Opener = Callable[[], Awaitable[KubeClient]]
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
_TIMES: Final = 256
_GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"


class _Meta(Struct):
    name: str = ""
    namespace: str = ""


class _Usage(Struct):
    name: str = ""
    usage: dict[str, str | int | float] | None = None


class _PodMetrics(Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    timestamp: str | None = None
    window: str = ""
    containers: list[_Usage] | None = None


class _PodMetricsList(Struct):
    items: list[_PodMetrics] | None = None


_samples: Final = msgspec.json.Decoder(_PodMetricsList)

_Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]


class _Replicas(Struct):
    replicas: _Count = 0


class _Scale(Struct):
    spec: _Replicas = msgspec.field(default_factory=_Replicas)
    status: _Replicas = msgspec.field(default_factory=_Replicas)


_scale: Final = msgspec.json.Decoder(_Scale)


class MemberScale(Struct, frozen=True):
    """What a member says of the scale of its copy: replicas asked for, and replicas that exist."""

    replicas: int
    existing: int


class PodUse(Struct, frozen=True, gc=False):
    """What the containers of one pod use, in thousandths, by container and resource."""

    at: float
    window: float
    containers: tuple[tuple[str, Mapping[str, int]], ...]

    def sample(self, resource: str, container: str = "") -> Sample | None:
        """The sum over its containers, or of one; None where one of them has no such value."""
        found = [amounts.get(resource) for name, amounts in self.containers if container in ("", name)]
        if not found or None in found:
            return None
        return Sample(sum(value for value in found if value is not None), self.at, self.window)


class _Reading:
    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def begin(self) -> None:
        """Nothing is counted: only pods of namespaces that matter are kept."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Shape | None:
        """What counts of a pod."""
        try:
            return self._shapes.shape(raw)
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadAnswer(f"it is not a pod: {error}") from error

    def version(self, found: Shape) -> str:
        """As it was read."""
        return found.version


class MemberPods:
    """Follows from its making until `close`."""

    def __init__(self, cluster: str, opener: Opener, namespaces: frozenset[str]) -> None:
        self.index = PodIndex()
        self.trouble = "its pods were not listed yet"
        """Why its pods are not known; empty once they are."""
        self._cluster = cluster
        self._opener = opener
        self._namespaces = namespaces
        self._client: KubeClient | None = None
        self._reflector: Reflector[Shape] | None = None
        self._again = asyncio.Event()
        self._listed = asyncio.Event()
        self._task: Supervised = supervise(f"pods:{cluster}", self._run)

    def want(self, namespaces: frozenset[str]) -> None:
        """Keep pods of these namespaces; another one than before means another list."""
        if namespaces <= self._namespaces:
            return
        self._namespaces = namespaces
        self.trouble = "its pods are being listed"
        self._listed.clear()
        self._again.set()

    def reconnect(self) -> None:
        """Open the member again: how it is reached is something else from now on."""
        self._again.set()

    async def close(self) -> None:
        """Stop following."""
        await self._task.close()

    async def opened(self, timeout: float) -> None:
        """Return once its pods were listed, or `timeout` seconds went by."""
        await set_within(self._listed, timeout)

    async def samples(self, namespace: str, timeout: float) -> dict[tuple[str, str], PodUse]:
        """What pods use, of one namespace or of all (empty), by namespace and name.

        A value that is none, or below 0, is left out. Raises ApiError and Unreachable.
        """
        path = resource_path(_GROUP, _VERSION, "pods", namespace)
        return parsed(await self._open_client().request("GET", path, timeout=timeout))

    async def scale(self, path: str, timeout: float) -> MemberScale:
        """The scale of one object; raises ApiError and Unreachable."""
        found = readable(_scale, await self._open_client().request("GET", path, timeout=timeout), "a scale")
        return MemberScale(found.spec.replicas, found.status.replicas)

    def _open_client(self) -> KubeClient:
        if self._client is None:
            raise Unreachable(f"cluster {self._cluster}: {self.trouble or 'it is being opened'}")
        return self._client

    async def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            self._again.clear()
            try:
                client = await self._opener()
            except (ApiError, Unreachable, ValueError, OSError) as error:
                self.trouble = str(error)[:500]
                log.warning("member_not_opened", cluster=self._cluster, error=self.trouble, retry_in_seconds=pause)
            else:
                self._client = client
                try:
                    await self._follow(client)
                finally:
                    self._client = None
                    await client.close()
            await set_within(self._again, pause)
            pause = FIRST_PAUSE_SECONDS if self._again.is_set() else min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _follow(self, client: KubeClient) -> None:
        """Until the member no longer serves pods, or is to be opened or listed again."""
        reading = _Reading(Shapes(self._namespaces))
        self._reflector = Reflector(
            client, resource_path("", "v1", "pods"), self, reading, api_version="v1", kind="Pod"
        )
        try:
            await first_of(self._reflector.run(), self._again.wait())
        except (ApiError, Unreachable) as error:
            self.trouble = str(error)[:500]
            log.warning("member_not_followed", cluster=self._cluster, error=self.trouble)

    @property
    def known(self) -> str:
        """Why its pods may be others than those in the index; empty while they are followed."""
        if self.trouble:
            why = self._reflector.trouble if self._reflector is not None else None
            return f"{self.trouble}{f': {why}' if why is not None else ''}"
        return self._reflector.outage.trouble if self._reflector is not None else "it is being opened"

    def listed(self, objects: list[Shape]) -> None:
        """Take a complete list."""
        self.index.listed(objects)
        self.trouble = ""
        self._listed.set()

    def changed(self, kind: str, found: Shape) -> None:
        """Take one change."""
        if kind == "DELETED":
            self.index.drop(found)
        else:
            self.index.put(found)


def parsed(answer: bytes) -> dict[tuple[str, str], PodUse]:
    """What pods use, by namespace and name, of a list of metrics; raises BadAnswer for what is none."""
    listed = readable(_samples, answer, "a list of pod metrics").items or ()
    return {(item.metadata.namespace, item.metadata.name): _use(item) for item in listed}


def _use(item: _PodMetrics) -> PodUse:
    containers = []
    for each in item.containers or ():
        amounts = {}
        for resource, amount in (each.usage or {}).items():
            try:
                value = parse(amount).milli_value()
            except (QuantityError, OverflowError, ValueError):
                continue
            if value >= 0:
                amounts[resource] = value
        containers.append((each.name, amounts))
    return PodUse(_at(item.timestamp), _lasting(item.window), tuple(containers))


@lru_cache(maxsize=_TIMES)
def _at(text: str | None) -> float:
    """A moment; those of one list are few."""
    return seconds(text) or 0.0


@lru_cache(maxsize=_TIMES)
def _lasting(text: str) -> float:
    """A duration; those of one list are few."""
    return durations.seconds(text) or 0.0
