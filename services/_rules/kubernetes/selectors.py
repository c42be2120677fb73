"""Label selectors, compiled once into a function of a label set.

Three spellings lead to the same requirements: the structured selector of manifests (`matchLabels`, `matchExpressions`),
node selector terms (which add Gt and Lt), and the text of list queries (`a=b,c in (d,e),!f`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from services._rules.kubernetes.patch.go_text import go_quote
from services._rules.kubernetes.validation import name_formats as names

T = TypeVar("T")
Labels: TypeAlias = Mapping[str, str]
Matcher: TypeAlias = Callable[[Labels], bool]
Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_SET_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = _SET_OPERATORS | {"Gt", "Lt"}

_INTEGER = re.compile(r"[-+]?[0-9]+")
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|$)")


class LabelSelectorError(ValueError):
    """A selector that cannot be evaluated; the message names the part and the rule it breaks."""


class Requirement(Struct, frozen=True):
    """One condition on one label, already checked."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The condition in the syntax of list queries."""
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"
            case "In" | "NotIn":
                word = "in" if self.operator == "In" else "notin"
                return f"{self.key} {word} ({','.join(sorted(self.values))})"


class Selector:
    """Requirements that must all hold, and the compiled function that tests them."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: Iterable[Requirement], nothing: bool = False) -> None:
        self.requirements: tuple[Requirement, ...] = tuple(requirements)
        self.matches: Matcher = never if nothing else all_of([_compile(item) for item in self.requirements])

    def __str__(self) -> str:
        return ",".join(str(item) for item in sorted(self.requirements, key=lambda item: item.key))


def requirement(key: object, operator: object, values: object, node: bool = False) -> Requirement:
    """Check one expression; `node` admits Gt and Lt.

    Raises LabelSelectorError where Kubernetes would refuse the expression.
    """
    if not isinstance(key, str) or not names.is_label_key(key):
        raise LabelSelectorError(f"{key!r} is not a label key: use [prefix/]name, the name of at most 63 characters")
    if operator not in (_NODE_OPERATORS if node else _SET_OPERATORS):
        allowed = "In, NotIn, Exists, DoesNotExist" + (", Gt, Lt" if node else "")
        raise LabelSelectorError(f"label {key!r}: {operator!r} is not an operator, use one of {allowed}")
    texts = tuple(values) if isinstance(values, list | tuple) else () if values is None else (values,)
    for text in texts:
        if not isinstance(text, str) or not names.is_label_value(text):
            raise LabelSelectorError(
                f"label {key!r}: {text!r} is not a label value: at most 63 letters, digits, '-', '_' and '.'"
            )
    match operator:
        case "In" | "NotIn" if not texts:
            raise LabelSelectorError(f"label {key!r}: operator {operator} needs at least one value")
        case "Exists" | "DoesNotExist" if texts:
            raise LabelSelectorError(f"label {key!r}: operator {operator} takes no values")
        case "Gt" | "Lt" if len(texts) != 1 or _int64(texts[0]) is None:
            raise LabelSelectorError(f"label {key!r}: operator {operator} needs exactly one whole number")
    return Requirement(key, operator, texts)  # type: ignore[arg-type]


def compile_selector(selector: Mapping[str, Any] | None) -> Selector:
    """Compile a structured label selector: null matches nothing, an empty one matches everything.

    Raises LabelSelectorError.
    """
    if selector is None:
        return NOTHING
    if not isinstance(selector, Mapping):
        raise LabelSelectorError(f"{selector!r} is not a label selector: use matchLabels and matchExpressions")
    labels = selector.get("matchLabels") or {}
    if not isinstance(labels, Mapping):
        raise LabelSelectorError(f"matchLabels {labels!r} is not a map of labels to values")
    found = [requirement(key, "In", (value,)) for key, value in labels.items()]
    found += compile_expressions(selector.get("matchExpressions"))
    return Selector(found) if found else EVERYTHING


def compile_expressions(expressions: object, node: bool = False) -> list[Requirement]:
    """Check a list of `{key, operator, values}`; raises LabelSelectorError."""
    if expressions is None:
        return []
    if not isinstance(expressions, list | tuple):
        raise LabelSelectorError(f"matchExpressions {expressions!r} is not a list")
    found = []
    for item in expressions:
        if not isinstance(item, Mapping):
            raise LabelSelectorError(f"{item!r} is not an expression: use key, operator and values")
        found.append(requirement(item.get("key"), item.get("operator"), item.get("values"), node))
    return found


@lru_cache(maxsize=2048)
def parse_selector(text: str) -> Selector:
    """Compile the text form of list queries, such as `a=b,c in (d,e),!f`; empty text matches everything.

    Raises LabelSelectorError with the text of an API server.
    """
    tokens = _tokens(text)
    found: list[Requirement] = []
    while tokens[-1]:
        if tokens[-1] in _NO_START:
            raise LabelSelectorError(f"found '{tokens[-1]}', expected: !, identifier, or 'end of string'")
        found.append(_parse_requirement(tokens))
        separator = tokens.pop()
        if separator == "":
            break
        if separator != ",":
            raise LabelSelectorError(f"found '{separator}', expected: ',' or 'end of string'")
        if tokens[-1] in _NO_START or not tokens[-1]:
            raise LabelSelectorError(f"found '{tokens[-1]}', expected: identifier after ','")
    return Selector(found) if found else EVERYTHING


def _tokens(text: str) -> list[str]:
    """Tokens in reverse order, so that the next one is popped; the end is an empty token."""
    found: list[str] = []
    position = 0
    while True:
        token = _TOKEN.match(text, position)
        if token is None:
            raise _refused(f"cannot read {text[position:]!r}")
        found.append(token[1])
        position = token.end()
        if not token[1]:
            return found[::-1]


_SPECIAL: Final = frozenset({"", "=", "==", "!=", "!", "(", ")", ",", "<", ">"})
_NO_START: Final = _SPECIAL - {"", "!"}
"""What no requirement begins with."""


def _refused(text: str) -> LabelSelectorError:
    return LabelSelectorError(f"unable to parse requirement: {text}")


def _parse_requirement(tokens: list[str]) -> Requirement:
    key = tokens.pop()
    absent = key == "!"
    if absent:
        key = tokens.pop()
    if key in _SPECIAL:
        raise _refused(f"found '{key}', expected: identifier")
    if problems := list(names.qualified(key)):
        raise _refused(f"invalid label key {go_quote(key)}: {'; '.join(problems)}")
    if absent or tokens[-1] in ("", ","):
        return Requirement(key, "DoesNotExist" if absent else "Exists")
    operator = tokens.pop()
    if operator in ("=", "==", "!="):
        return Requirement(key, "NotIn" if operator == "!=" else "In", (_checked(key, _parse_value(tokens)),))
    if operator in ("<", ">"):
        bound = _parse_value(tokens)
        if _int64(bound) is None:
            raise _refused("for 'Gt', 'Lt' operators, the value must be an integer")
        return Requirement(key, "Gt" if operator == ">" else "Lt", (_checked(key, bound),))
    if operator in ("in", "notin"):
        return Requirement(key, "In" if operator == "in" else "NotIn", _parse_list(key, tokens))
    raise _refused(f"found '{operator}', expected: '=', '!=', '==', 'in', notin'")


def _parse_value(tokens: list[str]) -> str:
    if tokens[-1] in ("", ","):
        return ""
    value = tokens.pop()
    if value in _SPECIAL:
        raise _refused(f"found '{value}', expected: identifier")
    return value


def _parse_list(key: str, tokens: list[str]) -> tuple[str, ...]:
    """A list in parentheses; a missing item is the empty value."""
    opening = tokens.pop()
    if opening != "(":
        raise _refused(f"found '{opening}' expected: '('")
    if tokens[-1] in _SPECIAL - {",", ")"}:
        raise _refused(f"found '{tokens[-1]}', expected: ',', ')' or identifier")
    values: list[str] = []
    while True:
        token = tokens.pop()
        value = ""
        if token not in (",", ")"):
            if token in _SPECIAL:
                raise _refused(f"found '{token}', expected: ',', or identifier")
            value, token = token, tokens.pop()
        values.append(value)
        if token == ")":
            return tuple(_checked(key, value) for value in sorted(set(values)))
        if token != ",":
            raise _refused(f"found '{token}', expected: ',' or ')'")


def _checked(key: str, value: str) -> str:
    if problems := list(names.label_value(value)):
        raise _refused(f"invalid label value: {go_quote(value)}: at key: {go_quote(key)}: {'; '.join(problems)}")
    return value


def _int64(text: str) -> int | None:
    if len(text) > 20 or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def never(_: object) -> bool:
    """Nothing passes."""
    return False


def always(_: object) -> bool:
    """Everything passes."""
    return True


def all_of(tests: Sequence[Callable[[T], bool]]) -> Callable[[T], bool]:
    """One test of all of them."""
    if not tests:
        return always
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)
    return lambda value: all(test(value) for test in tests)


def _compile(item: Requirement) -> Matcher:
    key = item.key
    match item.operator:
        case "In" if len(item.values) == 1:
            wanted = item.values[0]
            return lambda labels: labels.get(key) == wanted
        case "In":
            accepted = frozenset(item.values)
            return lambda labels: labels.get(key) in accepted
        case "NotIn":
            refused = frozenset(item.values)
            return lambda labels: labels.get(key) not in refused
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt" | "Lt":
            bound, above = int(item.values[0]), item.operator == "Gt"

            def compare(labels: Labels) -> bool:
                number = _int64(labels.get(key, ""))
                return number is not None and (number > bound if above else number < bound)

            return compare


EVERYTHING: Final = Selector(())
NOTHING: Final = Selector((), nothing=True)
