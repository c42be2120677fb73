"""What FlowSchemas and PriorityLevelConfigurations are checked by, and the numbers that they get by default."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    forbidden,
    go_strings,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    ListCheck,
    Rule,
    Rules,
    choice,
    each,
    inside,
    number,
    only_if,
    text,
    unique,
    unwanted,
)

EXEMPT: Final = "exempt"
"""The one schema of the first precedence, and the one level without limits."""
_CATCH_ALL: Final = "catch-all"
_LAST_PRECEDENCE: Final = 10_000
_MOST_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60
_VERBS: Final = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"})
_POSITIVE: Final = "must be positive"
_IN_NAMESPACE: Final = "each member of this list must be '*' or a DNS-1123 label; "
_URL_FAULTS: Final[tuple[tuple[Callable[[str], object], str], ...]] = (
    (lambda url: not url, "must not be empty"),
    (lambda url: not url.startswith("/"), "must start with slash"),
    (lambda url: " " in url, "must not contain white-space"),
    (lambda url: "//" in url, "must not contain double slash"),
    (
        lambda url: url.count("*") > 1 or ("*" in url and not url.endswith("/*")),
        "wildcard can only do suffix matching",
    ),
)
"""What a path may not be, in the order in which it is looked for; the first fault counts."""


def where_zero(**values: int) -> Callable[[Any], None]:
    """Numbers of fields that are missing or 0."""

    def fill(obj: Any) -> None:
        for name, value in values.items():
            obj[name] = obj.get(name) or value

    return fill


SCHEMA_DEFAULTS: Final = {"spec": {"": where_zero(matchingPrecedence=1000)}}
LEVEL_DEFAULTS: Final = {
    "spec": {
        "limited?": {
            "nominalConcurrencyShares": 30,
            "lendablePercent": 0,
            "limitResponse?": {"queuing?": {"": where_zero(handSize=8, queues=64, queueLengthLimit=50)}},
        },
        "exempt?": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    }
}


def _mandatory(level: str, precedence: int, groups: tuple[str, ...], **method: Any) -> dict[str, Any]:
    """The spec of a schema that takes every request of some groups."""
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": name}} for name in groups],
        "resourceRules": [every],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    level_of = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    return {**level_of, **method, "rules": [rule]}


_FIXED_SCHEMAS: Final = {
    EXEMPT: _mandatory(EXEMPT, 1, ("system:masters",)),
    _CATCH_ALL: _mandatory(
        _CATCH_ALL,
        _LAST_PRECEDENCE,
        ("system:unauthenticated", "system:authenticated"),
        distinguisherMethod={"type": "ByUser"},
    ),
}
_LIMITED: Final = {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
_FIXED_LEVELS: Final = {EXEMPT: {"type": "Exempt"}, _CATCH_ALL: {"type": "Limited", "limited": _LIMITED}}


def fixed_schema(name: str, spec: Any) -> list[FieldError]:
    """Return an error where a schema that every server has is not what it has to be."""
    if spec == _FIXED_SCHEMAS.get(name, spec):
        return []
    return [invalid("spec", spec, f"spec of '{name}' must equal the fixed value")]


def fixed_level(name: str, spec: Any) -> list[FieldError]:
    """Return an error where a level that every server has is not what it has to be, but for what it lends."""
    free = {key: value for key, value in spec.items() if key != "exempt"} if name == EXEMPT else spec
    if free == _FIXED_LEVELS.get(name, free):
        return []
    but = " except the 'spec.exempt' field" if name == EXEMPT else ""
    return [invalid("spec", spec, f"spec of '{name}'{but} must equal the fixed value")]


def _listed(name: str, missing: str, others: str, members: Callable[[list[str], str], list[FieldError]]) -> ListCheck:
    """A list that is not empty: either `*` alone, or members that pass a check of all of them."""

    def check(value: Any, path: str) -> list[FieldError]:
        found, where = value.get(name) or [], f"{path}.{name}"
        if not found:
            return [required(where, missing)]
        if "*" not in found:
            return members(found, where)
        if len(found) == 1:
            return []
        return [invalid(where, go_strings(found), f"if '*' is present, must not specify other {others}")]

    return check


def _any(_: list[str], __: str) -> list[FieldError]:
    return []


def _known_verbs(verbs: list[str], path: str) -> list[FieldError]:
    return [] if _VERBS.issuperset(verbs) else [not_supported(path, go_strings(verbs), sorted(_VERBS))]


def _paths(urls: list[str], path: str) -> list[FieldError]:
    faults = ((at, url, next((text for wrong, text in _URL_FAULTS if wrong(url)), "")) for at, url in enumerate(urls))
    return [invalid(f"{path}[{at}]", url, fault) for at, url, fault in faults if fault]


def _namespaces(rule: Any, path: str) -> list[FieldError]:
    if not rule.get("namespaces") and rule.get("clusterScope"):
        return []
    return _LISTED_NAMESPACES(rule, path)


def _labels(values: list[str], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{at}]", value, _IN_NAMESPACE + text)
        for at, value in enumerate(values)
        for text in names.label(value)
    ]


_LISTED_NAMESPACES = _listed(
    "namespaces",
    "resource rules that are not cluster scoped must supply at least one namespace",
    "namespaces",
    _labels,
)
_VERB_LIST = _listed("verbs", "verbs must contain at least one value", "verbs", _known_verbs)
_RESOURCE_RULE: Rules = (
    _VERB_LIST,
    _listed("apiGroups", "resource rules must supply at least one api group", "api groups", _any),
    _listed("resources", "resource rules must supply at least one resource", "resources", _any),
    _namespaces,
)
_PATH_RULE: Rules = (
    _VERB_LIST,
    _listed("nonResourceURLs", "nonResourceURLs must contain at least one value", "non-resource URLs", _paths),
)


def _account_name(value: str) -> list[str]:
    return [] if value == "*" else names.subdomain(value)


_NAMED: Rules = (text("name", lambda _: [], need=""),)
_SUBJECTS: Final[dict[str, tuple[str, Rules]]] = {
    "Group": ("group", _NAMED),
    "ServiceAccount": (
        "serviceAccount",
        (
            text("name", _account_name, need=""),
            text("namespace", names.label, need="must specify namespace for service account"),
        ),
    ),
    "User": ("user", _NAMED),
}
"""The field that each kind of subject has, and its rules."""


def _subject(subject: Any, path: str) -> list[FieldError]:
    """Exactly the field of its kind."""
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))]
    own, rules = _SUBJECTS[kind]
    if subject.get(own) is None:
        found = [required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")]
    else:
        found = inside(own, *rules)(subject, path)
    for other, (field, _) in _SUBJECTS.items():
        if field != own and subject.get(field) is not None:
            text = f"{field} is forbidden when subject kind is not '{other}'"
            found.append(forbidden(f"{path}.{field}", text))
    return found


def _subjects_and_rules(rule: Any, path: str) -> list[FieldError]:
    found = []
    if not rule.get("subjects"):
        found.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        found.append(required(path, text))
    return found


def _method(spec: Any, path: str) -> list[FieldError]:
    method = spec.get("distinguisherMethod")
    if method is None or method.get("type") in ("ByNamespace", "ByUser"):
        return []
    return [not_supported(f"{path}.distinguisherMethod.type", method, ("ByNamespace", "ByUser"))]


SCHEMA_SPEC: Rules = (
    number("matchingPrecedence", 1, detail="must be a positive value"),
    number("matchingPrecedence", most=_LAST_PRECEDENCE, detail=f"must not be greater than {_LAST_PRECEDENCE}"),
    _method,
    inside(
        "priorityLevelConfiguration", text("name", names.subdomain, need="must reference a priority level"), absent={}
    ),
    each(
        "rules",
        each("subjects", _subject),
        _subjects_and_rules,
        each("resourceRules", *_RESOURCE_RULE),
        each("nonResourceRules", *_PATH_RULE),
    ),
)
CONDITIONS: Rules = (each("conditions", unique("type"), text("type", lambda _: [], need="must not be empty")),)
"""The rules of the status of either kind."""


def _hands(queuing: Any, path: str) -> list[FieldError]:
    """Queues and the size of a hand, which have to leave enough bits of a hash."""
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    found = []
    if queues <= 0:
        found.append(invalid(f"{path}.queues", queues, _POSITIVE))
    elif queues > _MOST_QUEUES:
        found.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    if hand <= 0:
        found.append(invalid(f"{path}.handSize", hand, _POSITIVE))
    elif hand > queues:
        found.append(invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        found.append(invalid(f"{path}.handSize", hand, text))
    return found


def _member(name: str, kind: str, missing: str, several: str, *rules: Rule) -> ListCheck:
    """A field that is there if and only if the object is of a type."""

    def check(value: Any, path: str) -> list[FieldError]:
        if value.get("type") != kind:
            # Which types there are is another rule's matter.
            wrong = value.get(name) is not None and value.get("type") in _OTHERS[kind]
            return [forbidden(f"{path}.{name}", several)] if wrong else []
        if value.get(name) is None:
            return [required(f"{path}.{name}", missing)]
        return inside(name, *rules)(value, path)

    return check


_OTHERS: Final = {"Limited": ("Exempt",), "Queue": ("Reject",)}
_SHARES: Rules = (
    number("nominalConcurrencyShares", 0, detail="must be a non-negative integer"),
    number("lendablePercent", 0, 100),
)
_RESPONSE: Rules = (
    choice("type", ("Queue", "Reject"), blank=True),
    _member(
        "queuing",
        "Queue",
        "must not be empty if limited.limitResponse.type is Limited",
        "must be nil if limited.limitResponse.type is not Limited",
        number("queueLengthLimit", 1, detail=_POSITIVE, absent=0),
        _hands,
    ),
)
LEVEL_SPEC: Rules = (
    choice("type", ("Exempt", "Limited"), blank=True),
    _member(
        "limited",
        "Limited",
        "must not be empty when type is Limited",
        "must be nil if the type is not Limited",
        *_SHARES,
        inside("limitResponse", *_RESPONSE, absent={}),
        number("borrowingLimitPercent", 0, detail="if specified, must be a non-negative integer"),
    ),
    only_if(lambda spec: spec.get("type") == "Exempt", inside("exempt", *_SHARES)),
    unwanted("exempt", "must be nil if the type is Limited", lambda spec: spec.get("type") == "Limited"),
)
