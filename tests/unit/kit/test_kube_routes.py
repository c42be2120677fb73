"""Ways to an endpoint: through proxies of both kinds, under another name, and refused where they make no sense."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from services._kit.credentials.expiry import BadCredentials, credentials_of
from services._kit.kube.client import KubeClient, Unreachable
from services._kit.kube.route import Route, proxy_problem
from services._rules.delivery.member_address import access_of
from services.apiserver.auth.certificate_authority import Authority
from services.cli.members.member_account import MemberAccess
from tests.support.facts import cluster

NAME = "inner.example"


class Proxy:
    """A proxy that joins each connection to the one target there is, whatever was asked for."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.asked: list[str] = []
        self.refuses = False

    @asynccontextmanager
    async def serving(self, scheme: str) -> AsyncIterator[str]:
        """Serve HTTP's CONNECT or SOCKS 5; the proxy's URL."""
        handler = self._http if scheme == "http" else self._socks
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        if self.refuses:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._join(reader, writer)

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(b"\x05\x00")
        *_, kind = await reader.readexactly(4)
        host = await reader.readexactly(4 if kind == 1 else (await reader.readexactly(1))[0])
        self.asked.append(host.decode() if kind == 3 else ".".join(map(str, host)))
        await reader.readexactly(2)
        writer.write(b"\x05\x02\x00\x01" if self.refuses else b"\x05\x00\x00\x01")
        writer.write(bytes(6))
        if self.refuses:
            writer.close()
            return
        await self._join(reader, writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)


@asynccontextmanager
async def endpoint(directory: Path) -> AsyncIterator[tuple[int, str]]:
    """An endpoint whose certificate is for another name than its address; its port and its authority."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Namespace"})

    authority = Authority(directory)
    authority.load()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.server((NAME,)))
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1], authority.ca_pem.decode()
    finally:
        await runner.cleanup()


async def seen(client: KubeClient) -> str:
    """The kind that an endpoint answers with."""
    try:
        return str((await client.get("/api/v1/namespaces/kube-system"))["kind"])
    finally:
        await client.close()


async def test_certificate_is_checked_for_the_name_given(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as (port, authority):
        url = f"https://127.0.0.1:{port}"
        assert await seen(KubeClient.from_token(url, "t", ca_pem=authority, route=Route(name=NAME))) == "Namespace"
        with pytest.raises(Unreachable, match="certificate"):
            await seen(KubeClient.from_token(url, "t", ca_pem=authority, route=Route(name="other.example")))


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_members_are_reached_through_proxies(tmp_path: Path, scheme: str) -> None:
    async with endpoint(tmp_path) as (port, authority):
        proxy = Proxy(port)
        async with proxy.serving(scheme) as url:
            spec = {
                "apiEndpoint": "https://member.invalid:6443",
                "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
                "proxyURL": url,
                "proxyHeader": {"X-Tenant": "a,b"},
            }
            access = access_of(cluster("m1", **spec))
            texts = {"token": "t", "caBundle": authority, "tlsServerName": NAME}
            secret = {"data": {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}}
            for where in (spec, access.spec()):
                assert await seen(credentials_of(where, secret).open()) == "Namespace"
            assert "member.invalid" in proxy.asked[0]
            if scheme == "http":
                assert "X-Tenant: a\r\n" in proxy.asked[0]
                assert "X-Tenant: b\r\n" in proxy.asked[0]
            proxy.refuses = True
            with pytest.raises(Unreachable):
                await seen(credentials_of(spec, secret).open())


async def test_kubeconfig_leads_through_its_proxy(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as (port, authority):
        proxy = Proxy(port)
        async with proxy.serving("http") as url:
            cluster = {
                "server": "https://member.invalid:6443",
                "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                "proxy-url": url,
                "tls-server-name": NAME,
            }
            kubeconfig: dict[str, Any] = {
                "current-context": "m",
                "contexts": [{"name": "m", "context": {"cluster": "m", "user": "m"}}],
                "clusters": [{"name": "m", "cluster": cluster}],
                "users": [{"name": "m", "user": {"token": "t"}}],
            }
            assert await seen(await KubeClient.from_kubeconfig(kubeconfig)) == "Namespace"
            assert proxy.asked
            access = MemberAccess(endpoint="https://member.invalid:6443", ca_pem=authority, proxy=url, server_name=NAME)
            assert await seen(access.open_with("t")) == "Namespace"


@pytest.mark.parametrize(
    ("spec", "name", "said"),
    [
        ({"proxyURL": "ftp://user:secret@bastion"}, "", "proxyURL of the Cluster is no proxy"),
        ({"proxyURL": "http://bastion:99999"}, "", "is no URL"),
        ({"proxyURL": "http://b:1", "proxyHeader": {"X": "a\r\nY: b"}}, "", "is no header"),
        ({}, "inner.example/x", "is no host name"),
    ],
)
def test_impossible_way_is_refused_without_passwords(spec: dict[str, Any], name: str, said: str) -> None:
    where = {"apiEndpoint": "https://m", "secretRef": {"namespace": "n", "name": "m"}, **spec}
    where["insecureSkipTLSVerification"] = True
    texts = {"token": "t", **({"tlsServerName": name} if name else {})}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    with pytest.raises(BadCredentials, match=said) as refused:
        credentials_of(where, {"data": data})
    assert "secret" not in str(refused.value)


def test_password_of_a_proxy_is_in_no_text() -> None:
    route = Route("http://user:hidden@bastion:3128", (("X", "hidden"),))
    assert not proxy_problem(route.proxy)
    assert "hidden" not in repr(route)
