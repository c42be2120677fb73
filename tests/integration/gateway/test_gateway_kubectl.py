"""kubectl reads bindings and works, straight from the gateway and through an API server that aggregates it."""

from __future__ import annotations

import asyncio
import base64
import shutil
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import msgspec
import pytest

from services._rules.binding_versions import converted
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.kubeconfig_files import write
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.gateway.conftest import TOKEN
from tests.integration.gateway.test_gateway_reads import tell_story

GROUP = "work.karmada.io"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture
async def front(tmp_path):
    """An API server without the kinds that the gateway serves."""
    tokens = {"t": Identity("jane", "u1", ("devs",))}
    settings = Settings(data_dir=tmp_path / "front", tokens=tokens, allow_local_extensions=("127.0.0.1",))
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def secure(start_gateway, front, tmp_path):
    """A gateway with TLS that believes the API server's front proxy."""
    authority = Authority(tmp_path / "gateway")
    authority.load()
    cert, key = authority.server(("127.0.0.1", "gateway.default.svc"))
    proxy = front.front_proxy
    proxy.load()
    gateway = await start_gateway(
        serving_cert=str(cert),
        serving_key=str(key),
        front_proxy_ca=str(proxy.ca_file),
        front_proxy_names=("front-proxy-client",),
    )
    return SimpleNamespace(gateway=gateway, ca=authority.ca_pem, url=gateway.api.url)


async def aggregate(front, secure):
    """Register the gateway and wait until the API server proxies to it."""
    front.aggregator._resolver = lambda namespace, name, port: secure.url
    for version, priority in (("v1alpha2", 20), ("v1alpha1", 10)):
        spec = {
            "group": GROUP,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": priority,
            "caBundle": base64.b64encode(secure.ca).decode(),
            "service": {"namespace": "default", "name": "gateway"},
        }
        name = f"{version}.{GROUP}"
        await front.local.create("apiregistration.k8s.io/v1", "apiservices", {"metadata": {"name": name}, "spec": spec})
        await available(front, name)


async def available(front, name):
    async with asyncio.timeout(60):
        async for _, obj in front.local.watch("apiregistration.k8s.io/v1", "apiservices"):
            conditions = (obj.get("status") or {}).get("conditions") or []
            if obj["metadata"]["name"] == name and any(c["status"] == "True" for c in conditions):
                return


async def kubectl(kubeconfig, *arguments):
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        f"--kubeconfig={kubeconfig}",
        f"--cache-dir={Path(kubeconfig).parent / 'cache'}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return SimpleNamespace(code=process.returncode, out=out.decode(), err=err.decode())


async def until_told(kubeconfig):
    """What kubectl prints once the gateway has read the whole story: one binding and two works, all of them applied."""
    async with asyncio.timeout(60):
        while True:
            printed = await kubectl(kubeconfig, "get", "rb,wk", "-A")
            if printed.out.count("True") == 4:
                return printed


def direct(secure, tmp_path):
    path = tmp_path / "gateway.kubeconfig"
    write(path, server=secure.url, name="gateway", ca=secure.ca, cert=b"", key=b"", token=TOKEN)
    return path


@pytest.fixture(params=["direct", "aggregated"])
async def kubeconfig(request, secure, front, writer, tmp_path):
    """A kubeconfig of either way to the gateway, with a story on the log."""
    await tell_story(writer)
    if request.param == "direct":
        return direct(secure, tmp_path)
    await aggregate(front, secure)
    path = tmp_path / "front.kubeconfig"
    front.write_kubeconfig(path)
    return path


