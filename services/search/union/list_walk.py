"""Which cluster is asked for how much, in a list that is read page by page over clusters in order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from services.search.union.page_token import PageToken
from services.search.union.version_map import VersionMap

MEMBER_PAGE: Final = 500
"""Objects that one member is asked for at a time."""


class PageRequest(msgspec.Struct, frozen=True):
    """What one cluster is asked for; a version only where no token says it."""

    cluster: str
    limit: int
    member_token: str = ""
    version: str = ""


class ListWalk:
    """A list with a limit, or one that goes on: feed it every answer until `request()` is None.

    Clusters that are gone since the token was given are passed over; one that came since is read from its present.
    """

    def __init__(
        self,
        clusters: Sequence[str],
        limit: int,
        versions: VersionMap,
        token: PageToken | None = None,
        most: int = MEMBER_PAGE,
    ) -> None:
        self._clusters = sorted(clusters)
        self._remaining = limit
        self._limited = limit > 0
        self._most = most
        self._asked_at = versions if token is None else token.versions
        self._found = {} if token is None else dict(token.versions.clusters)
        self._place = 0
        self._member_token = ""
        if token is not None:
            while self._place < len(self._clusters) and self._clusters[self._place] < token.cluster:
                self._place += 1
            if self._cluster == token.cluster:
                self._member_token = token.member_token
        self._full = False

    @property
    def _cluster(self) -> str:
        """The cluster that is read now; empty at the end."""
        return self._clusters[self._place] if self._place < len(self._clusters) else ""

    def request(self) -> PageRequest | None:
        """What is to be asked next; None when the page is complete."""
        if self._full or not self._cluster:
            return None
        limit = min(self._remaining, self._most) if self._limited else self._most
        version = "" if self._member_token else self._asked_at.of(self._cluster)
        return PageRequest(self._cluster, limit, self._member_token, version)

    def took(self, count: int, member_token: str, version: str) -> None:
        """Take in the answer to `request()`: how many objects it had, and where that cluster goes on."""
        asked = self.request()
        assert asked is not None
        whole = not self._limited or asked.limit < self._remaining
        self._remaining -= count
        if version:
            self._found[self._cluster] = version
        self._member_token = member_token
        if member_token:
            self._full = not whole or (self._limited and self._remaining <= 0)
            return
        self._place += 1
        self._full = self._limited and self._remaining <= 0

    @property
    def token(self) -> PageToken | None:
        """Where the next page begins; None where there is none. It holds the versions that are known."""
        return PageToken(self.versions, self._cluster, self._member_token) if self._cluster else None

    @property
    def unvisited(self) -> list[str]:
        """Clusters of later pages whose versions are not known."""
        return [name for name in self._clusters[self._place :] if name not in self._found]

    def learnt(self, cluster: str, version: str) -> None:
        """Take in the version of a cluster that was not read."""
        if version:
            self._found[cluster] = version

    @property
    def versions(self) -> VersionMap:
        """The version of the list."""
        return VersionMap({name: self._found[name] for name in self._clusters if name in self._found})
