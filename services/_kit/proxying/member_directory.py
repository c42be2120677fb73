"""Knows how members are reached on behalf of callers, as the control plane says, and sends requests that way."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import Shared
from services._kit.credentials.expiry import BadCredentials, no_credentials, route_of
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.route import DIRECT, Route
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRequest,
    MemberTransport,
    MemberUnknown,
    MemberUnreachable,
)

GROUP: Final = "cluster.karmada.io"
VERSION: Final = "v1alpha1"
CLUSTER_SECONDS: Final = 2.0
"""For how long a Cluster that was read counts as it is."""
SECRET_SECONDS: Final = 15.0
"""For how long its Secrets do; they are read again at once when a member refuses them."""
_MOST: Final = 2048
"""Clusters that are remembered."""
_SCHEMES: Final = ("http", "https")
_TOKEN: Final = "token"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class MemberAddress(Struct, frozen=True):
    """How a push member is reached: its URL, trust in it, the way there, and the token of its impersonator."""

    cluster: str
    server: str
    token: str
    place: str
    """The Secret with the token, for messages."""
    ca_pem: str = ""
    insecure: bool = False
    route: Route = DIRECT

    def __repr__(self) -> str:
        return f"MemberAddress({self.cluster}, {self.server})"

    @property
    def connections(self) -> tuple[object, ...]:
        """What connections depend on; the token is sent with every request."""
        return self.server, self.ca_pem, self.insecure, self.route


class _Known:
    """What was read of one cluster."""

    def __init__(self, read: Callable[[], Awaitable[Manifest]]) -> None:
        self.spec: Manifest = {}
        self.spec_at = float("-inf")
        self.address: MemberAddress | None = None
        self.address_at = float("-inf")
        self.cluster = Shared(self._cluster)
        self._read = read

    async def _cluster(self) -> Manifest:
        spec = await self._read()
        if spec != self.spec:
            self.address = None
        self.spec, self.spec_at = spec, time.monotonic()
        return spec


class MemberDirectory:
    """Clusters by name, as the service of `control` may read them: `get` of clusters and of the Secrets they name."""

    def __init__(self, control: KubeClient) -> None:
        self._control = control
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def spec(self, name: str) -> Manifest:
        """The spec of a Cluster; raises MemberUnknown, and MemberUnreachable where it cannot be read."""
        if _NAME.fullmatch(name) is None:
            raise MemberUnknown(f"cluster {name[:80]!r} does not exist: no cluster can have this name")
        known = self._known.get(name)
        if known is not None and time.monotonic() - known.spec_at < CLUSTER_SECONDS:
            return known.spec
        if known is None:
            known = self._known[name] = _Known(lambda: self._cluster(name))
        self._known.move_to_end(name)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        try:
            return await known.cluster()
        except BaseException:
            self._known.pop(name, None)
            raise

    async def address(self, name: str) -> MemberAddress:
        """How a push member is reached; raises MemberUnknown, and MemberUnreachable with what is missing."""
        spec = await self.spec(name)
        known = self._known.get(name)
        if known is not None and known.address is not None and time.monotonic() - known.address_at < SECRET_SECONDS:
            return known.address
        address = await self._address(name, spec)
        if known is not None:
            known.address, known.address_at = address, time.monotonic()
        return address

    def forget(self, name: str) -> None:
        """Read a cluster and its Secrets again for the next request."""
        self._known.pop(name, None)

    async def names(self) -> list[str]:
        """The names of all clusters, in order; raises MemberUnreachable."""
        found: list[str] = []
        params = {"limit": "500"}
        while True:
            page = await self._get(resource_path(GROUP, VERSION, "clusters"), "the clusters", params)
            found += [str(item["metadata"]["name"]) for item in page.get("items") or ()]
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return sorted(found)
            params["continue"] = str(token)

    async def _cluster(self, name: str) -> Manifest:
        cluster = await self._get(resource_path(GROUP, VERSION, "clusters", "", name), f"cluster {name}")
        spec = cluster.get("spec")
        return spec if isinstance(spec, dict) else {}

    async def _get(self, path: str, what: str, params: dict[str, str] | None = None) -> Manifest:
        try:
            return await self._control.get(path, params=params)
        except ApiError as error:
            if error.status == 404:
                raise MemberUnknown(f"{what} does not exist") from error
            raise MemberUnreachable(f"{what} cannot be read from the control plane: {error}") from error
        except Unreachable as error:
            raise MemberUnreachable(f"{what} cannot be read: the control plane does not answer: {error}") from error

    async def _address(self, name: str, spec: Manifest) -> MemberAddress:
        server = str(spec.get("apiEndpoint") or "")
        parts = urlsplit(server)
        if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise MemberUnreachable(f"spec.apiEndpoint of cluster {name} is no URL of an API server; join it again")
        place = _reference(spec.get("impersonatorSecretRef"))
        if place is None:
            raise MemberUnreachable(
                f"cluster {name} has no spec.impersonatorSecretRef: requests cannot be made in your name there; "
                "join it again"
            )
        insecure = bool(spec.get("insecureSkipTLSVerification"))
        trusted = _reference(spec.get("secretRef"))
        reads = [self._secret(name, place)]
        if trusted is not None and trusted != place and not insecure and parts.scheme == "https":
            reads.append(self._secret(name, trusted))
        secrets = await asyncio.gather(*reads)
        shown = f"Secret {place[0]}/{place[1]}"
        token = _text(secrets[0], _TOKEN, shown)
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise MemberUnreachable(f"{shown} has no usable token; join cluster {name} again")
        bundles = [_text(secret, "caBundle", f"a Secret of cluster {name}") for secret in reversed(secrets)]
        try:
            server_name = _text(secrets[-1], "tlsServerName", "a Secret") if len(secrets) > 1 else ""
            route = route_of(spec, f"a Secret of cluster {name}", server_name)
        except BadCredentials as error:
            raise MemberUnreachable(f"cluster {name}: {error}") from error
        return MemberAddress(
            name,
            server.rstrip("/"),
            token,
            shown,
            "" if insecure else next((bundle for bundle in bundles if bundle), ""),
            insecure,
            route,
        )

    async def _secret(self, cluster: str, place: tuple[str, str]) -> Manifest:
        what = f"Secret {place[0]}/{place[1]} of cluster {cluster}"
        try:
            secret = await self._get(resource_path("", "v1", "secrets", *place), what)
        except MemberUnknown as error:
            raise MemberUnreachable(f"{error}; join cluster {cluster} again") from error
        if problem := no_credentials(secret):
            raise MemberUnreachable(f"{what} {problem}")
        return secret


def _reference(given: Any) -> tuple[str, str] | None:
    if not isinstance(given, dict):
        return None
    namespace, name = str(given.get("namespace") or ""), str(given.get("name") or "")
    return (namespace, name) if _NAME.fullmatch(namespace) and _NAME.fullmatch(name) else None


def _text(secret: Manifest, key: str, shown: str) -> str:
    try:
        return base64.b64decode(str((secret.get("data") or {}).get(key) or ""), validate=True).decode().strip()
    except (binascii.Error, ValueError, AttributeError):
        raise MemberUnreachable(f"{shown}: key {key} is no base64 of a text") from None


class ChosenTransport:
    """Push members through one transport, pull members through the other; None: pull members cannot be reached."""

    def __init__(self, directory: MemberDirectory, push: MemberTransport, pull: MemberTransport | None = None) -> None:
        self._directory = directory
        self._push = push
        self._pull = pull

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request; raises MemberUnknown, MemberUnreachable and MemberRefused."""
        spec = await self._directory.spec(request.cluster)
        if spec.get("syncMode") != "Pull":
            return await self._push.open(request, body)
        if self._pull is None:
            raise MemberUnreachable(
                f"cluster {request.cluster} is a pull member, and this process has no way to agents"
            )
        return await self._pull.open(request, body)
