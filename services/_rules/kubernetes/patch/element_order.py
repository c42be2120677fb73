"""The order of lists that a strategic merge patch merges: `$setElementOrder`, then the patch, then the present list.

Items are known by their merge key, or by themselves where they are scalars. All of this takes time in proportion to
the lists: items are looked up, never searched.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_format, go_type
from services._rules.kubernetes.patch.json_patch import PatchError

DIRECTIVE: Final = "$patch"
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def identity(value: Any) -> Any:
    """What tells a merge key or a scalar from others: a hashable, for which true is not 1 and 1 is not 1.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return (type(value), _encode(value))
    return (type(value), value)


def identity_of(item: Any, key: str) -> Any:
    """What tells a list item from others; raises PatchError for one without its merge key."""
    if not key:
        return identity(item)
    if not isinstance(item, dict):
        raise PatchError(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    if key not in item:
        raise no_key(item, key)
    return identity(item[key])


def no_key(item: Any, key: str) -> PatchError:
    """The refusal of an item without its merge key."""
    return PatchError(f"map: {go_format(item)} does not contain declared merge key: {key}")


def positions(items: Iterable[Any], key: str) -> dict[Any, int]:
    """Where each item of a list stands first."""
    found: dict[Any, int] = {}
    for index, item in enumerate(items):
        found.setdefault(identity_of(item, key), index)
    return found


def element_order(merged: list[Any], order: list[Any], original: list[Any], key: str) -> list[Any]:
    """Return `merged` with the items that `order` names in its order, and the others where `original` has them.

    Items present in both keep their relation from `original`; an item that only the patch knows goes before the
    next server-only one. `key` is the merge key, or empty for a list of scalars.
    """
    wanted, before = positions(order, key), _known(original, key)
    patched: list[tuple[int, int, Any]] = []
    others: list[tuple[int, Any]] = []
    for item in merged:
        name = identity_of(item, key)
        at, was = wanted.get(name, -1), before.get(name, -1)
        if at >= 0:
            patched.append((at, was, item))
        else:
            others.append((was, item))
    patched.sort(key=lambda entry: entry[0])
    others.sort(key=lambda entry: entry[0] % (len(original) + 1))
    result: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(patched):
        if 0 <= others[left][0] < patched[right][1]:
            result.append(others[left][1])
            left += 1
        else:
            result.append(patched[right][2])
            right += 1
    result += [item for _, item in others[left:]]
    result += [item for _, _, item in patched[right:]]
    return result


def _known(items: list[Any], key: str) -> dict[Any, int]:
    """`positions` of a list as it is present; what has no key there is in no order."""
    if key:
        items = [item if isinstance(item, dict) and key in item else {key: None} for item in items]
    return positions(items, key)


def matches_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Raise PatchError unless the changed items appear in the order list, in the same order."""
    if not changes or not order:
        return
    wanted = [identity_of(item, key) for item in changes if not (key and isinstance(item, dict) and DIRECTIVE in item)]
    at = 0
    for item in order:
        if at == len(wanted):
            return
        if identity_of(item, key) == wanted[at]:
            at += 1
    if at < len(wanted):
        raise PatchError(
            f"The order in patch list:\n{go_format(changes)}\n"
            f" doesn't match $setElementOrder list:\n{go_format(order)}\n"
        )
