"""Rotated, broken and mended credentials of members are used without a restart."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._kit.base.clock import SystemClock
from services._kit.concurrency.supervision import supervise
from services._kit.credentials import kubeconfig
from services._kit.credentials.access import Members
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.delivery import member_connection
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Reflector
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.cluster_monitor.push_probe import Prober
from services.cluster_monitor.state import Probe
from tests.support.closing import closing
from tests.support.serving import api_server
from tests.support.waiting import comes_to, eventually

NAMESPACE = "karmada-cluster"
NAMESPACES = resource_path("", "v1", "namespaces")
SECRETS = resource_path("", "v1", "secrets", NAMESPACE)
ADMIN = Identity("admin", "admin", ("system:masters",))


class Ground:
    """A control plane that holds the Secret of a member, and the member."""

    def __init__(self, control: KubeClient, server: ApiServer, member: KubeClient) -> None:
        self.control = control
        self.server = server
        self.admin = member
        self.members = Members(control)
        self.spec = {
            "syncMode": "Push",
            "apiEndpoint": server.url,
            "secretRef": {"namespace": NAMESPACE, "name": "m1"},
        }

    def accept(self, token: str) -> None:
        """The member accepts this token beside that of its administrator, and no other."""
        for old in ("first", "second", "third"):
            self.server.authenticator._tokens.pop(old, None)
        self.server.authenticator.add_token(token, ADMIN)

    async def write(self, **data: str) -> None:
        """Replace the values of the Secret."""
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
        old = (await self.control.get(f"{SECRETS}/m1")).get("data") or {}
        await self.control.patch(f"{SECRETS}/m1", {"data": {**dict.fromkeys(old), **encoded}})


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """Both, with a token that both know."""
    async with AsyncExitStack() as stack:
        (tmp_path / "control").mkdir()
        (tmp_path / "member").mkdir()
        control, _, _ = await api_server(stack, tmp_path / "control", builtin_registry(), "root")
        member, server, _ = await api_server(stack, tmp_path / "member", builtin_registry(), "root")
        await control.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        made = Ground(control, server, member)
        await control.create(SECRETS, {"metadata": {"name": "m1"}})
        await made.write(token="first")
        made.accept("first")
        yield made
        await made.members.close()


def _ignore() -> None:
    return


@asynccontextmanager
async def opened(ground: Ground, changed: Callable[[], None] = _ignore) -> AsyncIterator[tuple[Any, Any]]:
    """The member and a client of it."""
    member = ground.members.member(ground.spec, changed)
    client = await member.open()
    try:
        yield member, client
    finally:
        member.close()
        await client.close()


def kubeconfig_for(ground: Ground, user: str) -> str:
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: m\n"
        "contexts: [{name: m, context: {cluster: m, user: m}}]\n"
        f"clusters: [{{name: m, cluster: {{server: '{ground.server.url}'}}}}]\n"
        f"users: [{{name: m, user: {{{user}}}}}]\n"
    )


async def test_a_refused_token_is_read_again_and_the_request_succeeds(ground: Ground, monkeypatch) -> None:
    # Without the watch of Secrets: it may not be allowed to us.
    monkeypatch.setattr(ground.members.secrets, "subscribe", lambda *_: _ignore)
    async with opened(ground) as (_, client):
        await client.get(NAMESPACES)
        ground.accept("second")
        with pytest.raises(ApiError) as refused:
            await client.get(NAMESPACES)
        assert refused.value.status == 401
        await ground.write(token="second")

        async def asked() -> bool:
            try:
                found = await client.get(NAMESPACES)
            except ApiError as error:
                return error.status != 401
            return bool(found["items"])

        await comes_to("the new token is used", asked)


async def test_requests_that_are_refused_together_read_the_secret_once(ground: Ground, monkeypatch) -> None:
    monkeypatch.setattr(ground.members.secrets, "subscribe", lambda *_: _ignore)
    async with opened(ground) as (member, client):
        reads, read = 0, member._read

        async def counted() -> Any:
            nonlocal reads
            reads += 1
            return await read()

        monkeypatch.setattr(member, "_read", counted)
        await ground.write(token="second")
        ground.accept("second")
        await asyncio.gather(*(client.get(NAMESPACES) for _ in range(20)))
        assert reads == 1


async def test_changed_secret_is_used_before_the_token_expires(ground: Ground) -> None:
    changed = asyncio.Event()
    async with opened(ground, changed.set) as (_, client):
        await ground.control.patch(f"{SECRETS}/m1", {"metadata": {"labels": {"a": "b"}}})
        ground.server.authenticator.add_token("second", ADMIN)
        await ground.write(token="second")
        await eventually(lambda: client.renewals == 1)
        await eventually(changed.is_set)
        ground.accept("second")
        await client.get(NAMESPACES)
        assert client.renewals == 1


class Seen:
    """What a watch of namespaces saw."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.lists = 0

    def listed(self, objects: list[Manifest]) -> None:
        self.lists += 1
        self.names = {found["metadata"]["name"] for found in objects}

    def changed(self, kind: str, found: Manifest) -> None:
        self.names.add(found["metadata"]["name"])


