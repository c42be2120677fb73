"""Carries over what belongs to the member: fields that its controllers own stay as observed.

Source: docs/sources.md#retention.
"""

from collections.abc import Callable
from typing import Any

from schemas.manifest import Manifest
from services._rules.constants import RETAIN_REPLICAS_LABEL
from services._rules.interpreter.common.interpretation import (
    InterpretError,
    describe,
    list_at,
    object_at,
    set_at,
    text_at,
)
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native.prune import TOKEN_SECRET

Retainer = Callable[[Manifest, Manifest], Manifest]


def retain_deployment(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps the observed replicas where the desired object asks for it by label."""
    if object_at(desired, "metadata", "labels").get(RETAIN_REPLICAS_LABEL) != "true":
        return desired
    replicas = object_at(observed, "spec").get("replicas")
    if replicas is None:
        raise InterpretError("is missing on the live Deployment, so it cannot be retained", "spec.replicas")
    if type(replicas) is not int:
        raise InterpretError(f"is {describe(replicas)}, expected a whole number", "spec.replicas")
    return set_at(desired, ("spec", "replicas"), replicas)


def retain_pod(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps node, service account, volumes and the mounts of containers that both have."""
    check_object("Pod", desired)
    check_object("Pod", observed)
    live = object_at(observed, "spec")
    spec = dict(object_at(desired, "spec"))
    for name in ("nodeName", "serviceAccountName", "volumes"):
        _take(spec, live, name)
    for name in ("containers", "initContainers"):
        mounts = {c.get("name") or "": c for c in list_at(live, name) if c}
        containers = list_at(spec, name)
        if containers and mounts:
            spec[name] = [_mounted(c, mounts.get(c.get("name") or "")) if c else c for c in containers]
    return {**desired, "spec": spec}


def _take(spec: Manifest, live: Manifest, name: str) -> None:
    if live.get(name):
        spec[name] = live[name]
    else:
        spec.pop(name, None)


def _mounted(container: Manifest, live: Manifest | None) -> Manifest:
    if live is None:
        return container
    copy = container.copy()
    _take(copy, live, "volumeMounts")
    return copy


def retain_service(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps the allocated health check port and cluster address."""
    live = object_at(observed, "spec")
    taken: Manifest = {}
    port = live.get("healthCheckNodePort")
    if "healthCheckNodePort" in live and type(port) is not int:
        raise InterpretError(f"is {describe(port)}, expected a whole number", "spec.healthCheckNodePort")
    if port is not None and port > 0:
        taken["healthCheckNodePort"] = port
    address = live.get("clusterIP")
    if "clusterIP" in live and type(address) is not str:
        raise InterpretError(f"is {describe(address)}, expected a text", "spec.clusterIP")
    if address:
        taken["clusterIP"] = address
    if not taken:
        return desired
    return {**desired, "spec": {**object_at(desired, "spec"), **taken}}


def retain_service_account(desired: Manifest, observed: Manifest) -> Manifest:
    """Unites the secrets of both by name, the desired ones first."""
    result = desired.copy()
    for name in ("imagePullSecrets", "secrets"):
        merged = list(list_at(desired, name))
        known = {_name_of(entry, name) for entry in merged}
        for entry in list_at(observed, name):
            if _name_of(entry, name) not in known:
                known.add(_name_of(entry, name))
                merged.append(entry)
        # Null where neither has any, as Karmada writes it: an API server takes it for absent.
        result[name] = merged or None
    return result


def _name_of(entry: object, field: str) -> str:
    if type(entry) is not dict:
        raise InterpretError(f"holds {describe(entry)}, expected objects with a name", field)
    return text_at(entry, "name", f"{field}.name")


def retain_claim(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps the volume that a PersistentVolumeClaim is bound to."""
    name = text_at(object_at(observed, "spec"), "volumeName", "spec.volumeName")
    return set_at(desired, ("spec", "volumeName"), name) if name else desired


def retain_volume(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps the claim that a PersistentVolume is bound to."""
    claim = object_at(observed, "spec").get("claimRef")
    return desired if claim is None else set_at(desired, ("spec", "claimRef"), claim)


def retain_job(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps the selector and pod labels that the Job controller generated."""
    for path in (("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels")):
        parent = object_at(observed, *path[:-1])
        if path[-1] in parent:
            labels = object_at(observed, *path)
            for value in labels.values():
                if type(value) is not str:
                    raise InterpretError(f"holds {describe(value)}, expected texts", ".".join(path))
            desired = set_at(desired, path, labels)
    return desired


def retain_secret(desired: Manifest, observed: Manifest) -> Manifest:
    """Keeps the data of a service account token, which the member generates."""
    if desired.get("type") != TOKEN_SECRET:
        return desired
    data: Any = observed.get("data")
    return desired if data is None else {**desired, "data": data}
