"""One installation attached to API servers that run no controllers, and clients of each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec import Struct

from services._kit.kube.client import KubeClient
from services.cli.installation.install_crds import remove_webhooks
from tests.e2e.fleet import Fleet
from tests.integration.stock.servers import Gate, Servers, gate, port_of, servers, through
from tests.integration.stock.walking import Walk
from tests.support.folders import below

# A member counts as away, and as back, after a second.
HERE = "127.0.0.1"
PACE = {
    "FLEETLOG_CLUSTER_STATUS_UPDATE_FREQUENCY": "0.5",
    "FLEETLOG_CLUSTER_FAILURE_THRESHOLD": "1",
    "FLEETLOG_CLUSTER_SUCCESS_THRESHOLD": "1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts a whole installation."""
    for item in below(Path(__file__).parent, items):
        item.add_marker(pytest.mark.timeout(300))


def forget_webhook(kubeconfig: Path) -> None:
    """Leave a control plane that can be written to once the webhook is gone."""

    async def remove() -> None:
        client = await KubeClient.from_kubeconfig(kubeconfig)
        try:
            await remove_webhooks(client)
        finally:
            await client.close()

    asyncio.run(remove())


class Stock(Struct, frozen=True):
    """The installation and the servers it is attached to; `gate` stands before the second member, if it can."""

    fleet: Fleet
    servers: Servers
    gate: Gate | None

    @property
    def names(self) -> list[str]:
        """Names of the members."""
        return list(self.servers.members)


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """A started installation; whatever its services complained of fails the run."""
    directory = tmp_path_factory.mktemp("stock")
    with ExitStack() as stack:
        given = stack.enter_context(servers(directory))
        attached = dict(given.members)
        second = list(attached)[1]
        port = port_of(attached[second])
        door = stack.enter_context(gate(port)) if port else None
        if door is not None and door.port is not None:
            attached[second] = through(attached[second], door.port, directory / "gated.kubeconfig")
        members = [f"--member={name}={path}" for name, path in attached.items()]
        # Control planes on this machine, given ones as well: they reach it by this address.
        arguments = [f"--control-kubeconfig={given.control}", f"--webhook={HERE}", *members]
        fleet = Fleet(directory / "fleet", arguments, PACE).start()
        stack.callback(forget_webhook, given.control)
        stack.callback(fleet.stop)
        yield Stock(fleet, given, door)
    assert fleet.failures() == []


@pytest.fixture
async def control(stock: Stock) -> AsyncIterator[KubeClient]:
    """A client of the control plane."""
    client = await KubeClient.from_kubeconfig(stock.servers.control)
    yield client
    await client.close()


@pytest.fixture
async def members(stock: Stock) -> AsyncIterator[dict[str, KubeClient]]:
    """A client of every member, by its name; never through the gate."""
    clients = {name: await KubeClient.from_kubeconfig(path) for name, path in stock.servers.members.items()}
    yield clients
    for client in clients.values():
        await client.close()


@pytest.fixture
async def walk(stock: Stock, control: KubeClient, members: dict[str, KubeClient]) -> AsyncIterator[Walk]:
    """Objects of one test, under names of their own; what it created in the control plane is removed afterwards."""
    made = Walk(control, members, f"stock-{uuid4().hex[:8]}")
    yield made
    await made.clean()
