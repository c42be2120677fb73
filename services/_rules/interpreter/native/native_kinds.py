"""The built-in interpretation of Kubernetes' own kinds, as a table, and the default for every other kind.

Which kind offers which operation: reference 03 §5.7. Kinds are looked up by exact apiVersion and kind.
"""

from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import (
    AGGREGATE_STATUS,
    INTERPRET_DEPENDENCY,
    INTERPRET_HEALTH,
    INTERPRET_REPLICA,
    INTERPRET_STATUS,
    RETAIN,
    REVISE_REPLICA,
    InterpretError,
    describe,
)
from services._rules.interpreter.native import batch_statuses as aggregate_batch
from services._rules.interpreter.native import dependencies as deps
from services._rules.interpreter.native import health_rules as health
from services._rules.interpreter.native import network_statuses as aggregate_network
from services._rules.interpreter.native import reflect, retain
from services._rules.interpreter.native import replicas as counts
from services._rules.interpreter.native import storage_statuses as aggregate_storage
from services._rules.interpreter.native.prune import REMOVE_JOB_TTL, prune
from services._rules.interpreter.native.reflect import Reflector, reflect_whole
from services._rules.interpreter.native.retain import Retainer
from services._rules.interpreter.native.workload_statuses import Items, aggregate_workload

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
        aggregate_workload,
        deps.template_dependencies,
        reflect.reflect_workload,
        health.deployment_health,
    ),
    ("apps/v1", "ReplicaSet"): NativeKind(
        counts.workload_replicas,
        counts.revise_replicas,
        None,
        aggregate_workload,
        deps.template_dependencies,
        reflect.reflect_workload,
        health.replica_set_health,
    ),
    ("apps/v1", "StatefulSet"): NativeKind(
        counts.workload_replicas,
        counts.revise_replicas,
        None,
        aggregate_workload,
        deps.stateful_set_dependencies,
        reflect.reflect_workload,
        health.deployment_health,
    ),
    ("apps/v1", "DaemonSet"): NativeKind(
        aggregate=aggregate_workload,
        dependencies=deps.template_dependencies,
        reflect=reflect.reflect_workload,
        health=health.daemon_set_health,
    ),
    ("batch/v1", "Job"): NativeKind(
        counts.job_replicas,
        counts.revise_parallelism,
        retain.retain_job,
        aggregate_batch.aggregate_job,
        deps.template_dependencies,
        reflect.reflect_job,
        dated=True,
    ),
    ("batch/v1", "CronJob"): NativeKind(
        aggregate=aggregate_batch.aggregate_cron_job, dependencies=deps.cron_job_dependencies
    ),
    ("v1", "Pod"): NativeKind(
        counts.pod_replicas,
        None,
        retain.retain_pod,
        aggregate_batch.aggregate_pod,
        deps.pod_own_dependencies,
        health=health.pod_health,
    ),
    ("v1", "Service"): NativeKind(
        retain=retain.retain_service,
        aggregate=aggregate_network.aggregate_service,
        reflect=reflect.reflect_service,
        health=health.service_health,
    ),
    ("v1", "ServiceAccount"): NativeKind(retain=retain.retain_service_account),
    ("v1", "Secret"): NativeKind(retain=retain.retain_secret),
    ("v1", "PersistentVolumeClaim"): NativeKind(
        retain=retain.retain_claim, aggregate=aggregate_storage.aggregate_claim, health=health.claim_health
    ),
    ("v1", "PersistentVolume"): NativeKind(retain=retain.retain_volume, aggregate=aggregate_storage.aggregate_volume),
    ("networking.k8s.io/v1", "Ingress"): NativeKind(
        aggregate=aggregate_network.aggregate_ingress,
        dependencies=deps.ingress_dependencies,
        health=health.ingress_health,
    ),
    ("policy/v1", "PodDisruptionBudget"): NativeKind(
        aggregate=aggregate_network.aggregate_budget, reflect=reflect.reflect_budget, health=health.budget_health
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): NativeKind(
        aggregate=aggregate_network.aggregate_autoscaler, reflect=reflect.reflect_autoscaler
    ),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"): NativeKind(dependencies=deps.service_import_dependencies),
}
_OTHER: Final = NativeKind()
_FIELD_OF_OPERATION: Final = {
    INTERPRET_REPLICA: "replicas",
    REVISE_REPLICA: "revise",
    RETAIN: "retain",
    AGGREGATE_STATUS: "aggregate",
    INTERPRET_DEPENDENCY: "dependencies",
    INTERPRET_STATUS: "reflect",
    INTERPRET_HEALTH: "health",
}
# Built once: hook_enabled is asked several times for every object.
_HOOKS: Final = frozenset(
    (*key, operation)
    for key, kind in NATIVE_KINDS.items()
    for operation, field in _FIELD_OF_OPERATION.items()
    if getattr(kind, field) is not None
)


