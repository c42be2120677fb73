"""Wire constants of Karmada's API: groups, namespaces, labels, annotations, finalizers, taints.

Each text is part of the protocol: users, members and other controllers read and write it, so none may change.
Source: docs/sources.md#constants.
"""

from typing import Final

# API groups and versions.
POLICY_API: Final = "policy.karmada.io/v1alpha1"
WORK_API: Final = "work.karmada.io/v1alpha1"
BINDING_API: Final = "work.karmada.io/v1alpha2"
CLUSTER_API: Final = "cluster.karmada.io/v1alpha1"
AUTOSCALING_GROUP: Final = "autoscaling.karmada.io"
AUTOSCALING_API: Final = f"{AUTOSCALING_GROUP}/v1alpha1"
FEDERATED_HPA: Final = "FederatedHPA"
CRON_FEDERATED_HPA: Final = "CronFederatedHPA"
AGENT_SIGNER: Final = "fleetlog.io/agent"
"""The signerName of certificate signing requests for agents' identities."""
SCALE_TO_ZERO_ANNOTATION: Final = "fleetlog.io/scale-to-zero"
"""With `true`, a FederatedHPA may have `minReplicas` 0 and external metrics."""
AUTOSCALERS: Final = {"federatedhpas": FEDERATED_HPA, "cronfederatedhpas": CRON_FEDERATED_HPA}
"""Kinds by plural."""
AUTOSCALING_KINDS: Final = frozenset(AUTOSCALERS.values())
MULTICLUSTER_GROUP: Final = "multicluster.x-k8s.io"
MULTICLUSTER_API: Final = f"{MULTICLUSTER_GROUP}/v1alpha1"
EXPORTS: Final = "serviceexports"
IMPORTS: Final = "serviceimports"
DISCOVERY_API: Final = "discovery.k8s.io/v1"
NETWORKING_GROUP: Final = "networking.karmada.io"
NETWORKING_API: Final = f"{NETWORKING_GROUP}/v1alpha1"
MULTI_CLUSTER_SERVICE: Final = "MultiClusterService"
MULTI_CLUSTER_SERVICES: Final = "multiclusterservices"

# Namespaces.
NAMESPACE_SYSTEM: Final = "karmada-system"
NAMESPACE_CLUSTER: Final = "karmada-cluster"
EXECUTION_NAMESPACE_PREFIX: Final = "karmada-es-"

# Identity labels, which are also the claim labels on what an object owns.
PROPAGATION_POLICY_ID_LABEL: Final = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_PROPAGATION_POLICY_ID_LABEL: Final = "clusterpropagationpolicy.karmada.io/permanent-id"
RESOURCE_BINDING_ID_LABEL: Final = "resourcebinding.karmada.io/permanent-id"
CLUSTER_RESOURCE_BINDING_ID_LABEL: Final = "clusterresourcebinding.karmada.io/permanent-id"
FEDERATED_QUOTA_NAMESPACE_LABEL: Final = "federatedresourcequota.karmada.io/namespace"
FEDERATED_QUOTA_NAME_LABEL: Final = "federatedresourcequota.karmada.io/name"
WORK_ID_LABEL: Final = "work.karmada.io/permanent-id"
MULTI_CLUSTER_SERVICE_ID_LABEL: Final = "multiclusterservice.karmada.io/permanent-id"

# Of what a MultiClusterService owns: labels of works, annotations of the Service and its binding.
MULTI_CLUSTER_SERVICE_NAMESPACE: Final = "multiclusterservice.karmada.io/namespace"
MULTI_CLUSTER_SERVICE_NAME: Final = "multiclusterservice.karmada.io/name"
BINDING_MANAGED_BY_LABEL: Final = "binding.karmada.io/managed-by"

# Other labels.
MANAGED_LABEL: Final = "karmada.io/managed"
SYSTEM_LABEL: Final = "karmada.io/system"
LABEL_TRUE: Final = "true"
TEMPLATE_CLAIMED_BY_LABEL: Final = "resourcetemplate.karmada.io/claimed-by"
RETAIN_REPLICAS_LABEL: Final = "resourcetemplate.karmada.io/retain-replicas"
DEPENDED_BY_LABEL_PREFIX: Final = "resourcebinding.karmada.io/depended-by-"
DELETION_PROTECTED_LABEL: Final = "resourcetemplate.karmada.io/deletion-protected"
DELETION_PROTECTED_ALWAYS: Final = "Always"
SKIP_AUTO_PROPAGATION_LABEL: Final = "namespace.karmada.io/skip-auto-propagation"

