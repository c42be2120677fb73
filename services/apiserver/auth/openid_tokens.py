"""Users of an OpenID Connect provider: who bears an ID token, by the claims that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog

from services.apiserver.core.request_context import Identity

if TYPE_CHECKING:
    from jwt import PyJWK, PyJWS

log = structlog.get_logger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
_LEEWAY: Final = 60.0
"""Seconds that the clock of the provider may be ahead."""
_RESERVED: Final = "system:"
"""What users and groups of Kubernetes itself begin with; no provider names one of them."""


class OpenIdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens are taken, for which client, and which claims name user and groups.

    `username_prefix` keeps users apart from others of the same name: empty stands for the issuer and `#`, unless the
    claim is `email`, and `-` for none. `required` are claims that have to have these values.
    """

    issuer: str
    client: str
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    required: dict[str, str] = {}
    algorithms: tuple[str, ...] = ("RS256",)
    ca_file: Path | None = None

    def check(self) -> None:
        """Raise ValueError naming what cannot work."""
        if urlsplit(self.issuer).scheme != "https" or not urlsplit(self.issuer).hostname:
            raise ValueError(f"issuer {self.issuer!r}: use the https URL of the provider")
        if not self.client:
            raise ValueError("the client id is missing")
        for name in self.algorithms:
            if name not in ALGORITHMS:
                raise ValueError(f"signing algorithm {name!r}: use one of {', '.join(ALGORITHMS)}")

    @property
    def prefix(self) -> str:
        """What users' names begin with."""
        if self.username_prefix == "-":
            return ""
        if self.username_prefix or self.username_claim == "email":
            return self.username_prefix
        return f"{self.issuer}#"


def identity_of(claims: Mapping[str, Any], settings: OpenIdSettings) -> Identity | None:
    """The user of valid claims; None where they name none, or one of those that only Kubernetes names."""
    name = claims.get(settings.username_claim)
    if not isinstance(name, str) or not name:
        return None
    if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
        return None
    if any(claims.get(claim) != value for claim, value in settings.required.items()):
        return None
    user = settings.prefix + name
    if user.startswith(_RESERVED):
        return None
    given = claims.get(settings.groups_claim) if settings.groups_claim else None
    groups = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    named = (settings.groups_prefix + group for group in groups if isinstance(group, str) and group)
    return Identity(user, "", tuple(group for group in named if not group.startswith(_RESERVED)))


class OpenIdTokens:
    """Checks ID tokens with the provider's keys, which something else brings."""

    def __init__(self, settings: OpenIdSettings) -> None:
        self.settings = settings
        self.on_unknown_key: Callable[[], None] = lambda: None
        """Told of a token with a key that is not known (any more): the provider may have new ones."""
        self._keys: dict[str, PyJWK] = {}
        self._signatures: PyJWS | None = None

    def take(self, document: Mapping[str, Any]) -> int:
        """Take in a key set; the number of its usable keys."""
        from jwt import PyJWK, PyJWTError

        found = {}
        for entry in document.get("keys") or ():
            try:
                if entry.get("use", "sig") == "sig":
                    found[str(entry.get("kid") or "")] = PyJWK.from_dict(entry)
            except (PyJWTError, ValueError, TypeError, AttributeError) as error:
                log.info("openid_key_left_out", reason=str(error))
        self._keys = found
        return len(found)

    def identify(self, token: str, now: float) -> Identity | None:
        """Who bears a token of the provider that is good now; None for any other."""
        from jwt import PyJWS, PyJWTError

        settings = self.settings
        if self._signatures is None:
            self._signatures = PyJWS(algorithms=list(settings.algorithms))
        signed = self._signatures
        try:
            header = signed.get_unverified_header(token)
            key = self._keys.get(str(header.get("kid") or ""))
            if key is None:
                self.on_unknown_key()
                return None
            claims = msgspec.json.decode(signed.decode(token, key, list(settings.algorithms)), type=dict[str, Any])
        except (PyJWTError, msgspec.DecodeError, ValueError, RecursionError):
            return None
        return identity_of(claims, settings) if _counts(claims, settings, now) else None


def _counts(claims: Mapping[str, Any], settings: OpenIdSettings, now: float) -> bool:
    """Whether claims are of this provider, for this client, and of this time."""
    audience, ends, begins = claims.get("aud"), claims.get("exp"), claims.get("nbf", 0)
    audiences = audience if isinstance(audience, list) else [audience]
    return (
        claims.get("iss") == settings.issuer
        and settings.client in audiences
        and isinstance(ends, int | float)
        and isinstance(begins, int | float)
        and begins - _LEEWAY <= now < ends
    )
