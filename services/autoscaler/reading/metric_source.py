"""Asks the control plane for custom and external metrics, each distinct question once in a round.

What answers there is its own API server, or an adapter behind it: a value is the sum over members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct

from services._kit.concurrency.tasks import part_of
from services._kit.kube.answers.shapes import readable
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._rules.autoscaling.pod_readings import MetricError, Sample
from services._rules.autoscaling.timestamps import seconds
from services._rules.kubernetes.quantity import QuantityError, parse

_CUSTOM: Final = "/apis/custom.metrics.k8s.io/v1beta2"
_EXTERNAL: Final = "/apis/external.metrics.k8s.io/v1beta1"
_ROOT: Final = frozenset({"Node", "Namespace", "PersistentVolume"})
_MOST_VALUE: Final = 1 << 53
_ALL: Final = 3
"""All questions of a round may take so many times as long as one: a source that hangs holds up the others no longer."""


class Question(Struct, frozen=True):
    """One metric: of pods (`selector` picks them), of an object, or outside of clusters.

    `metric_selector` picks among series. `resource` is empty for a metric that is outside.
    """

    namespace: str
    metric: str
    resource: str = ""
    name: str = ""
    kind: str = ""
    selector: str = ""
    metric_selector: str = ""

    @property
    def path(self) -> str:
        """Where it is asked."""
        metric = quote(self.metric, safe="")
        if not self.resource:
            return f"{_EXTERNAL}/namespaces/{quote(self.namespace, safe='')}/{metric}"
        place = f"{quote(self.resource, safe='')}/{quote(self.name or '*', safe='*')}/{metric}"
        if self.kind == "Namespace":
            return f"{_CUSTOM}/namespaces/{quote(self.name, safe='')}/metrics/{metric}"
        if self.kind in _ROOT:
            return f"{_CUSTOM}/{place}"
        return f"{_CUSTOM}/namespaces/{quote(self.namespace, safe='')}/{place}"

    @property
    def params(self) -> dict[str, str]:
        """With which selectors it is asked; those of an external metric pick among its series."""
        found = {"labelSelector": self.selector, "metricLabelSelector": self.metric_selector}
        if not self.resource:
            found = {"labelSelector": self.metric_selector}
        return {name: text for name, text in found.items() if text}


class Answer(Struct, frozen=True):
    """Values by the name of the object, in thousandths; or why there is none."""

    values: Mapping[str, Sample] = msgspec.field(default_factory=dict)
    problem: str = ""

    @property
    def total(self) -> int:
        """The sum of all values; raises MetricError where there is none."""
        if self.problem:
            raise MetricError(self.problem)
        return sum(sample.value for sample in self.values.values())


class MetricSource(Protocol):
    """Who answers for custom and external metrics."""

    async def ask(self, question: Question) -> Answer:
        """The answer; one that does not come in time is a problem."""
        ...


class RoundAnswers:
    """The answers of one round: however many want to know, each question is asked once.

    `timeout` in seconds is for one question; `heard` is told of every question whether it was answered.
    """

    def __init__(
        self, source: MetricSource, group: asyncio.TaskGroup, timeout: float, heard: Callable[[Question, bool], None]
    ) -> None:
        self._source = source
        self._group = group
        self._heard = heard
        self._seconds = _ALL * timeout
        self._ends = asyncio.get_running_loop().time() + self._seconds
        self._asked: dict[Question, asyncio.Task[Answer]] = {}

    async def of(self, question: Question) -> Answer:
        """The answer to a question."""
        if question not in self._asked:
            self._asked[question] = part_of(self._group, self._ask(question))
        return await self._asked[question]

    async def _ask(self, question: Question) -> Answer:
        try:
            async with asyncio.timeout_at(self._ends):
                answer = await self._source.ask(question)
        except TimeoutError:
            took = f"all questions together took {self._seconds:g} s"
            answer = Answer(problem=f"unable to get metric {question.metric}: {took}")
        self._heard(question, not answer.problem)
        return answer


class _Named(Struct):
    name: str = ""


class _Value(Struct, rename="camel"):
    described_object: _Named | None = None
    timestamp: str | None = None
    window_seconds: float | None = None
    value: Any = None


class _Values(Struct):
    items: list[_Value] | None = None


_values: Final = msgspec.json.Decoder(_Values)


class ControlPlaneMetrics:
    """Asks the API of the control plane; `timeout` in seconds is for each question."""

    def __init__(self, control: KubeClient, timeout: float, at_once: int) -> None:
        self._control = control
        self._timeout = timeout
        self._room = asyncio.Semaphore(at_once)

    async def ask(self, question: Question) -> Answer:
        """See MetricSource."""
        async with self._room:
            try:
                path, params = question.path, question.params
                data = await self._control.request("GET", path, params=params, timeout=self._timeout)
                items = readable(_values, data, "a list of metric values").items or ()
                return Answer(_summed(items))
            except (ApiError, Unreachable) as error:
                return Answer(problem=f"unable to get metric {question.metric}: {error}"[:500])
            except MetricError as error:
                return Answer(problem=f"unable to get metric {question.metric}: {error}")


def _summed(items: list[_Value] | tuple[_Value, ...]) -> dict[str, Sample]:
    """Values by name, those of one name summed. Raises MetricError where there is none, or one that cannot be."""
    if not items:
        raise MetricError("no metrics returned")
    found: dict[str, Sample] = {}
    for item in items:
        name = item.described_object.name if item.described_object is not None else ""
        value, before = _milli(item.value), found.get(name)
        at, window = seconds(item.timestamp) or 0.0, item.window_seconds or 60.0
        found[name] = Sample(value + (before.value if before is not None else 0), at, window)
    return found


def _milli(value: Any) -> int:
    try:
        found = parse(value).milli_value() if value is not None else -1
    except (QuantityError, OverflowError, ValueError):
        raise MetricError(f"its value {str(value)[:40]!r} is not a number") from None
    if not 0 <= found <= _MOST_VALUE:
        raise MetricError(f"its value {str(value)[:40]!r} is out of range")
    return found
