"""The table of admission webhooks: which path answers for which kind, step and operations (docs/sources.md#admission).

Configurations, the service that answers and the embedded plugin read it here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from services._rules.constants import DELETION_PROTECTED_LABEL

Step = Literal["mutating", "validating"]

SECONDS: Final = 3
"""How long an API server waits for an answer."""
SECONDS_COMPARED: Final = 10
"""The same, where stored objects are read for the answer."""
SECONDS_GUARDED: Final = 30
"""The same, where the radius of an edit may be measured; as long as an API server waits at all."""
CONVERSION_PATH: Final = "/convert"
DELETION: Final = "DeletionProtection"
"""What stands for the kind in the entry that concerns deletions of every kind."""
COMPARED: Final = "ResourceInterpreterCustomization"
"""The kind whose objects are compared with the others that are stored."""
BINDING: Final = "ResourceBinding"
CLUSTER: Final = "Cluster"
GUARDED: Final = frozenset({"PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy", "ClusterOverridePolicy"})
"""The kinds that a guard is asked about: also before one of them is deleted."""
OWN_SERVERS: Final = frozenset({CLUSTER, "ResourceRegistry"})
"""Kinds that Karmada serves from API servers of their own; those refuse with 422, and know no webhook."""
_WRITES: Final = ("CREATE", "UPDATE")


class Place(Struct, frozen=True):
    """Where the objects of a kind are served, in the version that the rules are written for."""

    group: str
    version: str
    plural: str

    @property
    def resource(self) -> str:
        """Group and plural: `policy.karmada.io/propagationpolicies`."""
        return f"{self.group}/{self.plural}"


class Hook(Struct, frozen=True):
    """One webhook. `seconds` is its time limit; `tolerated` lets writes pass while it cannot be asked.

    `label` limits it to objects that have this label.
    """

    path: str
    name: str
    kind: str
    step: Step
    place: Place
    operations: tuple[str, ...] = _WRITES
    seconds: int = SECONDS
    side_effects: str = "None"
    tolerated: bool = False
    label: str = ""

    @property
    def checked_later(self) -> bool:
        """Whether a mutated object is refused after this step where its types are wrong."""
        return self.kind in _VALIDATED


def _place(group: str, plural: str, version: str = "v1alpha1") -> Place:
    return Place(f"{group}.karmada.io", version, plural)


PLACES: Final[Mapping[str, Place]] = {
    "Cluster": _place("cluster", "clusters"),
    "ClusterOverridePolicy": _place("policy", "clusteroverridepolicies"),
    "ClusterPropagationPolicy": _place("policy", "clusterpropagationpolicies"),
    "ClusterResourceBinding": _place("work", "clusterresourcebindings", "v1alpha2"),
    "ClusterTaintPolicy": _place("policy", "clustertaintpolicies"),
    "CronFederatedHPA": _place("autoscaling", "cronfederatedhpas"),
    "FederatedHPA": _place("autoscaling", "federatedhpas"),
    "FederatedResourceQuota": _place("policy", "federatedresourcequotas"),
    "MultiClusterIngress": _place("networking", "multiclusteringresses"),
    "MultiClusterService": _place("networking", "multiclusterservices"),
    "OverridePolicy": _place("policy", "overridepolicies"),
    "PropagationPolicy": _place("policy", "propagationpolicies"),
    "ResourceBinding": _place("work", "resourcebindings", "v1alpha2"),
    "ResourceInterpreterCustomization": _place("config", "resourceinterpretercustomizations"),
    "ResourceInterpreterWebhookConfiguration": _place("config", "resourceinterpreterwebhookconfigurations"),
    "ResourceRegistry": _place("search", "resourceregistries"),
    "Work": _place("work", "works"),
}
"""Where the objects of each kind with rules are stored."""
_MUTATED: Final = (
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    # Karmada has no defaults for it; the confirmation of a guard is bound to its edit here.
    "ClusterOverridePolicy",
    "ResourceBinding",
    "ClusterResourceBinding",
    "Work",
    "FederatedHPA",
    "MultiClusterService",
    CLUSTER,
)
_TOLERATED: Final = CLUSTER
"""The kind whose taints are written while clusters fail, and the webhook may be among what fails."""
_VALIDATED: Final = (
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "ClusterOverridePolicy",
    "ResourceBinding",
    "FederatedHPA",
    "CronFederatedHPA",
    "MultiClusterService",
    "MultiClusterIngress",
    "ResourceInterpreterWebhookConfiguration",
    "ResourceInterpreterCustomization",
    "FederatedResourceQuota",
    "ClusterTaintPolicy",
    "ResourceRegistry",
    CLUSTER,
)
_ON_CREATION: Final = frozenset({"ResourceBinding", "ClusterResourceBinding"})
"""Kinds whose defaults concern new objects only."""


def webhook_name(kind: str) -> str:
    """The name that refusals of a kind carry."""
    if kind == DELETION:
        return "resourcedeletionprotection.karmada.io"
    return "config.karmada.io" if kind == "ResourceInterpreterWebhookConfiguration" else f"{kind.lower()}.karmada.io"


def _seconds(kind: str) -> int:
    if kind in GUARDED:
        return SECONDS_GUARDED
    return SECONDS_COMPARED if kind == COMPARED else SECONDS


def _hooks() -> Iterator[Hook]:
    for kind in _MUTATED:
        yield Hook(
            path=f"/mutate-{kind.lower()}",
            name=webhook_name(kind),
            kind=kind,
            step="mutating",
            place=PLACES[kind],
            operations=("CREATE",) if kind in _ON_CREATION else _WRITES,
            tolerated=kind == _TOLERATED,
        )
    for kind in _VALIDATED:
        yield Hook(
            path=f"/validate-{kind.lower()}",
            name=webhook_name(kind),
            kind=kind,
            step="validating",
            place=PLACES[kind],
            operations=(*_WRITES, "DELETE") if kind in GUARDED else _WRITES,
            seconds=_seconds(kind),
            # A quota records what it lets a binding use.
            side_effects="NoneOnDryRun" if kind == BINDING else "None",
            tolerated=kind == _TOLERATED,
        )
    yield Hook(
        path="/validate-resourcedeletionprotection",
        name=webhook_name(DELETION),
        kind=DELETION,
        step="validating",
        place=Place("*", "*", "*"),
        operations=("DELETE",),
        label=DELETION_PROTECTED_LABEL,
    )


HOOKS: Final[Mapping[str, Hook]] = {hook.path: hook for hook in _hooks()}
"""Every webhook by its path."""
