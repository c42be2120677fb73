"""Which plugins take part in a decision: the product's own by name, and those that others wrote.

Source: docs/sources.md#scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from services._rules.scheduling.plugins.interface import Plugin
    from services._rules.scheduling.scheduling_views import Peers

AFFINITY: Final = "ClusterAffinity"
API: Final = "APIEnablement"
EVICTION: Final = "ClusterEviction"
LOCALITY: Final = "ClusterLocality"
SPREAD: Final = "SpreadConstraint"
TAINTS: Final = "TaintToleration"
TOGETHER: Final = "WorkloadAffinity"
APART: Final = "WorkloadAntiAffinity"

STANDARD: Final = frozenset((AFFINITY, API, EVICTION, LOCALITY, SPREAD, TAINTS))
# Known only with gate WorkloadAffinity.
GATED: Final = frozenset((TOGETHER, APART))
_ALL: Final = "*"


class PluginError(ValueError):
    """A set of plugins that cannot be used; the message names the plugin."""


class PluginSet(Struct, frozen=True, eq=False):
    """The plugins in force; `names` are those of the product, `outside` the others in the order they are asked."""

    names: frozenset[str] = STANDARD
    outside: tuple[tuple[str, Plugin], ...] = ()

    def heeded(self, peers: Peers | None) -> Peers | None:
        """What of the peers counts: either kind of workload affinity can be switched off alone."""
        if peers is None or self.names >= GATED:
            return peers
        together = peers.together if TOGETHER in self.names else ()
        apart = peers.apart if APART in self.names else frozenset()
        return type(peers)(together, apart) if together or apart else None


STANDARD_SET: Final = PluginSet()


def builtin_names(gates: Mapping[str, bool]) -> frozenset[str]:
    """Names of the product's plugins that exist with these feature gates."""
    return STANDARD | GATED if gates.get("WorkloadAffinity") else STANDARD


def registry(builtin: Collection[str], outside: Iterable[str]) -> frozenset[str]:
    """All names that can be enabled; raises PluginError where two plugins have one name."""
    names = set(builtin)
    for name in outside:
        if name in names:
            raise PluginError(f"a plugin named {name} already exists")
        names.add(name)
    return frozenset(names)


def enabled(registered: Collection[str], wanted: Iterable[str]) -> frozenset[str]:
    """Names that a list such as `*,-ClusterLocality` turns on; unknown names are ignored.

    Without a `*` somewhere in the list it begins with none, and its items count in their order.
    Source: docs/sources.md#scheduler-plugins.
    """
    items = list(wanted)
    found = set(registered) if _ALL in items else set()
    for item in items:
        if item in registered:
            found.add(item)
        elif item.startswith("-"):
            found.discard(item[1:])
    return frozenset(found)