class NativeInterpreter:
    """Answers for Kubernetes' own kinds; any other kind has its status collected as it is, and nothing more.

    Every method leaves its arguments alone and returns objects that may share parts with them. All raise InterpretError
    for an object that does not have the shape of its kind, or a kind that does not offer the operation.
    """

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether the operation is built in for a kind."""
        return operation == INTERPRET_STATUS or (api_version, kind, operation) in _HOOKS

    def get_replicas(self, obj: Manifest, *, quota: bool = False) -> counts.Replicas:
        """Replicas and what each of them requires; `quota` adds namespace and priority class."""
        return _offered(_kind(obj).replicas, obj, INTERPRET_REPLICA)(obj, quota=quota)

    def get_components(self, obj: Manifest) -> list[dict[str, Any]]:
        """No built-in kind consists of several components; always raises InterpretError."""
        raise _not_offered(obj, "InterpretComponent")

    def revise_replica(self, obj: Manifest, replicas: int) -> Manifest:
        """The object with another number of replicas, where it has such a field."""
        return _offered(_kind(obj).revise, obj, REVISE_REPLICA)(obj, replicas)

    def retain(self, desired: Manifest, observed: Manifest) -> Manifest:
        """The object to write, with the fields that belong to the member taken from the observed one."""
        return _offered(_kind(desired).retain, desired, RETAIN)(desired, observed)

    def aggregate_status(self, obj: Manifest, items: Items, *, now: str) -> Manifest:
        """The template with the status that the members' reports add up to; `now` is an RFC 3339 time.

        `items` are aggregated status items (clusterName, status, …); None where nothing was ever scheduled.
        """
        kind = _kind(obj)
        aggregate = _offered(kind.aggregate, obj, AGGREGATE_STATUS)
        return aggregate(obj, items, now) if kind.dated else aggregate(obj, items)

    def get_dependencies(self, obj: Manifest) -> list[deps.Reference]:
        """References to the objects that must accompany this one, by kind and name."""
        references = _offered(_kind(obj).dependencies, obj, INTERPRET_DEPENDENCY)(obj)
        deps.validate_references(references)
        return references

    def reflect_status(self, obj: Manifest) -> Any:
        """The status to collect from a member's object, None where there is nothing to collect."""
        return _kind(obj).reflect(obj)

    def interpret_health(self, obj: Manifest) -> bool:
        """Whether a member's object does what it should."""
        return _offered(_kind(obj).health, obj, INTERPRET_HEALTH)(obj)

    def prune(self, obj: Manifest, hooks: Collection[str] = (REMOVE_JOB_TTL,)) -> Manifest:
        """The object without what servers wrote into it; `hooks` names optional removals."""
        return prune(obj, hooks)


def _kind(obj: Manifest) -> NativeKind:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if type(value) is not str:
            raise InterpretError(f"is {describe(value)}, expected a text", name)
    return NATIVE_KINDS.get((api_version, kind), _OTHER)  # type: ignore[arg-type] # both are texts by now


def _offered(function: _Function | None, obj: Manifest, operation: str) -> _Function:
    if function is None:
        raise _not_offered(obj, operation)
    return function


def _not_offered(obj: Manifest, operation: str) -> InterpretError:
    return InterpretError(
        f"{obj.get('apiVersion')} {obj.get('kind')} has no built-in {operation}: "
        "define it in a ResourceInterpreterCustomization"
    )
