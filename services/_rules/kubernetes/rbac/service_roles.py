"""What each service may do in the control plane: its user and its roles, as objects of role-based access control.

One list for every installation: the embedded API server writes these objects, for others they are a file in k8s/.
Members are another matter: what joining makes there has every right, because works may hold any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from schemas.manifest import Manifest
from services._rules.constants import AGENT_SIGNER, LABEL_TRUE, NAMESPACE_CLUSTER, SYSTEM_LABEL
from services._rules.kubernetes.rbac.role_index import GROUP

CREDENTIALS_WATCHED: Final = "fleetlog:members-credentials"
"""The ClusterRole of those that follow the Secrets of a namespace; bound in namespaces that Clusters name."""
CREDENTIALS_NAMED: Final = "fleetlog:members-credentials:named"
"""The same for those that ask for a Secret by its name."""
_BOUND: Final = (CREDENTIALS_NAMED, CREDENTIALS_WATCHED)

SERVICE_GROUP: Final = "fleetlog"
"""The group of all services' users; no role is bound to it."""
SERVICE_NAMESPACE: Final = "fleetlog-system"
"""The namespace of the services, and of the ServiceAccounts that they may be."""
ACCOUNTS_GROUP: Final = f"system:serviceaccounts:{SERVICE_NAMESPACE}"
"""The group of these accounts; no role is bound to it."""
SCRAPER: Final = "prometheus"
"""Who reads the metrics of the control plane."""

_READ: Final = ("get", "list", "watch")
_FOLLOW: Final = ("list", "watch")
"""What a watch needs; `get` is for those that read single objects before they write."""
_EVENTS: Final[Manifest] = {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "create", "patch"]}


def _rule(group: str, resource: str, *verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


_DISCOVERY: Final[Manifest] = {
    "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*"],
    "verbs": ["get"],
}

RULES: Final[Mapping[str, Sequence[Manifest]]] = {
    # Whatever has a scale can be a target. Labels of targets are written for the built-in workloads only.
    "autoscaler": (
        _rule("autoscaling.karmada.io", "federatedhpas", *_READ, "patch"),
        _rule("autoscaling.karmada.io", "cronfederatedhpas", *_FOLLOW),
        {
            "apiGroups": ["autoscaling.karmada.io"],
            "resources": ["cronfederatedhpas/status", "federatedhpas/status"],
            "verbs": ["patch"],
        },
        _rule("*", "*/scale", "get", "patch", "update"),
        # A custom metric has the name of its object, an external one has none.
        _rule("custom.metrics.k8s.io", "*", "get"),
        _rule("external.metrics.k8s.io", "*", "list"),
        _rule("autoscaling", "horizontalpodautoscalers", *_FOLLOW),
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets"], "verbs": ["patch"]},
        _EVENTS,
        _DISCOVERY,
    ),
    "cluster_monitor": (
        _rule("cluster.karmada.io", "clusters", *_READ, "patch"),
        _rule("cluster.karmada.io", "clusters/status", "patch"),
        _rule("policy.karmada.io", "clustertaintpolicies", *_FOLLOW),
        _rule("remedy.karmada.io", "remedies", *_FOLLOW),
        # The uid of kube-system is the identity of the control plane.
        _rule("", "namespaces", "list", "create", "delete"),
        # Where Clusters name Secrets in other namespaces than the usual, the services are bound to read there: by
        # bindings of these names to these roles, and to no others.
        _rule(GROUP, "rolebindings", "list", "create"),
        {**_rule(GROUP, "rolebindings", "delete", "patch"), "resourceNames": list(_BOUND)},
        {**_rule(GROUP, "clusterroles", "bind"), "resourceNames": list(_BOUND)},
        _EVENTS,
    ),
    # Every kind can be a template: it is read, claimed by labels and annotations, and given its status.
    "detector": (
        _rule("*", "*", *_READ, "patch"),
        _rule("", "events", "create"),
        # Roles and bindings as well, which only those change who hold what they grant, or may do this.
        {"apiGroups": [GROUP], "resources": ["clusterroles", "roles"], "verbs": ["bind", "escalate"]},
        _rule("apps.karmada.io", "workloadrebalancers", "delete"),
        _DISCOVERY,
    ),
    "estimator": (),
    "executor": (),
    # Where requests for members go, and whether their callers may make them.
    "gateway": (
        _rule("cluster.karmada.io", "clusters", "get", "list"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
        _rule("authentication.k8s.io", "tokenreviews", "create"),
    ),
    # The Services and EndpointSlices that it makes are those of imports; it checks each before it writes.
    "networking": (
        _rule("multicluster.x-k8s.io", "serviceexports", *_FOLLOW),
        _rule("multicluster.x-k8s.io", "serviceimports", *_FOLLOW),
        {
            "apiGroups": ["multicluster.x-k8s.io"],
            "resources": ["serviceexports/status", "serviceimports/status"],
            "verbs": ["patch"],
        },
        _rule("networking.karmada.io", "multiclusterservices", *_FOLLOW),
        _rule("networking.karmada.io", "multiclusterservices/status", "patch"),
        _rule("networking.karmada.io", "multiclusteringresses", *_FOLLOW),
        _rule("networking.karmada.io", "multiclusteringresses/status", "patch"),
        _rule("", "services", *_READ, "create", "patch", "delete"),
        _rule("", "services/status", "patch"),
        _rule("discovery.k8s.io", "endpointslices", *_READ, "create", "update", "delete"),
        _EVENTS,
    ),
    "search": (
        _rule("search.karmada.io", "resourceregistries", *_FOLLOW),
        # Which say what members forbid.
        _rule("search.karmada.io", "resourceregistries/status", "patch"),
        # How members are reached in the name of callers.
        _rule("cluster.karmada.io", "clusters", "get", "list"),
        _EVENTS,
    ),
    "status_aggregator": (
        _rule("*", "*", "get", "list"),
        _rule("*", "*/status", "patch"),
        _rule("", "events", "create", "patch"),
    ),
    # What new objects are compared with, and what quotas let bindings use.
    "webhook": (
        _rule("config.karmada.io", "resourceinterpretercustomizations", "list"),
        _rule("policy.karmada.io", "federatedresourcequotas", "list"),
        _rule("policy.karmada.io", "federatedresourcequotas/status", "update"),
        # Events on both configurations tell of a certificate that ends.
        _rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get"),
        _rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get"),
        _EVENTS,
    ),
}
"""Rules by service, for all that talk to the control plane; beside them some read the members' credentials."""

SIGNER_OF_AGENTS: Final = "agent_signer"
"""Who lets agents in that register. It is no service of the log: it writes which accounts the log's servers have."""
USERS: Final[Mapping[str, Sequence[Manifest]]] = {
    **RULES,
    SIGNER_OF_AGENTS: (
        _rule("certificates.k8s.io", "certificatesigningrequests", *_READ, "patch"),
        _rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
        {**_rule("certificates.k8s.io", "signers", "approve"), "resourceNames": [AGENT_SIGNER]},
        _rule("cluster.karmada.io", "clusters", *_READ, "create"),
    ),
}
"""Rules of all users of an installation: the services, and who lets agents in."""

CREDENTIALS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("autoscaler", "cluster_monitor", "estimator", "executor", "search"), _READ),
    # Asks for two by their names when a caller asks for a member.
    "gateway": ("get",),
}
"""Services that read the Secrets by which members are reached, with their verbs."""


