"""The documents by which others check tokens of service accounts: OpenID Connect discovery and the key set."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import msgspec

from services.apiserver.auth.token_signing import ALGORITHM, ServiceAccountTokens
from services.apiserver.core.status_errors import method_not_allowed
from services.apiserver.http.handler import Answer, Request

CONFIGURATION: Final = "/.well-known/openid-configuration"
KEYS: Final = "/openid/v1/jwks"


class IssuerDiscovery:
    """Answers for both paths; `address` is where the server is reached from outside."""

    def __init__(self, signer: ServiceAccountTokens) -> None:
        self._signer = signer
        self.address = ""

    def route(self, request: Request, parts: list[str]) -> Awaitable[Answer] | None:
        """Answer a path this object knows."""
        return self._answer(request) if request.path in (CONFIGURATION, KEYS) else None

    async def _answer(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if request.path == KEYS:
            body, media = self._signer.key_set(), "application/jwk-set+json"
        else:
            body, media = self._configuration(), "application/json"
        return Answer(200, msgspec.json.encode(body), media=media, headers={"Cache-Control": "public, max-age=3600"})

    def _configuration(self) -> dict[str, object]:
        return {
            "issuer": self._signer.issuer,
            "jwks_uri": f"{self.address}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }
