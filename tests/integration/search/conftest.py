"""A control plane with ResourceRegistries, members in memory, and search over them."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from schemas.events.cluster import ClusterChanged
from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.search.app import Search
from services.search.settings import SearchSettings
from tests.support.facts import cluster
from tests.support.memory_installation import MemoryInstallation
from tests.support.serving import api_server
from tests.support.waiting import eventually

REGISTRIES = resource_path("search.karmada.io", "v1alpha1", "resourceregistries")
CACHE = "/apis/search.karmada.io/v1alpha1/search/cache"
TOKEN = "s3cret"
MEMBER_TOKEN = "member"
ADMIN = Identity("admin", "admin", ("system:masters",))
SERVED = [
    {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
    {
        "groupVersion": "v1",
        "resources": [
            {"name": "configmaps", "kind": "ConfigMap"},
            {"name": "namespaces", "kind": "Namespace"},
            {"name": "pods", "kind": "Pod"},
        ],
    },
]


def registry(name: str, *kinds: tuple[str, str], clusters: tuple[str, ...] = (), **spec: Any) -> Manifest:
    """A ResourceRegistry for kinds of clusters, all where none is named."""
    return {
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": {"name": name},
        "spec": {
            "targetCluster": {"clusterNames": list(clusters)} if clusters else {},
            "resourceSelectors": [{"apiVersion": version, "kind": kind} for version, kind in kinds],
            **spec,
        },
    }


class Member:
    """An API server that can be stopped and started again with what it holds."""

    def __init__(self, name: str, directory: Path, user: Identity) -> None:
        self.name = name
        self.user = user
        self.store = MemoryStore()
        self.port = 0
        self._directory = directory
        self.server: ApiServer | None = None

    async def start(self) -> None:
        """Serve what was there before."""
        settings = Settings(
            data_dir=self._directory,
            tokens={MEMBER_TOKEN: self.user},
            tls=False,
            controllers=False,
            authorization="AlwaysAllow" if self.user == ADMIN else "RBAC",
        )
        self.server = ApiServer(self.store, builtin_registry(), settings)
        await self.server.start(port=self.port)
        self.port = self.server.port

    async def stop(self) -> None:
        """Answer no more."""
        server, self.server = self.server, None
        if server is not None:
            await server.stop()

    @property
    def url(self) -> str:
        """Where it listens, also while it does not."""
        return f"http://127.0.0.1:{self.port}"


class Ground:
    """Everything, with short ways to write and to ask."""

    def __init__(self, stack: AsyncExitStack, directory: Path, control: KubeClient, kubeconfig: Path) -> None:
        self.installation = MemoryInstallation()
        self.control = control
        self.members: dict[str, Member] = {}
        self.clients: dict[str, KubeClient] = {}
        self.search: Search
        self.http: aiohttp.ClientSession
        self._stack = stack
        self._directory = directory
        self.kubeconfig = kubeconfig

    async def begin(self, **settings: Any) -> None:
        """Run search."""
        tokens = self._directory / "tokens"
        tokens.write_text(f'{TOKEN},alice,1,"admins"\n')
        made = SearchSettings(control_kubeconfig=str(self.kubeconfig), token_file=str(tokens), **settings)
        self.search = Search(made)
        await self._stack.enter_async_context(self.installation.running(self.search))
        self.http = await self._stack.enter_async_context(aiohttp.ClientSession())

    async def join(self, name: str, url: str = "", user: Identity = ADMIN, **changes: Any) -> Member:
        """A member with its Secret and its fact, where search is a user; another endpoint may answer in its place."""
        directory = self._directory / name
        directory.mkdir()
        member = self.members[name] = Member(name, directory, user)
        await member.start()
        self._stack.push_async_callback(member.stop)
        client = self.clients[name] = KubeClient.from_token(member.url, MEMBER_TOKEN)
        self._stack.push_async_callback(client.close)
        token = base64.b64encode(MEMBER_TOKEN.encode()).decode()
        secret = {"metadata": {"name": name}, "data": {"token": token}}
        await self.control.create(resource_path("", "v1", "secrets", "karmada-cluster"), secret)
        await self.tell(name, url=url, **changes)
        return member

    async def tell(self, name: str, *, url: str = "", ready: bool = True, labels: dict[str, str] | None = None) -> None:
        """Append the fact about a member as it is now."""
        endpoint = url or self.members[name].url
        secret = {"namespace": "karmada-cluster", "name": name}
        fact = cluster(name, labels=labels, apiEndpoint=endpoint, secretRef=secret)
        manifest = msgspec.json.decode(fact.manifest)
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        manifest["status"] = {"apiEnablements": SERVED, "conditions": [condition]}
        changed: ClusterChanged = replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))
        await self.installation.given(changed)

    async def get(self, path: str, status: int = 200, **params: str) -> Any:
        """What search answers at a path."""
        assert self.search.api is not None
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self.http.get(self.search.api.url + path, params=params, headers=headers) as answer:
            body = await answer.json(content_type=None)
            assert answer.status == status, body
            return body

    async def places(self, resource: str, **params: str) -> list[tuple[str, str]]:
        """Member and name of each object that the cache shows."""
        body = await self.get(f"{CACHE}/{resource}", **params)
        return [(origin(item), item["metadata"]["name"]) for item in body["items"]]

    async def shows(self, resource: str, expected: list[tuple[str, str]], **params: str) -> None:
        """Wait until the cache shows exactly these objects."""

        async def look() -> bool:
            return await self.places(resource, **params) == expected

        await eventually(look, f"{resource} show {expected}")


def origin(item: Manifest) -> str:
    """The member that an item of the cache is from."""
    return str(item["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"])


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """A control plane without members; search is not started yet."""
    async with AsyncExitStack() as stack:
        directory = tmp_path / "control"
        directory.mkdir()
        control, _, kubeconfig = await api_server(stack, directory, builtin_registry(), "root")
        await apply_definitions(control, needed_definitions())
        await control.create(resource_path("", "v1", "namespaces"), {"metadata": {"name": "karmada-cluster"}})
        yield Ground(stack, tmp_path, control, kubeconfig)
