"""Measures what ResourceQuotas limit, and writes it into their status, as kube-controller-manager does.

Admission counts up; this counts again: when a quota is new or changed, when something goes that it limits, and at
times.
"""

from __future__ import annotations

import asyncio
from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services._rules.constants import CLUSTER_PROPAGATION_POLICY_ID_LABEL, PROPAGATION_POLICY_ID_LABEL
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import ZERO, from_value
from services._rules.kubernetes.quota_charges import measured
from services._rules.kubernetes.resource_quota import COUNTED, Amounts, concerns, tracked, usage
from services.apiserver.admission.resource_quotas import QUOTAS, ResourceQuotas
from services.apiserver.core.request_context import LOOPBACK, Call, now
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Entry, Event, Key
from services.apiserver.writes.object_writes import Objects

RESYNC_SECONDS: Final = 300.0
_AT_ONCE: Final = 200
"""Objects that are looked at before others have a turn."""
_LOOKED_INTO: Final = frozenset({"/pods", "/services", "/persistentvolumeclaims"})
"""Kinds of which a change, too, may lower what is used."""
_CLAIMS: Final = (PROPAGATION_POLICY_ID_LABEL, CLUSTER_PROPAGATION_POLICY_ID_LABEL)


class QuotaUsage:
    """Keeps the status of quotas.

    Where `templates` are kept, one that a policy has claimed limits its copies in members and nothing here.
    """

    def __init__(self, objects: Objects, quotas: ResourceQuotas, *, templates: bool) -> None:
        self._objects = objects
        self._quotas = quotas
        self._templates = templates
        self._queue: WorkQueue[Key] = WorkQueue(self._handle)
        self._call = Call(LOOPBACK, manager="resourcequota-controller")

    async def start(self) -> None:
        """Measure every quota, then follow changes."""
        self._objects.store.listen(self._on_event)
        for entry in list(self._objects.store.list(*QUOTAS)):
            self._queue.add(entry.key)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        written = key[:2] == QUOTAS and not event.deleted
        if written and (event.prev is None or not _only_charged(event.prev.obj, event.entry.obj)):
            self._queue.add(key)
        if not key.namespace or (event.prev is None and not event.deleted):
            return
        for entry in self._objects.store.list(*QUOTAS, key.namespace):
            if event.deleted or _lowers(event, entry.obj):
                self._queue.add(entry.key)

    async def _handle(self, key: Key) -> float | None:
        store = self._objects.store
        async with self._quotas.alone(key.namespace):
            entry = store.get(key)
            if entry is None:
                return None
            state = {} if self._elsewhere(entry.obj) else await self._measure(entry)
            if state != (entry.obj.get("status") or {}):
                written = await store.put(key, {**entry.obj, "status": state}, entry.revision)
                self._objects.audit.write(self._call, "update", written, entry, "status")
        return RESYNC_SECONDS

    def _elsewhere(self, quota: Manifest) -> bool:
        labels = quota["metadata"].get("labels") or {}
        return self._templates and any(label in labels for label in _CLAIMS)

    async def _measure(self, entry: Entry) -> Manifest:
        quota, namespace = entry.obj, entry.key.namespace
        hard = (quota.get("spec") or {}).get("hard") or {}
        counted = [name.removeprefix("count/").partition(".") for name in hard if name.startswith("count/")]
        resources = {*(("", name) for name in COUNTED), *((group, plural) for plural, _, group in counted)}
        taken: Amounts = {}
        for group, plural in sorted(resources):
            names = tracked(hard, group, plural)
            kind = self._kind(group, plural) if names else None
            if kind is not None:
                found = await self._taken(quota, kind, namespace)
                taken |= {name: found.get(name, ZERO) for name in names}
        return measured(quota, taken)

    def _kind(self, group: str, plural: str) -> Kind | None:
        for kind in self._objects.registry.all():
            resource = kind.resource
            if (resource.group, resource.plural) == (group, plural) and resource.namespaced and not kind.virtual:
                return kind
        return None

    async def _taken(self, quota: Manifest, kind: Kind, namespace: str) -> Amounts:
        group, plural = kind.resource.group, kind.resource.plural
        waiting = self._quotas.on_the_way(kind.store_group, plural, namespace)
        stored = list(self._objects.store.list(kind.store_group, plural, namespace))
        if kind.store_key not in _LOOKED_INTO:
            if not concerns(quota, plural, {}):
                return {}
            count = from_value(len({*waiting, *(entry.key for entry in stored)}))
            return dict.fromkeys(usage(group, plural, {}), count)
        total: Amounts = {}
        moment = now()
        for number, entry in enumerate(stored):
            waiting.pop(entry.key, None)
            obj = entry.look()
            if concerns(quota, plural, obj):
                add_to(total, usage(group, plural, obj, moment))
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        for obj in waiting.values():
            if concerns(quota, plural, obj):
                add_to(total, usage(group, plural, obj, moment))
        return total


def _only_charged(before: Manifest, after: Manifest) -> bool:
    """Whether nothing but the usage changed: that was admission, or this."""
    old, new = before.get("status") or {}, after.get("status") or {}
    labels = [part["metadata"].get("labels") for part in (before, after)]
    return before.get("spec") == after.get("spec") and old.get("hard") == new.get("hard") and labels[0] == labels[1]


def _lowers(event: Event, quota: Manifest) -> bool:
    """Whether a change may lower what a quota counts."""
    key, prev = event.entry.key, event.prev
    if prev is None or f"{key.group}/{key.resource}" not in _LOOKED_INTO:
        return False
    if not tracked((quota.get("spec") or {}).get("hard") or {}, key.group, key.resource):
        return False
    return usage(key.group, key.resource, prev.obj) != usage(key.group, key.resource, event.entry.obj)
