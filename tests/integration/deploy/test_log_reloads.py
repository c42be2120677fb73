"""A server of the log with the configuration of k8s/base reads its mounted files again when they changed, by itself."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
import yaml
from cryptography import x509
from nats.aio.msg import Msg

from services._kit.base.settings import Settings, access_options, credentials
from services._kit.log.connection import Connection
from services._rules.identity.accounts import HUB_USER
from services.apiserver.auth.certificate_authority import Authority
from services.cli.installation import certificate_files
from services.cli.members.reached_addresses import ReachedAddresses
from tests.natsserver import find_binary, wait_until_listening
from tests.support.ending import ends_with_us
from tests.support.mounted_files import Mounted
from tests.support.ports import Reserved
from tests.support.waiting import end_of, eventually

pytestmark = pytest.mark.skipif(find_binary() is None, reason="needs the nats-server binary")

ROOT = Path(__file__).parents[3]
WORKLOADS = [each for each in yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text()) if each]
CONTAINERS = next(each for each in WORKLOADS if each["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"]
HANGUP = 'Trapped "hangup" signal'
HOUR = 3600.0


class Pod:
    """The server and what has it reload, with the commands of the manifest and files as a kubelet mounts them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = directory / "deploy"
        certificate_files.make(self.files)
        self._reserved = Reserved(), Reserved(), Reserved()
        self.port, self.routes, self.monitor = (each.number for each in self._reserved)
        self.config = Mounted(
            directory / "config", {"nats.conf": self._config().encode(), "accounts.conf": self.accounts()}
        )
        self.tls = Mounted(directory / "tls", self.pair() | {"ca.crt": (self.files / "ca.crt").read_bytes()})
        self.state = directory / "run"
        self.state.mkdir()
        # Volumes are there before the containers.
        self.config.age(HOUR)
        self.tls.age(HOUR)
        self.server: subprocess.Popen[bytes] | None = None
        self.reloader: subprocess.Popen[bytes] | None = None

    def _config(self) -> str:
        text: str = next(each for each in WORKLOADS if each["kind"] == "ConfigMap")["data"]["nats.conf"]
        ports = {"0.0.0.0:4222": self.port, "0.0.0.0:6222": self.routes, "127.0.0.1:8222": self.monitor}
        for usual, port in ports.items():
            assert usual in text
            text = text.replace(usual, f"127.0.0.1:{port}")
        text = text.replace('"/tls/', f'"{self.directory}/tls/').replace('"/data"', f'"{self.directory}/data"')
        # The two other servers are not there.
        return re.sub(r"nats://nats-\d\.nats\S+:6222", "nats://127.0.0.1:1", text)

    def _command(self, container: int) -> list[str]:
        one = CONTAINERS[container]
        places = {"/etc/nats": "config", "/tls": "tls", "/run/nats": "run"}
        line = " ".join([*one["command"], *one.get("args", ())])
        for place, name in places.items():
            line = re.sub(rf"(?<= ){place}(?=[ /]|$)", str(self.directory / name), line)
        return line.split(" ")

    def accounts(self) -> bytes:
        """As `fleetlog certs` has written them."""
        return (self.files / "nats/accounts.conf").read_bytes()

    def pair(self) -> dict[str, bytes]:
        """The certificate and key of the servers, as `fleetlog certs` has written them."""
        return {f"tls.{end}": (self.files / f"tls/nats.{end}").read_bytes() for end in ("crt", "key")}

    def renewed(self) -> dict[str, bytes]:
        """Another pair for the same names."""
        return dict(zip(("tls.crt", "tls.key"), self.authority().renew(self.pair()["tls.crt"]), strict=True))

    def authority(self) -> Authority:
        """That of the installation."""
        found = Authority(self.files / "authority")
        found.load()
        return found

    def start_server(self) -> None:
        """Start it; its output is kept."""
        program, *arguments = self._command(0)
        assert program == "nats-server"
        with (self.directory / "server.log").open("ab") as out:
            self.server = subprocess.Popen(
                [str(find_binary()), *arguments], stdout=out, stderr=out, env={**os.environ, "POD_NAME": "nats-0"}
            )
        ends_with_us(self.server)
        wait_until_listening(self.port, end_of(self.server, self.directory / "server.log"))

    def start_reloader(self) -> None:
        """Start it, looking often."""
        program, *arguments = self._command(1)
        assert program == "fleetlog"
        more = ["--monitor", f"http://127.0.0.1:{self.monitor}", "--every", "0.1"]
        with (self.directory / "reloader.log").open("ab") as out:
            self.reloader = subprocess.Popen(
                [sys.executable, "-c", "from services.cli.fleetlog import main; main()", *arguments, *more],
                stdout=out,
                stderr=out,
            )

    def signals(self) -> int:
        """How often the server was told to reload."""
        return (self.directory / "server.log").read_text().count(HANGUP)

    def said(self) -> str:
        """What the one beside the server printed."""
        return (self.directory / "reloader.log").read_text()

    def read(self) -> int:
        """How often it said that the server read changed files."""
        return self.said().count("files changed;")

    @property
    def refused(self) -> bool:
        """Whether the pod says so."""
        return (self.state / "refused").exists()

    async def looked(self) -> None:
        """Wait for two looks that began after this call."""
        path = self.state / "looked"
        for _ in range(3):
            before = path.stat().st_mtime_ns if path.exists() else 0
            await eventually(lambda was=before: path.exists() and path.stat().st_mtime_ns != was, "a look")

    def certificate(self, port: int) -> int:
        """Serial of the certificate that is served to clients or to other servers."""
        context = ssl.create_default_context(cafile=self.files / "ca.crt")
        context.load_cert_chain(self.files / "tls/nats.crt", self.files / "tls/nats.key")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            # Clients are greeted first; servers begin with TLS.
            if port == self.port:
                assert plain.recv(1 << 16).startswith(b"INFO")
            with context.wrap_socket(plain, server_hostname="nats.fleetlog-system.svc") as channel:
                raw = channel.getpeercert(binary_form=True)
        assert raw is not None
        return x509.load_der_x509_certificate(raw).serial_number

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncIterator[nats.NATS]:
        """A client that gives up at once when it is refused."""
        context = ssl.create_default_context(cafile=self.files / "ca.crt")

        async def ignore(_: Exception) -> None:
            pass

        client = await nats.connect(
            f"tls://127.0.0.1:{self.port}", tls=context, allow_reconnect=False, error_cb=ignore, **options
        )
        try:
            yield client
        finally:
            await client.close()

    def hub(self) -> dict[str, str]:
        """The hub's login."""
        return {"user": HUB_USER, "password": (self.files / "hub.password").read_text()}

    def service(self, name: str) -> dict[str, str]:
        """A service's login."""
        return {"user": name, "password": (self.files / "passwords" / name).read_text()}

    async def admits(self, login: dict[str, str]) -> bool:
        """Whether somebody may connect."""
        try:
            async with self.connected(**login):
                return True
        except (nats.errors.Error, OSError):
            return False

    def end(self) -> None:
        """Kill what runs."""
        if self.reloader is not None:
            self.reloader.kill()
            self.reloader.wait(60)
        self.kill_server()

    def kill_server(self) -> None:
        """As a crash does."""
        if self.server is not None:
            self.server.kill()
            self.server.wait(60)


