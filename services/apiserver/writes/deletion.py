"""Deleting objects: preconditions, grace periods, finalizers and propagation; the rules are in `delete_options`."""

from collections.abc import Callable

from schemas.manifest import Manifest
from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import LOOPBACK, Call, now, timestamp
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Conflict, Entry, Key, StoreTooLarge, StoreUnavailable
from services.apiserver.writes.delete_options import (
    DeleteOptions,
    finalizers_of,
    grace_of,
    mark,
    mark_graceful,
    namespace_finalizers,
)
from services.apiserver.writes.object_writes import Objects, store_error

__all__ = ["DeleteOptions", "Deleter"]

_ANSWER_OBJECT = {
    "/namespaces",
    "/persistentvolumeclaims",
    "/persistentvolumes",
    "/pods",
    "/podtemplates",
    "/resourcequotas",
    "/serviceaccounts",
    "/services",
    "storage.k8s.io/csidrivers",
    "storage.k8s.io/csinodes",
    "storage.k8s.io/storageclasses",
    "storage.k8s.io/volumeattachments",
    "storage.k8s.io/volumeattributesclasses",
}
_PROTECTED = ("default", "kube-system", "kube-public")
_PODS_OF_JOBS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_SHOWN = {"uid": "UID", "resourceVersion": "ResourceVersion"}


Begin = Callable[[Manifest, str], Manifest]
"""(object, time) -> the object as its first deletion leaves it."""


def _terminate_namespace(old: Manifest, moment: str) -> Manifest:
    meta = {**old["metadata"], "deletionTimestamp": moment}
    return {**old, "metadata": meta, "status": {**(old.get("status") or {}), "phase": "Terminating"}}


