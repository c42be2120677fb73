"""Answers `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io` from the metrics of all members.

The control plane decides who may ask; members are asked in the gateway's own name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.proxying.caller_limits import CallerLimits
from services._kit.proxying.front_identity import Identity
from services._rules.metrics.answer_coverage import Coverage
from services._rules.metrics.metric_questions import (
    CUSTOM,
    EVERY,
    EXTERNAL,
    RESOURCE,
    VERSIONS,
    ExternalQuestion,
    Question,
    UsageQuestion,
    ValueQuestion,
    question_of,
)
from services._rules.metrics.usage_items import KINDS
from services._rules.metrics.value_items import shown_value
from services.apiserver.core.request import RequestInfo, truth
from services.apiserver.core.status_errors import ApiError, bad_request, method_not_allowed, no_such_path
from services.apiserver.core.warning_texts import warning_texts
from services.apiserver.kinds.kind_model import Resource
from services.apiserver.reads.negotiation import Form, negotiate, not_acceptable
from services.gateway.front.caller_reviews import CallerReviews
from services.gateway.front.front import Asked
from services.gateway.member_metrics.merged_answers import MergedAnswers
from services.gateway.member_metrics.usage_forms import usage_list, usage_object

if TYPE_CHECKING:
    from services.gateway.metrics import QuestionMetrics

MISSING: Final = "Fleetlog-Missing-Members"
"""Header of an answer: the members that it goes without, with commas."""
_MOST_MISSING: Final = 100
_FORWARDED: Final = {
    UsageQuestion: ("labelSelector", "fieldSelector"),
    ValueQuestion: ("labelSelector", "metricLabelSelector"),
    ExternalQuestion: ("labelSelector",),
}
_JSON: Final = "application/json"
_LISTS: Final = {ValueQuestion: "MetricValueList", ExternalQuestion: "ExternalMetricValueList"}


class MetricsDoor:
    """The way to metrics; without `answers` this gateway has no access to members."""

    def __init__(
        self, answers: MergedAnswers | None, reviews: CallerReviews, limits: CallerLimits, metrics: QuestionMetrics
    ) -> None:
        self._answers = answers
        self._reviews = reviews
        self._limits = limits
        self._metrics = metrics

    def concerns(self, parts: list[str]) -> bool:
        """Whether a path asks for metrics; documents of discovery are not among them."""
        return len(parts) > 3 and parts[0] == "apis" and parts[1] in VERSIONS

    async def answer(
        self, request: BaseRequest, query: dict[str, str], identity: Identity, parts: list[str]
    ) -> web.Response:
        """Answer one request; raises ApiError and TooManyRequests."""
        _, group, version, *rest = parts
        question = question_of(group, rest) if version in VERSIONS[group] else None
        caller = await self._reviews.permit(request, identity, _asked(request, parts, query))
        if question is None:
            raise no_such_path()
        if request.method not in ("GET", "HEAD") or truth(query.get("watch")):
            raise method_not_allowed()
        forwarded = {name: query[name] for name in _FORWARDED[type(question)] if query.get(name)}
        form = negotiate(request.headers.get("Accept", ""))
        if form is None or form.yaml or (form.view and not isinstance(question, UsageQuestion)):
            raise not_acceptable((_JSON,))
        if self._answers is None:
            text = "this gateway has no access to the control plane: FLEETLOG_CONTROL_KUBECONFIG is not set"
            raise ApiError(503, "ServiceUnavailable", text)
        began = time.monotonic()
        with self._limits.request(caller.user, lasts=False):
            if isinstance(question, UsageQuestion):
                body, coverage = await self._usages(self._answers, question, forwarded, form, query)
            else:
                body, coverage = await self._values(self._answers, question, version, forwarded)
        self._metrics.answered(group, coverage, time.monotonic() - began)
        response = web.Response(body=body, content_type=_JSON)
        for name, value in _marks(coverage):
            response.headers.add(name, value)
        return response

    async def _usages(
        self,
        answers: MergedAnswers,
        question: UsageQuestion,
        forwarded: Mapping[str, str],
        form: Form,
        query: Mapping[str, str],
    ) -> tuple[bytes, Coverage]:
        include = query.get("includeObject", "")
        if form.view == "Table" and include not in ("", "Metadata", "Object", "None"):
            raise bad_request("includeObject is Metadata, Object or None")
        found = await answers.usages(question, forwarded)
        if not question.name:
            _refuse_nothing(found.coverage, bool(found.coverage.answered))
            return usage_list(question, found.items, form, include), found.coverage
        if len(found.holders) > 1:
            what = f"{question.resource} {question.name!r} is in several clusters: {', '.join(found.holders)}"
            raise ApiError(409, "Conflict", f"{what}; list them, or ask one cluster by its proxy", _details(question))
        _refuse_nothing(found.coverage, bool(found.items))
        if not found.items:
            raise _not_found(question, f"{KINDS[question.resource]} {question.name!r} was found in no cluster")
        return usage_object(found.items[0], form, include), found.coverage

    async def _values(
        self,
        answers: MergedAnswers,
        question: ValueQuestion | ExternalQuestion,
        version: str,
        forwarded: Mapping[str, str],
    ) -> tuple[bytes, Coverage]:
        found = await answers.values(question, version, forwarded)
        external = isinstance(question, ExternalQuestion)
        enough = found.served if external else bool(found.values)
        _refuse_nothing(found.coverage, enough)
        if not enough:
            of = "" if isinstance(question, ExternalQuestion) else f" of {_object(question)}"
            raise _not_found(question, f"metric {question.metric!r}{of} is served by no cluster that is ready")
        document = {
            "kind": _LISTS[type(question)],
            "apiVersion": f"{EXTERNAL if external else CUSTOM}/{version}",
            "metadata": {},
            "items": [shown_value(one, question, version) for one in found.values],
        }
        return msgspec.json.encode(document), found.coverage


def _asked(request: BaseRequest, parts: list[str], query: Mapping[str, str]) -> Asked:
    """What has to be allowed, as an API server names it by the path."""
    _, group, version, *rest = parts
    info = RequestInfo(group, version, rest)
    verb = request.method.lower() if request.method not in ("GET", "HEAD") else "get" if info.name else "list"
    if verb == "list" and (info.watch_prefix or truth(query.get("watch"))):
        verb = "watch"
    resource = Resource(group, version, "", info.resource, namespaced=bool(info.namespace))
    return Asked(verb, request.rel_url.raw_path, resource, info.namespace, info.name, info.subresource)


def _refuse_nothing(coverage: Coverage, found: bool) -> None:
    """Refuse to say that there is nothing where a member did not answer; raises ApiError 503."""
    if found or not coverage.silent:
        return
    text = f"found nowhere, but not all clusters answered: {'; '.join(coverage.texts())}"
    raise ApiError(503, "ServiceUnavailable", text, {"retryAfterSeconds": 1}, {"Retry-After": "1"})


def _object(question: ValueQuestion) -> str:
    return question.resource if question.name == EVERY else f"{question.resource} {question.name!r}"


def _details(question: Question) -> dict[str, object]:
    match question:
        case UsageQuestion():
            return {"name": question.name, "group": RESOURCE, "kind": question.resource}
        case ValueQuestion():
            return {"name": question.name, "group": CUSTOM, "kind": question.resource}
        case ExternalQuestion():
            return {"name": question.metric, "group": EXTERNAL, "kind": question.metric}


def _not_found(question: Question, text: str) -> ApiError:
    return ApiError(404, "NotFound", text, _details(question))


def _marks(coverage: Coverage) -> list[tuple[str, str]]:
    """Headers that say what an answer lacks."""
    texts = warning_texts(coverage.texts())
    found = [("Warning", '299 - "{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))) for text in texts]
    if coverage.missing:
        found.append((MISSING, ",".join(coverage.missing[:_MOST_MISSING])))
    return found