async def test_a_watch_goes_on_with_the_new_token(ground: Ground) -> None:
    async with opened(ground) as (_, client):
        seen = Seen()
        # The watch ends, as it does every few minutes.
        params = {"timeoutSeconds": "1"}
        reflector = Reflector(client, NAMESPACES, seen, Decoded(), params=params)
        async with closing(supervise("watch", reflector.run)):
            await eventually(lambda: "default" in seen.names)
            await ground.write(token="second")
            ground.accept("second")
            await eventually(lambda: client.renewals == 1 and not client._old)
            await ground.admin.create(NAMESPACES, {"metadata": {"name": "late"}})
            await eventually(lambda: "late" in seen.names)


def _source() -> WorkSource:
    async def nothing(*_: Any) -> None:
        return None

    return WorkSource(
        work=lambda _: None,
        observed=lambda _: None,
        blob=nothing,  # type: ignore[arg-type] # there are no works
        previous=nothing,
        report=lambda _: None,
        now=lambda: 0.0,
    )


async def test_broken_secret_stops_a_lane_until_it_is_repaired(ground: Ground, monkeypatch) -> None:
    # The lane does not ask again by itself.
    monkeypatch.setattr(member_connection, "FIRST_PAUSE", 3600.0)
    await ground.write(clientCert="none")
    settings = LaneSettings(longest_pause=3600.0)
    member = ground.members.member(ground.spec, lambda: lane.connection.retry())
    lane = Lane("m1", member.open, _source(), settings)
    lane.start()
    try:
        await eventually(lambda: lane.trouble)
        assert "Secret karmada-cluster/m1 has clientCert but no clientKey" in lane.trouble
        await ground.write(token="first")
        await eventually(lambda: not lane.trouble and lane.connection.up.is_set())
    finally:
        member.close()
        await lane.close()


async def test_lane_survives_a_rotated_token(ground: Ground) -> None:
    member = ground.members.member(ground.spec, lambda: lane.connection.retry())
    lane = Lane("m1", member.open, _source(), LaneSettings(longest_pause=0.1))
    lane.start()
    try:
        await eventually(lambda: lane.connection.up.is_set())
        ground.accept("second")
        assert lane.connection.client is not None
        with pytest.raises(ApiError) as refused:
            await lane.connection.client.get(NAMESPACES)
        lane.connection.failed(refused.value)
        await eventually(lambda: "401" in lane.trouble)
        await ground.write(token="second")
        await eventually(lambda: not lane.trouble and lane.connection.up.is_set())
    finally:
        member.close()
        await lane.close()


async def test_probe_reports_a_broken_secret_until_repaired(ground: Ground) -> None:
    await ground.write(clientCert="none")
    probes: asyncio.Queue[Probe] = asyncio.Queue()
    prober = Prober("m1", ground.members, ground.spec, probes.put_nowait, interval=3600.0, clock=SystemClock())

    async def until(words: str, *, online: bool) -> None:
        async with asyncio.timeout(60):
            while True:
                probe = await probes.get()
                if probe.online == online and words in probe.error:
                    return

    try:
        await until("Secret karmada-cluster/m1 has clientCert but no clientKey", online=False)
        await ground.write(token="first")
        await until("", online=True)
        ground.accept("second")
        prober.look_soon()
        await until("refuses the credentials", online=False)
        await ground.write(token="second")
        await until("", online=True)
        ground.accept("third")
        await ground.control.delete(f"{SECRETS}/m1")
        await until("Secret karmada-cluster/m1 does not exist", online=False)
    finally:
        await prober.close()


async def test_a_kubeconfig_whose_token_file_was_rotated_is_read_again(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_for(ground, f"tokenFile: '{tmp_path}/token'"))
    async with closing(await open_kubeconfig(file)) as client:
        await client.get(NAMESPACES)
        ground.accept("second")
        (tmp_path / "token").write_text("second")
        await client.get(NAMESPACES)
        assert client.renewals == 1
        file.write_text("{")
        ground.accept("third")
        with pytest.raises(ApiError):
            await client.get(NAMESPACES)
        assert client.server == ground.server.url


async def test_replaced_kubeconfig_is_used_at_once(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "LOOK_SECONDS", 0.0)
    file = tmp_path / "kubeconfig"

    def write(token: str) -> None:
        part = tmp_path / "kubeconfig.part"
        part.write_text(kubeconfig_for(ground, f"token: '{token}'"))
        part.replace(file)

    write("first")
    async with closing(await open_kubeconfig(file)) as client:
        ground.server.authenticator.add_token("second", ADMIN)
        await client.get(NAMESPACES)
        assert client.renewals == 0
        write("second")
        await client.get(NAMESPACES)
        assert client.renewals == 1
        file.write_text("users: [")
        await client.get(NAMESPACES)
        assert str(file) in client.trouble
        write("first")
        await client.get(NAMESPACES)
        assert (client.renewals, client.trouble) == (2, "")
