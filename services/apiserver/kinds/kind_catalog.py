"""The table of built-in kinds: group, names, versions, subresources, and the class with their rules.

A further kind is a row here. One whose fields have rules or defaults names a class of `groups` or `workloads` that
holds them as tables; one that has none is a plain `BuiltinKind`. Its types come from the field tables.
"""

from __future__ import annotations

import msgspec

from services.apiserver.kinds.builtin import BuiltinKind, PlainWithStatus
from services.apiserver.kinds.groups import (
    admission,
    admission_policies,
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
FINALIZE = Subresource("finalize", ("update",))
TOKEN = Subresource("token", CREATE, "TokenRequest", "authentication.k8s.io", "v1")


def _proxy(kind: str) -> Subresource:
    return Subresource("proxy", ("create", "delete", "get", "patch", "update"), f"{kind}ProxyOptions")


_OF_PODS = (
    STATUS,
    Subresource("ephemeralcontainers"),
    Subresource("resize"),
    Subresource("eviction", CREATE, "Eviction", "policy", "v1"),
    Subresource("binding", CREATE, "Binding"),
    Subresource("log", ("get",)),
    *(Subresource(name.lower(), ("create", "get"), f"Pod{name}Options") for name in ("Attach", "Exec", "PortForward")),
    _proxy("Pod"),
)

# (priority of the group, {version: priority}), most important first as kube-apiserver orders them.
GROUPS: dict[str, tuple[int, dict[str, int]]] = {
    "": (18000, {"v1": 1}),
    "apiregistration.k8s.io": (18000, {"v1": 15}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15}),
    "authentication.k8s.io": (17700, {"v1": 15}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v2": 30, "v1": 15}),
    "batch": (17400, {"v1": 15}),
    "certificates.k8s.io": (17300, {"v1": 15}),
    "networking.k8s.io": (17200, {"v1": 15}),
    "policy": (17100, {"v1": 15}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "scheduling.k8s.io": (16600, {"v1": 15}),
    "coordination.k8s.io": (16500, {"v1": 15}),
    "node.k8s.io": (16300, {"v1": 15}),
    "discovery.k8s.io": (16200, {"v1": 15}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21}),
}


V1 = ("v1",)
ALL = ("all",)
EXTENSIONS = ("api-extensions",)


class Row(msgspec.Struct, frozen=True):
    """One kind and the versions in which it is served."""

    kind: str
    rules: type[BuiltinKind]
    versions: tuple[str, ...] = V1
    short: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    categories: tuple[str, ...] = ()
    cluster: bool = False
    verbs: tuple[str, ...] = CRUD
    plural: str = ""
    store: tuple[str, str] = ("", "")


# The kinds of each group.
KINDS: dict[str, tuple[Row, ...]] = {
    "": (
        Row("Binding", reviews.Binding, verbs=CREATE),
        Row("ComponentStatus", BuiltinKind, V1, ("cs",), cluster=True, verbs=("get", "list")),
        Row("ConfigMap", config.ConfigMap, V1, ("cm",)),
        Row("Endpoints", endpoints.Endpoints, V1, ("ep",), plural="endpoints"),
        Row("Event", events.CoreEvent, V1, ("ev",)),
        Row("LimitRange", quota.LimitRange, V1, ("limits",)),
        Row("Namespace", cluster.Namespace, V1, ("ns",), (STATUS, FINALIZE), cluster=True, verbs=NO_COLLECTION),
        Row("Node", cluster.Node, V1, ("no",), (STATUS, _proxy("Node")), cluster=True),
        Row("PersistentVolumeClaim", storage.Claim, V1, ("pvc",), (STATUS,)),
        Row("PersistentVolume", storage.Volume, V1, ("pv",), (STATUS,), cluster=True),
        Row("Pod", pods.Pod, V1, ("po",), _OF_PODS, ALL),
        Row("PodTemplate", pods.PodTemplate),
        Row("ReplicationController", workloads.ReplicationController, V1, ("rc",), (STATUS, SCALE), ALL),
        Row("ResourceQuota", quota.ResourceQuota, V1, ("quota",), (STATUS,)),
        Row("Secret", config.Secret),
        Row("ServiceAccount", config.ServiceAccount, V1, ("sa",), (TOKEN,)),
        Row("Service", service.Service, V1, ("svc",), (STATUS, _proxy("Service")), ALL),
    ),
    "admissionregistration.k8s.io": (
        Row("MutatingWebhookConfiguration", admission.WebhookConfiguration, V1, (), (), EXTENSIONS, cluster=True),
        Row("ValidatingAdmissionPolicy", admission_policies.Policy, V1, (), (STATUS,), EXTENSIONS, cluster=True),
        Row("ValidatingAdmissionPolicyBinding", admission_policies.Binding, V1, (), (), EXTENSIONS, cluster=True),
        Row("ValidatingWebhookConfiguration", admission.WebhookConfiguration, V1, (), (), EXTENSIONS, cluster=True),
    ),
    "apiextensions.k8s.io": (
        Row("CustomResourceDefinition", PlainWithStatus, V1, ("crd", "crds"), (STATUS,), EXTENSIONS, cluster=True),
    ),
    "apiregistration.k8s.io": (Row("APIService", admission.APIService, V1, (), (STATUS,), EXTENSIONS, cluster=True),),
    "apps": (
        Row("ControllerRevision", workloads.ControllerRevision),
        Row("DaemonSet", sets.DaemonSet, V1, ("ds",), (STATUS,), ALL),
        Row("Deployment", workloads.Deployment, V1, ("deploy",), (STATUS, SCALE), ALL),
        Row("ReplicaSet", workloads.ReplicaSet, V1, ("rs",), (STATUS, SCALE), ALL),
        Row("StatefulSet", sets.StatefulSet, V1, ("sts",), (STATUS, SCALE), ALL),
    ),
    "authentication.k8s.io": (
        Row("SelfSubjectReview", reviews.Review, V1, cluster=True, verbs=CREATE),
        Row("TokenReview", reviews.Review, V1, cluster=True, verbs=CREATE),
    ),
    "authorization.k8s.io": (
        Row("LocalSubjectAccessReview", reviews.LocalAccessReview, V1, verbs=CREATE),
        Row("SelfSubjectAccessReview", reviews.SelfAccessReview, V1, cluster=True, verbs=CREATE),
        Row("SelfSubjectRulesReview", reviews.Review, V1, cluster=True, verbs=CREATE),
        Row("SubjectAccessReview", reviews.AccessReview, V1, cluster=True, verbs=CREATE),
    ),
    "autoscaling": (
        Row(
            "HorizontalPodAutoscaler",
            autoscaling.Autoscaler,
            ("v1", "v2"),
            ("hpa",),
            (STATUS,),
            ALL,
            store=("autoscaling", "v2"),
        ),
    ),
    "batch": (
        Row("CronJob", batch.CronJob, V1, ("cj",), (STATUS,), ALL),
        Row("Job", batch.Job, V1, (), (STATUS,), ALL),
    ),
    "certificates.k8s.io": (
        Row("CertificateSigningRequest", certificates.SigningRequest, V1, ("csr",), (STATUS, APPROVAL), cluster=True),
    ),
    "coordination.k8s.io": (Row("Lease", cluster.Lease, V1),),
    "discovery.k8s.io": (Row("EndpointSlice", endpoints.EndpointSlice, V1),),
    "events.k8s.io": (Row("Event", events.Event, V1, ("ev",), store=("", "v1")),),
    "flowcontrol.apiserver.k8s.io": (
        Row("FlowSchema", cluster.FlowSchema, V1, (), (STATUS,), cluster=True),
        Row("PriorityLevelConfiguration", cluster.PriorityLevel, V1, (), (STATUS,), cluster=True),
    ),
    "networking.k8s.io": (
        Row("IPAddress", networking.IPAddress, V1, ("ip",), cluster=True),
        Row("IngressClass", networking.IngressClass, V1, cluster=True),
        Row("Ingress", networking.Ingress, V1, ("ing",), (STATUS,)),
        Row("NetworkPolicy", networking.NetworkPolicy, V1, ("netpol",)),
        Row("ServiceCIDR", networking.ServiceCIDR, V1, (), (STATUS,), cluster=True),
    ),
    "node.k8s.io": (Row("RuntimeClass", cluster.RuntimeClass, V1, cluster=True),),
    "policy": (Row("PodDisruptionBudget", policy.DisruptionBudget, V1, ("pdb",), (STATUS,)),),
    "rbac.authorization.k8s.io": (
        Row("ClusterRoleBinding", rbac.RoleBinding, V1, cluster=True),
        Row("ClusterRole", rbac.Role, V1, cluster=True),
        Row("RoleBinding", rbac.RoleBinding, V1),
        Row("Role", rbac.Role, V1),
    ),
    "scheduling.k8s.io": (Row("PriorityClass", cluster.PriorityClass, V1, ("pc",), cluster=True),),
    "storage.k8s.io": (
        Row("CSIDriver", storage.Driver, V1, cluster=True),
        Row("CSINode", storage.DriverNode, V1, cluster=True),
        Row("CSIStorageCapacity", storage.Capacity, V1),
        Row("StorageClass", storage.StorageClass, V1, ("sc",), cluster=True),
        Row("VolumeAttachment", storage.Attachment, V1, (), (STATUS,), cluster=True),
        Row("VolumeAttributesClass", storage.AttributesClass, V1, ("vac",), cluster=True),
    ),
}


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the OpenAPI name of a built-in kind."""
    if group == "apiextensions.k8s.io":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"
    if group == "apiregistration.k8s.io":
        return f"io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{kind}"
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def builtin_registry() -> Registry:
    """Return a registry of the built-in kinds."""
    registry = Registry()
    served = [(name, one, version) for name in KINDS for one in KINDS[name] for version in one.versions]
    for group, row, version in served:
        resource = Resource(
            group=group,
            version=version,
            kind=row.kind,
            plural=row.plural or _plural(row.kind),
            list_kind=f"{row.kind}List",
            singular=row.kind.lower(),
            short_names=row.short,
            namespaced=not row.cluster,
            verbs=row.verbs,
            categories=row.categories,
            subresources=row.subresources,
        )
        kind = row.rules(resource, definition_name(group, version, row.kind))
        kind.store_group, kind.store_version = row.store if row.store[1] else (group, row.versions[0])
        kind.has_status = STATUS in row.subresources
        if row.kind == "Event":
            kind.status_group = ""  # It is checked as what it is stored as.
        priority, versions = GROUPS[group]
        registry.add_kind(kind, group_priority=priority, version_priority=versions[version])
    return registry
