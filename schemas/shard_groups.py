"""Shard groups: parts of a service's work, each led by one instance under a name and a lease of its own.

The first group has the name of the service, the others a number behind it: `executor`, `executor-1`. So an instance
that knows of no groups competes for the first one, and the lease of the first one says how many there are.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from msgspec import Struct

SHARED: Final = ("executor", "override_renderer", "status_aggregator")
"""Services whose work is divided: by cluster, by object, by namespace."""
MOST_GROUPS: Final = 8
"""The users of the log's servers are given the names of as many."""


class ShardGroup(Struct, frozen=True):
    """One of `count` groups, by its number from 0 on."""

    index: int = 0
    count: int = 1

    def named(self, service: str) -> str:
        """The name of the group on the log."""
        return group_name(service, self.index)

    def owns(self, unit: str) -> bool:
        """Whether a unit of work (a cluster, an object, a namespace) belongs to the group."""
        return self.count == 1 or crc32(unit.encode()) % self.count == self.index


WHOLE: Final = ShardGroup()
"""The one group of a service that is not divided."""


def group_name(service: str, index: int) -> str:
    """The name of a group of a service on the log."""
    return f"{service}-{index}" if index else service


def groups_of(count: int) -> tuple[ShardGroup, ...]:
    """All groups that work is divided into."""
    return tuple(ShardGroup(index, count) for index in range(count))


def group_names(service: str) -> tuple[str, ...]:
    """Every name that a service may have on the log."""
    return tuple(group_name(service, index) for index in range(MOST_GROUPS if service in SHARED else 1))


def service_of(name: str) -> str:
    """The service that a name on the log belongs to."""
    service, _, index = name.rpartition("-")
    return service if service in SHARED and index.isdecimal() else name
