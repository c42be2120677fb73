"""The table of built-in kinds: group, names, versions by release, subresources, and the class with their rules.

A further kind is a row here. One whose fields have rules or defaults names a class of `groups` or `workloads` that
holds them as tables; one that has none is a plain `BuiltinKind`. Its types come from the field tables.
"""

from __future__ import annotations

import msgspec

from services.apiserver.kinds.builtin import NEWEST, BuiltinKind, PlainWithStatus
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
    Subresource("eviction", CREATE, "Eviction", "policy", "v1beta1"),
    Subresource("binding", CREATE, "Binding"),
    Subresource("log", ("get",)),
    *(Subresource(name.lower(), ("create", "get"), f"Pod{name}Options") for name in ("Attach", "Exec", "PortForward")),
    _proxy("Pod"),
)

# (priority of the group, {version: priority}), most important first as kube-apiserver orders them.
GROUPS: dict[str, tuple[int, dict[str, int]]] = {
    "": (18000, {"v1": 1}),
    "apiregistration.k8s.io": (18000, {"v1": 15, "v1beta1": 9}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15, "v1beta1": 5}),
    "authentication.k8s.io": (17700, {"v1": 15, "v1beta1": 9}),
    "authorization.k8s.io": (17600, {"v1": 15, "v1beta1": 9}),
    "autoscaling": (17500, {"v1": 15, "v2": 14, "v2beta1": 9, "v2beta2": 1}),
    "batch": (17400, {"v1": 15, "v1beta1": 9}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "extensions": (17150, {"v1beta1": 1}),
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


# In the refusals of older releases some kinds bear the name of the group that had them first.
_NAMED_IN = {
    ("networking.k8s.io", "Ingress"): "extensions",
    ("networking.k8s.io", "NetworkPolicy"): "extensions",
    ("policy", "PodSecurityPolicy"): "extensions",
}
_NAMED_BY_OWN = 22


V1 = {"v1": 0}
BOTH = {"v1": 0, "v1beta1": 0}
_SINCE_21 = {"v1": 21, "v1beta1": 0}
_AUTOSCALER_VERSIONS = {"v1": 0, "v2": 23, "v2beta1": 0, "v2beta2": 0}
ALL = ("all",)
EXTENSIONS = ("api-extensions",)


class Row(msgspec.Struct, frozen=True):
    """One kind and the versions in which it is served: {version: first minor release}."""

    kind: str
    rules: type[BuiltinKind]
    versions: dict[str, int] = msgspec.field(default_factory=lambda: V1)
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
        Row("MutatingWebhookConfiguration", admission.WebhookConfiguration, BOTH, (), (), EXTENSIONS, cluster=True),
        Row(
            "ValidatingAdmissionPolicy", admission_policies.Policy, {"v1": 30}, (), (STATUS,), EXTENSIONS, cluster=True
        ),
        Row(
            "ValidatingAdmissionPolicyBinding", admission_policies.Binding, {"v1": 30}, (), (), EXTENSIONS, cluster=True
        ),
        Row("ValidatingWebhookConfiguration", admission.WebhookConfiguration, BOTH, (), (), EXTENSIONS, cluster=True),
    ),
    "apiextensions.k8s.io": (
        Row("CustomResourceDefinition", PlainWithStatus, BOTH, ("crd", "crds"), (STATUS,), EXTENSIONS, cluster=True),
    ),
    "apiregistration.k8s.io": (Row("APIService", admission.APIService, BOTH, (), (STATUS,), EXTENSIONS, cluster=True),),
    "apps": (
        Row("ControllerRevision", workloads.ControllerRevision),
        Row("DaemonSet", sets.DaemonSet, V1, ("ds",), (STATUS,), ALL),
        Row("Deployment", workloads.Deployment, V1, ("deploy",), (STATUS, SCALE), ALL),
        Row("ReplicaSet", workloads.ReplicaSet, V1, ("rs",), (STATUS, SCALE), ALL),
        Row("StatefulSet", sets.StatefulSet, V1, ("sts",), (STATUS, SCALE), ALL),
    ),
    "authentication.k8s.io": (
        Row("SelfSubjectReview", reviews.Review, {"v1": 28}, cluster=True, verbs=CREATE),
        Row("TokenReview", reviews.Review, BOTH, cluster=True, verbs=CREATE),
    ),
    "authorization.k8s.io": (
        Row("LocalSubjectAccessReview", reviews.LocalAccessReview, BOTH, verbs=CREATE),
        Row("SelfSubjectAccessReview", reviews.SelfAccessReview, BOTH, cluster=True, verbs=CREATE),
        Row("SelfSubjectRulesReview", reviews.Review, BOTH, cluster=True, verbs=CREATE),
        Row("SubjectAccessReview", reviews.AccessReview, BOTH, cluster=True, verbs=CREATE),
    ),
    "autoscaling": (
        Row(
            "HorizontalPodAutoscaler",
            autoscaling.Autoscaler,
            _AUTOSCALER_VERSIONS,
            ("hpa",),
            (STATUS,),
            ALL,
            store=("autoscaling", "v2"),
        ),
    ),
    "batch": (
        Row("CronJob", batch.CronJob, _SINCE_21, ("cj",), (STATUS,), ALL),
        Row("Job", batch.Job, V1, (), (STATUS,), ALL),
    ),
    "certificates.k8s.io": (
        Row("CertificateSigningRequest", certificates.SigningRequest, BOTH, ("csr",), (STATUS, APPROVAL), cluster=True),
    ),
    "coordination.k8s.io": (Row("Lease", cluster.Lease, BOTH),),
    "discovery.k8s.io": (Row("EndpointSlice", endpoints.EndpointSlice, _SINCE_21),),
    "events.k8s.io": (Row("Event", events.Event, BOTH, ("ev",), store=("", "v1")),),
    "extensions": (
        Row("Ingress", networking.Ingress, {"v1beta1": 0}, ("ing",), (STATUS,), store=("networking.k8s.io", "v1")),
    ),
    "flowcontrol.apiserver.k8s.io": (
        Row("FlowSchema", cluster.FlowSchema, {"v1beta1": 0}, (), (STATUS,), cluster=True),
        Row("PriorityLevelConfiguration", cluster.PriorityLevel, {"v1beta1": 0}, (), (STATUS,), cluster=True),
    ),
    "networking.k8s.io": (
        Row("IngressClass", networking.IngressClass, BOTH, cluster=True),
        Row("Ingress", networking.Ingress, BOTH, ("ing",), (STATUS,)),
        Row("NetworkPolicy", networking.NetworkPolicy, V1, ("netpol",)),
    ),
    "node.k8s.io": (Row("RuntimeClass", cluster.RuntimeClass, BOTH, cluster=True),),
    "policy": (
        Row("PodDisruptionBudget", policy.DisruptionBudget, _SINCE_21, ("pdb",), (STATUS,)),
        Row("PodSecurityPolicy", policy.SecurityPolicy, {"v1beta1": 0}, ("psp",), cluster=True),
    ),
    "rbac.authorization.k8s.io": (
        Row("ClusterRoleBinding", rbac.RoleBinding, BOTH, cluster=True),
        Row("ClusterRole", rbac.Role, BOTH, cluster=True),
        Row("RoleBinding", rbac.RoleBinding, BOTH),
        Row("Role", rbac.Role, BOTH),
    ),
    "scheduling.k8s.io": (Row("PriorityClass", cluster.PriorityClass, BOTH, ("pc",), cluster=True),),
    "storage.k8s.io": (
        Row("CSIDriver", storage.Driver, BOTH, cluster=True),
        Row("CSINode", storage.DriverNode, BOTH, cluster=True),
        Row("CSIStorageCapacity", storage.Capacity, {"v1": 24}),
        Row("StorageClass", storage.StorageClass, BOTH, ("sc",), cluster=True),
        Row("VolumeAttachment", storage.Attachment, BOTH, (), (STATUS,), cluster=True),
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


def builtin_registry(profile: str = "current") -> Registry:
    """Return a registry of the built-in kinds.

    `profile` is "current" (all that is implemented) or a minor release such as "1.20" (what that release served).
    """
    registry = Registry()
    release = NEWEST if profile == "current" else int(profile.partition(".")[2])
    registry.release = release
    priorities = GROUPS if release < NEWEST else {**GROUPS, **_TODAY}
    served = [(name, one, version) for name in KINDS for one in KINDS[name] for version in one.versions]
    for group, row, version in served:
        if row.versions[version] > release:
            continue
        resource = Resource(
            group=group,
            version=version,
            kind=row.kind,
            plural=row.plural or _plural(row.kind),
            list_kind=f"{row.kind}List",
            singular=row.kind.lower() if release == NEWEST else "",
            # Else clients warn at every use that the short name means two kinds.
            short_names=() if group == "extensions" and release == NEWEST else row.short,
            namespaced=not row.cluster,
            verbs=row.verbs,
            categories=row.categories,
            # The beta of VolumeAttachment never had the status subresource.
            subresources=() if (row.kind, version) == ("VolumeAttachment", "v1beta1") else row.subresources,
        )
        kind = row.rules(resource, definition_name(group, version, row.kind))
        kind.store_group, kind.store_version = row.store if row.store[1] else (group, next(iter(row.versions)))
        kind.serve_as(release)
        kind.has_status = STATUS in row.subresources
        kind.status_group = _NAMED_IN.get((group, row.kind), group) if release < _NAMED_BY_OWN else group
        if row.kind == "Event":
            kind.status_group = ""  # It is checked as what it is stored as.
        priority, versions = priorities[group]
        registry.add_kind(kind, group_priority=priority, version_priority=versions[version])
    return registry
