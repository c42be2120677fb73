"""A plain client of one API server, as an outsider writes it: nothing of the product is asked."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from pathlib import Path
from typing import Final, Self

import aiohttp
from msgspec import Struct

from schemas.manifest import Manifest

_SECONDS: Final = 20.0


class Answer(Struct, frozen=True):
    """Status and body; status 0: there was no answer, and nothing is known of what became of the request."""

    status: int
    body: Manifest = {}

    @property
    def done(self) -> bool:
        """The server says that it did what was asked."""
        return 200 <= self.status < 300

    @property
    def unknown(self) -> bool:
        """It may have been done, or may be done later."""
        return self.status == 0 or self.status >= 500

    @property
    def reason(self) -> str:
        """What a refusal says."""
        return f"{self.status} {self.body.get('reason', '')}: {self.body.get('message', '')}"


class Endpoint:
    """One API server, by its kubeconfig with a client certificate."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._session: aiohttp.ClientSession | None = None
        self._server = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        self._session = None

    async def ask(self, method: str, path: str, body: Manifest | None = None, *, patch: bool = False) -> Answer:
        """One request; raises nothing."""
        kind = "application/merge-patch+json" if patch else "application/json"
        try:
            session = self._opened()
            async with session.request(
                method,
                f"{self._server}{path}",
                data=json.dumps(body) if body is not None else None,
                headers={"Content-Type": kind},
            ) as found:
                return Answer(found.status, json.loads(await found.read() or b"{}"))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return Answer(0)

    async def items(self, path: str) -> list[Manifest] | None:
        """A list, None when it could not be read; a kind that is not served has no objects."""
        answer = await self.ask("GET", path)
        if answer.status == 404:
            return []
        return list(answer.body.get("items") or ()) if answer.done else None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            config = json.loads(self._kubeconfig.read_text())
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            context = ssl.create_default_context(cadata=authority)
            with tempfile.NamedTemporaryFile() as both:
                for part in ("client-certificate-data", "client-key-data"):
                    both.write(base64.b64decode(user[part]))
                both.flush()
                context.load_cert_chain(both.name)
            self._server = cluster["server"]
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=20), timeout=aiohttp.ClientTimeout(total=_SECONDS)
            )
        return self._session
