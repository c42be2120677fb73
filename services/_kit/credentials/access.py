"""Provides clients of members, each renewed when its Secret changes or the member refuses its credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from schemas.agent import Expiry
from schemas.manifest import Manifest
from services._kit.concurrency.supervision import spawn
from services._kit.credentials.expiry import BadCredentials, Credentials, credentials_of, secret_of
from services._kit.credentials.renewing import RenewingClient
from services._kit.credentials.secret_watch import SecretWatch
from services._kit.kube.client import ApiError, KubeClient, resource_path

if TYPE_CHECKING:
    from services._kit.leadership.write_guard import Guard


async def open_member(control: KubeClient, spec: Manifest) -> KubeClient:
    """A client of the member that a Cluster spec describes, with the credentials of this moment.

    Raises BadCredentials where the spec or its Secret lacks something, ApiError and Unreachable from the control plane.
    """
    return credentials_of(spec, await _secret(control, spec)).open()


async def _secret(control: KubeClient, spec: Manifest) -> Manifest:
    namespace, name = secret_of(spec)
    try:
        return await control.get(resource_path("", "v1", "secrets", namespace, name))
    except ApiError as error:
        if error.status == 404:
            raise BadCredentials(f"Secret {namespace}/{name} does not exist; join the cluster again") from error
        raise


class Members:
    """The members as one service reaches them; `control` holds their Secrets."""

    def __init__(self, control: KubeClient) -> None:
        self.control = control
        self.secrets = SecretWatch(control)

    def member(self, spec: Manifest, on_change: Callable[[], None], guard: Guard | None = None) -> Member:
        """One member; `on_change` is called when its Secret is another one: what failed may work now."""
        return Member(self, spec, on_change, guard)

    async def close(self) -> None:
        """Stop watching Secrets."""
        await self.secrets.close()


class Member:
    """One member as a Cluster spec describes it. Close it when that changes; its clients are closed on their own."""

    def __init__(self, members: Members, spec: Manifest, on_change: Callable[[], None], guard: Guard | None) -> None:
        self._members = members
        self._spec = spec
        self._on_change = on_change
        self._guard = guard
        self._known: Credentials | None = None
        self._version = ""
        self._client: RenewingClient | None = None
        ref = spec.get("secretRef") or {}
        place = str(ref.get("namespace") or ""), str(ref.get("name") or "")
        self._forget = members.secrets.subscribe(*place, self._changed) if all(place) else _nothing

    @property
    def expiry(self) -> Expiry | None:
        """Expiry of the credentials in use, where they carry one."""
        return self._known.expiry if self._known is not None else None

    @property
    def trouble(self) -> str:
        """Why its Secret cannot be used although it changed, or the old credentials were refused; empty otherwise."""
        return self._client.trouble if self._client is not None else ""

    async def open(self) -> KubeClient:
        """A client, which renews itself.

        Raises BadCredentials, and ApiError and Unreachable from the control plane.
        """
        found = await self._read()
        first = found.open()
        self._known = found
        self._client = RenewingClient(first, self._other)
        self._client.guard = self._guard
        return self._client

    def close(self) -> None:
        """Hear of no change any more."""
        self._forget()

    async def _read(self) -> Credentials:
        secret = await _secret(self._members.control, self._spec)
        self._version = str(secret["metadata"].get("resourceVersion") or "")
        return credentials_of(self._spec, secret)

    async def _other(self) -> KubeClient | None:
        """A client with the credentials of this moment; None when they are those in use."""
        found = await self._read()
        if found == self._known:
            return None
        client = found.open()
        self._known = found
        return client

    def _changed(self, version: str) -> None:
        if version == self._version:
            return
        if self._client is not None:
            spawn("credentials", self._renew(self._client))
        else:
            self._on_change()

    async def _renew(self, client: RenewingClient) -> None:
        await client.renew()
        self._on_change()


def _nothing() -> None:
    """There is no Secret to hear of."""
