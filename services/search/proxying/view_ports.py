"""What the global proxy asks of the service around it: which clusters serve a resource, and what is at hand of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from services.search.index.member_index import Shelf
from services.search.registries.member_facts import Gvr

Scopes = Mapping[str, frozenset[str]]
"""The namespaces that count of each cluster that serves a resource; an empty set means all."""
LabelTest = Callable[[dict[str, str]], bool]


class Caller(msgspec.Struct, frozen=True):
    """The authenticated user of a request."""

    user: str
    groups: tuple[str, ...] = ()


class Selected(Protocol):
    """What ResourceRegistries select, of the clusters that are ready and serve it."""

    def covers(self, gvr: Gvr) -> bool:
        """Whether a registry selects the resource, in whatever cluster."""
        ...

    def scopes(self, gvr: Gvr) -> Scopes:
        """The clusters that serve the resource now."""
        ...

    async def other_scopes(self, gvr: Gvr, known: Scopes) -> None:
        """Return once the clusters that serve the resource, or their namespaces, are others than those known."""
        ...


class AtHand(Protocol):
    """Objects of members that need no request."""

    def version(self, cluster: str, gvr: Gvr) -> str:
        """The resourceVersion up to which a cluster's objects are there; empty before they are complete."""
        ...

    def kind(self, gvr: Gvr) -> str:
        """The kind of a resource; empty where it is not known."""
        ...

    def namespaced(self, cluster: str, gvr: Gvr) -> bool:
        """Whether a resource is known to have namespaces there."""
        ...

    def shelf(self, gvr: Gvr) -> Shelf | None:
        """All of a kind, with its changes; None where nothing is there."""
        ...

    def find(self, cluster: str, gvr: Gvr, namespace: str, name: str) -> bytes | None:
        """One object as its member sent it."""
        ...

    def each(self, cluster: str, gvr: Gvr, namespace: str, labels: LabelTest | None) -> Iterator[bytes]:
        """A cluster's objects by namespace and name; those of one namespace unless that is empty."""
        ...
