"""Checks that a manifest has the types its kind prescribes, so that interpretation may rely on them."""

from functools import cache
from typing import Final

from schemas.api.field_types import field_types
from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError
from services._rules.kubernetes.typed_structs import Shapes, WrongShape

_PACKAGES: Final = {
    "io.k8s.api.apps.v1": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "io.k8s.api.autoscaling.v2": ("HorizontalPodAutoscaler",),
    "io.k8s.api.batch.v1": ("CronJob", "Job"),
    "io.k8s.api.core.v1": ("PersistentVolume", "PersistentVolumeClaim", "Pod", "Service"),
    "io.k8s.api.networking.v1": ("Ingress",),
    "io.k8s.api.policy.v1": ("PodDisruptionBudget",),
}
_TYPES: Final = {kind: f"{package}.{kind}" for package, kinds in _PACKAGES.items() for kind in kinds}
_SHAPES: Final = Shapes()


def check_object(kind: str, obj: Manifest) -> None:
    """Raises InterpretError, with the field, where the manifest does not have the shape of its (native) kind."""
    _check(_TYPES.get(kind, kind), obj, "")


def check_status(kind: str, status: object, field: str = "status") -> None:
    """Raises InterpretError where a status does not have the shape that its kind prescribes."""
    _check(_status_type(kind), status, field)


@cache
def whole_numbers(kind: str) -> frozenset[str] | None:
    """The fields of a kind's status that hold whole numbers; None of a kind that has no status."""
    if kind not in _TYPES:
        return None
    return frozenset(name for name, code in field_types(_status_type(kind)).items() if code in ("i", "l"))


def _status_type(kind: str) -> str:
    return field_types(_TYPES[kind])["status"][1:]


def _check(name: str, value: object, field: str) -> None:
    try:
        _SHAPES.check(name, value)
    except WrongShape as problem:
        raise InterpretError(problem.what, ".".join(part for part in (field, problem.where) if part)) from None
