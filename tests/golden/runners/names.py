"""Replays the recorded names, keys and claim metadata."""

from collections.abc import Callable
from typing import Any

from services._rules import names
from services._rules.policies import policy_claims as claims

Case = dict[str, Any]


def _cluster_wide(reference: Case) -> Any:
    parts = (
        reference.get("apiVersion", ""),
        reference.get("kind", ""),
        reference.get("namespace", ""),
        reference.get("name", ""),
    )
    return {
        "string": names.cluster_wide_key(*parts),
        "federated": names.federated_key("m1", *parts),
        "namespacedKey": names.namespaced_key(parts[2], parts[3]),
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "GenerateBindingName": names.binding_name,
    "GenerateWorkName": names.work_name,
    "GenerateBindingReferenceKey": names.binding_reference_key,
    "GeneratePolicyName": names.policy_name,
    "GenerateEndpointSliceName": names.imported_endpoint_slice_name,
    "GenerateEstimatorServiceName": lambda prefix, cluster: names.estimator_service_name(cluster, prefix),
    "GenerateEstimatorDeploymentName": names.estimator_service_name,
    "GenerateDerivedServiceName": names.derived_service_name,
    "GenerateExecutionSpaceName": names.execution_namespace,
    "GenerateImpersonationSecretName": names.impersonation_secret_name,
    "GenerateRoleName": names.member_role_name,
    "GenerateServiceAccountName": names.member_service_account_name,
    "GetClusterName": names.cluster_of_execution_namespace,
    "IsReservedNamespace": names.is_reserved_namespace,
    "NamespacedKey": names.namespaced_key,
    "ConstructClusterWideKey": _cluster_wide,
}

CLAIMS: dict[str, Callable[[Case], Any]] = {
    "AddPPClaimMetadata": lambda a: claims.add_policy_claim(
        a["object"], a["policyID"], a["policyNamespace"], a["policyName"]
    ),
    "AddCPPClaimMetadata": lambda a: claims.add_cluster_policy_claim(a["object"], a["policyID"], a["policyName"]),
    "CleanupPPClaimMetadata": lambda a: claims.clean_policy_claim(a["object"]),
    "CleanupCPPClaimMetadata": lambda a: claims.clean_cluster_policy_claim(a["object"]),
    "NeedCleanupClaimMetadata": lambda a: claims.claim_labels_match(a["object"], a["target"]),
}


def check_name(case: Case) -> bool:
    """Whether the case comes out as recorded."""
    try:
        claim = CLAIMS.get(case["function"])
        found = claim(case["args"]) if claim else FUNCTIONS[case["function"]](*case["args"])
    except names.NameFormatError:
        return "error" in case
    return "error" not in case and _plain(found) == _plain(case["result"])


def _plain(value: Any) -> Any:
    """Without empty members of objects, which mean the same as absent ones."""
    if not isinstance(value, dict):
        return value
    return {key: plain for key, item in value.items() if (plain := _plain(item)) not in (None, {}, [])}


FILES: dict[str, Callable[[Case], bool | None]] = {"names": check_name}
