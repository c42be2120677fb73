"""Checks of the options that security contexts have for Windows: credentials and the name of a user."""

from __future__ import annotations

import re
from typing import Final

from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_rules import formed, inside

_CREDENTIALS_KIB: Final = 64
_DOMAIN_LENGTH: Final = 256
_USER_LENGTH: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_UNWANTED: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def _credentials(value: str) -> list[str]:
    if not value:
        return ["gmsaCredentialSpec cannot be an empty string"]
    too_big = len(value.encode()) > _CREDENTIALS_KIB * 1024
    return [f"gmsaCredentialSpec size must be under {_CREDENTIALS_KIB} KiB"] if too_big else []


def _user_name(value: str) -> list[str]:
    domain, slash, user = value.partition("\\")
    if not value:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(value):
        return ["runAsUserName cannot contain control characters"]
    if "\\" in user:
        return ["runAsUserName cannot contain more than one backslash"]
    if not slash:
        domain, user = "", value
    found = []
    if len(domain) >= _DOMAIN_LENGTH:
        found.append(f"runAsUserName's Domain length must be under {_DOMAIN_LENGTH} characters")
    if slash and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        found.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    return found + _user(user)


def _user(user: str) -> list[str]:
    found = []
    if not user:
        found.append("runAsUserName's User cannot be empty")
    elif len(user) > _USER_LENGTH:
        found.append(f"runAsUserName's User length must not be longer than {_USER_LENGTH} characters")
    elif not user.strip(". "):
        found.append("runAsUserName's User cannot contain only periods or spaces")
    if _UNWANTED.search(user):
        found.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return found


WINDOWS: Final = inside(
    "windowsOptions",
    inside("gmsaCredentialSpecName", formed(names.subdomain)),
    inside("gmsaCredentialSpec", formed(_credentials)),
    inside("runAsUserName", formed(_user_name)),
)
"""Rule of a security context: its options for Windows are good."""
