"""Signs the tokens of service accounts, checks their signatures, and shows the key with which others check them.

New tokens are signed with an elliptic curve key (ES256). A directory of an earlier version holds a shared key (HS256):
tokens that were signed with it count until they expire, none is made any more, and removing the file ends them all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from services.apiserver.auth.certificate_authority import write_file
from services.apiserver.auth.service_accounts import SECRET_ISSUER

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt import PyJWS

ISSUER: Final = "https://kubernetes.default.svc"
ALGORITHM: Final = "ES256"
_FORMER: Final = "HS256"
_LEEWAY: Final = 60.0
"""Seconds that the clock of a signer may be ahead."""
_MOST_BYTES: Final = 16_384
_MOST_REMEMBERED: Final = 4_096


class _Header(msgspec.Struct):
    """What of a token's header tells which key it was signed with."""

    alg: str = ""
    kid: str = ""


class ServiceAccountTokens:
    """One key that signs, and perhaps one of before that only checks."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey | None = None, *, former: bytes = b"", issuer: str = ISSUER
    ) -> None:
        self.issuer = issuer
        self._key = key or _new_key()
        self._former = former
        self._public = self._key.public_key()
        self.key_id = _key_id(self._public)
        self._signed: dict[str, bytes] = {}
        """Texts of tokens whose signature was found to be good: that stays so, and finding it out is expensive."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A compact JWT; claims may name another issuer."""
        body = msgspec.json.encode({"iss": self.issuer, **claims})
        return _signatures().encode(body, self._key, ALGORITHM, {"kid": self.key_id, "typ": None})

    def check(self, token: str, now: float) -> dict[str, Any] | None:
        """The claims of a token that was signed here and counts at this time; None for any other."""
        claims = self._claims(token)
        if claims is None:
            return None
        issuer, begins, ends = claims.get("iss"), claims.get("nbf", 0), claims.get("exp")
        if not isinstance(begins, int | float) or begins > now + _LEEWAY:
            return None
        if issuer == SECRET_ISSUER and ends is None:
            return claims
        return claims if issuer == self.issuer and isinstance(ends, int | float) and ends > now else None

    def _claims(self, token: str) -> dict[str, Any] | None:
        from jwt import InvalidTokenError

        if len(token) > _MOST_BYTES or not token.isascii():
            return None
        try:
            body = self._signed.get(token)
            if body is None:
                body = self._body(token)
                if body is None:
                    return None
                if len(self._signed) >= _MOST_REMEMBERED:
                    self._signed.clear()
                self._signed[token] = body
            return msgspec.json.decode(body, type=dict[str, Any])
        except (InvalidTokenError, msgspec.DecodeError, ValueError, RecursionError):
            return None

    def _body(self, token: str) -> bytes | None:
        """The text of a token that one of the keys has signed; raises where the signature is another one."""
        first = token.partition(".")[0]
        header = msgspec.json.decode(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)), type=_Header)
        if header.alg == ALGORITHM and header.kid == self.key_id:
            body: bytes = _signatures().decode(token, self._public, algorithms=[ALGORITHM])
            return body
        if header.alg == _FORMER and self._former:
            former: bytes = _signatures().decode(token, self._former, algorithms=[_FORMER])
            return former
        return None

    def key_set(self) -> dict[str, Any]:
        """The JSON Web Key Set with which others check tokens."""
        numbers = self._public.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _number(numbers.x),
            "y": _number(numbers.y),
        }
        return {"keys": [key]}


def tokens_of(directory: Path | None) -> ServiceAccountTokens:
    """The keys kept in a directory, made on first use; without one a new key for as long as the process runs."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if directory is None:
        return ServiceAccountTokens()
    path, former = directory / "service-accounts.key", directory / "sa.key"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        made = _new_key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_file(path, made)
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not a private key in PEM without a password: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise ValueError(f"{path}: a key on the elliptic curve P-256 was expected")
    return ServiceAccountTokens(key, former=former.read_bytes() if former.exists() else b"")


@cache
def _signatures() -> PyJWS:
    from jwt import PyJWS

    return PyJWS(algorithms=[ALGORITHM, _FORMER])


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _key_id(public: ec.EllipticCurvePublicKey) -> str:
    from cryptography.hazmat.primitives import serialization

    encoded = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _base64(hashlib.sha256(encoded).digest())


def _number(value: int) -> str:
    return _base64(value.to_bytes(32, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
