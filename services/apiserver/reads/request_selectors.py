"""Label and field selectors of list and watch requests, compiled to a test of decoded objects."""

import re
from collections.abc import Callable

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, parse_selector
from services.apiserver.core.status_errors import bad_request
from services.apiserver.kinds.kind_model import Kind


def label_test(text: str) -> Callable[[dict[str, str]], bool] | None:
    """Test of a label set, None when everything matches; raises 400."""
    try:
        selector = parse_selector(text)
    except LabelSelectorError as problem:
        raise bad_request(str(problem)) from None
    return selector.matches if selector.requirements else None


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
    if not kind.custom and known <= {"metadata.name", "metadata.namespace"}:
        shown = ", ".join(f'"{n}"' for n in ("metadata.name", "metadata.namespace"))
        return f'"{name}" is not a known field selector: only {shown}'
    return f"field label not supported: {name}"
