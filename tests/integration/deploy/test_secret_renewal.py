"""The job that renews certificates, against an API server that decides by roles, with its ServiceAccount's token."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from cryptography import x509

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.hosting.rolling_out import path_of
from services.cli.installation.certificate_files import NAMESPACE, make
from services.cli.renewal.host_cluster import of_pod
from services.cli.renewal.secret_renewal import SECRETS
from tests.support.aged_certificates import aged, belong_together
from tests.support.commands import run_command

ROOT = Path(__file__).parents[3]
OBJECTS = [each for each in yaml.safe_load_all((ROOT / "k8s/base/certificate-renewal.yaml").read_text()) if each]
POD = next(one for one in OBJECTS if one["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
PLACE = f"/api/v1/namespaces/{NAMESPACE}/secrets"


class Cluster:
    """A cluster with what k8s/base has for the renewal, and Secrets of an installation."""

    def __init__(self, directory: Path, client: KubeClient) -> None:
        self.directory = directory
        self.client = client
        self.files = directory / "deploy"
        make(self.files, lifetime=dt.timedelta(days=90))
        self.authority = Authority(self.files / "authority")
        self.other = Authority(directory / "other")
        self.other.load()
        self.kubeconfig = directory / "pod.kubeconfig"

    async def prepare(self, server: str) -> None:
        """Write namespace, account and rights; take a token as a kubelet does."""
        await self.client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        for item in OBJECTS:
            place = path_of(item["kind"], item["apiVersion"], NAMESPACE)
            await self.client.request("POST", place, body=item)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{POD['serviceAccountName']}/token"
        answer = await self.client.request("POST", account, body={"spec": {"expirationSeconds": 3600}})
        mounted = self.directory / "serviceaccount"
        mounted.mkdir()
        (mounted / "token").write_text(msgspec.json.decode(answer)["status"]["token"])
        (mounted / "ca.crt").write_bytes((self.directory / "data/ca.crt").read_bytes())
        host, _, port = server.removeprefix("https://").rpartition(":")
        found = of_pod({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, mounted)
        self.kubeconfig.write_bytes(msgspec.json.encode(found))
        self._mount()

    def _mount(self) -> None:
        """The authority as the volume of the pod has it."""
        keys = {
            "ca.crt": "ca.crt",
            "ca.key": "ca.key",
            "front-proxy-ca.crt": "front-proxy/ca.crt",
            "front-proxy-ca.key": "front-proxy/ca.key",
        }
        (volume,) = (one["secret"] for one in POD["volumes"] if "secret" in one)
        for item in volume["items"]:
            path = self.directory / "run/authority" / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((self.files / "authority" / keys[item["key"]]).read_bytes())

    async def run(self) -> subprocess.CompletedProcess[str]:
        """The job, once."""
        (container,) = POD["containers"]
        program, *arguments = [*container["command"], *container["args"]]
        assert program == "fleetlog"
        (mount,) = (one for one in container["volumeMounts"] if one["name"] == "authority")
        place = mount["mountPath"].removesuffix("/authority")
        line = [
            one.replace("$(POD_NAMESPACE)", NAMESPACE).replace(f"={place}", f"={self.directory / 'run'}")
            for one in arguments
        ]
        return await asyncio.to_thread(run_command, "fleetlog", *line, "--kubeconfig", str(self.kubeconfig))

    async def write(self, name: str, data: dict[str, bytes]) -> None:
        """Make a Secret."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        await self.client.request("POST", PLACE, body={"metadata": {"name": name}, "data": encoded})

    async def secret(self, name: str) -> Manifest:
        """A Secret as it is."""
        return await self.client.get(f"{PLACE}/{name}")

    async def data(self, name: str) -> dict[str, bytes]:
        """Its contents."""
        return {key: base64.b64decode(value) for key, value in (await self.secret(name))["data"].items()}

    def pair(self, name: str, authority: Authority | None = None, *, left: float) -> tuple[bytes, bytes]:
        """The certificate of a server with so many of 90 days left, by another authority if one is given."""
        pem = (self.files / "tls" / f"{name}.crt").read_bytes()
        return aged(authority or self.authority, pem, days=90 - left, left=left)

    def kubeconfig_of(self, service: str, *, left: float) -> bytes:
        """Of a service, with so many of 90 days left."""
        document = msgspec.json.decode((self.files / "kubeconfigs" / service).read_bytes())
        user = document["users"][0]["user"]
        pem, key = aged(self.authority, base64.b64decode(user["client-certificate-data"]), days=90 - left, left=left)
        user["client-certificate-data"] = base64.b64encode(pem).decode()
        user["client-key-data"] = base64.b64encode(key).decode()
        return msgspec.json.encode(document)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    admin = tmp_path / "admin.kubeconfig"
    settings = Settings(data_dir=tmp_path / "data", kubeconfig=admin, authorization="Node,RBAC")
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    client = await KubeClient.from_kubeconfig(admin)
    try:
        made = Cluster(tmp_path, client)
        await made.prepare(client.server)
        yield made
    finally:
        await client.close()
        await server.stop()


def ends(pem: bytes) -> float:
    """Days from now."""
    left = x509.load_pem_x509_certificate(pem).not_valid_after_utc - dt.datetime.now(dt.UTC)
    return left / dt.timedelta(days=1)


def under(prefix: str, pair: tuple[bytes, bytes]) -> dict[str, bytes]:
    return {f"{prefix}.crt": pair[0], f"{prefix}.key": pair[1]}


