"""Writes what pods and nodes use in the form that was asked for: objects, a table, or metadata only."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.constants import QUERIED_FROM_ANNOTATION
from services._rules.kubernetes.quantity import ZERO, Quantity, parse
from services._rules.metrics.metric_questions import UsageQuestion
from services._rules.metrics.usage_items import API_VERSION, KINDS
from services.apiserver.reads.negotiation import Form
from services.apiserver.tables.printer import NAME, Cells, Column, Printer, name_of, table

_COLUMNS: Final = (
    NAME,
    Column("Cluster", description="The member that it is in."),
    Column("Cpu", description="Thousandths of a core."),
    Column("Memory"),
    Column("Window", description="Over how much time it was measured."),
)
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode


def usage_list(question: UsageQuestion, items: list[bytes], form: Form, include: str) -> bytes:
    """A list of PodMetrics or NodeMetrics."""
    if not form.view:
        head = {"kind": f"{KINDS[question.resource]}List", "apiVersion": API_VERSION, "metadata": {}}
        return _encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"
    return _encode(_other_form([_decode(item) for item in items], form, include, single=False))


def usage_object(item: bytes, form: Form, include: str) -> bytes:
    """One PodMetrics or NodeMetrics."""
    return item if not form.view else _encode(_other_form([_decode(item)], form, include, single=True))


def _other_form(objects: list[Manifest], form: Form, include: str, *, single: bool) -> Manifest:
    version = f"meta.k8s.io/{form.version}"
    if form.view == "Table":
        rows = table(_PRINTER, objects, include, form.version, True, dt.datetime.now(dt.UTC))  # noqa: TID251 - a request
        return {"kind": "Table", "apiVersion": version, "metadata": {}, **rows}
    partial = [{"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": one["metadata"]} for one in objects]
    if single:
        return partial[0]
    return {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": {}, "items": partial}


def _cells(obj: Manifest, _: dt.datetime) -> Cells:
    used = obj.get("containers") or [{"usage": obj.get("usage") or {}}]
    cpu, memory = (_sum(used, resource) for resource in ("cpu", "memory"))
    cluster = obj["metadata"]["annotations"][QUERIED_FROM_ANNOTATION]
    return [name_of(obj), cluster, f"{cpu.milli_value()}m", f"{memory.value() >> 10}Ki", obj["window"]]


def _sum(used: list[Manifest], resource: str) -> Quantity:
    found = ZERO
    for each in used:
        found += parse(each["usage"].get(resource))
    return found


_PRINTER: Final = Printer(_COLUMNS, _cells)
