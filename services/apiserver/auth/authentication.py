"""Authentication: bearer tokens and client certificates to an identity."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from services._rules.kubernetes.rbac.user_names import AUTHENTICATED, UNAUTHENTICATED
from services.apiserver.auth.service_accounts import from_claims
from services.apiserver.auth.token_signing import ServiceAccountTokens
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import unauthorized

REMEMBERED: Final = 1.0
"""Seconds for which a token that was good counts without another look at what it names."""
_MOST_REMEMBERED: Final = 4096


def parse_tokens(text: str) -> dict[str, Identity]:
    """Read `token,user,uid[,"group1,group2"]` lines; raises ValueError naming a bad line."""
    import csv

    out = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3:
            raise ValueError(f"line {number} of the token file: token,user,uid[,groups] was expected")
        groups = tuple(g for g in row[3].split(",") if g) if len(row) > 3 else ()
        out[row[0]] = Identity(row[1], row[2], groups)
    return out


@lru_cache(maxsize=1024)
def _from_subject(subject: tuple[tuple[tuple[str, str], ...], ...]) -> Identity | None:
    identity = from_certificate(subject)
    return None if identity is None else with_authenticated(identity)


def from_certificate(subject: Iterable[Iterable[tuple[str, str]]]) -> Identity | None:
    """The identity of a verified client certificate: common name and organizations."""
    name, groups = "", []
    for rdn in subject:
        for field, value in rdn:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups.append(value)
    return Identity(name, "", tuple(groups)) if name else None


class Bearer(msgspec.Struct, frozen=True):
    """Who bears a token, and whom the token is for (None: for anybody)."""

    identity: Identity
    audiences: tuple[str, ...] | None = None


class Authenticator:
    """Authenticates requests."""

    def __init__(self, tokens: Mapping[str, Identity], accounts: ServiceAccountTokens | None = None) -> None:
        self._tokens = {t: with_authenticated(i) for t, i in tokens.items()}
        self._accounts = accounts
        self.bootstrap: Callable[[str, float], Identity | None] | None = None
        """Who bears a bootstrap token."""
        self.anonymous: Identity | None = None
        """Who makes a request without any credentials; without it such requests are refused."""
        self.honours: Callable[[Mapping[str, Any], str, float], bool] | None = None
        """Whether what a service account's token names still exists: (claims, token, now)."""
        self.provider: Callable[[str, float], Identity | None] | None = None
        """Who bears a token of an OpenID Connect provider."""
        self.remembered = REMEMBERED
        self._good: dict[str, tuple[float, Bearer]] = {}

    def add_token(self, token: str, identity: Identity) -> None:
        """Accept another token."""
        self._tokens[token] = with_authenticated(identity)

    def identify(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None, now: float) -> Identity:
        """The requester; raises 401."""
        kind, _, text = headers.get("Authorization", "").strip().partition(" ")
        token = text.partition(" ")[0]
        if kind.lower() == "bearer" and token:
            found = self.bearer(token, now)
            identity = found.identity if found is not None and self._for_us(found) else None
        elif kind and self.anonymous is None:
            identity = None
        else:
            # The same for all requests of a connection.
            identity = _from_subject(certificate.get("subject", ())) if certificate else self.anonymous
        if identity is None:
            raise unauthorized()
        return identity

    @property
    def audience(self) -> str:
        """Whom tokens for this server are for."""
        return self._accounts.issuer if self._accounts is not None else ""

    def _for_us(self, bearer: Bearer) -> bool:
        return bearer.audiences is None or self.audience in bearer.audiences

    def bearer(self, token: str, now: float) -> Bearer | None:
        """Who bears a good token, whomever it is for; None for a bad one.

        What is found of a service account's token is remembered for a second: a token counts for that long after what
        it names is gone.
        """
        if not token.isascii():
            return None
        known = self._tokens.get(token)
        if known is None and self.bootstrap is not None and token.count(".") == 1:
            known = self.bootstrap(token, now)
        if known is not None:
            return Bearer(known)
        if token.count(".") != 2:
            return None
        remembered = self._good.get(token)
        if remembered is not None and 0 <= now - remembered[0] < self.remembered:
            return remembered[1]
        found = self._account(token, now)
        if found is None and self.provider is not None and (user := self.provider(token, now)) is not None:
            found = Bearer(with_authenticated(user))
        self._good.pop(token, None)
        if found is not None:
            if len(self._good) >= _MOST_REMEMBERED:
                self._good.clear()
            self._good[token] = now, found
        return found

    def _account(self, token: str, now: float) -> Bearer | None:
        """Who bears a token of a service account."""
        claims = self._accounts.check(token, now) if self._accounts is not None else None
        if claims is None or (self.honours is not None and not self.honours(claims, token, now)):
            return None
        identity = from_claims(claims)
        audiences = claims.get("aud")
        given = audiences if isinstance(audiences, list) else [audiences or self.audience]
        told = tuple(map(str, given))
        return Bearer(identity, told) if identity is not None else None


def with_authenticated(identity: Identity) -> Identity:
    """The identity in the group of all who are known, unless it is in that of those who are not."""
    if AUTHENTICATED in identity.groups or UNAUTHENTICATED in identity.groups:
        return identity
    return Identity(identity.name, identity.uid, (*identity.groups, AUTHENTICATED), identity.extra)
