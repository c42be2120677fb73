"""Redacts refusals of a Secret: the error and the field names are kept, never a value.

A refusal may quote the object, in any form and place. Therefore nothing is cut out of it: allow-listed message forms
are kept and everything else is dropped, the text of an admission webhook entirely.
"""

from __future__ import annotations

import re
from typing import Final

UNTOLD: Final = "details are withheld because they may quote the Secret"
_REASONS: Final = frozenset(
    {
        "AlreadyExists",
        "BadRequest",
        "Conflict",
        "Expired",
        "Forbidden",
        "Gone",
        "InternalError",
        "Invalid",
        "MethodNotAllowed",
        "NotAcceptable",
        "NotFound",
        "RequestEntityTooLarge",
        "ServerTimeout",
        "ServiceUnavailable",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "Unauthorized",
        "UnsupportedMediaType",
    }
)
_NAME: Final = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_WHOLE: Final = (
    re.compile(rf'(?:namespaces|secrets) "{_NAME}" (?:not found|already exists)'),
    re.compile(
        rf'secrets "{_NAME}" is forbidden: unable to create new content in namespace {_NAME} '
        r"because it is being terminated"
    ),
    re.compile(r"Unauthorized|the server is currently unable to handle the request"),
)
"""Refusals that quote no content from end to end."""
_BEGINNING: Final = (
    re.compile(rf'admission webhook "{_NAME}" denied the request'),
    re.compile(
        rf"(?:secrets \"{_NAME}\" is forbidden: )?"
        rf"ValidatingAdmissionPolicy '{_NAME}' with binding '{_NAME}' denied request"
    ),
    re.compile(rf'Internal error occurred: failed calling webhook "{_NAME}"'),
    re.compile(rf'secrets "{_NAME}" is forbidden: exceeded quota: {_NAME}'),
    re.compile(
        rf'secrets(?: "{_NAME}")? is forbidden: User "[-\w.:@]{{1,253}}" cannot [a-z]{{3,20}} resource "secrets" '
        rf'in API group "" in the namespace "{_NAME}"'
    ),
    re.compile(rf'Operation cannot be fulfilled on secrets "{_NAME}": the object has been modified'),
)
"""Refusals that quote no content up to here."""
_INVALID: Final = re.compile(rf'Secret "{_NAME}" is invalid: ')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`', re.DOTALL)
_KEY: Final = r"\[[-._a-zA-Z0-9]{1,253}\]"
_FIELD: Final = re.compile(
    rf"(?:^\[?|, )((?:metadata|data|stringData|type|immutable|kind|apiVersion)(?:\.[a-zA-Z]{{1,40}}|{_KEY})*): "
    r"(Required value|Forbidden|Too long|Too many|Internal error|(?:Invalid|Duplicate|Unsupported) value|Not found)"
    r"(?=[:,\]]|$)"
)
_WITH_VALUE: Final = frozenset({"Invalid value", "Duplicate value", "Unsupported value", "Not found"})
_SHUT: Final = "\0"
_MOST_FIELDS: Final = 10


def refusal_of_secret(status: int, reason: str, message: str) -> str:
    """The redacted text of a refused Secret: its HTTP status, Kubernetes' reason, and fields without their values."""
    head = f"{reason} (HTTP {status})" if reason in _REASONS else f"HTTP {status}"
    text = message.strip()
    if any(whole.fullmatch(text) for whole in _WHOLE):
        return f"{text}: {head}"
    for beginning in _BEGINNING:
        if found := beginning.match(text):
            return f"{found.group()}: {head}; {UNTOLD}"
    if (invalid := _INVALID.match(text)) and (fields := _fields(text[invalid.end() :])):
        return f"{', '.join(fields)}: {head}; {UNTOLD}"
    return f"{head}; {UNTOLD}"


def failure_of_secret(error: Exception) -> str:
    """The redacted text of a failure that is not a cluster's refusal: its kind."""
    return f"{type(error).__name__}; {UNTOLD}"


def _fields(text: str) -> list[str]:
    """Paths and kinds of the errors that a validation lists; nothing from values, nor after one without a clear end."""
    bare = _QUOTED.sub(_SHUT, text.replace(_SHUT, ""))
    opened = min((at for at in (bare.find('"'), bare.find("`")) if at >= 0), default=len(bare))
    found: dict[str, None] = {}
    for field in _FIELD.finditer(bare, 0, opened):
        found[f"{field[1]}: {field[2]}"] = None
        if field[2] in _WITH_VALUE and not bare.startswith(f": {_SHUT}", field.end()):
            break
    shown = list(found)[:_MOST_FIELDS]
    return shown if len(shown) == len(found) else [*shown, f"and {len(found) - len(shown)} more"]
