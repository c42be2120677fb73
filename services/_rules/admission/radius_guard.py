"""Guards of policies: an annotation bounds how many workloads one edit may disturb (docs/foresight.md).

A confirmation holds for one edit. When that edit is written, the mutating step binds the confirmation to the new spec,
so that it counts neither for a later edit nor for a deletion; the validating step, which may run elsewhere, reads both.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from schemas.manifest import Manifest

MAX_RADIUS: Final = "policy.fleetlog.io/max-radius"
CONFIRM_RADIUS: Final = "policy.fleetlog.io/confirm-radius"
ANY: Final = "any"
"""A confirmation of whatever follows, known or not."""
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_SPENT: Final = re.compile(r"([0-9]{1,9}|any) spent on ([0-9a-f]{12})")
_encoder = msgspec.json.Encoder(order="deterministic")
_SHARE: Final = re.compile(r"([0-9]{1,3})%")


def malformed(policy: Manifest) -> str:
    """What is wrong with the annotations of a guard; empty when nothing is."""
    found = _annotations(policy)
    limit, confirmed = found.get(MAX_RADIUS), found.get(CONFIRM_RADIUS)
    if limit is not None and not (_COUNT.fullmatch(limit) or _SHARE.fullmatch(limit)):
        return (
            f"metadata.annotations[{MAX_RADIUS}]: Invalid value: {limit!r}: write a number of workloads such as 50, or "
            "a share of those that the policy claims such as 10%"
        )
    known = confirmed is None or confirmed == ANY or _COUNT.fullmatch(confirmed) or _SPENT.fullmatch(confirmed)
    if not known:
        return (
            f"metadata.annotations[{CONFIRM_RADIUS}]: Invalid value: {confirmed!r}: write a number of workloads, or "
            f"{ANY} for however many there are"
        )
    return ""


def guarded(old: Manifest, new: Manifest | None) -> bool:
    """Whether an edit (`new` is None for a deletion) has to be measured: the stored policy says so, and it matters."""
    if MAX_RADIUS not in _annotations(old) or old["metadata"].get("deletionTimestamp"):
        return False
    return new is None or old.get("spec") != new.get("spec")


def confirmed_any(old: Manifest, new: Manifest | None) -> bool:
    """Whether the edit is confirmed whatever its radius: then nothing needs to be measured."""
    return _confirmation(old, new) == ANY


def refusal(old: Manifest, new: Manifest | None, radius: int, claimed: int) -> str:
    """Why an edit of a guarded policy is refused; empty when it may go on.

    `radius` counts the workloads that it would move, change or end, `claimed` those that the policy claims now.
    """
    limit = _annotations(old)[MAX_RADIUS]
    share = _SHARE.fullmatch(limit)
    allowed = claimed * int(share[1]) // 100 if share is not None else int(limit) if _COUNT.fullmatch(limit) else 0
    confirmed = _confirmation(old, new)
    if radius <= allowed or confirmed == ANY or (_COUNT.fullmatch(confirmed) and int(confirmed) >= radius):
        return ""
    of = f" ({allowed} of {claimed})" if share is not None else ""
    count = f"{radius} workload{'' if radius == 1 else 's'}"
    what = "deletion" if new is None else "edit"
    return (
        f"the policy is guarded: this {what} would move, change or end {count}, and its "
        f"annotation {MAX_RADIUS} allows {limit}{of}. `fleetlog plan` shows them. {_remedy(old, new, str(radius))}"
    )


def unmeasured(old: Manifest, new: Manifest | None, why: str) -> str:
    """Why an edit of a guarded policy is refused of which the radius is not known."""
    return (
        f"the policy is guarded by its annotation {MAX_RADIUS}, and the radius of this "
        f"{'deletion' if new is None else 'edit'} could not be computed: {why}. {_remedy(old, new, ANY)}"
    )


def spent(old: Manifest, new: Manifest) -> Manifest:
    """An edited policy with its confirmation bound to this edit; one that is written beforehand stays for the next."""
    value = _annotations(new).get(CONFIRM_RADIUS, "")
    if not (_COUNT.fullmatch(value) or value == ANY) or old.get("spec") == new.get("spec"):
        return new
    bound = {**_annotations(new), CONFIRM_RADIUS: f"{value} spent on {_digest(new)}"}
    return {**new, "metadata": {**new["metadata"], "annotations": bound}}


def _remedy(old: Manifest, new: Manifest | None, value: str) -> str:
    if new is not None:
        return f'To go on, set the annotation {CONFIRM_RADIUS}: "{value}" in the same edit.'
    metadata = old["metadata"]
    place = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
    kind = str(old.get("kind", "")).lower()
    return f"To go on: kubectl annotate {kind}{place} {metadata['name']} {CONFIRM_RADIUS}={value}, then delete it."


def _confirmation(old: Manifest, new: Manifest | None) -> str:
    """What the writer confirms for this edit; empty for nothing."""
    before = _annotations(old).get(CONFIRM_RADIUS, "")
    value = before if new is None else _annotations(new).get(CONFIRM_RADIUS, "")
    bound = _SPENT.fullmatch(value)
    if bound is None:
        return value
    return bound[1] if new is not None and value != before and bound[2] == _digest(new) else ""


def _digest(policy: Manifest) -> str:
    return hashlib.sha256(_encoder.encode(policy.get("spec"))).hexdigest()[:12]


def _annotations(policy: Manifest) -> dict[str, str]:
    found = (policy.get("metadata") or {}).get("annotations") or {}
    # In a review an annotation may be null.
    return {name: value for name, value in found.items() if value is not None}
