"""The built-in interpretation of Kubernetes' own kinds, as a table, and the default for every other kind.

Which kind offers which operation: docs/sources.md#interpreters. Kinds are looked up by exact apiVersion and kind.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, Operation, describe
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native import dependencies as deps
from services._rules.interpreter.native import health_rules as health
from services._rules.interpreter.native import reflect, retain, statuses
from services._rules.interpreter.native import replicas as counts
from services._rules.interpreter.native.reflect import Reflector, reflect_whole
from services._rules.interpreter.native.retain import Retainer


class NativeKind(Struct, frozen=True, gc=False):
    """The functions of one kind; None where the kind does not offer the operation."""

    replicas: Callable[..., counts.Replicas] | None = None
    revise: Callable[[Manifest, int], Manifest] | None = None
    retain: Retainer | None = None
    aggregate: Callable[..., Manifest] | None = None
    dependencies: Callable[[Manifest], list[deps.Reference]] | None = None
    reflect: Reflector = reflect_whole
    health: Callable[[Manifest], bool] | None = None
    # Whether aggregation dates what it concludes and so needs to know the time.
    dated: bool = False


NATIVE_KINDS: Final[dict[tuple[str, str], NativeKind]] = {
    ("apps/v1", "Deployment"): NativeKind(
        counts.workload_replicas,
        counts.revise_replicas,
        retain.retain_deployment,
        statuses.aggregate_workload,
        deps.template_dependencies,
        reflect.reflect_workload,
        health.deployment_health,
    ),
    ("apps/v1", "ReplicaSet"): NativeKind(
        counts.workload_replicas,
        counts.revise_replicas,
        None,
        statuses.aggregate_workload,
        deps.template_dependencies,
        reflect.reflect_workload,
        health.replica_set_health,
    ),
    ("apps/v1", "StatefulSet"): NativeKind(
        counts.workload_replicas,
        counts.revise_replicas,
        None,
        statuses.aggregate_workload,
        deps.stateful_set_dependencies,
        reflect.reflect_workload,
        health.deployment_health,
    ),
    ("apps/v1", "DaemonSet"): NativeKind(
        aggregate=statuses.aggregate_workload,
        dependencies=deps.template_dependencies,
        reflect=reflect.reflect_workload,
        health=health.daemon_set_health,
    ),
    ("batch/v1", "Job"): NativeKind(
        counts.job_replicas,
        counts.revise_parallelism,
        retain.retain_job,
        statuses.aggregate_job,
        deps.template_dependencies,
        reflect.reflect_job,
        dated=True,
    ),
    ("batch/v1", "CronJob"): NativeKind(aggregate=statuses.aggregate_cron_job, dependencies=deps.cron_job_dependencies),
    ("v1", "Pod"): NativeKind(
        counts.pod_replicas,
        None,
        retain.retain_pod,
        statuses.aggregate_pod,
        deps.pod_own_dependencies,
        health=health.pod_health,
    ),
    ("v1", "Service"): NativeKind(
        retain=retain.retain_service,
        aggregate=statuses.aggregate_service,
        reflect=reflect.reflect_service,
        health=health.service_health,
    ),
    ("v1", "ServiceAccount"): NativeKind(retain=retain.retain_service_account),
    ("v1", "Secret"): NativeKind(retain=retain.retain_secret),
    ("v1", "PersistentVolumeClaim"): NativeKind(
        retain=retain.retain_claim, aggregate=statuses.aggregate_claim, health=health.claim_health
    ),
    ("v1", "PersistentVolume"): NativeKind(retain=retain.retain_volume, aggregate=statuses.aggregate_volume),
    ("networking.k8s.io/v1", "Ingress"): NativeKind(
        aggregate=statuses.aggregate_ingress,
        dependencies=deps.ingress_dependencies,
        health=health.ingress_health,
    ),
    ("policy/v1", "PodDisruptionBudget"): NativeKind(
        aggregate=statuses.aggregate_budget, reflect=reflect.reflect_budget, health=health.budget_health
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): NativeKind(
        aggregate=statuses.aggregate_autoscaler, reflect=reflect.reflect_autoscaler
    ),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"): NativeKind(dependencies=deps.service_import_dependencies),
}
_OTHER: Final = NativeKind()
_FIELD_OF_OPERATION: Final = {
    Operation.REPLICA: "replicas",
    Operation.REVISE: "revise",
    Operation.RETAIN: "retain",
    Operation.AGGREGATE: "aggregate",
    Operation.DEPENDENCY: "dependencies",
    Operation.STATUS: "reflect",
    Operation.HEALTH: "health",
}
_TYPED: Final = frozenset({Operation.REPLICA, Operation.AGGREGATE, Operation.DEPENDENCY, Operation.HEALTH})
"""Operations that rely on the types of an object's fields."""
# Built once: hook_enabled is asked several times for every object.
_HOOKS: Final = frozenset(
    (*key, operation)
    for key, kind in NATIVE_KINDS.items()
    for operation, field in _FIELD_OF_OPERATION.items()
    if getattr(kind, field) is not None
)


class NativeInterpreter:
    """Answers for Kubernetes' own kinds; any other kind has its status collected as it is, and nothing more.

    Operations leave their arguments alone and return objects that may share parts with them.
    """

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether the operation is built in for a kind."""
        return operation == Operation.STATUS or (api_version, kind, operation) in _HOOKS

    def interpret(self, operation: Operation, obj: Manifest, *arguments: Any) -> Any:
        """The result of an operation on an object.

        Raises InterpretError for an object that does not have the shape of its kind, or a kind that does not offer the
        operation: no built-in kind consists of several components.
        """
        kind = _kind(obj)
        function = getattr(kind, _FIELD_OF_OPERATION.get(operation, ""), None)
        if function is None:
            raise InterpretError(
                f"no interpreter offers {operation} for {obj.get('apiVersion')} {obj.get('kind')}: "
                "define it in a ResourceInterpreterCustomization"
            )
        if operation in _TYPED:
            check_object(str(obj.get("kind")), obj)
        if operation == Operation.AGGREGATE and not kind.dated:
            return function(obj, arguments[0])
        result = function(obj, *arguments)
        if operation == Operation.REPLICA:
            return counts.completed(obj, result, *arguments)
        if operation == Operation.DEPENDENCY:
            deps.validate_references(result)
        return result


def _kind(obj: Manifest) -> NativeKind:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if type(value) is not str:
            raise InterpretError(f"is {describe(value)}, expected a text", name)
    return NATIVE_KINDS.get((api_version, kind), _OTHER)  # type: ignore[arg-type] # both are texts by now