@needs_kubectl
async def test_kubectl_prints_bindings_and_works(kubeconfig):
    printed = await until_told(kubeconfig)
    lines = [line.split() for line in printed.out.splitlines() if line]
    assert lines[0] == ["NAMESPACE", "NAME", "SCHEDULED", "FULLYAPPLIED", "AGE"]
    assert lines[1][:4] == ["default", "resourcebinding.work.karmada.io/nginx-deployment", "True", "True"]
    assert lines[2] == ["NAMESPACE", "NAME", "WORKLOAD-KIND", "APPLIED", "AGE"]
    assert [line[:4] for line in lines[3:]] == [
        [f"karmada-es-{name}", "work.work.karmada.io/nginx-687f7fb96f", "Deployment", "True"]
        for name in ("member1", "member2")
    ]
    shown = await kubectl(kubeconfig, "get", "rb", "nginx-deployment", "-o", "json")
    assert msgspec.json.decode(shown.out)["spec"]["resource"]["name"] == "nginx"
    described = await kubectl(kubeconfig, "describe", "rb", "nginx-deployment")
    assert "FullyAppliedSuccess" in described.out


@needs_kubectl
async def test_kubectl_waits_for_a_condition(secure, writer, tmp_path):
    await tell_story(writer)
    kubeconfig = direct(secure, tmp_path)
    # kubectl waits for a condition, but not for an object.
    await until_told(kubeconfig)
    waited = await kubectl(kubeconfig, "wait", "--for=condition=Scheduled", "rb/nginx-deployment", "--timeout=60s")
    assert "condition met" in waited.out, waited.err


@needs_kubectl
async def test_kubectl_explains_the_kinds(secure, tmp_path):
    explained = await kubectl(direct(secure, tmp_path), "explain", "resourcebindings")
    assert "projection of the log" in " ".join(explained.out.split()), explained.err


@needs_kubectl
async def test_kubectl_delete_names_the_reason(kubeconfig):
    refused = await kubectl(kubeconfig, "delete", "rb", "nginx-deployment")
    assert refused.code != 0
    assert "projections of the log" in refused.err


@needs_kubectl
async def test_kubectl_lists_the_kinds_by_their_short_names(kubeconfig):
    listed = await kubectl(kubeconfig, "api-resources", f"--api-group={GROUP}")
    rows = {line.split()[0]: line.split()[1:] for line in listed.out.splitlines()[1:]}
    assert rows["resourcebindings"] == ["rb", f"{GROUP}/v1alpha2", "true", "ResourceBinding"]
    assert rows["clusterresourcebindings"] == ["crb", f"{GROUP}/v1alpha2", "false", "ClusterResourceBinding"]
    assert rows["works"] == ["wk", f"{GROUP}/v1alpha1", "true", "Work"]


@needs_kubectl
async def test_kubectl_reads_bindings_in_the_older_version(kubeconfig):
    await until_told(kubeconfig)
    name = f"resourcebindings.v1alpha1.{GROUP}"
    listed = await kubectl(kubeconfig, "get", name, "-A")
    assert "nginx-deployment" in listed.out, listed.err
    shown = msgspec.json.decode((await kubectl(kubeconfig, "get", name, "nginx-deployment", "-o", "json")).out)
    newer = msgspec.json.decode((await kubectl(kubeconfig, "get", "rb", "nginx-deployment", "-o", "json")).out)
    assert shown["apiVersion"] == f"{GROUP}/v1alpha1"
    assert shown["metadata"] == newer["metadata"]
    assert shown == converted(newer, f"{GROUP}/v1alpha1")
    assert shown["spec"]["resource"]["replicas"] == newer["spec"]["replicas"]


async def test_identity_headers_need_the_front_proxy_certificate(secure, front, tmp_path):
    import ssl

    plain = ssl.create_default_context(cadata=secure.ca.decode())
    url = f"{secure.url}/apis/{GROUP}/v1alpha2/resourcebindings"
    claimed = {"X-Remote-User": "root"}
    proxied = front.front_proxy_context()
    proxied.load_verify_locations(cadata=secure.ca.decode())
    other = Authority(front.front_proxy.directory)
    cert, key = other.client("somebody-else", ())
    stranger = ssl.create_default_context(cadata=secure.ca.decode())
    stranger.load_cert_chain(cert, key)
    codes = []
    async with aiohttp.ClientSession() as session:
        for context, headers in ((plain, claimed), (proxied, claimed), (proxied, {}), (stranger, claimed)):
            async with session.get(url, ssl=context, headers=headers) as answer:
                codes.append(answer.status)
    assert codes == [401, 200, 401, 401]
