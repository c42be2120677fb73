"""What is said of a kubeconfig whose API server cannot be used: which file, what was tried, why, and what to do."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from services._kit.kube.api import resource_path
from services.apiserver.auth.certificate_authority import Authority
from services.cli.attachments.attachment_checks import Unusable, examine
from tests.support.kubeconfigs import kubeconfig

PATIENCE = 60.0
GROUPS = {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
SYSTEM = {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "the-uid"}}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serving = Callable[[Path], AbstractAsyncContextManager[int]]
"""A server whose certificates lie in a directory; gives its port."""
NO_API_SERVER = "what answers there is no Kubernetes API server; correct the server's address"


async def kubernetes(request: web.Request) -> web.StreamResponse:
    """Answers like an API server that knows one token."""
    if request.headers.get("Authorization") != "Bearer good":
        status = {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized", "code": 401}
        return web.json_response(status, status=401)
    if request.path == "/apis":
        return web.json_response(GROUPS)
    assert request.path == resource_path("", "v1", "namespaces", "", "kube-system")
    return web.json_response(SYSTEM)


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server with this handler for every path."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def greeting(banner: bytes) -> AsyncIterator[int]:
    """The port of a server of another protocol, which speaks first or says nothing at all."""
    ends = asyncio.Event()

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(banner)
        await ends.wait()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        ends.set()
        server.close()
        await server.wait_closed()


def authority(directory: Path) -> Authority:
    made = Authority(directory, f"authority-of-{directory.name}")
    made.load()
    return made


def tls(of: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*of.server(("127.0.0.1",)))
    return context


def written(path: Path, server: str, ca: bytes = b"", user: dict[str, Any] | None = None) -> Path:
    """A kubeconfig."""
    authorities = {"certificate-authority-data": base64.b64encode(ca).decode()} if ca else {}
    path.write_bytes(msgspec.json.encode(kubeconfig(server, user or {"token": "good"}, **authorities)))
    return path


async def said_of(path: Path, seconds: float = 10.0) -> str:
    """Why a kubeconfig cannot be used."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Unusable) as refused:
            await examine(path, seconds)
    return str(refused.value)


async def test_cluster_is_identified_by_uid_of_kube_system(tmp_path: Path) -> None:
    ours = authority(tmp_path / "ours")
    async with serving(kubernetes, tls(ours)) as port:
        ca = (tmp_path / "ours" / "ca.crt").read_bytes()
        usable = await examine(written(tmp_path / "k", f"https://127.0.0.1:{port}", ca))
    assert usable.identity == "the-uid"
    assert str(usable.source) == (
        f"kubeconfig {tmp_path / 'k'}, context ctx (server https://127.0.0.1:{port}, user me)"
    )


async def test_token_is_not_accepted(tmp_path: Path) -> None:
    async with serving(kubernetes) as port:
        said = await said_of(written(tmp_path / "k", f"http://127.0.0.1:{port}", user={"token": "bad"}))
    assert said.startswith(f"kubeconfig {tmp_path / 'k'}, context ctx (server http://127.0.0.1:{port}, user me): ")
    assert "does not accept the token (Unauthorized); give a kubeconfig with valid credentials" in said


async def test_server_certificate_of_another_authority(tmp_path: Path) -> None:
    ours = authority(tmp_path / "ours")
    authority(tmp_path / "other")
    async with serving(kubernetes, tls(ours)) as port:
        ca = (tmp_path / "other" / "ca.crt").read_bytes()
        said = await said_of(written(tmp_path / "k", f"https://127.0.0.1:{port}", ca))
        without = await said_of(written(tmp_path / "k", f"https://127.0.0.1:{port}"))
    assert "not signed by the certificate authority in the kubeconfig" in said
    assert "certificate-authority-data" in said
    assert "not signed by an authority that this machine knows" in without


