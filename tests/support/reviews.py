"""A running webhook with a certificate of its own, and what an API server would send to it."""

from __future__ import annotations

import base64
import ssl
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from schemas.manifest import Manifest
from services._rules.admission import Context, Denied
from services._rules.admission.webhook_table import HOOKS, PLACES, Hook
from services._rules.admission.write_steps import Guard
from services._rules.kubernetes.patch.json_patch import json_patch
from services.apiserver.auth.certificate_authority import Authority
from services.webhook.review_server import ReviewServer
from services.webhook.stored_objects import StoredObjects


class Known(StoredObjects):
    """Stored objects that a test tells."""

    def __init__(self) -> None:
        super().__init__("")
        self.existing: Sequence[Any] | Denied = ()

    async def customizations(self) -> list[Manifest] | Denied:
        return self.existing if isinstance(self.existing, Denied) else list(self.existing)


class Caller:
    """Sends reviews as an API server does."""

    def __init__(self, session: aiohttp.ClientSession, port: int, trust: ssl.SSLContext) -> None:
        self._session = session
        self.url = f"https://127.0.0.1:{port}"
        self.trust = trust

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of any answer."""
        async with self._session.post(f"{self.url}{path}", data=body, ssl=self.trust) as response:
            return response.status, await response.read()

    async def review(self, path: str, request: Manifest) -> Manifest:
        """The response to a review that has the right form."""
        code, body = await self.post(path, review(request))
        assert code == 200, body
        answer: Manifest = msgspec.json.decode(body)
        assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        assert answer["response"]["uid"] == request["uid"]
        return dict(answer["response"])

    async def admit(
        self, kind: str, operation: str, obj: Manifest | None, old: Manifest | None = None, namespace: str = ""
    ) -> tuple[Manifest | None, Manifest]:
        """Both steps as an API server takes them: the object as it would be stored, and the last response."""
        if operation == "DELETE":
            request = request_of("DeletionProtection", operation, None, old, namespace)
            response = await self.review("/validate-resourcedeletionprotection", request)
            return (old if response["allowed"] else None), response
        response = {"allowed": True}
        for hook in hooks_of(kind, operation):
            assert obj is not None
            response = await self.review(hook.path, request_of(kind, operation, obj, old, namespace))
            if not response["allowed"]:
                return None, response
            obj = patched(obj, response)
        return obj, response


def hooks_of(kind: str, operation: str) -> list[Hook]:
    """The webhooks that are asked about a write, those that change it first."""
    found = [hook for hook in HOOKS.values() if hook.kind == kind and operation in hook.operations]
    return sorted(found, key=lambda hook: hook.step)


def request_of(
    kind: str, operation: str, obj: Manifest | None, old: Manifest | None = None, namespace: str = ""
) -> Manifest:
    """The request of a review."""
    place = PLACES.get(kind)
    group, version, plural = (place.group, place.version, place.plural) if place else ("", "v1", "configmaps")
    metadata = (obj or old or {}).get("metadata") or {}
    return {
        "uid": str(uuid.uuid4()),
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": metadata.get("name") or "",
        "namespace": namespace,
        "operation": operation,
        "userInfo": {"username": "admin"},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": None,
    }


def review(request: Manifest) -> bytes:
    """The body of an AdmissionReview."""
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def patched(obj: Manifest, response: Manifest) -> Manifest:
    """An object with the patch of a response, as an API server applies it."""
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    operations = msgspec.json.decode(base64.b64decode(response["patch"]))
    return dict(json_patch(msgspec.json.decode(msgspec.json.encode(obj)), operations))


@asynccontextmanager
async def reviewing(
    directory: Path,
    stored: StoredObjects,
    standing: Context | None = None,
    *,
    now: Callable[[], str] = lambda: "2026-01-01T00:00:00Z",
    quotas: bool = False,
    guard: Guard | None = None,
    **bounds: int,
) -> AsyncIterator[Caller]:
    """A caller of a running server with these rules."""
    authority = Authority(directory)
    authority.load()
    certificate, key = authority.issue("webhook", (), ["127.0.0.1"])
    pair = directory / "pair.pem"
    pair.write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair)
    server = ReviewServer(stored, standing or Context(), now, quotas=quotas, guard=guard, **bounds)
    await server.start("127.0.0.1", 0, context)
    try:
        async with aiohttp.ClientSession() as session:
            yield Caller(session, server.port, ssl.create_default_context(cadata=authority.ca_pem.decode()))
    finally:
        await server.stop()
        await stored.close()
