"""A MultiClusterService as the policy of the Service of its name, and the members that its placement names.

Source: docs/sources.md#services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.endpoints.multi_cluster_services import shared_service

if TYPE_CHECKING:
    from services.detector.policies.policy_view import PolicyView
    from services.detector.state import DetectorState

_SERVICES: Final = "services"
_KEPT: Final = ("propagateDeps", "failover", "preserveResourcesOnDeletion", "suspension", "schedulerName")
"""Fields of a binding that stay as they are when a MultiClusterService takes its Service over."""


class Members(Struct):
    """Names of the members, of which some MultiClusterServices name none."""

    names: set[str] = field(default_factory=set)

    def take(
        self, event: ClusterChanged | ClusterRemoved, policies: Mapping[PolicyKey, PolicyView]
    ) -> Iterable[ObjectKey]:
        """Take in a fact about a cluster; the Services that may go to other clusters by that."""
        stays = isinstance(event, ClusterChanged) and not event.deleting
        if stays == (event.name in self.names):
            return ()
        (self.names.add if stays else self.names.discard)(event.name)
        return [service_key(key) for key in policies if key.kind == MULTI_CLUSTER_SERVICE]


def service_key(key: PolicyKey) -> ObjectKey:
    """Key of the Service that a MultiClusterService is about."""
    return ObjectKey("", _SERVICES, key.namespace, key.name)


def concerned_by(key: PolicyKey) -> list[PolicyKey | ObjectKey]:
    """What is decided when an object changes that is recorded like a policy: itself, and the Service of its name."""
    return [key, service_key(key)] if key.kind == MULTI_CLUSTER_SERVICE else [key]


def sharing(state: DetectorState, key: ObjectKey) -> PolicyView | None:
    """The MultiClusterService that an object belongs to, with what it asks for as a policy would; None for none."""
    if key.resource != _SERVICES or key.group or not state.options.services:
        return None
    view = state.policies.get(PolicyKey(MULTI_CLUSTER_SERVICE, key.namespace, key.name))
    if view is None or view.terminating:
        return None
    service = shared_service(view.key, view.uid, view.manifest)
    if service is None or not service.cross_cluster:
        return None
    bound = state.binding_facts.get(key)
    standing: Manifest = msgspec.json.decode(bound.spec) if isinstance(bound, BindingRequested) else {}
    spec: Manifest = {
        **{name: standing[name] for name in _KEPT if name in standing},
        "placement": {"clusterAffinity": {"clusterNames": service.clusters(state.members.names)}},
        "conflictResolution": "Overwrite",
    }
    return replace(view, manifest={"metadata": view.manifest["metadata"], "spec": spec})


def ends_claims(state: DetectorState) -> bool:
    """Whether it is known that no other MultiClusterServices exist, or that none is acted on."""
    return MULTI_CLUSTER_SERVICE in state.listed or not state.options.services
