"""Deleting objects: preconditions, grace periods, finalizers, propagation, and evictions within disruption budgets."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, compile_selector
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.core.cloning import clone
from services.apiserver.core.request import integer, truth
from services.apiserver.core.request_context import Call, now, timestamp
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Conflict, Entry, Key, StoreTooLarge, StoreUnavailable
from services.apiserver.writes.object_writes import Objects, store_error

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan")
_ANSWER_OBJECT = {
    "/namespaces",
    "/persistentvolumeclaims",
    "/persistentvolumes",
    "/pods",
    "/podtemplates",
    "/resourcequotas",
    "/serviceaccounts",
    "policy/podsecuritypolicies",
    "storage.k8s.io/csidrivers",
    "storage.k8s.io/csinodes",
    "storage.k8s.io/storageclasses",
    "storage.k8s.io/volumeattachments",
}
_ORPHAN_BY_DEFAULT = {("", "v1", "replicationcontrollers"), ("batch", "v1", "jobs"), ("batch", "v1beta1", "cronjobs")}
_PROTECTED = ("default", "kube-system", "kube-public")


Begin = Callable[[Manifest, str], Manifest]
"""(object, time) -> the object as its first deletion leaves it."""


def _terminate_namespace(old: Manifest, moment: str) -> Manifest:
    meta = {**old["metadata"], "deletionTimestamp": moment}
    return {**old, "metadata": meta, "status": {**(old.get("status") or {}), "phase": "Terminating"}}


class DeleteOptions:
    """Options of one deletion, from its body or its query."""

    __slots__ = ("dry_run", "grace", "orphan", "policy", "raw", "revision", "uid")

    def __init__(self, body: Manifest | None, query: dict[str, str]) -> None:
        self.raw: Manifest = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        self.grace: int | None
        self.orphan: bool | None
        if body is None:
            grace, orphan = query.get("gracePeriodSeconds"), query.get("orphanDependents")
            self.grace = integer(grace) if grace else None
            self.orphan = truth(orphan) if orphan else None
            self.policy = query.get("propagationPolicy") or None
            dry_run: Any = [query["dryRun"]] if query.get("dryRun") else []
            self.uid = self.revision = None
            if self.grace is not None:
                self.raw["gracePeriodSeconds"] = self.grace
            if self.policy:
                self.raw["propagationPolicy"] = self.policy
            if self.orphan is not None:
                self.raw["orphanDependents"] = self.orphan
        else:
            self.grace, self.orphan = body.get("gracePeriodSeconds"), body.get("orphanDependents")
            self.policy = body.get("propagationPolicy")
            dry_run = body.get("dryRun") or []
            preconditions = body.get("preconditions") or {}
            self.uid, self.revision = preconditions.get("uid"), preconditions.get("resourceVersion")
            self.raw.update({k: v for k, v in body.items() if k not in ("kind", "apiVersion")})
        self.dry_run = self._check(dry_run)
        if self.dry_run:
            self.raw["dryRun"] = ["All"]

    def _check(self, dry_run: list[str]) -> bool:
        found: list[fields.FieldError] = []
        if self.orphan is not None and self.policy is not None:
            text = "orphanDependents and deletionPropagation cannot be both set"
            found.append(fields.invalid("propagationPolicy", self.policy, text))
        elif self.policy is not None and self.policy not in _POLICIES:
            found.append(fields.not_supported("propagationPolicy", self.policy, [*_POLICIES, "nil"]))
        if any(d != "All" for d in dry_run):
            shown = "[]string{" + ", ".join(f'"{d}"' for d in dry_run) + "}"
            found.append(fields.not_supported("dryRun", fields.Raw(shown), ["All"]))
        if found:
            raise status.invalid("DeleteOptions.meta.k8s.io", "", found)
        return bool(dry_run)


class Deleter:
    """Deletions over the shared write path."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.first: dict[str, Begin] = {"/namespaces": _terminate_namespace}
        """Per store key: what the first deletion writes instead of removing the object."""
        objects.remove_now = self._remove_now

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions, call: Call
    ) -> tuple[Entry | Manifest, bool]:
        """Delete an object; returns the answer (an object or a Status) and whether the object is gone."""
        call.dry_run = call.dry_run or options.dry_run
        call.options = options.raw
        objects = self._objects
        if kind.store_key == "/namespaces" and name in _PROTECTED:
            raise status.forbidden(kind.resource, name, "this namespace may not be deleted")
        admitted = False
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

    @staticmethod
    def _check_preconditions(kind: Kind, old: Manifest, options: DeleteOptions) -> None:
        meta = old["metadata"]
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
            answer = await self._begin(kind, entry, old, first, call)
            if answer is not None:
                return answer, False
        meta = old["metadata"]
        graceful, pending, grace = _grace(kind, old, options)
        if pending:
            return self._answer(kind, entry, old), False
        finalizers = list(meta.get("finalizers") or [])
        wanted = _finalizers(kind, finalizers, options)
        if not (graceful or wanted):
            await self._remove(kind, entry, call)
            return self._answer(kind, entry, old), True
        marked = dict(meta)
        if wanted:
            marked["finalizers"] = wanted
        else:
            marked.pop("finalizers", None)
        if graceful:
            _mark_graceful(marked, grace)
        else:
            _mark(marked)
        current = entry
        if marked != meta:
            new = {**old, "metadata": marked}
            if call.dry_run:
                return new, False
            current = await self._objects.store.put(entry.key, kind.to_store(new), entry.revision)
            self._objects.audit.write(call, "delete", current, entry)
        if wanted or grace > 0:
            if kind.store_key == "/services":
                return self._answer(kind, current, old), False
            return current, False
        await self._remove(kind, current, call)
        return self._answer(kind, current, kind.from_store(current.obj)), True

    async def _begin(
        self, kind: Kind, entry: Entry, old: Manifest, first: Begin, call: Call
    ) -> Entry | Manifest | None:
        """The first deletion of a namespace or definition only marks it: its content goes before it."""
        if not old["metadata"].get("deletionTimestamp"):
            new = first(old, timestamp(now()))
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

    async def _remove(self, kind: Kind, entry: Entry, call: Call) -> None:
        if call.dry_run:
            return
        gone = await self._objects.store.delete(entry.key, entry.obj, entry.revision)
        self._objects.audit.write(call, "delete", gone, entry)

    async def _remove_now(self, kind: Kind, entry: Entry, new: Manifest, call: Call) -> None:
        await self._remove(kind, entry, call)