def user_of(service: str) -> str:
    """The name of a service's user in the control plane."""
    return f"fleetlog:{service}"


def dns(service: str) -> str:
    """The name of a service's objects; Kubernetes takes no underscores."""
    return service.replace("_", "-")


def account_of(service: str) -> Manifest:
    """The ServiceAccount that a service may be, as a subject of bindings."""
    return {"kind": "ServiceAccount", "name": dns(service), "namespace": SERVICE_NAMESPACE}


_EDITED: Final[Mapping[str, tuple[str, ...]]] = {
    "autoscaling.karmada.io": ("cronfederatedhpas", "federatedhpas"),
    "multicluster.x-k8s.io": ("serviceexports", "serviceimports"),
    "networking.karmada.io": ("multiclusteringresses", "multiclusterservices"),
    "policy.karmada.io": ("overridepolicies", "propagationpolicies"),
}
"""Kinds of Karmada that tenants write in their namespaces."""
_VIEWED: Final[Mapping[str, tuple[str, ...]]] = {
    **_EDITED,
    # What the pods of a tenant use, in all members together.
    "metrics.k8s.io": ("nodes", "pods"),
    # What bounds a tenant, and what follows from its templates and policies.
    "policy.karmada.io": ("federatedresourcequotas", *_EDITED["policy.karmada.io"]),
    "work.karmada.io": ("resourcebindings",),
}
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")


def tenant_roles() -> Iterator[Manifest]:
    """Cluster roles that make `view`, `edit` and `admin` reach to the kinds of Karmada."""
    for name, verbs, kinds in (("view", _READ, _VIEWED), ("edit", _WRITE, _EDITED)):
        yield {
            "kind": "ClusterRole",
            "apiVersion": f"{GROUP}/v1",
            "metadata": {"name": f"karmada-{name}", "labels": {f"{GROUP}/aggregate-to-{name}": LABEL_TRUE}},
            "rules": [
                {"apiGroups": [group], "resources": list(plurals), "verbs": list(verbs)}
                for group, plurals in kinds.items()
            ],
        }


def service_objects() -> Iterator[Manifest]:
    """Roles and bindings of all services, and before them the namespace of the members' credentials."""
    labels = {SYSTEM_LABEL: LABEL_TRUE}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE_CLUSTER, "labels": labels}}
    for user, rules in USERS.items():
        if rules:
            yield from _granted("ClusterRole", user, list(rules))
    yield from credential_objects(NAMESPACE_CLUSTER)
    for name, verbs in ((CREDENTIALS_WATCHED, _READ), (CREDENTIALS_NAMED, ("get",))):
        rules = [_rule("", "secrets", *verbs)]
        yield {"kind": "ClusterRole", "apiVersion": f"{GROUP}/v1", "metadata": {"name": name}, "rules": rules}
    yield from tenant_roles()


def credential_objects(namespace: str) -> Iterator[Manifest]:
    """Roles and bindings by which services read the members' credentials in a namespace."""
    for service, verbs in CREDENTIALS.items():
        yield from _granted("Role", service, [_rule("", "secrets", *verbs)], namespace)


def _granted(kind: str, service: str, rules: list[Manifest], namespace: str = "") -> Iterator[Manifest]:
    name = user_of(service)
    yield {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": _named(name, namespace), "rules": rules}
    yield _binding(kind, service, name, {"apiGroup": GROUP, "kind": "User", "name": name}, namespace)


def _binding(kind: str, service: str, name: str, subject: Manifest, namespace: str = "") -> Manifest:
    """A binding of a service's role to one subject."""
    return {
        "kind": f"{kind}Binding",
        "apiVersion": f"{GROUP}/v1",
        "metadata": _named(name, namespace),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": user_of(service)},
        "subjects": [subject],
    }


def _named(name: str, namespace: str) -> Manifest:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}
