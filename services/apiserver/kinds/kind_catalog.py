"""The table of built-in kinds: group, names, versions by release, subresources, and the class with their rules."""

from __future__ import annotations

import msgspec

from services.apiserver.kinds.builtin import NEWEST, BuiltinKind, PlainWithStatus
from services.apiserver.kinds.groups import (
    admission,
    autoscaling,
    batch,
    certificates,
    cluster,
    config,
    endpoints,
    events,
    networking,
    policy,
    quota,
    rbac,
    reviews,
    service,
    storage,
)
from services.apiserver.kinds.kind_model import CRUD, Resource, Subresource
from services.apiserver.kinds.registry import Registry
from services.apiserver.kinds.workloads import deployments as workloads
from services.apiserver.kinds.workloads import numbered_and_daemon_sets as sets
from services.apiserver.kinds.workloads import pods

CREATE = ("create",)
NO_COLLECTION = tuple(verb for verb in CRUD if verb != "deletecollection")
STATUS = Subresource("status")
SCALE = Subresource("scale", kind="Scale", group="autoscaling", version="v1")
APPROVAL = Subresource("approval")
PROXY_VERBS = ("create", "delete", "get", "patch", "update")
STREAM_VERBS = ("create", "get")

# (priority of the group, {version: priority}), most important first as kube-apiserver orders them.
GROUPS: dict[str, tuple[int, dict[str, int]]] = {
    "": (18000, {"v1": 1}),
    "apiregistration.k8s.io": (18000, {"v1": 15, "v1beta1": 9}),
    "extensions": (17900, {"v1beta1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15, "v1beta1": 5}),
    "authentication.k8s.io": (17700, {"v1": 15, "v1beta1": 9}),
    "authorization.k8s.io": (17600, {"v1": 15, "v1beta1": 9}),
    "autoscaling": (17500, {"v1": 15, "v2": 14, "v2beta1": 9, "v2beta2": 1}),
    "batch": (17400, {"v1": 15, "v1beta1": 9}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15, "v1beta1": 9}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15, "v1beta1": 12}),
    "storage.k8s.io": (16800, {"v1": 15, "v1beta1": 9}),
    "admissionregistration.k8s.io": (16700, {"v1": 15, "v1beta1": 12}),
    "apiextensions.k8s.io": (16700, {"v1": 15, "v1beta1": 9}),
    "scheduling.k8s.io": (16600, {"v1": 15, "v1beta1": 12}),
    "coordination.k8s.io": (16500, {"v1": 15, "v1beta1": 9}),
    "node.k8s.io": (16300, {"v1": 15, "v1beta1": 9}),
    "discovery.k8s.io": (16200, {"v1": 15, "v1beta1": 12}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1beta1": 9}),
}


# As releases from 1.26 on order them, and behind all others what they do not serve any more.
_TODAY: dict[str, tuple[int, dict[str, int]]] = {
    "extensions": (1, {"v1beta1": 1}),
    "autoscaling": (17500, {"v2": 30, "v1": 15, "v2beta1": 9, "v2beta2": 1}),
}


class Row(msgspec.Struct, frozen=True):
    """One kind and the versions in which it is served: {version: first minor release}."""

    group: str
    kind: str
    plural: str
    rules: type[BuiltinKind]
    versions: dict[str, int]
    short: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[Subresource, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = CRUD
    store: tuple[str, str] = ("", "")


V1 = {"v1": 0}
BOTH = {"v1": 0, "v1beta1": 0}
ALL = ("all",)
EVICTION = Subresource("eviction", CREATE, "Eviction", "policy", "v1beta1")
TOKEN = Subresource("token", CREATE, "TokenRequest", "authentication.k8s.io", "v1")

ROWS = [
    Row("", "Binding", "bindings", reviews.Binding, V1, verbs=CREATE),
    Row("", "ComponentStatus", "componentstatuses", BuiltinKind, V1, ("cs",), False, verbs=("get", "list")),
    Row("", "ConfigMap", "configmaps", config.ConfigMap, V1, ("cm",)),
    Row("", "Endpoints", "endpoints", endpoints.Endpoints, V1, ("ep",)),
    Row("", "Event", "events", events.CoreEvent, V1, ("ev",)),
    Row("", "LimitRange", "limitranges", quota.LimitRange, V1, ("limits",)),
    Row(
        "",
        "Namespace",
        "namespaces",
        cluster.Namespace,
        V1,
        ("ns",),
        False,
        (STATUS, Subresource("finalize", ("update",))),
        verbs=NO_COLLECTION,
    ),
    Row(
        "",
        "Node",
        "nodes",
        cluster.Node,
        V1,
        ("no",),
        False,
        (STATUS, Subresource("proxy", PROXY_VERBS, "NodeProxyOptions")),
    ),
    Row("", "PersistentVolumeClaim", "persistentvolumeclaims", storage.Claim, V1, ("pvc",), True, (STATUS,)),
    Row("", "PersistentVolume", "persistentvolumes", storage.Volume, V1, ("pv",), False, (STATUS,)),
    Row(
        "",
        "Pod",
        "pods",
        pods.Pod,
        V1,
        ("po",),
        True,
        (
            STATUS,
            EVICTION,
            Subresource("attach", STREAM_VERBS, "PodAttachOptions"),
            Subresource("binding", CREATE, "Binding"),
            Subresource("exec", STREAM_VERBS, "PodExecOptions"),
            Subresource("log", ("get",)),
            Subresource("portforward", STREAM_VERBS, "PodPortForwardOptions"),
            Subresource("proxy", PROXY_VERBS, "PodProxyOptions"),
        ),
        ALL,
    ),
    Row("", "PodTemplate", "podtemplates", pods.PodTemplate, V1),
    Row(
        "",
        "ReplicationController",
        "replicationcontrollers",
        workloads.ReplicationController,
        V1,
        ("rc",),
        True,
        (STATUS, SCALE),
        ALL,
    ),
    Row("", "ResourceQuota", "resourcequotas", quota.ResourceQuota, V1, ("quota",), True, (STATUS,)),
    Row("", "Secret", "secrets", config.Secret, V1),
    Row("", "ServiceAccount", "serviceaccounts", BuiltinKind, V1, ("sa",), True, (TOKEN,)),
    Row(
        "",
        "Service",
        "services",
        service.Service,
        V1,
        ("svc",),
        True,
        (STATUS, Subresource("proxy", PROXY_VERBS, "ServiceProxyOptions")),
        ALL,
        NO_COLLECTION,
    ),
    Row(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        admission.WebhookConfiguration,
        BOTH,
        (),
        False,
        categories=("api-extensions",),
    ),
    Row(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        admission.WebhookConfiguration,
        BOTH,
        (),
        False,
        categories=("api-extensions",),
    ),
    Row(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        PlainWithStatus,
        BOTH,
        ("crd", "crds"),
        False,
        (STATUS,),
        ("api-extensions",),
    ),
    Row(
        "apiregistration.k8s.io",
        "APIService",
        "apiservices",
        admission.APIService,
        BOTH,
        (),
        False,
        (STATUS,),
        ("api-extensions",),
    ),
    Row("apps", "ControllerRevision", "controllerrevisions", workloads.ControllerRevision, V1),
    Row("apps", "DaemonSet", "daemonsets", sets.DaemonSet, V1, ("ds",), True, (STATUS,), ALL),
    Row("apps", "Deployment", "deployments", workloads.Deployment, V1, ("deploy",), True, (STATUS, SCALE), ALL),
    Row("apps", "ReplicaSet", "replicasets", workloads.ReplicaSet, V1, ("rs",), True, (STATUS, SCALE), ALL),
    Row("apps", "StatefulSet", "statefulsets", sets.StatefulSet, V1, ("sts",), True, (STATUS, SCALE), ALL),
    Row("authentication.k8s.io", "TokenReview", "tokenreviews", reviews.Review, BOTH, (), False, verbs=CREATE),
    Row(
        "authorization.k8s.io",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        reviews.LocalAccessReview,
        BOTH,
        verbs=CREATE,
    ),
    Row(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        reviews.SelfAccessReview,
        BOTH,
        (),
        False,
        verbs=CREATE,
    ),
    Row(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        reviews.Review,
        BOTH,
        (),
        False,
        verbs=CREATE,
    ),
    Row(
        "authorization.k8s.io",
        "SubjectAccessReview",
        "subjectaccessreviews",
        reviews.AccessReview,
        BOTH,
        (),
        False,
        verbs=CREATE,
    ),
    Row(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        autoscaling.Autoscaler,
        {"v1": 0, "v2": 23, "v2beta1": 0, "v2beta2": 0},
        ("hpa",),
        True,
        (STATUS,),
        ALL,
        store=("autoscaling", "v2"),
    ),
    Row("batch", "CronJob", "cronjobs", batch.CronJob, {"v1": 21, "v1beta1": 0}, ("cj",), True, (STATUS,), ALL),
    Row("batch", "Job", "jobs", batch.Job, V1, (), True, (STATUS,), ALL),
    Row(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        certificates.SigningRequest,
        BOTH,
        ("csr",),
        False,
        (STATUS, APPROVAL),
    ),
    Row("coordination.k8s.io", "Lease", "leases", cluster.Lease, BOTH),
    Row("discovery.k8s.io", "EndpointSlice", "endpointslices", service.EndpointSlice, {"v1": 21, "v1beta1": 0}),
    Row("events.k8s.io", "Event", "events", events.Event, BOTH, ("ev",), store=("", "v1")),
    Row(
        "extensions",
        "Ingress",
        "ingresses",
        networking.Ingress,
        {"v1beta1": 0},
        ("ing",),
        True,
        (STATUS,),
        store=("networking.k8s.io", "v1"),
    ),
    Row(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        "flowschemas",
        PlainWithStatus,
        {"v1beta1": 0},
        (),
        False,
        (STATUS,),
    ),
    Row(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        PlainWithStatus,
        {"v1beta1": 0},
        (),
        False,
        (STATUS,),
    ),
    Row("networking.k8s.io", "IngressClass", "ingressclasses", networking.IngressClass, BOTH, (), False),
    Row("networking.k8s.io", "Ingress", "ingresses", networking.Ingress, BOTH, ("ing",), True, (STATUS,)),
    Row("networking.k8s.io", "NetworkPolicy", "networkpolicies", networking.NetworkPolicy, V1, ("netpol",)),
    Row("node.k8s.io", "RuntimeClass", "runtimeclasses", cluster.RuntimeClass, BOTH, (), False),
    Row(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        policy.DisruptionBudget,
        {"v1": 21, "v1beta1": 0},
        ("pdb",),
        True,
        (STATUS,),
    ),
    Row("policy", "PodSecurityPolicy", "podsecuritypolicies", BuiltinKind, {"v1beta1": 0}, ("psp",), False),
    Row("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", rbac.RoleBinding, BOTH, (), False),
    Row("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", rbac.Role, BOTH, (), False),
    Row("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", rbac.RoleBinding, BOTH),
    Row("rbac.authorization.k8s.io", "Role", "roles", rbac.Role, BOTH),
    Row("scheduling.k8s.io", "PriorityClass", "priorityclasses", cluster.PriorityClass, BOTH, ("pc",), False),
    Row("storage.k8s.io", "CSIDriver", "csidrivers", storage.Driver, BOTH, (), False),
    Row("storage.k8s.io", "CSINode", "csinodes", storage.DriverNode, BOTH, (), False),
    Row("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", BuiltinKind, {"v1": 24}),
    Row("storage.k8s.io", "StorageClass", "storageclasses", storage.StorageClass, BOTH, ("sc",), False),
    Row(
        "storage.k8s.io",
        "VolumeAttachment",
        "volumeattachments",
        storage.Attachment,
        {"v1": 0, "v1beta1": 0},
        (),
        False,
        (STATUS,),
    ),
]


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the OpenAPI name of a built-in kind."""
    if group == "apiextensions.k8s.io":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"
    if group == "apiregistration.k8s.io":
        return f"io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{kind}"
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"


def builtin_registry(profile: str = "current") -> Registry:
    """Return a registry of the built-in kinds.

    `profile` is "current" (all that is implemented) or a minor release such as "1.20" (what that release served).
    """
    registry = Registry()
    fill(registry, profile)
    return registry


def fill(registry: Registry, profile: str) -> None:
    """Add the built-in kinds of the profile ("current", or a minor release such as "1.20")."""
    release = NEWEST if profile == "current" else int(profile.partition(".")[2])
    groups = GROUPS if release < NEWEST else {**GROUPS, **_TODAY}
    for row in ROWS:
        priority, versions = groups[row.group]
        for version, since in row.versions.items():
            if since > release:
                continue
            resource = Resource(
                group=row.group,
                version=version,
                kind=row.kind,
                plural=row.plural,
                list_kind=f"{row.kind}List",
                # Else clients warn at every use that the short name means two kinds.
                short_names=() if row.group == "extensions" and release == NEWEST else row.short,
                namespaced=row.namespaced,
                verbs=row.verbs,
                categories=row.categories,
                subresources=_subresources(row, version),
            )
            kind = row.rules(resource, definition_name(row.group, version, row.kind))
            kind.store_group, kind.store_version = row.store if row.store[1] else (row.group, next(iter(row.versions)))
            kind.release = release
            registry.add_kind(kind, group_priority=priority, version_priority=versions[version])


def _subresources(row: Row, version: str) -> tuple[Subresource, ...]:
    # The beta of VolumeAttachment never had the status subresource.
    return () if (row.plural, version) == ("volumeattachments", "v1beta1") else row.subresources
