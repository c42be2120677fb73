"""Admission of objects of Karmada's kinds: defaults first, then rules (docs/sources.md#admission).

Pure: identity, time and whatever else the decision needs come in with the `Context`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.admission import cluster_rules as clusters
from services._rules.admission import delivery, interpreters
from services._rules.admission.common import field_types as shapes
from services._rules.admission.common.answer import Admitted, Context, Denied, Refusal, Stage, denied
from services._rules.admission.later import cron_federated_hpa as cron_autoscaling
from services._rules.admission.later import federated_hpa as autoscaling
from services._rules.admission.later import federated_quota as quota
from services._rules.admission.later import multi_cluster_ingress as ingress
from services._rules.admission.later import multi_cluster_service as services
from services._rules.admission.later import resource_registry as search
from services._rules.admission.policy import override, propagation
from services._rules.constants import (
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    MULTI_CLUSTER_SERVICE_ID_LABEL,
    RESOURCE_BINDING_ID_LABEL,
)
from services._rules.kubernetes.quantity import QuantityError
from services._rules.kubernetes.validation.field_errors import FieldError

__all__ = ["KINDS", "Admitted", "Context", "Denied", "FieldError", "Operation", "admit", "check_deletion"]

Operation = Literal["CREATE", "UPDATE", "DELETE"]
_Default = Callable[[Manifest, str, Context], Manifest]
_Validate = Callable[[Manifest, Manifest | None, Context], list[FieldError]]


class _Rules(Struct, frozen=True):
    """Both steps of a kind; either may be missing."""

    default: _Default | None = None
    validate: _Validate | None = None


def admit(
    kind: str, operation: Operation, obj: Manifest | None, old: Manifest | None = None, context: Context | None = None
) -> Admitted | Denied:
    """Decide upon one request; `old` is the stored object of an update or deletion.

    A kind without rules is admitted as it is. Inputs are never changed.
    """
    context = context or Context()
    if operation == "DELETE":
        return check_deletion(old or {})
    obj = obj or {}
    if operation == "CREATE":
        old = None
    if kind == "Cluster":
        return _admit_cluster(obj, old, context)
    rules = KINDS.get(kind)
    if rules is None:
        return Admitted(obj)
    stage: Stage = "mutating" if rules.default else "validating"
    try:
        obj = shapes.checked(kind, obj)
        if rules.default is not None:
            obj = rules.default(obj, operation, context)
        stage = "validating"
        causes = rules.validate(obj, old, context) if rules.validate is not None else []
    except (shapes.ShapeError, QuantityError) as problem:
        return Denied(stage, 400, str(problem))
    except Refusal as problem:
        return Denied(stage, problem.code, problem.message)
    return denied(causes) if causes else Admitted(obj)


def check_deletion(old: Manifest) -> Admitted | Denied:
    """Decide upon the deletion of an object of any kind."""
    try:
        delivery.check_deletion(old)
    except Refusal as problem:
        return Denied("validating", problem.code, problem.message)
    return Admitted(old)


def _admit_cluster(obj: Manifest, old: Manifest | None, context: Context) -> Admitted | Denied:
    """Clusters live in an API server of their own, where some defaults follow the rules."""
    try:
        prepared = clusters.prepare(shapes.checked("Cluster", obj), old, context)
        causes = clusters.validate(prepared, old)
    except (shapes.ShapeError, QuantityError) as problem:
        return Denied("decode", 400, str(problem))
    return denied(causes, 422) if causes else Admitted(clusters.finish(prepared, context.now))


def _identify(label: str, on_update: bool) -> _Default:
    def default(obj: Manifest, operation: str, context: Context) -> Manifest:
        return delivery.identified(obj, label, context.identity) if on_update or operation == "CREATE" else obj

    return default


def _validate_customization(obj: Manifest, _: Manifest | None, context: Context) -> list[FieldError]:
    interpreters.check_customization(obj, context.existing)
    return []


KINDS: Final[Mapping[str, _Rules]] = {
    "PropagationPolicy": _Rules(
        partial(propagation.default, propagation.NAMESPACED),
        lambda obj, old, _: propagation.validate(propagation.NAMESPACED, obj, old),
    ),
    "ClusterPropagationPolicy": _Rules(
        partial(propagation.default, propagation.CLUSTER_WIDE),
        lambda obj, old, _: propagation.validate(propagation.CLUSTER_WIDE, obj, old),
    ),
    "OverridePolicy": _Rules(
        lambda obj, _, context: override.default(obj, context.namespace),
        lambda obj, *_: override.validate(obj, namespaced=True),
    ),
    "ClusterOverridePolicy": _Rules(validate=lambda obj, *_: override.validate(obj, namespaced=False)),
    "ResourceBinding": _Rules(
        _identify(RESOURCE_BINDING_ID_LABEL, on_update=False),
        lambda obj, _, context: delivery.validate_binding(obj, context),
    ),
    "ClusterResourceBinding": _Rules(_identify(CLUSTER_RESOURCE_BINDING_ID_LABEL, on_update=False)),
    "Work": _Rules(lambda obj, _, context: delivery.default_work(obj, context.identity)),
    "FederatedHPA": _Rules(lambda obj, *_: autoscaling.default(obj), lambda obj, *_: autoscaling.validate(obj)),
    "CronFederatedHPA": _Rules(validate=lambda obj, *_: cron_autoscaling.validate(obj)),
    "FederatedResourceQuota": _Rules(validate=lambda obj, *_: quota.validate_quota(obj)),
    "ClusterTaintPolicy": _Rules(
        validate=lambda obj, _, context: quota.validate_taint_policy(obj, context.allow_no_execute_taint_policy)
    ),
    "MultiClusterService": _Rules(
        _identify(MULTI_CLUSTER_SERVICE_ID_LABEL, on_update=True),
        lambda obj, old, _: services.validate(obj, old),
    ),
    "MultiClusterIngress": _Rules(validate=lambda obj, old, _: ingress.validate(obj, old)),
    "ResourceInterpreterCustomization": _Rules(validate=_validate_customization),
    "ResourceInterpreterWebhookConfiguration": _Rules(validate=lambda obj, *_: interpreters.validate_webhooks(obj)),
    "ResourceRegistry": _Rules(validate=lambda obj, old, _: search.validate(obj, old)),
}