@pytest.fixture
async def pod(tmp_path: Path) -> AsyncIterator[Pod]:
    made = Pod(tmp_path)
    try:
        made.start_server()
        made.start_reloader()
        await made.looked()
        yield made
    finally:
        made.end()


async def test_an_agent_that_was_added_comes_through(pod: Pod) -> None:
    certificate_files.write(pod.files, ReachedAddresses(), ["m9"], ())
    seed = Settings(nats_nkey_file=str(pod.files / "agents/m9/nkey.seed"))
    agent = credentials(seed)
    assert not await pod.admits(agent)
    pod.config.write({"accounts.conf": pod.accounts()})
    await eventually(pod.read, "the new accounts are read")

    async def welcome(message: Msg) -> None:
        await message.respond(b"welcome")

    # The import of a new account answers after the second reload only.
    async with pod.connected(**pod.hub()) as hub, pod.connected(**agent) as client:
        await hub.subscribe("hello.m9", cb=welcome)
        # Not the client's flush, whose PING overtakes what waits to be written.
        assert (await hub.request("hello.m9", b"", timeout=30)).data == b"welcome"
        assert (await client.request("hello.m9", b"", timeout=30)).data == b"welcome"
    assert pod.signals() == 2


async def test_a_replaced_password_counts_and_the_former_does_not(pod: Pod) -> None:
    before = pod.service("scheduler")
    certificate_files.write(pod.files, ReachedAddresses(), (), (), ["scheduler"])
    assert await pod.admits(before)
    assert not await pod.admits(pod.service("scheduler"))
    pod.config.write({"accounts.conf": pod.accounts()})
    await eventually(pod.read, "the new accounts are read")
    assert await pod.admits(pod.service("scheduler"))
    assert not await pod.admits(before)


