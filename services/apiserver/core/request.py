"""What a request asks for: path and query of an HTTP request taken apart."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote

from services._rules.kubernetes.patch.go_text import go_quote
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.core.status_errors import bad_request, invalid

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MANAGER_LENGTH = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_LARGEST = 2**63
_LONGEST = 1000


class RequestInfo:
    """The parts of a resource path; empty strings where a part is absent."""

    __slots__ = ("group", "name", "namespace", "resource", "subresource", "tail", "version", "watch_prefix")

    def __init__(self, group: str, version: str, parts: list[str]) -> None:
        self.group, self.version = group, version
        self.watch_prefix = bool(parts) and parts[0] == "watch"
        if self.watch_prefix:
            parts = parts[1:]
        self.namespace = ""
        if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
            self.namespace = parts[1]
            parts = parts[2:]
        self.resource = parts[0] if parts else ""
        self.name = parts[1] if len(parts) > 1 else ""
        self.subresource = parts[2] if len(parts) > 2 else ""
        self.tail = "/".join(parts[3:])


def resource_path(parts: list[str]) -> RequestInfo | None:
    """What a path names; None for one outside of all group versions."""
    match parts:
        case ["api", version, _, *_]:
            return RequestInfo("", version, parts[2:])
        case ["apis", group, version, _, *_]:
            return RequestInfo(group, version, parts[3:])
        case _:
            return None


def split_path(path: str) -> list[str]:
    """Unescaped path segments; empty ones at the end are dropped."""
    parts = path.split("/")[1:]
    while parts and not parts[-1]:
        parts.pop()
    return [unquote(p) for p in parts] if "%" in path else parts


def parse_query(raw: str) -> dict[str, str]:
    """First value of each parameter; a part that cannot be unescaped is left out, as Go does."""
    if not raw:
        return {}
    out: dict[str, str] = {}
    for part in raw.split("&"):
        if "%" in part and re.search(r"%(?![0-9A-Fa-f]{2})", part):
            continue
        for name, value in parse_qsl(part, keep_blank_values=True):
            out.setdefault(name, value)
    return out


def truth(value: str | None) -> bool:
    """A boolean parameter: present and not false."""
    return value is not None and value != "0" and value.lower() != "false"


def integer(value: str) -> int:
    """A whole number parameter; raises 400 worded as Go's parser does."""
    if _INTEGER.fullmatch(value) is None:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(value)}: invalid syntax")
    # Longer texts are out of range whatever their digits are, but for zeros in front.
    number = int(value) if len(value) <= _LONGEST else _LARGEST
    if not -_LARGEST <= number < _LARGEST:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(value)}: value out of range")
    return number


def write_options(query: dict[str, str]) -> list[fields.FieldError]:
    """What is wrong with the options that all writes take."""
    found: list[fields.FieldError] = []
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    if len(manager.encode()) > _MANAGER_LENGTH:
        found.append(fields.too_long("fieldManager", manager, _MANAGER_LENGTH))
    for position, letter in enumerate(manager):
        if not letter.isprintable():
            text = f"invalid character U+{ord(letter):04X} (at position {position})"
            found.append(fields.invalid("fieldManager", manager, text))
    if "dryRun" in query and query["dryRun"] != "All":
        found.append(fields.not_supported("dryRun", fields.go_strings([query["dryRun"]]), ["All"]))
    if validation not in _VALIDATIONS:
        found.append(fields.not_supported("fieldValidation", validation, _VALIDATIONS))
    return found


class ListOptions:
    """Query parameters of list and watch."""

    __slots__ = (
        "bookmarks",
        "continue_",
        "field",
        "initial",
        "label",
        "limit",
        "match",
        "revision",
        "timeout",
        "watch",
    )

    def __init__(self, query: dict[str, str]) -> None:
        self.watch = truth(query.get("watch"))
        self.label = query.get("labelSelector", "")
        self.field = query.get("fieldSelector", "")
        self.revision = query.get("resourceVersion", "")
        self.match = query.get("resourceVersionMatch", "")
        self.continue_ = query.get("continue", "")
        limit, timeout = query.get("limit"), query.get("timeoutSeconds")
        self.timeout = None if timeout is None else integer(timeout)
        self.limit = 0 if limit is None else integer(limit)
        self.bookmarks = truth(query.get("allowWatchBookmarks"))
        self.initial = truth(query["sendInitialEvents"]) if "sendInitialEvents" in query else None

    @property
    def send_initial(self) -> bool:
        """Whether a watch begins with what there is and says when that is complete."""
        return bool(self.initial)

    def check(self) -> None:
        """Refuse combinations that have no meaning."""
        found = list(self._of_watch() if self.watch else self._of_list())
        if found:
            raise invalid("ListOptions.meta.k8s.io", "", found)

    def _of_watch(self) -> Iterator[fields.FieldError]:
        if self.initial is not None and self.match != "NotOlderThan":
            yield _unfit("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        if not self.match:
            return
        if self.initial is None:
            yield _unfit("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        if self.match not in _MATCHES:
            yield fields.not_supported(_MATCH, self.match, [*_MATCHES, ""])
        if self.continue_:
            yield _unfit("resourceVersionMatch is forbidden when continue is provided")

    def _of_list(self) -> Iterator[fields.FieldError]:
        if self.match:
            if not self.revision:
                yield _unfit("resourceVersionMatch is forbidden unless resourceVersion is provided")
            if self.continue_:
                yield _unfit("resourceVersionMatch is forbidden when continue is provided")
            if self.match not in _MATCHES:
                yield fields.not_supported(_MATCH, self.match, [*_MATCHES, ""])
            if self.match == "Exact" and self.revision == "0":
                yield _unfit('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        if self.initial is not None:
            yield fields.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


_MATCH = "resourceVersionMatch"
_MATCHES = ("Exact", "NotOlderThan")


def _unfit(text: str) -> fields.FieldError:
    return fields.forbidden(_MATCH, text)


def revision_problem(text: str) -> str:
    """What is wrong with a resourceVersion parameter; empty where nothing is."""
    if not text or (text.isascii() and text.isdigit() and int(text[:_LONGEST]) < 2 * _LARGEST):
        return ""
    shown = go_quote(text)
    wrong = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    return f"resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: {wrong}"


def revision_of(text: str) -> int:
    """A resourceVersion parameter as a number (0 when empty); raises 400."""
    if problem := revision_problem(text):
        raise bad_request(problem)
    return int(text) if text else 0


def version_document(release: str) -> dict[str, str]:
    """The document at /version of a server of that release."""
    major, _, rest = release.lstrip("v").partition(".")
    return {
        "major": major,
        "minor": rest.partition(".")[0],
        "gitVersion": release,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }
