"""Builds what a binding asks for from a template and the policy that claims it (reference 01 §2.8, §2.9)."""

from __future__ import annotations

from typing import Any, Final

from services._rules.interpreter import INTERPRET_REPLICA, NativeInterpreter

Manifest = dict[str, Any]

_INTERPRETER: Final = NativeInterpreter()
_COPIED: Final = ("propagateDeps", "placement", "failover", "preserveResourcesOnDeletion", "suspension")


def binding_spec(manifest: Manifest, policy: Manifest | None) -> tuple[Manifest, int, bool]:
    """Spec of a ResourceBinding, the replicas, and whether the object is a workload.

    `policy` is the claiming policy's spec, None for objects that go everywhere. Raises InterpretError when the
    template does not have the shape of its kind.
    """
    metadata = manifest["metadata"]
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    resource = {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
    if metadata.get("namespace"):
        resource["namespace"] = metadata["namespace"]
    spec: Manifest = {"resource": resource}
    if policy is None:
        return spec, 0, False
    replicas = 0
    requirements: Any = None
    if _INTERPRETER.hook_enabled(api_version, kind, INTERPRET_REPLICA):
        replicas, requirements = _INTERPRETER.get_replicas(manifest)
    if replicas:
        spec["replicas"] = replicas
    if requirements is not None:
        spec["replicaRequirements"] = requirements
    for name in _COPIED:
        value = policy.get(name)
        if value is not None:
            spec[name] = value
    spec.setdefault("placement", {})
    spec["schedulerName"] = policy.get("schedulerName") or "default-scheduler"
    spec["conflictResolution"] = policy.get("conflictResolution") or "Abort"
    return spec, replicas, replicas > 0 or requirements is not None
