"""Adds to the snapshot of a binding its owners: the bindings that depend on it, as they are now.

Source: docs/sources.md#dependencies.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from services._rules.identities import binding_id
from services._rules.names import binding_name
from services.gateway.state import Bound, GatewayState, Owner
from services.gateway.views.binding_views import targets_of

MOST: Final = 200
"""Owners that a binding shows: with all of ten thousand it would be larger than clients expect an object to be."""


def with_owners(state: GatewayState, bound: Bound) -> Bound:
    """A snapshot with the owners of its binding, the first of them by name."""
    if bound.binding is None:
        return bound
    keys = state.required.owners(bound.binding.key)
    owners = []
    for key in keys[:MOST]:
        found = state.objects.get(key)
        if found is not None and found.binding is not None:
            name = binding_name(found.binding.kind, key.name)
            owners.append(Owner(key.namespace, name, binding_id(key, found.binding.uid), targets_of(found)))
    return replace(bound, owners=tuple(owners), owner_count=len(keys)) if owners else bound
