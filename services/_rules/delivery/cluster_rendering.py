"""Small decisions taken for each cluster when an object is rendered.

Source: docs/sources.md#rendering, #application-failover.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from schemas.manifest import Manifest
from services._rules.constants import CONFLICT_ABORT, CONFLICT_OVERWRITE, CONFLICT_RESOLUTION_ANNOTATION

Target: TypeAlias = dict[str, Any]


class RenderError(Exception):
    """An object that cannot be rendered for a cluster; the message names both and what is missing."""


def apply_job_completions(job: Manifest, cluster: str, shares: Iterable[Target] | None) -> Manifest:
    """A Job with its cluster's share of the completions, where it counts completions at all.

    Raises RenderError where the cluster has no share.
    """
    spec = job.get("spec") or {}
    if spec.get("completions") is None:
        return job
    for share in shares or ():
        if share.get("name") == cluster:
            return {**job, "spec": {**spec, "completions": share.get("replicas") or 0}}
    name = (job.get("metadata") or {}).get("name")
    raise RenderError(f"Job {name}: no completions found for cluster {cluster}")


def conflict_resolution(manifest: Manifest, in_binding: str) -> str:
    """What to do where the member already has such an object: overwrite or abort.

    The template's annotation wins where it is one of the two, then the binding's setting counts.
    """
    annotation = ((manifest.get("metadata") or {}).get("annotations") or {}).get(CONFLICT_RESOLUTION_ANNOTATION)
    if annotation in (CONFLICT_OVERWRITE, CONFLICT_ABORT):
        return str(annotation)
    return CONFLICT_OVERWRITE if in_binding == "Overwrite" else CONFLICT_ABORT


def suspends_dispatching(suspension: Mapping[str, Any] | None, cluster: str) -> bool:
    """Whether a binding's suspension holds back the Work of a cluster."""
    if not suspension:
        return False
    if suspension.get("dispatching"):
        return True
    named = (suspension.get("dispatchingOnClusters") or {}).get("clusterNames") or ()
    return cluster in named


def merge_suspension(binding: Manifest | None, policy: Manifest | None) -> Manifest | None:
    """A binding's suspension after its policy's: dispatch fields come from the policy, scheduling stays."""
    merged = dict(policy) if policy is not None else {}
    scheduling = (binding or {}).get("scheduling")
    if scheduling is not None:
        merged["scheduling"] = scheduling
    return merged if merged or policy is not None else None


def with_labels(manifest: Manifest, labels: Mapping[str, str] | None) -> Manifest:
    """A manifest with more labels, which win over its own; the same object where there are none."""
    if not labels:
        return manifest
    metadata = manifest.get("metadata") or {}
    return {**manifest, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}
