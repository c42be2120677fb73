"""What one deletion asks for, and what follows from it for an object: its grace period and its finalizers. Pure."""

import datetime as dt
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.core import status_errors as status
from services.apiserver.core.request import integer, truth
from services.apiserver.core.request_context import timestamp
from services.apiserver.kinds.kind_model import Kind

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_LATEST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_ORPHAN_BY_DEFAULT: Final = frozenset({("", "v1", "replicationcontrollers"), ("batch", "v1", "jobs")})
_WITHOUT_DEPENDENTS: Final = frozenset({"events"})
"""Kinds that own nothing: how their dependents are to be treated is not asked."""


class DeleteOptions:
    """Options of one deletion, from its body or its query."""

    __slots__ = ("dry_run", "grace", "orphan", "policy", "raw", "revision", "uid")

    def __init__(self, body: Manifest | None, query: dict[str, str]) -> None:
        self.raw: Manifest = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        self.grace: int | None
        self.orphan: bool | None
        if body is None:
            grace, orphan = query.get("gracePeriodSeconds"), query.get("orphanDependents")
            self.grace = integer(grace) if grace is not None else None
            self.orphan = truth(orphan) if orphan is not None else None
            self.policy = query.get("propagationPolicy")
            dry_run: Any = [query["dryRun"]] if "dryRun" in query else []
            self.uid = self.revision = None
            if self.grace is not None:
                self.raw["gracePeriodSeconds"] = self.grace
            if self.policy is not None:
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
        if self.policy is not None and self.policy not in _POLICIES:
            found.append(fields.not_supported("propagationPolicy", self.policy, [*_POLICIES, "nil"]))
        if any(d != "All" for d in dry_run):
            found.append(fields.not_supported("dryRun", fields.go_strings(dry_run), ["All"]))
        if found:
            raise status.invalid("DeleteOptions.meta.k8s.io", "", found)
        return bool(dry_run)


def grace_of(kind: Kind, old: Manifest, options: DeleteOptions) -> tuple[bool, bool, int]:
    """(a grace period applies, nothing is to be done any more, its seconds)."""
    if not kind.graceful_delete:
        return False, False, 0
    meta = old["metadata"]
    if meta.get("deletionTimestamp"):
        before = meta.get("deletionGracePeriodSeconds")
        if not before:
            # Its end was written, and what keeps it are finalizers, or a failure between that write and its removal.
            return False, False, 0
        if options.grace is None or options.grace >= before:
            return False, True, 0
        return True, False, options.grace
    spec, phase = old.get("spec") or {}, (old.get("status") or {}).get("phase")
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 0)
    if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
        grace = 0
    return True, False, grace


def mark_graceful(meta: Manifest, grace: int, moment: dt.datetime) -> None:
    """Write into metadata that an object goes after so many seconds."""
    existing = meta.get("deletionTimestamp")
    if existing:
        moment = dt.datetime.fromisoformat(existing)
        if moment < _LATEST:
            moment -= dt.timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    elif meta.get("generation"):
        meta["generation"] += 1
    try:
        meta["deletionTimestamp"] = timestamp(moment + dt.timedelta(seconds=grace))
    except OverflowError:
        meta["deletionTimestamp"] = timestamp(_LATEST)
    meta["deletionGracePeriodSeconds"] = grace


def mark(meta: Manifest, moment: dt.datetime) -> None:
    """Write into metadata that an object goes once its finalizers are gone."""
    if meta.get("deletionGracePeriodSeconds") is None and meta.get("generation"):
        meta["generation"] += 1
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = timestamp(moment)
    meta["deletionGracePeriodSeconds"] = 0


def finalizers_of(kind: Kind, existing: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers an object has once its deletion began: its own, and one that stands for the policy."""
    resource = kind.resource
    if resource.plural in _WITHOUT_DEPENDENTS and not kind.custom:
        return existing
    first = next((name for name in existing if name in (ORPHAN, FOREGROUND)), "")
    orphan, foreground = first == ORPHAN, first == FOREGROUND
    if options.orphan is not None:
        orphan, foreground = options.orphan, False
    elif options.policy is not None:
        orphan, foreground = options.policy == "Orphan", options.policy == "Foreground"
    elif not first:
        orphan = (resource.group, resource.version, resource.plural) in _ORPHAN_BY_DEFAULT
    return _with_policy(existing, orphan=orphan, foreground=foreground)


def namespace_finalizers(existing: list[str], options: DeleteOptions) -> list[str]:
    """`finalizers_of` a namespace, which takes `orphanDependents: false` for the foreground."""
    orphan, foreground = ORPHAN in existing, FOREGROUND in existing
    if options.orphan is not None:
        orphan, foreground = options.orphan, not options.orphan
    elif options.policy is not None:
        orphan, foreground = options.policy == "Orphan", options.policy == "Foreground"
    return _with_policy(existing, orphan=orphan, foreground=foreground)


def _with_policy(existing: list[str], *, orphan: bool, foreground: bool) -> list[str]:
    kept = [f for f in existing if f not in (ORPHAN, FOREGROUND)]
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return existing if set(kept) == set(existing) else kept
