"""Both steps of admission at once, as recorded cases ask for them."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.admission import Admitted, Context, Denied, Operation, check_deletion, default, validate


def admit(
    kind: str, operation: Operation, obj: Manifest | None, old: Manifest | None = None, context: Context | None = None
) -> Admitted | Denied:
    """Decide upon one request; `old` is the stored object of an update or deletion."""
    context = context or Context()
    if operation == "DELETE":
        return check_deletion(old or {})
    if operation == "CREATE":
        old = None
    defaulted = default(kind, operation, obj or {}, old, context)
    return defaulted if isinstance(defaulted, Denied) else validate(kind, defaulted.object, old, context)
