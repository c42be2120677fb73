"""The admission chain: the plugins that change or refuse a write after it was decoded and before it is stored."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError
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


def forbidden(attributes: Attributes, text: str, causes: list[dict[str, str]] | None = None) -> ApiError:
    """The refusal of a write, code 403; an object without a name yet is called by the prefix of the one it gets."""
    name = attributes.name
    if not name and attributes.operation == "CREATE":
        meta = (attributes.new or {}).get("metadata") or {}
        name = meta.get("name") or meta.get("generateName") or "Unknown"
    return status.forbidden(attributes.kind.resource, name, text, causes)


class Plugin(Protocol):
    """One step of the chain; either method raises ApiError to refuse the write.

    With an attribute `resources`, a set of `group/plural`, only writes of objects stored there are shown to it; with an
    attribute `operations`, only writes of those operations.
    """

    async def mutate(self, attributes: Attributes) -> None:
        """Change or replace `attributes.new`."""

    async def validate(self, attributes: Attributes) -> None:
        """Check the final object; raises an error that refuses the write."""


async def nothing(_plugin: object, _attributes: Attributes) -> None:
    """What a plugin does in a half of the chain in which it has nothing to do; the chain skips it."""


Step = Callable[[Attributes], Awaitable[None]]


class Admission:
    """The chain: every plugin's mutate in order, later every plugin's validate in order."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self.plugins = list(plugins)
        self._asked: dict[tuple[str, str, str], tuple[list[Step], list[Step]]] = {}
        self._known = 0

    def _of(self, attributes: Attributes) -> tuple[list[Step], list[Step]]:
        """What plugins do about an operation on a kind: their first halves, their second halves."""
        if self._known != len(self.plugins):
            self._asked.clear()
            self._known = len(self.plugins)
        kind, operation = attributes.kind, attributes.operation
        where = kind.store_group, kind.resource.plural, operation
        found = self._asked.get(where)
        if found is None:
            key = kind.store_key
            asked = [
                plugin
                for plugin in self.plugins
                if key in getattr(plugin, "resources", (key,))
                and operation in getattr(plugin, "operations", (operation,))
            ]
            found = self._asked[where] = (
                [plugin.mutate for plugin in asked if getattr(plugin.mutate, "__func__", None) is not nothing],
                [plugin.validate for plugin in asked if getattr(plugin.validate, "__func__", None) is not nothing],
            )
        return found

    async def mutate(self, attributes: Attributes) -> Manifest:
        """Run the first half; returns the object to go on with (an empty one for deletions)."""
        for step in self._of(attributes)[0]:
            await step(attributes)
        return attributes.new if attributes.new is not None else {}

    async def validate(self, attributes: Attributes) -> None:
        """Run the second half."""
        for step in self._of(attributes)[1]:
            await step(attributes)
