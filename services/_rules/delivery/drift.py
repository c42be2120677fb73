"""Names drift in a member: the fields that a repair puts back, and the managers that had changed them.

Fields and their owners come from one read of the live object with its `metadata.managedFields`. Values are omitted,
and of a Secret not even the names below its top level fields (docs/sources.md#apply).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from schemas.events.observed import Drift
from schemas.manifest import Manifest
from services._rules.delivery.semantic_equal import Comparison
from services._rules.kubernetes.managed_fields.field_sets import Path, field_element, key_element, path_text
from services._rules.secrets.secret_objects import is_secret

WHOLE: Final = "."
"""The field of a drift that concerns the whole object: it was gone."""
MOST: Final = 16
"""Fields named of one object; a drift of more names these."""
LONGEST: Final = 256
"""Characters of one name; a longer one is cut."""
_SHOWN: Final = 5
_COLLECTOR: Final = "garbage collector, for "
_DEEPEST: Final = 24

# What an API server knows the items of a list by, tried in this order.
_IDENTITIES: Final = (
    ("mountPath",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("name",),
    ("ip",),
    ("topologyKey", "whenUnsatisfiable"),
)
_DEFAULTS: Final = {"protocol": "TCP"}


class Owner(Struct, frozen=True):
    """Last writer of a field; empty where the API server names none. `at` in seconds since 1970, 0 for unknown."""

    manager: str = ""
    operation: str = ""
    at: float = 0.0


def repaired(wanted: Manifest, live: Manifest, ours: str) -> tuple[Drift, ...]:
    """What writing `wanted` over `live` puts back.

    `wanted` is the manifest after retention, `live` the object as read, with its managed fields. A change of unknown
    author is named without one: a field that was taken away has no owner left, and one that still counts as `ours`
    was changed by something that the API server does not record.
    """
    found = []
    secret = is_secret(str(wanted.get("apiVersion")), str(wanted.get("kind")))
    entries = _entries(live)
    for path in _differences(wanted, live):
        owner = _owner(entries, path, ours)
        shown = path_text(path[:1] if secret else path)
        found.append(Drift(shown, owner.manager, owner.operation, owner.at))
    return bounded(dict.fromkeys(found))


def removed(wanted: Manifest | None = None) -> tuple[Drift, ...]:
    """An object of ours that was gone and is created again; its deleter is not recorded.

    Where it names owners, the garbage collector is suspected: it deletes what belongs to an owner that is not there,
    as often as it is created.
    """
    owners = ((wanted or {}).get("metadata") or {}).get("ownerReferences") or ()
    named = ", ".join(
        f"{owner.get('kind')} {owner.get('name')}" for owner in islice(owners, _SHOWN) if isinstance(owner, dict)
    )
    return (Drift(WHOLE, f"{_COLLECTOR}{named}"[:LONGEST] if named else ""),)


def both(earlier: tuple[Drift, ...], later: tuple[Drift, ...]) -> tuple[Drift, ...]:
    """What two repairs of one object put back together; a recreation put back everything."""
    if not earlier or not later or later[0].field == WHOLE:
        return later or earlier
    return bounded(dict.fromkeys((*earlier, *later)))


def bounded(drift: Iterable[Drift]) -> tuple[Drift, ...]:
    """The first few of them, their texts cut: what an agent reports is held to it."""
    return tuple(
        Drift(item.field[:LONGEST], item.manager[:LONGEST], item.operation[:16], item.at)
        for item in islice(drift, MOST)
    )


def drift_words(drift: tuple[Drift, ...]) -> str:
    """One line: `.spec.replicas was changed by kubectl-edit; put back`; empty without drift."""
    if not drift:
        return ""
    if drift[0].field == WHOLE:
        words = "it was deleted in the cluster; created again"
        if drift[0].manager.startswith(_COLLECTOR):
            owners = drift[0].manager.removeprefix(_COLLECTOR)
            words += (
                f". Its metadata.ownerReferences name {owners}: where the cluster has no such object with that uid, "
                "its garbage collector deletes this one each time; take the reference out of the override that adds it"
            )
        return words
    by: dict[str, list[str]] = {}
    for item in drift[:_SHOWN]:
        by.setdefault(item.manager, []).append(item.field)
    parts = [
        f"{', '.join(fields)} {'were' if len(fields) > 1 else 'was'} changed by {manager or 'an unknown writer'}"
        for manager, fields in by.items()
    ]
    more = len(drift) - _SHOWN
    if more > 0:
        parts.append(f"{more} more {'fields' if more > 1 else 'field'}")
    return f"{'; '.join(parts)}; put back"


def _differences(wanted: Manifest, live: Manifest) -> Iterator[Path]:
    """Paths of the fields that keep a live object from being what is wanted."""
    compare = Comparison(wanted)
    yield from _metadata(wanted.get("metadata") or {}, live.get("metadata") or {})
    for name in wanted:
        if name not in ("apiVersion", "kind", "metadata", "status", "stringData"):
            yield from _member(compare, name, wanted, live, (field_element(name),))
    if compare.is_content:
        for name in ("data", "binaryData"):
            if live.get(name) and not wanted.get(name):
                yield (field_element(name),)


def _metadata(wanted: Manifest, live: Manifest) -> Iterator[Path]:
    for member in ("labels", "annotations"):
        pairs, present = wanted.get(member) or {}, live.get(member) or {}
        for key, value in pairs.items():
            if present.get(key) != value:
                yield field_element("metadata"), field_element(member), field_element(key)


def _member(compare: Comparison, name: str, wanted: Manifest, live: Manifest, path: Path) -> Iterator[Path]:
    if not compare.member_differs(name, wanted, live, {}):
        return
    below: Iterator[Path] | None = None
    value, found = wanted.get(name), live.get(name)
    if len(path) < _DEEPEST and isinstance(value, dict) and isinstance(found, dict):
        below = _members(compare, value, found, path)
    elif len(path) < _DEEPEST and isinstance(value, list) and isinstance(found, list):
        below = _items(compare, value, found, path)
    named = False
    for one in below or ():
        named = True
        yield one
    if not named:
        yield path


def _members(compare: Comparison, value: Manifest, found: Manifest, path: Path) -> Iterator[Path]:
    for name in value:
        yield from _member(compare, name, value, found, (*path, field_element(name)))
    if compare.is_whole(path[-1][2:], found):
        for name in found.keys() - value.keys():
            yield (*path, field_element(name))


def _items(compare: Comparison, value: list[Any], found: list[Any], path: Path) -> Iterator[Path]:
    """Items by what identifies them; nothing where they have no unique key, so that the list is named as one."""
    keys = next((keys for keys in _IDENTITIES if _identify(keys, value) and _identify(keys, found)), None)
    if keys is None:
        return
    mine, theirs = _identify(keys, value), _identify(keys, found)
    for element, item in mine.items():
        other = theirs.get(element)
        if other is None:
            yield (*path, element)
        elif other != item:
            for name in item:
                yield from _member(compare, name, item, other, (*path, element, field_element(name)))
    for element in theirs.keys() - mine.keys():
        yield (*path, element)


def _identify(keys: tuple[str, ...], items: list[Any]) -> dict[str, Manifest]:
    """Items by their element in managed fields; nothing unless all have the keys and differ in them."""
    found: dict[str, Manifest] = {}
    for item in items:
        if not isinstance(item, dict):
            return {}
        values = {key: item.get(key, _DEFAULTS.get(key)) for key in keys}
        if any(not isinstance(part, str | int) for part in values.values()):
            return {}
        found[key_element(values)] = item
    return found if len(found) == len(items) else {}


def _entries(live: Manifest) -> list[tuple[Owner, Manifest]]:
    """Entries of managedFields, the latest first; what is none is left out."""
    found = []
    entries = (live.get("metadata") or {}).get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("fieldsV1"), dict) and entry.get("subresource") != "status":
            owner = Owner(str(entry.get("manager", "")), str(entry.get("operation", "")), _seconds(entry.get("time")))
            found.append((owner, entry["fieldsV1"]))
    return sorted(found, key=lambda one: -one[0].at)


def _seconds(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def _owner(entries: list[tuple[Owner, Manifest]], path: Path, ours: str) -> Owner:
    """The latest owner of a field or of something in it; else another owner of a field that contains it as a whole.

    A map without members in managed fields may be one that is owned as a whole, or what is left of one: ours is no
    evidence.
    """
    whole = Owner()
    for owner, fields in entries:
        node: Any = fields
        for element in path:
            above, node = node, node.get(element) if isinstance(node, dict) else None
            if node is None:
                if not above and not whole.manager and owner.manager != ours:
                    whole = owner
                break
        if node is not None:
            return owner if owner.manager != ours else Owner()
    return whole
