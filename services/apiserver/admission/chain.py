"""The admission chain: the plugins that change or refuse a write after it was decoded and before it is stored."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from schemas.manifest import Manifest
from services.apiserver.core.request_context import Call
from services.apiserver.kinds.kind_model import Kind


class Attributes(msgspec.Struct):
    """One write as admission sees it; objects are in the version of the request."""

    operation: str
    kind: Kind
    subresource: str
    namespace: str
    name: str
    new: Manifest | None
    old: Manifest | None
    call: Call


class Plugin(Protocol):
    """One step of the chain; either method raises ApiError to refuse the write.

    With an attribute `resources`, a set of `group/plural`, only writes of objects stored there are shown to it.
    """

    async def mutate(self, attributes: Attributes) -> None:
        """Change or replace `attributes.new`."""

    async def validate(self, attributes: Attributes) -> None:
        """Check the final object; raises an error that refuses the write."""


class Admission:
    """The chain: every plugin's mutate in order, later every plugin's validate in order."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self.plugins = list(plugins)
        self._asked: dict[tuple[str, str], list[Plugin]] = {}
        self._known = 0

    def _of(self, kind: Kind) -> list[Plugin]:
        """The plugins that handle a kind."""
        if self._known != len(self.plugins):
            self._asked.clear()
            self._known = len(self.plugins)
        where = kind.store_group, kind.resource.plural
        found = self._asked.get(where)
        if found is None:
            key = kind.store_key
            found = [p for p in self.plugins if key in getattr(p, "resources", (key,))]
            self._asked[where] = found
        return found

    async def mutate(self, attributes: Attributes) -> Manifest:
        """Run the first half; returns the object to go on with (an empty one for deletions)."""
        for plugin in self._of(attributes.kind):
            await plugin.mutate(attributes)
        return attributes.new if attributes.new is not None else {}

    async def validate(self, attributes: Attributes) -> None:
        """Run the second half."""
        for plugin in self._of(attributes.kind):
            await plugin.validate(attributes)