async def test_what_ends_is_renewed_and_all_else_is_left_alone(cluster: Cluster) -> None:
    await cluster.write("fleetlog-gateway", {**under("tls", cluster.pair("gateway", left=10)), "tokens": b"t,a,a\n"})
    await cluster.write("fleetlog-search", under("tls", cluster.pair("search", left=70)))
    await cluster.write("fleetlog-webhook", under("tls", cluster.pair("webhook", cluster.other, left=10)))
    await cluster.write("fleetlog-etcd", under("etcd", cluster.pair("etcd", cluster.other, left=70)))
    await cluster.write("fleetlog-control-detector", {"kubeconfig": cluster.kubeconfig_of("detector", left=10)})
    names = ("gateway", "search", "webhook", "etcd", "control-detector")
    before = {name: await cluster.secret(f"fleetlog-{name}") for name in names}

    done = await cluster.run()

    assert done.returncode == 1, "a certificate that ends is still there"
    assert "error: Secret fleetlog-webhook: tls.crt ends at" in done.stderr
    assert done.stderr.count("error:") == 1
    assert "fleetlog-nats-tls: is not there" in done.stdout
    assert "fleetlog-etcd: good until" in done.stdout
    after = {name: await cluster.secret(f"fleetlog-{name}") for name in names}
    assert {name for name in names if before[name] != after[name]} == {"gateway", "control-detector"}
    gateway = await cluster.data("fleetlog-gateway")
    assert gateway["tokens"] == b"t,a,a\n"
    assert 88 < ends(gateway["tls.crt"]) < 91
    assert belong_together(gateway["tls.crt"], gateway["tls.key"])
    document = msgspec.json.decode((await cluster.data("fleetlog-control-detector"))["kubeconfig"])
    assert document["clusters"][0]["cluster"]["server"] == "https://kube-apiserver:6443"
    assert 88 < ends(base64.b64decode(document["users"][0]["user"]["client-certificate-data"])) < 91

    await cluster.client.request("DELETE", f"{PLACE}/fleetlog-webhook")
    again = await cluster.run()
    assert again.returncode == 0, again.stderr
    assert {name: await cluster.secret(f"fleetlog-{name}") for name in names if name != "webhook"} == {
        name: one for name, one in after.items() if name != "webhook"
    }


async def test_the_control_planes_own_pairs_are_renewed_but_its_signer(cluster: Cluster) -> None:
    proxy = Authority(cluster.files / "authority/front-proxy", "fleetlog-front-proxy-ca")
    data = {**under("kube-apiserver", cluster.pair("kube-apiserver", left=5))}
    data |= under("front-proxy", cluster.pair("front-proxy", proxy, left=5))
    data |= under("service-accounts", cluster.pair("service-accounts", left=5))
    await cluster.write("fleetlog-kube-apiserver", data)
    done = await cluster.run()
    assert done.returncode == 0, done.stderr
    after = await cluster.data("fleetlog-kube-apiserver")
    changed = {name for name in data if data[name] != after[name]}
    assert changed == {f"{name}.{end}" for name in ("kube-apiserver", "front-proxy") for end in ("crt", "key")}
    assert proxy.signed(after["front-proxy.crt"])
    assert not cluster.authority.signed(after["front-proxy.crt"])


async def test_two_runs_at_once_leave_pairs_that_belong_together(cluster: Cluster) -> None:
    names = ("nats", "gateway", "search", "webhook")
    secrets = {name: "fleetlog-nats-tls" if name == "nats" else f"fleetlog-{name}" for name in names}
    for name, secret in secrets.items():
        await cluster.write(secret, under("tls", cluster.pair(name, left=5)))
    # What forks programs is started by one alone.
    await asyncio.to_thread(run_command, "fleetlog", "--version")
    for done in await asyncio.gather(*(cluster.run() for _ in range(3))):
        assert done.returncode == 0, done.stderr
    for secret in secrets.values():
        data = await cluster.data(secret)
        assert belong_together(data["tls.crt"], data["tls.key"])
        assert ends(data["tls.crt"]) > 80


def forbidden() -> Iterator[tuple[str, str, Manifest | None]]:
    """Requests that the job has no business with."""
    for name in ("fleetlog-authority", "fleetlog-log", "fleetlog-secrets-keys", "fleetlog-nats-accounts"):
        yield "GET", f"{PLACE}/{name}", None
        yield "PUT", f"{PLACE}/{name}", {"metadata": {"name": name}}
    yield "GET", PLACE, None
    yield "POST", PLACE, {"metadata": {"name": "fleetlog-gateway"}}
    for name in SECRETS:
        yield "DELETE", f"{PLACE}/{name}", None
    yield "GET", f"/api/v1/namespaces/default/secrets/{SECRETS[0]}", None
    yield "GET", f"/api/v1/namespaces/{NAMESPACE}/pods", None
    yield "GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps", None


async def test_its_account_reads_and_writes_nothing_else(cluster: Cluster) -> None:
    client = await KubeClient.from_kubeconfig(cluster.kubeconfig)
    try:
        for name in SECRETS:
            with pytest.raises(ApiError) as caught:
                await client.get(f"{PLACE}/{name}")
            assert caught.value.status == 404, "it may, and there is none"
        for method, path, body in forbidden():
            with pytest.raises(ApiError) as caught:
                await client.request(method, path, body=body)
            assert caught.value.status == 403, (method, path)
    finally:
        await client.close()


async def test_a_job_that_may_not_write_says_so_for_each(cluster: Cluster) -> None:
    for name in ("gateway", "search"):
        await cluster.write(f"fleetlog-{name}", under("tls", cluster.pair(name, left=5)))
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/certificate-renewal"
    await cluster.client.patch(role, {"rules": [{**OBJECTS[1]["rules"][0], "verbs": ["get"]}]})
    done = await cluster.run()
    assert done.returncode == 1
    for name in ("gateway", "search"):
        assert f"error: Secret fleetlog-{name}: " in done.stderr
        assert ends((await cluster.data(f"fleetlog-{name}"))["tls.crt"]) < 6