def _grace(kind: Kind, old: Manifest, options: DeleteOptions) -> tuple[bool, bool, int]:
    """(a grace period applies, nothing is to be done any more, its seconds)."""
    if not kind.graceful_delete:
        return False, False, 0
    meta = old["metadata"]
    if meta.get("deletionTimestamp"):
        before = meta.get("deletionGracePeriodSeconds")
        if before == 0 and options.grace == 0 and not meta.get("finalizers"):
            # Its end was written and the store failed before it was removed: the next request finishes that.
            return False, False, 0
        if before is None or options.grace is None or options.grace >= before:
            return False, True, 0
        return True, False, options.grace
    spec, phase = old.get("spec") or {}, (old.get("status") or {}).get("phase")
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 0)
    if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
        grace = 0
    return True, False, grace


def _mark_graceful(meta: Manifest, grace: int) -> None:
    existing = meta.get("deletionTimestamp")
    if existing:
        base = dt.datetime.fromisoformat(existing)
        base -= dt.timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    else:
        base = now()
        if meta.get("generation"):
            meta["generation"] += 1
    meta["deletionTimestamp"] = timestamp(base + dt.timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace


def _mark(meta: Manifest) -> None:
    if meta.get("deletionGracePeriodSeconds") is None and meta.get("generation"):
        meta["generation"] += 1
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = timestamp(now())
    meta["deletionGracePeriodSeconds"] = 0


def _finalizers(kind: Kind, existing: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers an object has once its deletion began: its own, and one that stands for the policy."""
    resource = kind.resource
    orphan = foreground = False
    if options.orphan is not None:
        orphan = options.orphan
    elif options.policy is not None:
        orphan, foreground = options.policy == "Orphan", options.policy == "Foreground"
    elif ORPHAN in existing or FOREGROUND in existing:
        first = next(f for f in existing if f in (ORPHAN, FOREGROUND))
        orphan, foreground = first == ORPHAN, FOREGROUND in existing
    else:
        orphan = (resource.group, resource.version, resource.plural) in _ORPHAN_BY_DEFAULT
    kept = [f for f in existing if f not in (ORPHAN, FOREGROUND)]
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return existing if set(kept) == set(existing) else kept


class Evictions:
    """Deletes pods through their disruption budgets."""

    def __init__(self, objects: Objects, deleter: Deleter) -> None:
        self._objects = objects
        self._deleter = deleter

    async def evict(self, kind: Kind, namespace: str, name: str, options: DeleteOptions, call: Call) -> None:
        """Evict a pod; raises 404, 429 or 500."""
        pod = self._objects.get(kind, namespace, name).obj
        phase = (pod.get("status") or {}).get("phase")
        if phase not in ("Succeeded", "Failed", "Pending", None, "") and not pod["metadata"].get("deletionTimestamp"):
            await self._spend(pod, namespace, call, dry_run=call.dry_run or options.dry_run)
        await self._deleter.delete(kind, namespace, name, options, call)

    def _budgets(self, pod: Manifest, namespace: str) -> list[Entry]:
        found = []
        labels = pod["metadata"].get("labels") or {}
        for entry in self._objects.store.list("policy", "poddisruptionbudgets", namespace):
            selector = (entry.obj.get("spec") or {}).get("selector")
            if not selector:
                continue
            try:
                matches = compile_selector(selector).matches(labels)
            except LabelSelectorError:
                continue
            if matches:
                found.append(entry)
        return found

    async def _spend(self, pod: Manifest, namespace: str, call: Call, *, dry_run: bool) -> None:
        budgets = self._budgets(pod, namespace)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "", text)
        for entry in budgets:
            budget = entry.obj
            state, name = budget.get("status") or {}, entry.key.name
            if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
                raise _refused(f"The disruption budget {name} is still being processed by the server.")
            if state.get("disruptionsAllowed", 0) <= 0:
                raise _refused(
                    f"The disruption budget {name} needs {state.get('desiredHealthy', 0)} healthy pods and has "
                    f"{state.get('currentHealthy', 0)} currently"
                )
            if dry_run:
                continue
            owner = self._objects.registry.by_api_version(str(budget["apiVersion"]), "PodDisruptionBudget")
            if owner is None:
                continue

            def make(old: Manifest) -> Manifest:
                new = clone(old)
                left = new.setdefault("status", {})
                if left.get("disruptionsAllowed", 0) <= 0:
                    raise _refused(f"The disruption budget {old['metadata']['name']} allows no further disruption.")
                left["disruptionsAllowed"] -= 1
                left.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = timestamp(now())
                return new

            await self._objects.update(
                owner, namespace, name, make, Call(call.user, verb="update"), subresource="status", patch=True
            )


def _refused(text: str) -> ApiError:
    details = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", message, details)
