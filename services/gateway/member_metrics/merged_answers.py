"""Puts a question about metrics to all members that may have an answer, and makes one answer of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar
from urllib.parse import urlencode

from msgspec import Raw, Struct

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.pages import Page
from services._kit.kube.answers.share import Share
from services._kit.kube.api import BadAnswer
from services._rules.metrics.answer_coverage import Coverage, LeftOut
from services._rules.metrics.measured_values import Unusable
from services._rules.metrics.metric_questions import (
    CUSTOM,
    EXTERNAL,
    RESOURCE,
    VERSIONS,
    ExternalQuestion,
    UsageQuestion,
    ValueQuestion,
    member_path,
)
from services._rules.metrics.usage_items import usage_item
from services._rules.metrics.value_items import Measured, summed, value_reading
from services.gateway.measured_members import MeasuredMember
from services.gateway.member_metrics.member_questions import MemberQuestions, Outcome
from services.gateway.member_metrics.served_metrics import ServedMetrics

T = TypeVar("T")

MOST_ITEMS: Final = 200_000
"""Items of the list of one member."""
MOST_LEFT_OUT: Final = 1000
"""Items of one member that cannot be used; of one with more, nothing is used."""
LARGEST_ITEM: Final = 256 << 10
"""Bytes of one item."""
_LIMITS: Final = Limits(object_bytes=LARGEST_ITEM)


class Usages(Struct, frozen=True):
    """JSON of PodMetrics or NodeMetrics in order of the members, and the members that have any."""

    items: list[bytes]
    holders: list[str]
    coverage: Coverage


class Values(Struct, frozen=True):
    """Sums over members; `served` says whether any member knows the metric."""

    values: list[Measured]
    served: bool
    coverage: Coverage


class MergedAnswers:
    """Answers questions; `members` are all members as they are now."""

    def __init__(
        self, questions: MemberQuestions, served: ServedMetrics, members: Callable[[], Mapping[str, MeasuredMember]]
    ) -> None:
        self._questions = questions
        self._served = served
        self._members = members

    async def usages(self, question: UsageQuestion, query: Mapping[str, str]) -> Usages:
        """What pods or nodes use, of all members that serve it."""
        path = _path(member_path(RESOURCE, VERSIONS[RESOURCE][0], question), query)
        found: dict[str, list[bytes]] = {}
        sifted = _Sifted()

        async def path_of(_: str) -> str:
            return path

        async def take(cluster: str, body: bytes) -> None:
            def read(raw: bytes | Raw) -> bytes:
                return usage_item(raw, question, cluster)

            items = [body] if question.name else _page(body)
            found[cluster] = await sifted.of(cluster, items, read)

        members = self._members()
        unready = _unready(members)
        asked = [name for name, member in members.items() if member.ready and member.usages]
        most = LARGEST_ITEM if question.name else 0
        outcome = await self._questions.ask(asked, path_of, take, most=most)
        holders = sorted(name for name, items in found.items() if items)
        items = [item for name in holders for item in found[name]]
        return Usages(items, holders, _coverage(outcome, sifted, unready))

    async def values(
        self, question: ValueQuestion | ExternalQuestion, version: str, query: Mapping[str, str]
    ) -> Values:
        """Sums of a custom or external metric over all members that serve it."""
        group = EXTERNAL if isinstance(question, ExternalQuestion) else CUSTOM
        found: dict[str, list[Measured]] = {}
        chosen: dict[str, str] = {}
        sifted = _Sifted()

        async def path_of(cluster: str) -> str:
            chosen[cluster] = await self._served.version(cluster, group, version)
            return _path(member_path(group, chosen[cluster], question), query) if chosen[cluster] else ""

        async def take(cluster: str, body: bytes) -> None:
            read = value_reading(question, chosen[cluster])
            found[cluster] = _once(await sifted.of(cluster, _page(body), read))

        members = self._members()
        unready = _unready(members)
        asked = [name for name, member in members.items() if member.ready]
        outcome = await self._questions.ask(asked, path_of, take)
        return Values(summed(found), bool(outcome.answered), _coverage(outcome, sifted, unready))


def _unready(members: Mapping[str, MeasuredMember]) -> tuple[str, ...]:
    """Members that cannot be asked now; they may be ready by the time of the answer."""
    return tuple(sorted(name for name, member in members.items() if not member.ready))


def _coverage(outcome: Outcome, sifted: _Sifted, unready: tuple[str, ...]) -> Coverage:
    return Coverage(
        answered=frozenset(outcome.answered), silent=outcome.silent, unready=unready, left_out=sifted.left_out
    )


class _Sifted:
    """Items of members that can be used; the others are counted."""

    def __init__(self) -> None:
        self.left_out: dict[str, LeftOut] = {}
        self._share = Share()

    async def of(self, cluster: str, items: Iterable[bytes | Raw], read: Callable[[bytes | Raw], T]) -> list[T]:
        """What can be read of items; raises BadAnswer for too many of them."""
        found: list[T] = []
        bad: list[str] = []
        count = 0

        def take(raw: bytes | Raw) -> None:
            nonlocal count
            count += 1
            if count > MOST_ITEMS:
                raise BadAnswer(f"it has more than {MOST_ITEMS} items")
            try:
                found.append(read(raw))
            except Unusable as error:
                bad.append(str(error))
                if len(bad) > MOST_LEFT_OUT:
                    raise BadAnswer(f"more than {MOST_LEFT_OUT} of its items cannot be used: {bad[0]}") from error

        await self._share.each(items, take)
        if bad:
            self.left_out[cluster] = LeftOut(len(bad), bad[0])
        return found


def _page(body: bytes) -> Iterable[bytes | Raw]:
    return Page(body, _LIMITS)


def _once(values: list[Measured]) -> list[Measured]:
    """The first value of each object: a member that repeats one does not have it twice."""
    return list({one.key: one for one in reversed(values)}.values())[::-1]


def _path(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