# Labels and annotations of EndpointSlices, and of the Services that they belong to.
SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
SLICE_MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
IMPORT_CONTROLLER: Final = "endpointslice-controller.karmada.io"
DISPATCH_CONTROLLER: Final = "endpointslice-dispatch-controller.karmada.io"
PROVISION_CLUSTER_ANNOTATION: Final = "endpointslice.karmada.io/provision-cluster"
SERVICE_IMPORT_ANNOTATION: Final = "fleetlog.io/service-import"
"""On a derived Service: the name of the ServiceImport that it was made for."""
TOPOLOGY_MODE_ANNOTATION: Final = "service.kubernetes.io/topology-mode"

# Annotations of claims.
PROPAGATION_POLICY_NAMESPACE_ANNOTATION: Final = "propagationpolicy.karmada.io/namespace"
PROPAGATION_POLICY_NAME_ANNOTATION: Final = "propagationpolicy.karmada.io/name"
CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: Final = "clusterpropagationpolicy.karmada.io/name"

# Annotations of bindings and works.
APPLIED_PLACEMENT_ANNOTATION: Final = "policy.karmada.io/applied-placement"
APPLIED_OVERRIDES_ANNOTATION: Final = "policy.karmada.io/applied-overrides"
APPLIED_CLUSTER_OVERRIDES_ANNOTATION: Final = "policy.karmada.io/applied-cluster-overrides"
DEPENDENCIES_ANNOTATION: Final = "resourcebinding.karmada.io/dependencies"
RESOURCE_BINDING_NAMESPACE_ANNOTATION: Final = "resourcebinding.karmada.io/namespace"
RESOURCE_BINDING_NAME_ANNOTATION: Final = "resourcebinding.karmada.io/name"
CLUSTER_RESOURCE_BINDING_NAME_ANNOTATION: Final = "clusterresourcebinding.karmada.io/name"

# Annotations of manifests in members, and of what is read from them.
WORK_NAMESPACE_ANNOTATION: Final = "work.karmada.io/namespace"
WORK_NAME_ANNOTATION: Final = "work.karmada.io/name"
CONFLICT_RESOLUTION_ANNOTATION: Final = "work.karmada.io/conflict-resolution"
CONFLICT_OVERWRITE: Final = "overwrite"
CONFLICT_ABORT: Final = "abort"
TEMPLATE_UID_ANNOTATION: Final = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION_ANNOTATION: Final = "resourcetemplate.karmada.io/generation"
MANAGED_ANNOTATIONS_ANNOTATION: Final = "resourcetemplate.karmada.io/managed-annotations"
MANAGED_LABELS_ANNOTATION: Final = "resourcetemplate.karmada.io/managed-labels"
QUERIED_FROM_ANNOTATION: Final = "resource.karmada.io/query-from-cluster"

# Finalizers.
CLUSTER_FINALIZER: Final = "karmada.io/cluster-controller"
WORK_FINALIZER: Final = "karmada.io/execution-controller"
RESOURCE_BINDING_FINALIZER: Final = "karmada.io/binding-controller"
DEPENDENCIES_FINALIZER: Final = "karmada.io/binding-dependencies-distributor"
CLUSTER_RESOURCE_BINDING_FINALIZER: Final = "karmada.io/cluster-resource-binding-controller"
PROPAGATION_POLICY_FINALIZER: Final = "karmada.io/propagation-policy-controller"
CLUSTER_PROPAGATION_POLICY_FINALIZER: Final = "karmada.io/cluster-propagation-policy-controller"
MULTI_CLUSTER_SERVICE_FINALIZER: Final = "karmada.io/multiclusterservice-controller"

# Taint keys of clusters.
TAINT_CLUSTER_NOT_READY: Final = "cluster.karmada.io/not-ready"
TAINT_CLUSTER_UNREACHABLE: Final = "cluster.karmada.io/unreachable"
TAINT_CLUSTER_UNSCHEDULABLE: Final = "cluster.karmada.io/unschedulable"

# Evictions.
EVICTION_REASON_TAINT_UNTOLERATED: Final = "TaintUntolerated"
EVICTION_REASON_APPLICATION_FAILURE: Final = "ApplicationFailure"
EVICTION_PRODUCER_TAINT_MANAGER: Final = "TaintManager"
