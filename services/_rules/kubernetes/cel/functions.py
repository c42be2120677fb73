"""Kubernetes' own functions for expressions: patterns, lists, URLs, quantities, versions, IP addresses and networks.

Values of the types that CEL does not have travel as maps with one telling key; the type checker keeps expressions from
looking into them.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from services._rules.kubernetes import patterns
from services._rules.kubernetes.cel import semantic_version
from services._rules.kubernetes.cel.named_formats import FORMATS, uri_problem
from services._rules.kubernetes.cel.semantic_version import Version
from services._rules.kubernetes.quantity import Quantity, QuantityError, parse

Opaque = dict[str, Any]
_QUANTITY, _URL, _IP, _CIDR, _VERSION, _FORMAT = "@quantity", "@url", "@ip", "@cidr", "@version", "@format"
_LARGEST: Final = (1 << 63) - 1


class Function(msgspec.Struct, frozen=True):
    """One overload: the names of its types, the target of a member function first.

    One that gives an optional value returns an empty list or map for none.
    """

    name: str
    takes: tuple[str, ...]
    gives: str
    call: Callable[..., Any]
    member: bool = True


def _pattern(expression: str) -> Any:
    try:
        return patterns.compiled(expression)
    except patterns.PatternError as error:
        raise ValueError(f"illegal regex: {error}") from None


def _find(text: str, expression: str) -> str:
    found = _pattern(expression).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, expression: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    for match in _pattern(expression).finditer(text):
        if 0 <= limit <= len(found):
            break
        found.append(match.group(0))
    return found


def _sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(values))


def _extreme(choose: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def call(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return call


def _quantity(text: str) -> Quantity:
    try:
        return parse(text)
    except QuantityError as error:
        raise ValueError(f"quantities must match the regular expression of quantities: {error}") from None


def _opaque_quantity(value: Quantity) -> Opaque:
    # In nano units: equal quantities are equal maps, however they are written.
    return {_QUANTITY: str(value), "@nano": str(value.nano)}


def _of(value: Opaque) -> Quantity:
    if _QUANTITY not in value:
        raise ValueError("no such overload")
    return parse(value[_QUANTITY])


def _plus(left: Opaque, right: Opaque | int) -> Opaque:
    other = parse(right) if isinstance(right, int) else _of(right)
    return _opaque_quantity(_of(left) + other)


def _minus(left: Opaque, right: Opaque | int) -> Opaque:
    other = parse(right) if isinstance(right, int) else _of(right)
    return _opaque_quantity(_of(left) - other)


def _compare(left: Opaque, right: Opaque) -> int:
    """Compare quantities or versions: as they run, both are maps, which one overload takes."""
    read: Callable[[Opaque], Any] = _version_of if _VERSION in left else _of
    a, b = read(left), read(right)
    return -1 if a < b else int(b < a)


def _version(text: str, normalize: bool = False) -> Opaque:
    return {_VERSION: str(semantic_version.parse(text, normalize=normalize))}


def _version_of(value: Opaque) -> Version:
    if _VERSION not in value:
        raise ValueError("no such overload")
    return semantic_version.parse(value[_VERSION])


def _signed(value: int) -> int:
    # Parts of versions have 64 bits without a sign, integers of expressions as many with one.
    return value - (1 << 64) if value > _LARGEST else value


def _whole(value: Opaque) -> bool:
    return not _of(value).nano % 1_000_000_000


def _as_integer(value: Opaque) -> int:
    quantity = _of(value)
    if not _whole(value) or abs(quantity.nano) // 1_000_000_000 > _LARGEST:
        raise ValueError("cannot convert value to integer")
    return quantity.nano // 1_000_000_000


def _sign(value: Opaque) -> int:
    nano = _of(value).nano
    return (nano > 0) - (nano < 0)


def _url(text: str) -> Opaque:
    if problem := uri_problem(text):
        raise ValueError(f"URL parse error during conversion from string: {problem}")
    return {_URL: text}


def _format(name: str) -> Opaque:
    return {_FORMAT: name} if name in FORMATS else {}


def _validate(value: Opaque, text: str) -> list[str]:
    if _FORMAT not in value:
        raise ValueError("no such overload")
    return FORMATS[value[_FORMAT]].check(text)


def _constant(value: Opaque) -> Callable[[], Opaque]:
    return lambda: value


def _part(read: Callable[[Any], Any]) -> Callable[[Opaque], Any]:
    return lambda value: read(urlsplit(value[_URL]))


def _ip_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f'IP Address "{text}" parse error during conversion from string') from None
    if "%" in text or (address.version == 6 and address.ipv4_mapped is not None):
        raise ValueError(f'IP Address "{text}" with zone or IPv4-mapped IPv6 address is not allowed')
    return address


def _ip(text: str) -> Opaque:
    return {_IP: str(_ip_of(text))}


def _address(value: Opaque) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if _IP not in value:
        raise ValueError("no such overload")
    return ipaddress.ip_address(value[_IP])


def _holds(check: Callable[..., object]) -> Callable[..., bool]:
    def call(*given: Any) -> bool:
        try:
            check(*given)
        except ValueError:
            return False
        return True

    return call


def _network_of(text: str) -> Any:
    try:
        address, slash, length = text.partition("/")
        if not slash or not (length.isascii() and length.isdigit()) or (len(length) > 1 and length[0] == "0"):
            raise ValueError
        _ip_of(address)
        return ipaddress.ip_interface(text)
    except ValueError:
        raise ValueError(f'network address parse error during conversion from string: invalid CIDR "{text}"') from None


def _cidr(text: str) -> Opaque:
    return {_CIDR: str(_network_of(text))}


def _network(value: Opaque) -> Any:
    if _CIDR not in value:
        raise ValueError("no such overload")
    return ipaddress.ip_interface(value[_CIDR])


def _contains_ip(value: Opaque, other: Opaque | str) -> bool:
    address = _ip_of(other) if isinstance(other, str) else _address(other)
    network = _network(value).network
    return bool(network.version == address.version and address in network)


def _contains_cidr(value: Opaque, other: Opaque | str) -> bool:
    inner = (_network_of(other) if isinstance(other, str) else _network(other)).network
    network = _network(value).network
    return bool(network.version == inner.version and inner.subnet_of(network))


DECIDE: ContextVar[Callable[[Mapping[str, str]], tuple[bool, str]]] = ContextVar("decide")
"""Answers the questions to the authorizer while an expression is evaluated."""


def _ask(**given: str) -> Callable[..., Opaque]:
    """Return a function that adds what it is called with to a question."""

    def call(question: Opaque, *values: str) -> Opaque:
        return {**question, **dict(zip(given.values(), values, strict=True))}

    return call


def _check(question: Opaque, verb: str) -> Opaque:
    allowed, reason = DECIDE.get()({**question, "verb": verb})
    return {"@allowed": allowed, "@reason": reason}


_AUTHORIZER = "kubernetes.authorization.Authorizer"
_PATH_CHECK = "kubernetes.authorization.PathCheck"
_GROUP_CHECK = "kubernetes.authorization.GroupCheck"
_RESOURCE_CHECK = "kubernetes.authorization.ResourceCheck"
_DECISION = "kubernetes.authorization.Decision"
_AUTHORIZATION: Final = (
    Function("path", (_AUTHORIZER, "string"), _PATH_CHECK, _ask(a="path")),
    Function("group", (_AUTHORIZER, "string"), _GROUP_CHECK, _ask(a="group")),
    Function("serviceAccount", (_AUTHORIZER, "string", "string"), _AUTHORIZER, _ask(a="saNamespace", b="saName")),
    Function("resource", (_GROUP_CHECK, "string"), _RESOURCE_CHECK, _ask(a="resource")),
    Function("subresource", (_RESOURCE_CHECK, "string"), _RESOURCE_CHECK, _ask(a="subresource")),
    Function("namespace", (_RESOURCE_CHECK, "string"), _RESOURCE_CHECK, _ask(a="namespace")),
    Function("name", (_RESOURCE_CHECK, "string"), _RESOURCE_CHECK, _ask(a="name")),
    Function("check", (_PATH_CHECK, "string"), _DECISION, _check),
    Function("check", (_RESOURCE_CHECK, "string"), _DECISION, _check),
    Function("allowed", (_DECISION,), "bool", lambda decision: decision["@allowed"]),
    Function("reason", (_DECISION,), "string", lambda decision: decision["@reason"]),
    Function("errored", (_DECISION,), "bool", lambda _: False),
    Function("error", (_DECISION,), "string", lambda _: ""),
)

Q, U, A, C, V = "kubernetes.Quantity", "kubernetes.URL", "net.IP", "net.CIDR", "kubernetes.Semver"
F: Final = "kubernetes.NamedFormat"
OPAQUE_TYPES: Final = (Q, U, A, C, V, F, _AUTHORIZER, _PATH_CHECK, _GROUP_CHECK, _RESOURCE_CHECK, _DECISION)
_VERSION_GIVEN: Final = (("string",), ("string", "bool"))

FUNCTIONS: Final = (
    Function("find", ("string", "string"), "string", _find),
    Function("findAll", ("string", "string"), "list(string)", _find_all),
    Function("findAll", ("string", "string", "int"), "list(string)", _find_all),
    *(Function("isSorted", (f"list({one})",), "bool", _sorted) for one in ("int", "double", "string", "bool")),
    *(Function("sum", (f"list({one})",), one, sum) for one in ("int", "double")),
    *(
        Function(name, (f"list({one})",), one, _extreme(choose, name))
        for name, choose in (("min", min), ("max", max))
        for one in ("int", "double", "string", "bool")
    ),
    Function("quantity", ("string",), Q, lambda text: _opaque_quantity(_quantity(text)), member=False),
    Function("isQuantity", ("string",), "bool", _holds(_quantity), member=False),
    Function("isInteger", (Q,), "bool", _whole),
    Function("asInteger", (Q,), "int", _as_integer),
    Function("asApproximateFloat", (Q,), "double", lambda value: _of(value).nano / 1e9),
    Function("sign", (Q,), "int", _sign),
    *(Function("add", (Q, other), Q, _plus) for other in (Q, "int")),
    *(Function("sub", (Q, other), Q, _minus) for other in (Q, "int")),
    *(Function("compareTo", (one, one), "int", _compare) for one in (Q, V)),
    *(Function("isGreaterThan", (one, one), "bool", lambda left, right: _compare(left, right) > 0) for one in (Q, V)),
    *(Function("isLessThan", (one, one), "bool", lambda left, right: _compare(left, right) < 0) for one in (Q, V)),
    *(Function("semver", takes, V, _version, member=False) for takes in _VERSION_GIVEN),
    *(Function("isSemver", takes, "bool", _holds(_version), member=False) for takes in _VERSION_GIVEN),
    Function("major", (V,), "int", lambda value: _signed(_version_of(value).major)),
    Function("minor", (V,), "int", lambda value: _signed(_version_of(value).minor)),
    Function("patch", (V,), "int", lambda value: _signed(_version_of(value).patch)),
    *(Function(f"format.{name}", (), F, _constant(_format(name)), member=False) for name in FORMATS),
    Function("format.named", ("string",), f"optional({F})", _format, member=False),
    Function("validate", (F, "string"), "optional(list(string))", _validate),
    Function("url", ("string",), U, _url, member=False),
    Function("isURL", ("string",), "bool", _holds(_url), member=False),
    Function("getScheme", (U,), "string", _part(lambda parts: parts.scheme)),
    Function("getHost", (U,), "string", _part(lambda parts: parts.netloc.rpartition("@")[2])),
    Function("getHostname", (U,), "string", _part(lambda parts: parts.hostname or "")),
    Function("getPort", (U,), "string", _part(lambda parts: str(parts.port or ""))),
    Function("getEscapedPath", (U,), "string", _part(lambda parts: parts.path)),
    Function("getQuery", (U,), "map(string, list(string))", _part(lambda parts: parse_qs(parts.query, True))),
    Function("ip", ("string",), A, _ip, member=False),
    Function("isIP", ("string",), "bool", _holds(_ip_of), member=False),
    Function("ip.isCanonical", ("string",), "bool", lambda text: str(_ip_of(text)) == text, member=False),
    Function("family", (A,), "int", lambda value: _address(value).version),
    Function("isUnspecified", (A,), "bool", lambda value: _address(value).is_unspecified),
    Function("isLoopback", (A,), "bool", lambda value: _address(value).is_loopback),
    Function("isLinkLocalMulticast", (A,), "bool", lambda value: _link_local_multicast(_address(value))),
    Function("isLinkLocalUnicast", (A,), "bool", lambda value: _address(value).is_link_local),
    Function("isGlobalUnicast", (A,), "bool", lambda value: _global_unicast(_address(value))),
    Function("cidr", ("string",), C, _cidr, member=False),
    Function("isCIDR", ("string",), "bool", _holds(_network_of), member=False),
    *(Function("containsIP", (C, other), "bool", _contains_ip) for other in (A, "string")),
    *(Function("containsCIDR", (C, other), "bool", _contains_cidr) for other in (C, "string")),
    Function("masked", (C,), C, lambda value: {_CIDR: str(_network(value).network)}),
    Function("prefixLength", (C,), "int", lambda value: _network(value).network.prefixlen),
    *_AUTHORIZATION,
    Function("ip", (C,), A, lambda value: {_IP: str(_network(value).ip)}),
)
"""All overloads, in the types of the checker."""


def _link_local_multicast(address: Any) -> bool:
    network = "224.0.0.0/24" if address.version == 4 else "ff02::/16"
    return address in ipaddress.ip_network(network)


def _global_unicast(address: Any) -> bool:
    broadcast = address.version == 4 and str(address) == "255.255.255.255"
    others = (address.is_unspecified, address.is_loopback, address.is_multicast, address.is_link_local, broadcast)
    return not any(others)
