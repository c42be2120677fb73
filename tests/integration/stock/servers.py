"""The API servers of these tests: given ones, or embedded ones that answer as 1.20 does and run no controllers."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from tests.faults.proxy import Proxy
from tests.support.ending import ends_with_us

CONTROL = "FLEETLOG_STOCK_CONTROL"
MEMBERS = "FLEETLOG_STOCK_MEMBERS"
START_SECONDS = 120.0


class Servers(Struct, frozen=True):
    """Kubeconfigs of a control plane and of its members, by name."""

    control: Path
    members: dict[str, Path]


@contextmanager
def servers(directory: Path) -> Iterator[Servers]:
    """The servers that FLEETLOG_STOCK_CONTROL and FLEETLOG_STOCK_MEMBERS name; without them embedded ones."""
    control = os.environ.get(CONTROL, "")
    if control:
        pairs = [item.partition("=") for item in os.environ.get(MEMBERS, "").split(",") if item]
        assert len(pairs) >= 3, f"{MEMBERS}: use name=kubeconfig,… with three members, the first three are used"
        yield Servers(Path(control), {name: Path(path) for name, _, path in pairs[:3]})
        return
    with ExitStack() as stack:
        # As a stock kube-apiserver, none of them knows Karmada's kinds by itself.
        started = {
            name: stack.enter_context(_embedded(directory / name)) for name in ("control", "one", "two", "three")
        }
        yield Servers(started.pop("control"), started)


@contextmanager
def _embedded(directory: Path) -> Iterator[Path]:
    """An API server with objects in memory, no namespace lifecycle and no garbage collection; its kubeconfig."""
    directory.mkdir(parents=True)
    kubeconfig = directory / "kubeconfig"
    settings = {
        "VERSION": "v1.36.2",
        "ALLOW_LOCAL_EXTENSIONS": "1",
        "CONTROLLERS": "0",
        "ADMISSION": "0",
        "ADMIN_TOKEN": f"token-of-{directory.name}",
        "DATA_DIR": str(directory / "data"),
        "PORT": "0",
        "KUBECONFIG": str(kubeconfig),
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")}
    environment.update((f"FLEETLOG_APISERVER_{name}", value) for name, value in settings.items())
    with (directory / "log").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.apiserver"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    ends_with_us(process)
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if ready else b""
        assert line.startswith(b"ready"), (directory / "log").read_text()
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


class Gate:
    """A way to a server on this machine that can be shut: connections break and new ones are refused."""

    def __init__(self, proxy: Proxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop
        self.port = urlsplit(proxy.url).port

    def shut(self) -> None:
        """From now on the server is away."""
        self._proxy.accept = False
        self._loop.call_soon_threadsafe(self._proxy.cut)

    def open(self) -> None:
        """From now on the server is back."""
        self._proxy.accept = True

    @property
    def sent(self) -> int:
        """Bytes that clients have sent since `hold_after`, or since the start."""
        return self._proxy.sent

    def hold_after(self, sent: float) -> None:
        """Break all connections and let new ones pass, until clients have sent so many bytes."""
        self._loop.call_soon_threadsafe(self._proxy.cut)
        self._proxy.sent, self._proxy.hold_after = 0, sent
        self._loop.call_soon_threadsafe(self._proxy.release)


@contextmanager
def gate(port: int) -> Iterator[Gate]:
    """A gate in front of a port of this machine, kept by a thread of its own."""
    loop = asyncio.new_event_loop()
    proxy = Proxy(port)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(60)
        yield Gate(proxy, loop)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def port_of(kubeconfig: Path) -> int:
    """Port of the server of a kubeconfig; 0 when it is not on this machine's loopback address."""
    server = urlsplit(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    return server.port or 0 if server.hostname in ("127.0.0.1", "localhost") else 0


def through(kubeconfig: Path, port: int, target: Path) -> Path:
    """A copy of a kubeconfig that goes to another port."""
    content = yaml.safe_load(kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    cluster["server"] = f"{server.scheme}://{server.hostname}:{port}"
    target.write_text(yaml.safe_dump(content))
    return target
