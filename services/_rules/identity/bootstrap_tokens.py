"""Reads bootstrap tokens and the Secrets that hold them, and signs cluster information.

Source: docs/sources.md#registration.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

NAMESPACE: Final = "kube-system"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"
SECRET_PREFIX: Final = "bootstrap-token-"
INFO_NAMESPACE: Final = "kube-public"
INFO_NAME: Final = "cluster-info"
INFO_KEY: Final = "kubeconfig"
SIGNATURE_PREFIX: Final = "jws-kubeconfig-"
BOOTSTRAPPERS: Final = "system:bootstrappers"
DEFAULT_GROUP: Final = "system:bootstrappers:karmada:default-cluster-token"
AGENT_PREFIX: Final = "system:karmada:agent:"
AGENTS_GROUP: Final = "system:karmada:agents"
TOKEN_ANNOTATION: Final = "fleetlog.io/nats-user-token"
URL_ANNOTATION: Final = "fleetlog.io/nats-url"
AUTHORITY_ANNOTATION: Final = "fleetlog.io/nats-authority"
"""Certificates (PEM) of the authority of the log's servers, where it is none that every system trusts."""
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_ID: Final = re.compile(r"[a-z0-9]{6}")


class BootstrapToken(Struct, frozen=True):
    """A token as it stands in its Secret; `expires` are Unix seconds, None: never."""

    id: str
    secret: str
    expires: float | None = None
    signing: bool = False
    authentication: bool = False
    groups: tuple[str, ...] = ()
    description: str = ""

    @property
    def text(self) -> str:
        """The token as people pass it on."""
        return f"{self.id}.{self.secret}"


def parse(text: str) -> tuple[str, str] | None:
    """Id and secret of a token, None for what is none."""
    found = _TOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def is_id(text: str) -> bool:
    """Whether this is the public half of a token."""
    return bool(_ID.fullmatch(text))


def read(secret: Mapping[str, Any]) -> BootstrapToken:
    """The token in a Secret; raises ValueError saying what is wrong with it."""
    name = secret["metadata"]["name"]
    if secret.get("type") != SECRET_TYPE:
        raise ValueError(f"Secret {name}: its type is not {SECRET_TYPE}")
    try:
        data = {
            key: base64.b64decode(value, validate=True).decode() for key, value in (secret.get("data") or {}).items()
        }
    except (binascii.Error, UnicodeDecodeError, TypeError):
        raise ValueError(f"Secret {name}: its data is no text in base64") from None
    token = (data.get("token-id", ""), data.get("token-secret", ""))
    if parse(".".join(token)) != token or name != f"{SECRET_PREFIX}{token[0]}":
        raise ValueError(f"Secret {name}: token-id and token-secret are no token of this name")
    expires = None
    if data.get("expiration"):
        try:
            expires = datetime.fromisoformat(data["expiration"]).timestamp()
        except ValueError:
            raise ValueError(f"Secret {name}: expiration {data['expiration']!r} is no time") from None
    groups = tuple(group for group in data.get("auth-extra-groups", "").split(",") if group)
    for group in groups:
        if not group.startswith(f"{BOOTSTRAPPERS}:"):
            raise ValueError(f"Secret {name}: group {group} does not begin with {BOOTSTRAPPERS}:")
    return BootstrapToken(
        *token,
        expires=expires,
        signing=data.get("usage-bootstrap-signing") == "true",
        authentication=data.get("usage-bootstrap-authentication") == "true",
        groups=groups,
        description=data.get("description", ""),
    )


def expired(token: BootstrapToken, now: float) -> bool:
    """Whether its time is over."""
    return token.expires is not None and token.expires <= now


def same(one: str, other: str) -> bool:
    """Compares secrets without telling by the time it takes how much is right."""
    return hmac.compare_digest(one.encode(), other.encode())


def sign(kubeconfig: str, token_id: str, token_secret: str) -> str:
    """The signature of a token for a text: a JWS (HS256) with the text left out."""
    header = _part(b'{"alg":"HS256","kid":"' + token_id.encode() + b'"}')
    signed = f"{header}.{_part(kubeconfig.encode())}"
    return f"{header}..{_part(hmac.digest(token_secret.encode(), signed.encode(), hashlib.sha256))}"


def vouches(signature: str, kubeconfig: str, token_id: str, token_secret: str) -> bool:
    """Whether a signature is this token's, under this text."""
    return same(signature, sign(kubeconfig, token_id, token_secret))


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
