"""Which names a field selector may use for a kind, what they stand for, and how others are refused.

Most kinds take name and namespace only. The others have a list of their own in their group and version, and a text of
their own for what is not on it.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_quote
from services.apiserver.kinds.kind_model import Kind

Refusal = Callable[[str], str]

_COMMON: Final = ("metadata.name", "metadata.namespace")
_OF_TARGET: Final = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")


def _common(name: str) -> str:
    shown = ", ".join(go_quote(known) for known in _COMMON)
    return f"{go_quote(name)} is not a known field selector: only {shown}"


def _plain(name: str) -> str:
    return f"field label not supported: {name}"


def _of_job(name: str) -> str:
    return f"field label {go_quote(name)} not supported for batchv1.Job"


class Labels(msgspec.Struct, frozen=True):
    """The names of one kind: what each stands for, and the text for any other."""

    known: Mapping[str, str]
    refusal: Refusal


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_EVENT: Final = {
    **_same(*_COMMON, "reason", "source", "type"),
    "reportingController": "reportingComponent",
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _OF_TARGET},
}
_ALIASES: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {("", "Pod"): {"spec.host": "spec.nodeName"}}
_OWN: Final = frozenset(
    {
        ("", "Event"),
        ("", "Namespace"),
        ("", "Node"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("", "Secret"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
    }
)
"""Kinds with fields of their own, which the kind itself lists."""
_JOB: Final = _same(*_COMMON, "status.successful")
_SPECIAL: Final[Mapping[tuple[str, str, str], Labels]] = {
    ("batch", "v1", "Job"): Labels(_JOB, _of_job),
    ("events.k8s.io", "v1", "Event"): Labels(_EVENT, _plain),
}
_MOST: Final = Labels(_same(*_COMMON), _common)


def labels_of(kind: Kind) -> Labels:
    """The names for one kind."""
    resource = kind.resource
    if kind.custom:
        return Labels(_same(*kind.selectable_fields()), _plain)
    found = _SPECIAL.get((resource.group, resource.version, resource.kind))
    if found is not None:
        return found
    place = (resource.group, resource.kind)
    if place not in _OWN:
        return _MOST
    return Labels(_same(*kind.selectable_fields()) | dict(_ALIASES.get(place, {})), _plain)
