"""Requests of WorkloadRebalancers for fresh schedules, and how the binding of an object takes them in.

A binding has one writer: the decision of its own object. A rebalancer leaves its request with the objects it names, and
their decisions add it to whatever else they say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested, RescheduleRequest
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services.detector.policies.lazy_activation import encode

TRIGGERED_AT: Final = "rescheduleTriggeredAt"


class Open(Struct, frozen=True):
    """What a rebalancer of a creation time (RFC 3339) still waits for, since a time in seconds since 1970."""

    created: str
    since: float
    keys: frozenset[ObjectKey] = frozenset()


class Rebalancing(Struct):
    """Open requests by object and by rebalancer, and where the objects of a kind are found.

    `resources` are group and resource of each kind that bindings exist of, with their number; `served` those that are
    watched (None before it is known which); kinds are in lower case, as names of bindings are.
    """

    requests: dict[ObjectKey, dict[PolicyKey, str]] = field(default_factory=dict)
    open: dict[PolicyKey, Open] = field(default_factory=dict)
    resources: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    served: dict[str, set[tuple[str, str]]] | None = None

    def found(self, kind: str) -> set[tuple[str, str]]:
        """Group and resource of every kind of this name."""
        kind = kind.lower()
        return {*self.resources.get(kind, ()), *(self.served or {}).get(kind, ())}

    def serve(self, kinds: Iterable[tuple[str, str, str]]) -> list[PolicyKey]:
        """Take in kind, group and resource of what is watched; the first time, the rebalancers that wait for it."""
        first, self.served = self.served is None, {}
        for kind, group, resource in kinds:
            self.served.setdefault(kind.lower(), set()).add((group, resource))
        return list(self.open) if first else []

    def remember(self, policy: PolicyKey, waits: Open | None) -> None:
        """Take in what a rebalancer waits for; None when it is done or gone."""
        before = self.open.pop(policy, None)
        for key in before.keys if before is not None else ():
            asked = self.requests.get(key)
            if asked is not None and asked.pop(policy, None) is not None and not asked:
                del self.requests[key]
        if waits is None:
            return
        self.open[policy] = waits
        for key in waits.keys:
            self.requests.setdefault(key, {})[policy] = waits.created

    def take(self, event: BindingEvent, before: BindingEvent | None) -> list[PolicyKey]:
        """Take in a fact about a binding, and the one before; the rebalancers for which it was the last to wait for."""
        self._count(before, -1)
        self._count(event, 1)
        asked = self.requests.pop(event.key, None)
        done = []
        for policy in asked or ():
            waits = self.open[policy]
            left = self.open[policy] = replace(waits, keys=waits.keys - {event.key})
            if not left.keys:
                done.append(policy)
        return done

    def _count(self, event: BindingEvent | None, more: int) -> None:
        """Of kinds without bindings nothing is kept: as the last fact about each binding tells it."""
        if not isinstance(event, BindingRequested):
            return
        resources = self.resources.setdefault(event.kind.lower(), Counter())
        resource = (event.key.group, event.key.resource)
        resources[resource] += more
        if not resources[resource]:
            del resources[resource]
        if not resources:
            del self.resources[event.kind.lower()]


def carried(spec: Manifest, bound: BindingRequested | None) -> Manifest:
    """A binding's new spec with the request for a fresh schedule that the present one holds."""
    if bound is None or bound.reschedule is None:
        return spec
    return {**spec, TRIGGERED_AT: triggered_at(bound)}


def triggered_at(bound: BindingRequested) -> str:
    """When a fresh schedule was asked for last, RFC 3339; empty for never."""
    if bound.reschedule is None:
        return ""
    return str(msgspec.json.decode(bound.spec).get(TRIGGERED_AT) or "")


def answers(bound: BindingRequested, name: str, created: str) -> bool:
    """Whether a binding holds the request of a rebalancer, or a later one."""
    at = triggered_at(bound)
    return at > created or (at == created and bound.reschedule is not None and name in bound.reschedule.by)


def with_request(
    events: Sequence[Known], present: BindingEvent | None, asked: Mapping[PolicyKey, str]
) -> Sequence[Known]:
    """The facts decided about an object together with the requests of rebalancers: its binding says both in one."""
    bound = present
    for event in events:
        if isinstance(event, BindingRequested | BindingReleased):
            bound = event
    if not isinstance(bound, BindingRequested) or bound.everywhere:
        return events
    at, before = max(asked.values()), triggered_at(bound)
    by = {policy.name for policy, created in asked.items() if created == at}
    known = set(bound.reschedule.by) if bound.reschedule is not None and at == before else set()
    if before > at or by <= known:
        return events
    said = any(event is bound for event in events)
    generation = bound.generation if said else bound.generation + 1
    taken = replace(
        bound,
        spec=Raw(encode({**msgspec.json.decode(bound.spec), TRIGGERED_AT: at})),
        generation=generation,
        reschedule=RescheduleRequest(tuple(sorted(by | known)), generation),
        reason=bound.reason if said else "",
    )
    return [*(event for event in events if event is not bound), taken]
