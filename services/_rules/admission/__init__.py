"""Admission of objects of Karmada's kinds: defaults first, then rules (docs/sources.md#admission).

Pure: identity, time and whatever else the decision needs come in with the `Context`.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from msgspec import Struct, structs

from schemas.manifest import Manifest
from services._rules.admission import cluster_rules as clusters
from services._rules.admission import delivery, interpreters
from services._rules.admission.common import field_types as shapes
from services._rules.admission.common.answer import Admitted, Context, Denied, Refusal, denied
from services._rules.admission.later import cron_federated_hpa as cron_autoscaling
from services._rules.admission.later import federated_hpa as autoscaling
from services._rules.admission.later import federated_quota as quota
from services._rules.admission.later import multi_cluster_ingress as ingress
from services._rules.admission.later import multi_cluster_service as services
from services._rules.admission.later import resource_registry as search
from services._rules.admission.policy import override, propagation
from services._rules.admission.webhook_table import OWN_SERVERS
from services._rules.constants import (
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    MULTI_CLUSTER_SERVICE_ID_LABEL,
    RESOURCE_BINDING_ID_LABEL,
)
from services._rules.kubernetes.quantity import QuantityError
from services._rules.kubernetes.validation.field_errors import FieldError

__all__ = [
    "KINDS",
    "Admitted",
    "Context",
    "Denied",
    "FieldError",
    "Operation",
    "check_deletion",
    "default",
    "typed",
    "validate",
]

_POSITION: Final = re.compile(r"\[\d+\]")
Operation = Literal["CREATE", "UPDATE", "DELETE"]
_Default = Callable[[Manifest, str, Context], Manifest]
_Validate = Callable[[Manifest, Manifest | None, Context], list[FieldError]]


class _Rules(Struct, frozen=True):
    """Both steps of a kind; either may be missing."""

    default: _Default | None = None
    validate: _Validate | None = None


def default(
    kind: str, operation: Operation, obj: Manifest, old: Manifest | None, context: Context
) -> Admitted | Denied:
    """The mutating step: the object with its defaults; a Cluster is also validated here, between its defaults.

    `old` is the stored object of an update. A kind without rules is admitted as it is. Inputs are never changed.
    """
    if kind == "Cluster":
        return _admit_cluster(obj, old, context)
    rules = KINDS.get(kind)
    if rules is None:
        return Admitted(obj)
    try:
        obj = shapes.checked(kind, obj)
        return Admitted(rules.default(obj, operation, context) if rules.default is not None else obj)
    except (shapes.ShapeError, QuantityError) as problem:
        return Denied("mutating" if rules.default else "validating", 400, str(problem))
    except Refusal as problem:
        return Denied("mutating", problem.code, problem.message)


def validate(kind: str, obj: Manifest, old: Manifest | None, context: Context) -> Admitted | Denied:
    """The validating step, of an object that `default` answered; `old` is None for a new object."""
    rules = KINDS.get(kind)
    if rules is None or rules.validate is None:
        return Admitted(obj)
    try:
        causes = rules.validate(obj, old, context)
        if causes and old is not None and context.keeps_faults:
            causes = _further(causes, _faults(kind, rules.validate, old, context))
    except (shapes.ShapeError, QuantityError) as problem:
        return Denied("validating", 400, str(problem))
    except Refusal as problem:
        return Denied("validating", problem.code, problem.message)
    return denied(causes, 422 if kind in OWN_SERVERS else 403) if causes else Admitted(obj)


def typed(kind: str, obj: Manifest) -> Admitted | Denied:
    """The object with the types of its fields checked, as every rule relies on them; empty values in place of nulls."""
    try:
        return Admitted(shapes.checked(kind, obj))
    except shapes.ShapeError as problem:
        return Denied("decode", 400, str(problem))


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
        if causes and old is not None and context.keeps_faults:
            causes = _further(
                causes, _faults("Cluster", lambda one, before, _: clusters.validate(one, before), old, context)
            )
    except (shapes.ShapeError, QuantityError) as problem:
        return Denied("decode", 400, str(problem))
    return denied(causes, 422) if causes else Admitted(clusters.finish(prepared, context.now))


def _further(causes: list[FieldError], known: list[FieldError]) -> list[FieldError]:
    """The causes that are not known, wherever in a list they stand."""
    before = [_placeless(cause) for cause in known]
    return [cause for cause in causes if _placeless(cause) not in before]


def _faults(kind: str, check: _Validate, old: Manifest, context: Context) -> list[FieldError]:
    """The causes that a stored object would be refused for."""
    try:
        return check(shapes.checked(kind, old), old, context)
    except (shapes.ShapeError, QuantityError, Refusal):
        return []


def _placeless(cause: FieldError) -> FieldError:
    return structs.replace(cause, field=_POSITION.sub("[]", cause.field))


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
