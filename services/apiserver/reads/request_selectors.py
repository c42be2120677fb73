"""Label and field selectors of list and watch requests, compiled to a test of decoded objects."""

import re
from collections.abc import Callable

from schemas.manifest import Manifest
from services.apiserver.core.status_errors import ApiError, bad_request
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.responses import is_custom

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^=!(),<>\s]+|$)")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_DNS_TEXT = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def _fail(text: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {text}")


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        text = _NAME_TEXT.replace("name part", "a qualified name") + (
            " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        raise _fail(f'invalid label key "{key}": {text}')
    if slash and _DNS.fullmatch(prefix) is None:
        raise _fail(f'invalid label key "{key}": {_DNS_TEXT}')
    if len(name) > 63:
        raise _fail(f'invalid label key "{key}": name part must be no more than 63 characters')
    if _NAME.fullmatch(name) is None:
        raise _fail(f'invalid label key "{key}": {_NAME_TEXT}')


def _check_value(key: str, value: str) -> None:
    if len(value) > 63:
        raise _fail(f'invalid label value: "{value}": at key: "{key}": must be no more than 63 characters')
    if _VALUE.fullmatch(value) is None:
        raise _fail(f'invalid label value: "{value}": at key: "{key}": {_VALUE_TEXT}')


class _Parser:
    """Recursive descent over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while True:
            match = _TOKEN.match(text, position)
            if match is None:
                raise _fail(f"cannot read {text[position:]!r}")
            self.tokens.append(match.group(1))
            position = match.end()
            if match.group(1) == "":
                break
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position]

    def take(self) -> str:
        token = self.tokens[self.position]
        if token:
            self.position += 1
        return token

    def parse(self) -> list[tuple[str, str, tuple[str, ...]]]:
        out: list[tuple[str, str, tuple[str, ...]]] = []
        while True:
            if self.peek() == "":
                return out
            out.append(self.requirement())
            token = self.take()
            if token == "":
                return out
            if token != ",":
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
            if self.peek() in ("", ","):
                raise bad_request(f"found '{self.peek()}', expected: identifier after ','")

    def requirement(self) -> tuple[str, str, tuple[str, ...]]:
        absent = False
        if self.peek() == "!":
            absent = True
            self.take()
        key = self.take()
        if not key or key in "=!(),<>" or key in ("==", "!="):
            raise _fail(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent:
            return key, "!", ()
        if self.peek() in ("", ","):
            return key, "exists", ()
        operator = self.take()
        if operator in ("in", "notin"):
            return key, operator, self.values(key)
        if operator in ("=", "==", "!="):
            value = self.value()
            _check_value(key, value)
            return key, "in" if operator != "!=" else "notin", (value,)
        if operator in ("<", ">"):
            value = self.value()
            if re.fullmatch(r"[+-]?[0-9]+", value) is None:
                raise _fail("for 'Gt', 'Lt' operators, the value must be an integer")
            return key, operator, (value,)
        raise _fail(f"found '{operator}', expected: '=', '!=', '==', 'in', notin'")

    def value(self) -> str:
        token = self.peek()
        if token in ("", ","):
            return ""
        if token in "=!()<>" or token in ("==", "!="):
            raise _fail(f"found '{token}', expected: identifier")
        return self.take()

    def values(self, key: str) -> tuple[str, ...]:
        token = self.take()
        if token != "(":
            raise _fail(f"found '{token}' expected: '('")
        out: list[str] = []
        while True:
            token = self.take()
            if token == ")":
                if not out:
                    out.append("")
                break
            if token == ",":
                if not out:
                    out.append("")
                if self.peek() in (")", ","):
                    out.append("")
                continue
            if not token or token in "=!(<>":
                raise _fail(f"found '{token}', expected: ',', ')' or identifier")
            out.append(token)
            if self.peek() not in (",", ")"):
                raise _fail(f"found '{self.peek()}', expected: ',' or ')'")
        for value in out:
            _check_value(key, value)
        return tuple(out)


def _one(key: str, operator: str, values: tuple[str, ...]) -> Callable[[dict[str, str]], bool]:
    if operator == "exists":
        return lambda labels: key in labels
    if operator == "!":
        return lambda labels: key not in labels
    if operator == "in":
        if len(values) == 1:
            only = values[0]
            return lambda labels: labels.get(key) == only
        return lambda labels: labels.get(key) in values
    if operator == "notin":
        return lambda labels: labels.get(key) not in values
    bound = int(values[0])

    def compare(labels: dict[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if operator == ">" else number < bound

    return compare


def label_test(text: str) -> Callable[[dict[str, str]], bool] | None:
    """Test of a label set, None when everything matches; raises 400."""
    if not text.strip():
        return None
    tests = [_one(*r) for r in _Parser(text).parse()]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(t(labels) for t in tests)


def _field_terms(text: str) -> list[tuple[str, str, str]]:
    out = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        for operator in ("!=", "==", "="):
            name, found, value = part.partition(operator)
            if found:
                if operator == "=" and "!" in name:
                    continue
                value = re.sub(r"\\([\\,=])", r"\1", value)
                out.append((name, "!=" if operator == "!=" else "=", value))
                break
        else:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
    return out


class Selection:
    """The selectors of one request, ready to test objects of one kind."""

    __slots__ = ("_fields", "_kind", "_labels", "name")

    def __init__(self, kind: Kind, label: str, field: str) -> None:
        self._kind = kind
        self._labels = label_test(label)
        self._fields = _field_terms(field) if field else []
        self.name = ""
        """The one name that can match, when a field selector names it."""
        if self._fields:
            known = kind.selectable_fields()
            for name, operator, value in self._fields:
                if name not in known:
                    raise bad_request(_unknown(kind, name))
                if name == "metadata.name" and operator == "=":
                    self.name = value

    @property
    def everything(self) -> bool:
        """Whether every object matches."""
        return self._labels is None and not self._fields

    def matches(self, obj: Manifest) -> bool:
        """Test a decoded object in the kind's version."""
        if self._labels is not None and not self._labels(obj["metadata"].get("labels") or {}):
            return False
        if self._fields:
            values = self._kind.field_selectors(obj)
            for name, operator, value in self._fields:
                if (values[name] == value) != (operator == "="):
                    return False
        return True


def _unknown(kind: Kind, name: str) -> str:
    known = kind.selectable_fields()
    if not is_custom(kind) and known <= {"metadata.name", "metadata.namespace"}:
        shown = ", ".join(f'"{n}"' for n in ("metadata.name", "metadata.namespace"))
        return f'"{name}" is not a known field selector: only {shown}'
    return f"field label not supported: {name}"