class Deleter:
    """Deletions over the shared write path."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.first: dict[str, Begin] = {"/namespaces": _terminate_namespace}
        """Per store key: what the first deletion writes instead of removing the object."""
        objects.remove_now = self._remove_now

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions, call: Call, *, admitted: bool = False
    ) -> tuple[Entry | Manifest, bool]:
        """Delete an object; returns the answer (an object or a Status) and whether the object is gone.

        `admitted`: admission has agreed to this already, as to an eviction.
        """
        call.dry_run = call.dry_run or options.dry_run
        call.options = options.raw
        objects = self._objects
        kept = kind.store_key == "batch/jobs" and options.policy is None and options.orphan is None
        if kept and _PODS_OF_JOBS not in call.warnings:
            call.warnings.append(_PODS_OF_JOBS)
        if kind.store_key == "/namespaces" and name in _PROTECTED:
            raise status.forbidden(kind.resource, name, "this namespace may not be deleted")
        for _ in range(64):
            entry = objects.get(kind, namespace, name)
            old = kind.from_store(entry.obj)
            self._check_preconditions(kind, old, options)
            if not admitted:
                attributes = Attributes("DELETE", kind, "", namespace, name, None, old, call)
                await objects.admission.mutate(attributes)
                await objects.admission.validate(attributes)
                admitted = True
            try:
                return await self._attempt(kind, entry, old, options, call)
            except Conflict:
                if options.revision:
                    self._check_preconditions(kind, objects.get(kind, namespace, name).obj, options)
            except (StoreUnavailable, StoreTooLarge) as e:
                raise store_error(e) from e
        raise status.conflict(kind.resource, name, status.MODIFIED)

    async def discard(
        self, kind: Kind, key: Key, options: DeleteOptions, call: Call, tolerated: tuple[int, ...] = (404,)
    ) -> None:
        """Delete an object that may be gone already; refusals with the codes in `tolerated` are no errors."""
        try:
            await self.delete(kind, key.namespace, key.name, options, call)
        except status.ApiError as e:
            if e.code not in tolerated:
                raise

    def _check_preconditions(self, kind: Kind, old: Manifest, options: DeleteOptions) -> None:
        meta = old["metadata"]
        if kind.store_key in self.first:
            for what, wanted in (("uid", options.uid), ("resourceVersion", options.revision)):
                if wanted is not None and wanted != meta[what]:
                    shown = _SHOWN[what]
                    text = f"Precondition failed: {shown} in precondition: {wanted}, {shown} in object meta: "
                    raise status.conflict(kind.resource, meta["name"], text + meta[what])
            return
        if options.uid is not None and options.uid != meta["uid"]:
            text = f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']})."
            text += " The object might have been deleted and then recreated"
            raise status.precondition_failed(kind, meta["name"], text)
        if options.revision is not None and options.revision != meta["resourceVersion"]:
            text = f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion "
            text += f"in record ({meta['resourceVersion']}). The object might have been modified"
            raise status.precondition_failed(kind, meta["name"], text)

    async def _attempt(
        self, kind: Kind, entry: Entry, old: Manifest, options: DeleteOptions, call: Call
    ) -> tuple[Entry | Manifest, bool]:
        first = self.first.get(kind.store_key)
        if first is not None:
            answer = await self._begin(kind, entry, old, first, options, call)
            if answer is not None:
                return answer, False
        meta = old["metadata"]
        graceful, pending, grace = grace_of(kind, old, options)
        if pending:
            return self._answer(kind, entry, old), False
        finalizers = list(meta.get("finalizers") or [])
        wanted = finalizers_of(kind, finalizers, options)
        if not (graceful or wanted):
            return self._answer(kind, await self._remove(kind, entry, call), old), True
        marked = dict(meta)
        if wanted:
            marked["finalizers"] = wanted
        else:
            marked.pop("finalizers", None)
        if graceful:
            mark_graceful(marked, grace, now())
        else:
            mark(marked, now())
        current = entry
        if marked != meta:
            new = {**old, "metadata": marked}
            if call.dry_run:
                return new, False
            current = await self._objects.store.put(entry.key, kind.to_store(new), entry.revision)
            self._objects.audit.write(call, "delete", current, entry)
        if wanted or grace > 0:
            return current, False
        return self._answer(kind, await self._remove(kind, current, call), kind.from_store(current.obj)), True

    async def _begin(
        self, kind: Kind, entry: Entry, old: Manifest, first: Begin, options: DeleteOptions, call: Call
    ) -> Entry | Manifest | None:
        """The first deletion of a namespace or definition only marks it: its content goes before it."""
        if not old["metadata"].get("deletionTimestamp"):
            new = first(old, timestamp(now()))
            if kind.store_key == "/namespaces":
                existing = list(old["metadata"].get("finalizers") or [])
                finalizers = namespace_finalizers(existing, options)
                if finalizers:
                    new["metadata"]["finalizers"] = finalizers
                else:
                    new["metadata"].pop("finalizers", None)
            if call.dry_run:
                return new
            marked = await self._objects.store.put(entry.key, kind.to_store(new), entry.revision)
            self._objects.audit.write(call, "delete", marked, entry)
            return marked
        if kind.store_key == "/namespaces" and (old.get("spec") or {}).get("finalizers"):
            return entry
        return None

    @staticmethod
    def _answer(kind: Kind, entry: Entry, old: Manifest) -> Entry | Manifest:
        if kind.store_key in _ANSWER_OBJECT:
            return entry
        return status.success(kind.resource, entry.key.name, old["metadata"]["uid"])

    async def _remove(self, kind: Kind, entry: Entry, call: Call) -> Entry:
        """Remove an object, and return what it was at last: under the revision of its removal, where there is one."""
        if call.dry_run:
            return entry
        gone = await self._objects.store.delete(entry.key, entry.obj, entry.revision)
        self._objects.audit.write(call, "delete", gone, entry)
        if kind.store_key == "/services":
            await self._remove_endpoints(entry.key, call)
        return gone

    async def _remove_endpoints(self, service: Key, call: Call) -> None:
        """The addresses behind a service go with it."""
        endpoints = self._objects.registry.find("", "v1", "endpoints")
        key = Key("", "endpoints", service.namespace, service.name)
        if endpoints is not None and self._objects.store.get(key) is not None:
            inner = Call(LOOPBACK, verb="delete", manager=call.manager)
            await self.discard(endpoints, key, DeleteOptions({}, {}), inner, (404, 409))

    async def _remove_now(self, kind: Kind, entry: Entry, new: Manifest, call: Call) -> None:
        await self._remove(kind, entry, call)
