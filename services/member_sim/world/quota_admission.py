"""Admission by ResourceQuotas: refuses what a namespace has no room for, counted from the objects that are there.

What was admitted and is not stored yet counts, too. A write that only changes an object is not held to a quota.
"""

from __future__ import annotations

import time

from schemas.manifest import Manifest
from services._rules.kubernetes.resource_quota import concerns, refusal, usage
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.core import status_errors as status
from services.apiserver.store.store_port import Event, Key, Store

_PENDING_SECONDS = 10.0


class Quotas:
    """Reads the ResourceQuotas of the namespace at every creation."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._admitted: dict[Key, tuple[float, Manifest]] = {}
        """On their way into the store, with the moment by which they are there or were refused."""
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        self._admitted.pop(event.entry.key, None)

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Refuse what does not fit; raises ApiError 403."""
        new, resource = attributes.new, attributes.kind.resource
        if new is None or attributes.operation != "CREATE" or attributes.subresource or not attributes.namespace:
            return
        quotas = [entry.obj for entry in self._store.list("", "resourcequotas", attributes.namespace)]
        quotas = [quota for quota in quotas if concerns(quota, resource.plural, new)]
        if not quotas:
            return
        group = attributes.kind.store_group
        key = Key(group, resource.plural, attributes.namespace, attributes.name)
        wanted = usage(resource.group, resource.plural, new)
        present = self._present(key)
        for quota in quotas:
            taken = [
                usage(resource.group, resource.plural, obj) for obj in present if concerns(quota, resource.plural, obj)
            ]
            text = refusal(quota, wanted, taken)
            if text:
                raise status.forbidden(resource, attributes.name, text)
        if not attributes.call.dry_run:
            self._admitted[key] = time.monotonic() + _PENDING_SECONDS, new

    def _present(self, key: Key) -> list[Manifest]:
        """Objects of a kind in a namespace, those on their way into the store included."""
        now = time.monotonic()
        self._admitted = {one: waiting for one, waiting in self._admitted.items() if waiting[0] > now}
        found = {entry.key: entry.obj for entry in self._store.list(key.group, key.resource, key.namespace)}
        waiting = {one: obj for one, (_, obj) in self._admitted.items() if one[:3] == key[:3] and one != key}
        return list((waiting | found).values())
