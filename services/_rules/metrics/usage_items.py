"""Reads what one pod or node uses from the answer of a member, and writes it again with the cluster that it is from."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from services._rules.constants import QUERIED_FROM_ANNOTATION
from services._rules.metrics.measured_values import (
    Unusable,
    check_labels,
    check_name,
    check_time,
    check_usage,
    check_window,
    shown,
)
from services._rules.metrics.metric_questions import RESOURCE, VERSIONS, UsageQuestion

API_VERSION: Final = f"{RESOURCE}/{VERSIONS[RESOURCE][0]}"
KINDS: Final = {"pods": "PodMetrics", "nodes": "NodeMetrics"}
_MOST_CONTAINERS: Final = 1000


class _Metadata(Struct, omit_defaults=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(Struct):
    name: str
    usage: dict[str, str]


class _Item(Struct, omit_defaults=True, rename="camel"):
    metadata: _Metadata
    timestamp: str
    window: str
    kind: str = ""
    api_version: str = ""


class _Pod(_Item):
    containers: list[_Container] = field(default_factory=list)


class _Node(_Item):
    usage: dict[str, str] = field(default_factory=dict)


_pod: Final = msgspec.json.Decoder(_Pod)
_node: Final = msgspec.json.Decoder(_Node)
_encode: Final = msgspec.json.Encoder().encode


def usage_item(raw: bytes | Raw, question: UsageQuestion, cluster: str) -> bytes:
    """JSON of one PodMetrics or NodeMetrics; raises Unusable, also for what was not asked for.

    As part of a list where the question names no object, else with kind and apiVersion.
    """
    try:
        item: _Pod | _Node = (_pod if question.resource == "pods" else _node).decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"it is no {KINDS[question.resource]}: {str(error)[:200]}") from error
    meta = item.metadata
    check_name(meta.name)
    try:
        _check(item, question)
    except Unusable as error:
        place = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        raise Unusable(f"{place[:200]}: {error}") from error
    item.metadata = _Metadata(
        meta.name, meta.namespace, meta.creation_timestamp, meta.labels, {QUERIED_FROM_ANNOTATION: cluster}
    )
    item.kind, item.api_version = (KINDS[question.resource], API_VERSION) if question.name else ("", "")
    return _encode(item)


def _check(item: _Pod | _Node, question: UsageQuestion) -> None:
    meta = item.metadata
    if question.name and meta.name != question.name:
        raise Unusable(f"{shown(question.name)} was asked for")
    if isinstance(item, _Pod):
        check_name(meta.namespace)
        if question.namespace not in ("", meta.namespace):
            raise Unusable(f"namespace {shown(question.namespace)} was asked for")
        if len(item.containers) > _MOST_CONTAINERS:
            raise Unusable(f"it has {len(item.containers)} containers")
        for container in item.containers:
            check_name(container.name)
            check_usage(container.usage)
    else:
        if meta.namespace:
            raise Unusable("a node has no namespace")
        check_usage(item.usage)
    check_time(item.timestamp)
    check_window(item.window)
    if meta.creation_timestamp is not None:
        check_time(meta.creation_timestamp)
    if meta.labels:
        check_labels(meta.labels)
