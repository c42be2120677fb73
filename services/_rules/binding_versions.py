"""Converts ResourceBinding and ClusterResourceBinding between v1alpha1 and v1alpha2 (docs/sources.md#bindings).

The older version keeps replicas and their requests in the reference to the template, and knows nothing of health,
placement or components: what it does not know is dropped on the way down and stays unset on the way up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.constants import BINDING_API, WORK_API

KINDS: Final = ("ResourceBinding", "ClusterResourceBinding")
VERSIONS: Final = (WORK_API, BINDING_API)
_REFERENCE: Final = ("apiVersion", "kind", "namespace", "name", "resourceVersion")
_CLUSTER: Final = ("name", "replicas")
_ITEM: Final = ("clusterName", "status", "applied", "appliedMessage")


class ConversionError(ValueError):
    """An object that cannot be converted; the message names kind, version and what is possible."""


def converted(obj: Manifest, version: str) -> Manifest:
    """A binding in the version `group/version`; itself where it has that version already. Raises ConversionError."""
    kind, given = obj.get("kind"), obj.get("apiVersion")
    if kind not in KINDS:
        raise ConversionError(f"{kind!r} is no kind that is converted here: send {' or '.join(KINDS)}")
    for name in (given, version):
        if name not in VERSIONS:
            raise ConversionError(f"{kind} has no version {name!r}: use {' or '.join(VERSIONS)}")
    if given == version:
        return obj
    try:
        return older(obj) if version == WORK_API else newer(obj)
    except (AttributeError, TypeError):
        name = (obj.get("metadata") or {}).get("name") if isinstance(obj.get("metadata"), dict) else None
        raise ConversionError(f"{kind} {name or 'without name'}: spec or status has parts of a wrong type") from None


def older(binding: Manifest) -> Manifest:
    """A binding of v1alpha2 as v1alpha1 shows it."""
    spec = binding.get("spec") or {}
    resource = _only(_REFERENCE, spec.get("resource") or {})
    if spec.get("replicas") is not None:
        resource["replicas"] = spec["replicas"]
    request = (spec.get("replicaRequirements") or {}).get("resourceRequest")
    if request is not None:
        resource["resourcePerReplicas"] = request
    return _with(binding, WORK_API, {"resource": resource}, spec)


def newer(binding: Manifest) -> Manifest:
    """A binding of v1alpha1 as v1alpha2 shows it."""
    spec = binding.get("spec") or {}
    reference = spec.get("resource") or {}
    made: Manifest = {"resource": _only(_REFERENCE, reference)}
    if reference.get("replicas") is not None:
        made["replicas"] = reference["replicas"]
    if reference.get("resourcePerReplicas") is not None:
        made["replicaRequirements"] = {"resourceRequest": reference["resourcePerReplicas"]}
    return _with(binding, BINDING_API, made, spec)


def _with(binding: Manifest, version: str, spec: Manifest, given: Mapping[str, Any]) -> Manifest:
    """The converted binding: metadata as it is, clusters and status with what both versions know."""
    if given.get("clusters") is not None:
        spec["clusters"] = [_only(_CLUSTER, item) for item in given["clusters"]]
    made: Manifest = {"apiVersion": version, "kind": binding["kind"]}
    if "metadata" in binding:
        made["metadata"] = binding["metadata"]
    made["spec"] = spec
    status = binding.get("status")
    if status is not None:
        made["status"] = {}
        if status.get("conditions") is not None:
            made["status"]["conditions"] = status["conditions"]
        if status.get("aggregatedStatus") is not None:
            made["status"]["aggregatedStatus"] = [_only(_ITEM, item) for item in status["aggregatedStatus"]]
    return made


def _only(names: tuple[str, ...], part: Mapping[str, Any]) -> Manifest:
    return {name: part[name] for name in names if part.get(name) is not None}
