"""Both steps of one write as either front door takes them: the embedded API server, and the webhook of another one.

What only a front door knows (stored objects, time, ids, settings) comes in with the `Context`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct, structs

from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.admission import Admitted, Context, Denied, Operation, check_deletion, default, typed, validate
from services._rules.admission.radius_guard import spent
from services._rules.admission.webhook_table import CLUSTER, GUARDED, PLACES
from services._rules.identities import policy_id

_ID_LABELS: Final = {
    "PropagationPolicy": const.PROPAGATION_POLICY_ID_LABEL,
    "ClusterPropagationPolicy": const.CLUSTER_PROPAGATION_POLICY_ID_LABEL,
}
_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 422: "Invalid", 500: "InternalError"}


class Write(Struct, frozen=True):
    """One write. `version` is that of its objects; `new` is None for a deletion, `old` for a creation."""

    kind: str
    version: str
    operation: Operation
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    new: Manifest | None = None
    old: Manifest | None = None
    dry_run: bool = False

    @property
    def concerned(self) -> bool:
        """Whether the rules apply: to main resources, in the version that they are written for.

        An object that is deleted has to meet them no longer: its finalizers must be removable whatever it holds.
        """
        return self.new is not None and self._governed

    @property
    def guarded(self) -> bool:
        """Whether a guard is asked, about writes and deletions of policies."""
        return self.kind in GUARDED and self._governed

    @property
    def _governed(self) -> bool:
        deleted = self.old is not None and (self.old.get("metadata") or {}).get("deletionTimestamp")
        place = PLACES.get(self.kind)
        return place is not None and place.version == self.version and not self.subresource and not deleted


Guard = Callable[[Write], Awaitable[Denied | None]]
"""A check that needs more than the write and its `Context`; asked about a policy that the rules have admitted.

None lets it pass. Both front doors take one; it bounds its own time, and answers instead of raising.
"""


def mutate(write: Write, context: Context) -> Admitted | Denied:
    """The object of a creation or update with its defaults, ids and finalizers."""
    new = write.new or {}
    if not write.concerned:
        return Admitted(new)
    decision = default(write.kind, write.operation, _identified(write, new), write.old, context)
    if write.old is None or not write.guarded or isinstance(decision, Denied):
        return decision
    return Admitted(spent(write.old, decision.object))


def check(write: Write, context: Context) -> Admitted | Denied:
    """Whether the rules admit the write of an object that has its defaults, or the deletion of one."""
    if write.operation == "DELETE":
        return check_deletion(write.old or {})
    new = write.new or {}
    return validate(write.kind, new, _before(write, new), context) if write.concerned else Admitted(new)


def check_raw(write: Write, context: Context) -> Admitted | Denied:
    """The same for an object whose types are not checked yet."""
    if write.operation == "DELETE" or not write.concerned:
        return check(write, context)
    if write.kind == CLUSTER:
        # Its rules stand between its defaults.
        decision = default(write.kind, write.operation, write.new or {}, write.old, context)
        return decision if isinstance(decision, Denied) else Admitted(write.new or {})
    read = typed(write.kind, write.new or {})
    if isinstance(read, Denied):
        return read
    before = typed(write.kind, write.old) if write.old is not None else None
    # What is stored was let in before there were rules; with wrong types it has nothing to be compared with.
    old = before.object if isinstance(before, Admitted) else None
    return check(structs.replace(write, new=read.object, old=old), context)


def refusal(write: Write, decision: Denied, group: str, plural: str) -> Manifest:
    """A denial as the Status of an answer, with each cause by itself."""
    found = {"name": write.name, "group": group, "kind": plural}
    details: dict[str, Any] = {name: value for name, value in found.items() if value}
    if decision.causes:
        details["causes"] = [cause.cause() for cause in decision.causes]
    reason = decision.reason or _REASONS.get(decision.code, "")
    return {
        "status": "Failure",
        "code": decision.code,
        "reason": reason,
        "message": decision.message,
        "details": details,
    }


def _labels(obj: Manifest) -> dict[str, str]:
    labels = (obj.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _identified(write: Write, new: Manifest) -> Manifest:
    """The update of a policy that was stored without an id, with the id that the detector gives it."""
    label, old = _ID_LABELS.get(write.kind), write.old
    if label is None or old is None or _labels(old).get(label) or _labels(new).get(label):
        return new
    return _labelled(new, label, policy_id(str((old.get("metadata") or {}).get("uid", ""))))


def _before(write: Write, new: Manifest) -> Manifest | None:
    """The stored object, with the id that a policy stored without one gets now: that is no change of its id."""
    label, old = _ID_LABELS.get(write.kind), write.old
    if label is None or old is None or _labels(old).get(label):
        return old
    return _labelled(old, label, _labels(new).get(label, ""))


def _labelled(obj: Manifest, label: str, value: str) -> Manifest:
    metadata = obj.get("metadata") or {}
    return obj | {"metadata": metadata | {"labels": _labels(obj) | {label: value}}}