@pytest.mark.parametrize("order", ["service first", "server first"])
async def test_a_service_stays_when_its_password_is_replaced(pod: Pod, order: str) -> None:
    own = Mounted(pod.directory / "log", {"password": pod.service("scheduler")["password"].encode()})
    settings = Settings(
        nats_user="scheduler",
        nats_password_file=str(pod.directory / "log/password"),
        nats_inbox_prefix="_INBOX_scheduler",
        tls_ca=str(pod.files / "ca.crt"),
    )
    problems: list[str] = []
    connection = await Connection.open(
        f"tls://127.0.0.1:{pod.port}", on_error=lambda error: problems.append(str(error)), **access_options(settings)
    )
    try:
        certificate_files.write(pod.files, ReachedAddresses(), (), (), ["scheduler"])
        steps = [
            lambda: own.write({"password": pod.service("scheduler")["password"].encode()}),
            lambda: pod.config.write({"accounts.conf": pod.accounts()}),
        ]
        for step in steps if order == "service first" else reversed(steps):
            step()
            # In the second order the server refuses it until its file is there as well.
            await eventually(lambda: order == "service first" or "Violation" in str(problems), "a refusal")
        await eventually(
            lambda: connection.generation and connection.is_connected, "a connection with the new password"
        )
        assert await connection.flushed(30)
        assert not connection.closed.is_set()
    finally:
        await connection.close()


async def test_a_renewed_certificate_is_served_to_clients_and_servers(pod: Pod) -> None:
    pair = pod.renewed()
    wanted = x509.load_pem_x509_certificate(pair["tls.crt"]).serial_number
    assert pod.certificate(pod.port) == pod.certificate(pod.routes) != wanted
    async with pod.connected(**pod.hub()) as client:
        pod.tls.write(pair)
        await eventually(pod.read, "the new certificate is read")
        assert [pod.certificate(port) for port in (pod.port, pod.routes)] == [wanted, wanted]
        # Who was connected stays so.
        await client.flush()


@pytest.mark.parametrize(
    "broken",
    [
        lambda pod: pod.config.write({"accounts.conf": pod.accounts()[: len(pod.accounts()) // 2]}),
        lambda pod: pod.config.write({"accounts.conf": b"accounts { HUB: { users: 7 } }"}),
        lambda pod: pod.tls.write({"tls.key": pod.renewed()["tls.key"]}),
        lambda pod: pod.tls.write({"tls.crt": b"-----BEGIN CERTIFICATE-----\n"}),
    ],
    ids=["half written", "without sense", "another key", "no certificate"],
)
async def test_files_that_are_refused_change_nothing_and_are_reported(pod: Pod, broken: Callable[[Pod], None]) -> None:
    served = pod.certificate(pod.port)
    broken(pod)
    await eventually(lambda: pod.refused, "a report")
    assert "error: nats-server" in pod.said()
    assert "its own log says why" in (pod.state / "refused").read_text()
    assert "Failed to reload server configuration" in (pod.directory / "server.log").read_text()
    await pod.looked()
    assert pod.signals() == 1, "it is not tried with every look"
    assert await pod.admits(pod.hub())
    assert pod.certificate(pod.port) == served
    pod.config.write({"accounts.conf": pod.accounts()})
    pod.tls.write(pod.pair())
    await eventually(lambda: not pod.refused, "the report is taken back")
    assert await pod.admits(pod.hub())


async def test_nothing_is_signalled_while_nothing_changes(pod: Pod) -> None:
    await pod.looked()
    # The same files once more, as after a Secret got a label.
    pod.config.write({})
    pod.tls.write({})
    await pod.looked()
    pod.kill_server()
    pod.start_server()
    await pod.looked()
    assert pod.signals() == 0
    assert not pod.refused


async def test_what_changed_while_nobody_looked_is_read(pod: Pod) -> None:
    assert pod.reloader is not None
    pod.reloader.terminate()
    assert pod.reloader.wait(60) == 0
    certificate_files.write(pod.files, ReachedAddresses(), (), (), ["scheduler"])
    pod.config.write({"accounts.conf": pod.accounts()})
    pod.start_reloader()
    await eventually(pod.read, "the new accounts are read")
    assert await pod.admits(pod.service("scheduler"))


async def test_a_server_that_starts_later_is_waited_for(pod: Pod) -> None:
    pod.kill_server()
    certificate_files.write(pod.files, ReachedAddresses(), (), (), ["scheduler"])
    pod.config.write({"accounts.conf": pod.accounts()})
    await pod.looked()
    pod.config.age(HOUR)
    pod.start_server()
    await pod.looked()
    assert (pod.signals(), pod.refused) == (0, False), "it read the new files when it started"
    assert await pod.admits(pod.service("scheduler"))


async def test_a_process_with_the_number_of_a_dead_one_is_spared(pod: Pod) -> None:
    # Another server answers in its place, and the file with the number is an old one.
    bystander = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        (pod.state / "nats.pid").write_text(str(bystander.pid))
        pod.tls.write(pod.renewed())
        await pod.looked()
        assert bystander.returncode is None
        assert pod.signals() == 0
    finally:
        bystander.kill()
        await bystander.wait()


async def test_it_ends_when_it_is_asked_to(pod: Pod) -> None:
    assert pod.reloader is not None
    assert pod.server is not None
    pod.reloader.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(pod.reloader.wait, 60) == 0
    assert pod.server.poll() is None
    assert pod.signals() == 0