async def test_server_certificate_for_another_name(tmp_path: Path) -> None:
    authority(tmp_path / "ours")
    pair = client_pair(tmp_path / "ours", timedelta(days=-1), timedelta(days=1))
    (tmp_path / "pair").write_bytes(b"".join(base64.b64decode(part) for part in pair.values()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair")
    async with serving(kubernetes, context) as port:
        ca = (tmp_path / "ours" / "ca.crt").read_bytes()
        said = await said_of(written(tmp_path / "k", f"https://127.0.0.1:{port}", ca))
    assert "the server's certificate is for another name" in said


async def test_port_without_a_server(tmp_path: Path) -> None:
    async with greeting(b"") as port:
        pass
    for scheme in ("http", "https"):
        said = await said_of(written(tmp_path / "k", f"{scheme}://127.0.0.1:{port}"))
        assert "nothing listens at this port (connection refused); start the API server, or correct the port" in said


async def test_server_name_is_not_resolved(tmp_path: Path) -> None:
    said = await said_of(written(tmp_path / "k", "https://no-such-host.invalid:6443"))
    assert "no-such-host.invalid" in said
    assert "the server's name cannot be resolved" in said or "no answer within" in said


def answering(text: str, status: int = 200) -> Serving:
    """A web server that answers every request with this text."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return lambda _: serving(answer)


async def elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("https://elsewhere.example")


OTHER_PROTOCOL = b'INFO {"server_id":"x"} \r\n'


@pytest.mark.parametrize(
    ("server", "scheme", "expected"),
    [
        (lambda _: greeting(b""), "http", "no answer within 0.5 s; is the address right, and does a firewall"),
        (lambda _: greeting(b""), "https", "no answer within 0.5 s; is the address right, and does a firewall"),
        (lambda _: greeting(OTHER_PROTOCOL), "http", "another protocol.*correct address or port"),
        (lambda _: greeting(OTHER_PROTOCOL), "https", "another protocol.*correct address or port"),
        (
            lambda _: serving(kubernetes),
            "https",
            "does not speak TLS at this port .plain http, or another protocol.; correct address or port",
        ),
        (lambda place: serving(kubernetes, tls(authority(place / "ours"))), "http", "https"),
        (
            answering("Client sent an HTTP request to an HTTPS server.\n", 400),
            "http",
            "write https:// into the server's address",
        ),
        (answering("<html>welcome</html>"), "http", NO_API_SERVER),
        (answering('{"kind": "Welcome"}'), "http", NO_API_SERVER),
        (answering("[]"), "http", NO_API_SERVER),
        (
            lambda _: serving(elsewhere),
            "http",
            "it answers that it is elsewhere, at https://elsewhere.example",
        ),
    ],
)
async def test_server_that_is_no_api_server_is_described(
    server: Serving, scheme: str, expected: str, tmp_path: Path
) -> None:
    async with server(tmp_path) as port:
        silent = expected.startswith("no answer within 0.5 s")
        said = await said_of(written(tmp_path / "k", f"{scheme}://127.0.0.1:{port}"), 0.5 if silent else 30.0)
    assert re.search(expected, said.partition("): ")[2], re.DOTALL)


def client_pair(of: Path, begins: timedelta, ends: timedelta) -> dict[str, str]:
    """User of a kubeconfig with a client certificate that is valid in this range from now on."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key((of / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate((of / "ca.crt").read_bytes())
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name=issuer.subject,
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")]),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now + begins,
        not_valid_after=now + ends,
    )
    certificate = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]  # a key of ours
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "client-certificate-data": base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode(),
        "client-key-data": base64.b64encode(private).decode(),
    }


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [(-2, -1, "the client certificate expired at 20"), (1, 2, "the client certificate is not valid before 20")],
    ids=["expired", "not yet"],
)
async def test_client_certificate_outside_its_validity(begins: int, ends: int, expected: str, tmp_path: Path) -> None:
    authority(tmp_path / "ours")
    user = client_pair(tmp_path / "ours", timedelta(days=begins), timedelta(days=ends))
    said = await said_of(written(tmp_path / "k", "https://127.0.0.1:1", user=user))
    assert expected in said


async def test_client_certificate_is_refused(tmp_path: Path) -> None:
    ours = authority(tmp_path / "ours")
    authority(tmp_path / "other")
    context = tls(ours)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(tmp_path / "ours" / "ca.crt")
    user = client_pair(tmp_path / "other", timedelta(days=-1), timedelta(days=1))
    async with serving(kubernetes, context) as port:
        ca = (tmp_path / "ours" / "ca.crt").read_bytes()
        said = await said_of(written(tmp_path / "k", f"https://127.0.0.1:{port}", ca, user))
    assert "client certificate" in said or "closes the connection" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"current-context": "other"}, "current-context 'other' leads to no context"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "'server' is missing or malformed"),
        ({"users": [{"name": "me", "user": {"client-certificate": "/none"}}]}, "/none, which it names, cannot be read"),
        ({"users": [{"name": "me", "user": {"tokenFile": "/none"}}]}, "/none, which it names, cannot be read"),
        ({"clusters": "x"}, "is no kubeconfig"),
    ],
)
async def test_incomplete_kubeconfig_is_named(change: dict[str, Any], expected: str, tmp_path: Path) -> None:
    path = written(tmp_path / "k", "https://127.0.0.1:1")
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), **change}))
    said = await said_of(path)
    assert str(path) in said
    assert expected in said
