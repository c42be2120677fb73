"""Which members count for each kind at the moment: selected by registries, serving it, and ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from services.search.registries.member_facts import Gvr
from services.search.registries.wanted_kinds import Wanted

_NONE: Final[Mapping[str, Wanted]] = {}


class Coverage:
    """What is wanted by kind and member; listeners hear of members that come and go."""

    def __init__(self) -> None:
        self._members: dict[str, dict[Gvr, Wanted]] = {}
        self._kinds: dict[Gvr, dict[str, Wanted]] = {}
        self.listeners: dict[Callable[[str], None], None] = {}

    def of(self, gvr: Gvr) -> Mapping[str, Wanted]:
        """Members by name that count for a kind."""
        return self._kinds.get(gvr, _NONE)

    def become(self, cluster: str, wanted: Mapping[Gvr, Wanted]) -> None:
        """Set what a member counts for; nothing where it is not ready."""
        before = self._members.pop(cluster, {})
        if wanted:
            self._members[cluster] = dict(wanted)
        if before == wanted:
            return
        for gvr in before:
            self._kinds[gvr].pop(cluster)
            if not self._kinds[gvr]:
                del self._kinds[gvr]
        for gvr, each in wanted.items():
            self._kinds.setdefault(gvr, {})[cluster] = each
        for listener in list(self.listeners):
            listener(cluster)

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call a function with every member whose coverage changed, until the returned function is called."""
        self.listeners[listener] = None

        def forget() -> None:
            self.listeners.pop(listener, None)

        return forget
