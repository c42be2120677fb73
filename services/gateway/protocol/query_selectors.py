"""Parses the query of a list or watch: its options, label selector and field selector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from services._rules.kubernetes.selectors import LabelSelectorError, Selector, parse_selector
from services.gateway.protocol.status_answers import Failure, bad_request
from services.gateway.views.catalog import Entry

_FIELD: Final = re.compile(r"\s*([^=!,\s]+)\s*(==|!=|=)\s*([^,]*?)\s*")
_FALSE: Final = frozenset({"", "false", "0"})
_MATCHES: Final = frozenset({"", "Exact", "NotOlderThan"})


class QueryOptions(Struct, frozen=True):
    """What a list or watch asks for; `fields` are (field, equal, value)."""

    namespace: str = ""
    labels: Selector | None = None
    fields: tuple[tuple[str, bool, str], ...] = ()
    watch: bool = False
    revision: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    bookmarks: bool = False
    initial: bool = False
    timeout: float = 0.0
    include: str = ""

    @property
    def everything(self) -> bool:
        """Whether no object of the namespace is left out."""
        return self.labels is None and not self.fields

    def wants(self, entry: Entry) -> bool:
        """Whether an object is among those asked for."""
        namespace, name = entry.name
        if self.namespace and namespace != self.namespace:
            return False
        for field, equal, value in self.fields:
            if ((name if field == "metadata.name" else namespace) == value) != equal:
                return False
        return self.labels is None or self.labels.matches(entry.labels)


def options_of(query: Mapping[str, str], namespace: str = "", name: str = "") -> QueryOptions:
    """Read a query; raises Failure 400 naming what cannot be read."""
    try:
        labels = parse_selector(query["labelSelector"]) if query.get("labelSelector") else None
    except LabelSelectorError as error:
        raise bad_request(f"unable to parse labelSelector: {error}") from None
    fields = _fields(query.get("fieldSelector", ""))
    if name:
        fields = (*fields, ("metadata.name", True, name))
    revision, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    watch = query.get("watch", "") not in _FALSE
    initial = query.get("sendInitialEvents", "") not in _FALSE
    if match not in _MATCHES:
        raise _invalid("resourceVersionMatch", match, "use Exact or NotOlderThan")
    if match and not revision and not initial:
        raise _invalid("resourceVersionMatch", match, "it needs a resourceVersion")
    if initial and match != "NotOlderThan":
        raise _invalid("sendInitialEvents", "true", "it needs resourceVersionMatch=NotOlderThan")
    if revision and not revision.isdecimal():
        raise _invalid("resourceVersion", revision, "it is a number that an earlier answer held")
    include = query.get("includeObject", "")
    if include not in ("", "Metadata", "Object", "None"):
        raise _invalid("includeObject", include, "use None, Metadata or Object")
    return QueryOptions(
        namespace=namespace,
        labels=labels,
        fields=fields,
        watch=watch,
        revision=revision,
        match=match,
        limit=_whole(query, "limit"),
        continue_token=query.get("continue", ""),
        bookmarks=query.get("allowWatchBookmarks", "") not in _FALSE,
        initial=initial,
        timeout=float(_whole(query, "timeoutSeconds")),
        include=include,
    )


def _invalid(name: str, value: str, rule: str) -> Failure:
    return bad_request(f"{name} {value!r} is not possible: {rule}")


def _whole(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if text and not text.isdecimal():
        raise _invalid(name, text, "it is a whole number")
    return int(text or 0)


def _fields(text: str) -> tuple[tuple[str, bool, str], ...]:
    found: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        match = _FIELD.fullmatch(part)
        if match is None:
            raise bad_request(
                f"invalid field selector {part!r}: use metadata.name=NAME or metadata.namespace=NAMESPACE"
            )
        if match[1] not in ("metadata.name", "metadata.namespace"):
            raise bad_request(f"field label not supported: {match[1]}; use metadata.name or metadata.namespace")
        found.append((match[1], match[2] != "!=", match[3]))
    return tuple(found)
