"""Names the object that a Kubernetes Event is about: a template, its binding, its work in one cluster, or a cluster.

Bindings and works are projections: their names and uids are those that every gateway shows (docs/sources.md#events).
"""

from __future__ import annotations

from typing import Final

from schemas.keys import ObjectKey
from services._rules import constants as const
from services._rules.identities import binding_uid, work_uid
from services._rules.kubernetes.event_objects import Involved
from services._rules.names import binding_name, execution_namespace, work_name

_GROUP: Final = "work.karmada.io"


def template_of(key: ObjectKey, uid: str, api_version: str, kind: str) -> Involved:
    """The object of the control plane that is propagated."""
    return Involved(key, uid, api_version, kind)


def binding_of(key: ObjectKey, uid: str, kind: str) -> Involved:
    """The binding of a template with this uid and kind."""
    resource, shown = (
        ("resourcebindings", "ResourceBinding")
        if key.namespace
        else ("clusterresourcebindings", "ClusterResourceBinding")
    )
    named = ObjectKey(_GROUP, resource, key.namespace, binding_name(kind, key.name))
    return Involved(named, binding_uid(key, uid), const.BINDING_API, shown)


def work_of(cluster: str, key: ObjectKey, uid: str, kind: str) -> Involved:
    """The work of a template with this uid and kind in one cluster."""
    named = ObjectKey(_GROUP, "works", execution_namespace(cluster), work_name(kind, key.name, key.namespace))
    return Involved(named, work_uid(cluster, key, uid), const.WORK_API, "Work")


def cluster_of(name: str, uid: str) -> Involved:
    """The Cluster object of a member."""
    return Involved(ObjectKey("cluster.karmada.io", "clusters", "", name), uid, const.CLUSTER_API, "Cluster")


def title(involved: Involved) -> str:
    """`Kind(namespace/name)`, as Events name objects."""
    place = involved.key
    name = f"{place.namespace}/{place.name}" if place.namespace else place.name
    return f"{involved.kind}({name})"
