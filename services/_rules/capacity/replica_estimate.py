"""Estimates one request from the nodes, pods and quotas of one member: how many further replicas (or sets) fit.

The estimator answers for push members, an agent for its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.capacity import node_estimate as estimation_nodes
from services._rules.capacity import quota_estimate as estimation_quota
from services._rules.capacity.general_estimate import Component, Demand, component_of, demand_of
from services._rules.capacity.node_estimate import Estimate
from services._rules.capacity.node_index import MemberRooms
from services._rules.capacity.quota_index import MemberQuotas
from services._rules.capacity.reserved import PodClass, assumed_of
from services._rules.capacity.unschedulable_pods import MemberWaiting

NO_OPINION: Final = -1
MOST: Final = 2**31 - 1
_KEPT: Final = 512
_NOTHING: Final[Mapping[PodClass, int]] = {}


class Requirements(Struct, frozen=True):
    """What one replica (or one set of components) needs, with a digest by which equal ones are known.

    `stated` are the requirements as the binding states them, for requests to an agent.
    """

    digest: str
    namespace: str
    demand: Demand | None
    claim: Manifest | None
    priority_class: str
    components: tuple[Component, ...]
    stated: Manifest


def requirements_of(spec: Manifest) -> Requirements:
    """Requirements in a binding's spec; raises quantity.QuantityError."""
    return read_requirements(
        {
            "namespace": (spec.get("resource") or {}).get("namespace") or "",
            "replicaRequirements": spec.get("replicaRequirements"),
            "components": spec.get("components") or [],
        }
    )


def read_requirements(stated: Manifest) -> Requirements:
    """Requirements in the form of a request to an agent; raises quantity.QuantityError."""
    wanted = stated.get("replicaRequirements")
    return Requirements(
        digest=hashlib.sha256(msgspec.json.encode(stated, order="deterministic")).hexdigest()[:16],
        namespace=stated.get("namespace") or "",
        demand=demand_of(wanted.get("resourceRequest")) if wanted is not None else None,
        claim=(wanted or {}).get("nodeClaim"),
        priority_class=(wanted or {}).get("priorityClassName") or "",
        components=tuple(component_of(item) for item in stated.get("components") or ()),
        stated=stated,
    )


class Picture:
    """What is known of one member: its nodes with the pods on them, its quotas, and the pods that wait for a node."""

    def __init__(self, *, quotas: bool = True) -> None:
        self.rooms = MemberRooms()
        self.quotas = MemberQuotas()
        self.waiting = MemberWaiting()
        if not quotas:
            self.quotas.refused()

    @property
    def complete(self) -> bool:
        """Whether everything was listed once."""
        return self.rooms.complete and self.quotas.known

    @property
    def version(self) -> tuple[int, int]:
        """Changes with everything that may change an answer."""
        return self.rooms.version, self.quotas.version


class Answers:
    """Answers from one picture, each worked out once per version of the picture and of what was given away."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self._known: dict[str, tuple[tuple[int, int], int, int]] = {}

    def replicas(self, wanted: Requirements, taken: Mapping[PodClass, int] = _NOTHING, version: int = 0) -> int:
        """Further replicas or sets that fit once what was given away is placed, NO_OPINION before all was listed.

        `version` changes whenever `taken` does. Raises msgspec.ValidationError where tolerations cannot be read.
        """
        if not self.picture.complete:
            return NO_OPINION
        now = self.picture.version
        view, given, count = self._known.get(wanted.digest, ((-1, -1), -1, 0))
        if view != now or given != version:
            count = self._work_out(wanted, taken)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[wanted.digest] = (now, version, count)
        return count

    def _work_out(self, wanted: Requirements, taken: Mapping[PodClass, int]) -> int:
        nodes, quotas = self.picture.rooms.nodes(), self.picture.quotas.of(wanted.namespace)
        assumed = assumed_of(taken)
        if not nodes:
            return 0
        if wanted.components:
            on_nodes = estimation_nodes.estimate_components(nodes, wanted.components, assumed)
            in_quotas = estimation_quota.estimate_components(quotas, wanted.namespace, wanted.components, assumed)
        else:
            on_nodes = estimation_nodes.estimate_replicas(nodes, wanted.demand, wanted.claim, assumed)
            in_quotas = estimation_quota.estimate_replicas(
                quotas, wanted.namespace, wanted.demand, wanted.priority_class, assumed
            )
        return _least(on_nodes, in_quotas)


def _least(*found: Estimate) -> int:
    """The least of what several limits allow; a quota that is overdrawn leaves room for none."""
    if any(item.unschedulable for item in found):
        return 0
    return max(0, min(MOST, *(item.value for item in found)))
