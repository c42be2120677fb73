"""Reads from a path of the metrics APIs what is asked for, and writes the path by which a member is asked for it.

Paths: docs/sources.md#metrics-adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

RESOURCE: Final = "metrics.k8s.io"
CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    RESOURCE: ("v1beta1",),
    CUSTOM: ("v1beta2", "v1beta1"),
    EXTERNAL: ("v1beta1",),
}
"""The served groups, with their versions; the preferred one first."""
EVERY: Final = "*"
"""In the place of a name: all objects that the selector matches."""
OF_NAMESPACE: Final = "metrics"
"""The plural below a namespace where metrics of the namespace itself are."""
USAGES: Final[Mapping[str, bool]] = {"pods": True, "nodes": False}
"""What metrics.k8s.io tells of, and whether it lies in a namespace."""


class UsageQuestion(Struct, frozen=True):
    """What pods or nodes use; all of them without a name, of all namespaces where that is empty."""

    resource: str
    namespace: str = ""
    name: str = ""


class ValueQuestion(Struct, frozen=True):
    """A custom metric of one object, or of all that a selector matches; the name of a namespace is its own."""

    resource: str
    metric: str
    namespace: str = ""
    name: str = EVERY


class ExternalQuestion(Struct, frozen=True):
    """A metric of no object."""

    metric: str
    namespace: str


Question = UsageQuestion | ValueQuestion | ExternalQuestion


def question_of(group: str, parts: Sequence[str]) -> Question | None:
    """What the segments after group and version ask for; None where they are no path of the group."""
    # A segment that holds another one would be read as another path elsewhere.
    if any("/" in part or part in ("", ".", "..") for part in parts):
        return None
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    match group, list(parts):
        case "metrics.k8s.io", [("pods" | "nodes") as resource, *rest] if len(rest) < 2:
            name = rest[0] if rest else ""
            lies_there = USAGES[resource] and (bool(namespace) or not name)
            if lies_there or (not USAGES[resource] and not namespace):
                return UsageQuestion(resource, namespace, name)
        case "custom.metrics.k8s.io", ["metrics", metric] if namespace:
            return ValueQuestion(OF_NAMESPACE, metric, namespace, namespace)
        case "custom.metrics.k8s.io", [resource, name, metric]:
            return ValueQuestion(resource, metric, namespace, name)
        case "external.metrics.k8s.io", [metric] if namespace:
            return ExternalQuestion(metric, namespace)
        case _:
            pass
    return None


def member_path(group: str, version: str, question: Question) -> str:
    """The path by which a member answers a question, encoded, without a query."""
    parts = ["apis", group, version]
    if question.namespace:
        parts += ["namespaces", question.namespace]
    match question:
        case UsageQuestion():
            parts += [question.resource, *([question.name] if question.name else [])]
        case ValueQuestion() if question.resource == OF_NAMESPACE:
            parts += [OF_NAMESPACE, question.metric]
        case ValueQuestion():
            parts += [question.resource, question.name, question.metric]
        case ExternalQuestion():
            parts.append(question.metric)
    return "/" + "/".join(quote(part, safe=EVERY) for part in parts)
