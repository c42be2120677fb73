"""Decides which objects a query means: by what the index knows of them without unpacking, then by the objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import QuantityError, parse
from services.search.index.object_shapes import Shape, images_of
from services.search.index.questions import Question
from services.search.querying.query_syntax import Query, Term
from services.search.registries.member_facts import Gvr

_OF_KIND: Final = ("kind", "apiVersion")
_LABEL: Final = "label."
_ANNOTATION: Final = "annotation."
_MOST_PARTS: Final = 1000
"""Values of a path that are compared in one object."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@-]*[A-DF-Za-df-z_/:@][A-Za-z0-9_./:@-]*")
"""Texts that JSON writes as they are, and that are no part of a number, which has several forms."""


def means_kind(query: Query, gvr: Gvr, kind: str) -> bool:
    """Whether objects of a kind can be meant; a kind is named as in manifests, by its plural, or with its group."""
    names = [kind, gvr.resource, f"{gvr.resource}.{gvr.group}", f"{kind}.{gvr.group}"]
    folded = [name.lower() for name in names if not name.endswith(".")]
    for term in query.of(*_OF_KIND):
        found = folded if term.field == "kind" else [gvr.api_version]
        wanted = tuple(value.lower() for value in term.values) if term.field == "kind" else term.values
        if not compare(found, term.operator, wanted):
            return False
    return True


def question_of(query: Query) -> Question:
    """What the index can tell of the objects that are meant: members, names and shapes."""
    shaped = [term for term in query.terms if _is_shaped(term)]
    named = query.of("namespace", "name")
    placed = query.of("cluster")

    def shape(found: Shape) -> bool:
        return all(compare(_of_shape(found, term.field), term.operator, term.values) for term in shaped)

    def key(found: str) -> bool:
        namespace, _, name = found.partition("/")
        texts = {"namespace": namespace, "name": name}
        return all(compare((texts[term.field],), term.operator, term.values) for term in named)

    def cluster(found: str) -> bool:
        return all(compare((found,), term.operator, term.values) for term in placed)

    return Question(
        name=tuple(map(str, shaped)),
        shape=shape if shaped else None,
        key=key if named else None,
        fragments=tuple(filter(None, map(_fragment, named))),
        cluster=cluster if placed else None,
    )


def _fragment(term: Term) -> str:
    """A text that the keys of all objects have that are meant; empty where there is no one such text."""
    if len(term.values) != 1:
        return ""
    match term.operator:
        case "~":
            return term.values[0]
        case "=":
            return f"{term.values[0]}/" if term.field == "namespace" else f"/{term.values[0]}"
        case _:
            return ""


def rest_of(query: Query) -> Callable[[bytes], bool] | None:
    """What has to be asked of the objects themselves, as JSON; None for nothing."""
    deep = [term for term in query.terms if term.field in ("node", "owner", "ready") or _is_deep(term.field)]
    if not deep:
        return None
    needles = [needle for needle in map(_needles, deep) if needle]

    def test(data: bytes) -> bool:
        # Most objects are not meant: to see that takes a tenth of what it takes to decode them.
        for found in needles:
            if not any(needle in data for needle in found):
                return False
        manifest: Manifest = msgspec.json.decode(data)
        return all(compare(values_of(manifest, term.field), term.operator, term.values) for term in deep)

    return test


def _needles(term: Term) -> list[bytes]:
    """Texts of which an object has one in its JSON if it passes; none where that is not known."""
    if term.operator not in ("=", "~") or term.field == "ready":
        return []
    # An owner is also named with its kind, which is another field.
    texts = [value.rpartition("/")[2] if term.field == "owner" else value for value in term.values]
    plain = all(_PLAIN.fullmatch(text) or (term.operator == "=" and text.isdecimal()) for text in texts)
    return [text.encode() for text in texts] if plain else []


def means(query: Query, cluster: str, manifest: Manifest) -> bool:
    """Whether an object of a member is meant, by itself; its kind has been looked at."""
    for term in query.terms:
        if term.field in _OF_KIND:
            continue
        found = (cluster,) if term.field == "cluster" else values_of(manifest, term.field)
        if not compare(found, term.operator, term.values):
            return False
    return True


def _is_shaped(term: Term) -> bool:
    return term.field in ("phase", "image") or term.field.startswith(_LABEL)


def _is_deep(field: str) -> bool:
    return field.startswith((".", _ANNOTATION))


def _of_shape(shape: Shape, field: str) -> Iterable[str]:
    if field == "image":
        return shape.images
    if field == "phase":
        return (shape.phase,) if shape.phase else ()
    value = shape.labels.get(field[len(_LABEL) :])
    return () if value is None else (value,)


def values_of(manifest: Manifest, field: str) -> Iterable[str]:
    """What an object has in a field, as texts."""
    metadata = _mapping(manifest.get("metadata"))
    spec, status = _mapping(manifest.get("spec")), _mapping(manifest.get("status"))
    if field.startswith("."):
        return list(_texts(manifest, field[1:].split(".")))
    if field.startswith(_LABEL):
        return _present(_mapping(metadata.get("labels")).get(field[len(_LABEL) :]))
    if field.startswith(_ANNOTATION):
        return _present(_mapping(metadata.get("annotations")).get(field[len(_ANNOTATION) :]))
    match field:
        case "namespace" | "name":
            return (str(metadata.get(field) or ""),)
        case "phase":
            return _present(status.get("phase"))
        case "image":
            return images_of(manifest)
        case "node":
            return _present(spec.get("nodeName"))
        case "owner":
            owners = metadata.get("ownerReferences")
            found = [owner for owner in owners if isinstance(owner, dict)] if isinstance(owners, list) else []
            return [text for one in found for text in (str(one.get("name")), f"{one.get('kind')}/{one.get('name')}")]
        case "ready":
            conditions = status.get("conditions")
            each = [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []
            return [str(one.get("status")).lower() for one in each if one.get("type") in ("Ready", "Available")]
        case _:
            return ()


def compare(found: Iterable[str], operator: str, wanted: tuple[str, ...]) -> bool:
    """Whether what was found compares so with any of the values; what is missing is unlike every value."""
    match operator:
        case "=":
            return any(value in wanted for value in found)
        case "!=":
            return not any(value in wanted for value in found)
        case "~":
            return any(text in value for value in found for text in wanted)
        case "!~":
            return not any(text in value for value in found for text in wanted)
        case _:
            return any(_ordered(value, operator, text) for value in found for text in wanted)


def _ordered(found: str, operator: str, wanted: str) -> bool:
    """Quantities by size, other texts by their letters, as times are ordered."""
    left: Any = _number(found)
    right: Any = _number(wanted)
    if left is None or right is None:
        left, right = found, wanted
    match operator:
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case "<":
            return bool(left < right)
        case _:
            return bool(left <= right)


def _number(text: str) -> int | None:
    try:
        return parse(text).nano
    except (QuantityError, ValueError):
        return None


def _texts(value: object, path: list[str]) -> Iterator[str]:
    """The values at a path; of lists those of every item."""
    places: list[object] = [value]
    for name in path:
        step: list[object] = []
        for place in places:
            items = place if isinstance(place, list) else [place]
            step += [item[name] for item in items if isinstance(item, dict) and name in item]
        places = step[:_MOST_PARTS]
    for place in places:
        for item in place if isinstance(place, list) else [place]:
            if isinstance(item, bool):
                yield "true" if item else "false"
            elif isinstance(item, str | int | float):
                yield str(item)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _present(value: object) -> Iterable[str]:
    return (str(value),) if value is not None else ()
