"""Projects the clusters as search needs them, from their facts."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.hints import Purged
from services._rules.facets import ServiceState
from services.search.registries.member_facts import MemberFacts, member_facts


class SearchState(ServiceState):
    """The projection of search: the members by name."""

    members: dict[str, MemberFacts] = field(default_factory=dict)

    def forget(self, purged: Purged) -> None:
        """Nothing is kept of clusters that were removed."""


def fold(state: SearchState, event: Known) -> Iterable[str]:
    """Apply one fact; the clusters whose members have to be looked at."""
    match event:
        case ClusterChanged():
            found = member_facts(event)
            if state.members.get(event.name) == found:
                return ()
            state.members[event.name] = found
            return (event.name,)
        case ClusterRemoved():
            return (event.name,) if state.members.pop(event.name, None) is not None else ()
        case _:
            return ()
