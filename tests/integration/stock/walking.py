"""What a user does with one Deployment in the control plane, and what can be seen of it in the members."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from tests.support.waiting import comes_to

DEPLOYMENTS = ("apps", "v1", "deployments")
CONFIG_MAPS = ("", "v1", "configmaps")
SECRETS = ("", "v1", "secrets")
EVENTS = ("", "v1", "events")
POLICIES = ("policy.karmada.io", "v1alpha1", "propagationpolicies")
CLUSTER_POLICIES = ("policy.karmada.io", "v1alpha1", "clusterpropagationpolicies")
CLUSTERS = ("cluster.karmada.io", "v1alpha1", "clusters")
DEFINITIONS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
NAMESPACES = ("", "v1", "namespaces")

Kind = tuple[str, str, str]


async def found(client: KubeClient, path: str) -> Manifest | None:
    """One object, None when there is none."""
    try:
        return await client.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def deployment(name: str, *, replicas: int = 2, image: str = "registry.example/web:1") -> Manifest:
    """A Deployment of one container."""
    container = {"name": "web", "image": image, "resources": {"limits": {"memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def weights(of: dict[str, int]) -> Manifest:
    """A placement that divides replicas by static weights."""
    table = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in of.items()]
    return {
        "clusterAffinity": {"clusterNames": list(of)},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": table},
        },
    }


class Walk:
    """Objects under one name; `first`, `second` and `third` are the members."""

    def __init__(self, control: KubeClient, members: dict[str, KubeClient], name: str) -> None:
        self.control = control
        self.members = members
        self.name = name
        self.first, self.second, self.third = members
        self._created: list[str] = []

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create an object in the control plane; it is removed with the walk."""
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        made = await self.control.create(resource_path(*kind, namespace), manifest)
        self._created.append(resource_path(*kind, namespace, metadata["name"]))
        return made

    async def policy(self, selectors: list[Manifest], placement: Manifest) -> Manifest:
        """Create a PropagationPolicy of the walk's name."""
        manifest = {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"resourceSelectors": selectors, "placement": placement},
        }
        return await self.create(POLICIES, manifest)

    async def begin(self, of: dict[str, int] | None = None, **options: Any) -> None:
        """A Deployment and its policy, running one to one in the first two members unless told otherwise."""
        shares = of or {self.first: 1, self.second: 1}
        await self.create(DEPLOYMENTS, deployment(self.name, **options))
        await self.policy([self.selector("apps/v1", "Deployment")], weights(shares))
        await comes_to("members with a copy", self.placed, sorted(shares))

    def selector(self, api_version: str, kind: str) -> Manifest:
        """What selects the walk's object of a kind."""
        return {"apiVersion": api_version, "kind": kind, "name": self.name}

    def path(self, kind: Kind = DEPLOYMENTS) -> str:
        """Path of the walk's object of a namespaced kind."""
        return resource_path(*kind, "default", self.name)

    async def copy(self, member: str, kind: Kind = DEPLOYMENTS) -> Manifest:
        """The walk's object in a member, empty when there is none."""
        return await found(self.members[member], self.path(kind)) or {}

    async def template(self) -> Manifest:
        """The walk's Deployment in the control plane."""
        return await self.control.get(self.path())

    async def change(self, patch: Manifest, kind: Kind = DEPLOYMENTS) -> Manifest:
        """Merge something into the walk's object in the control plane."""
        return await self.control.patch(self.path(kind), patch)

    async def replicas(self) -> dict[str, int]:
        """Replicas of the copies by member."""
        copies = {name: await self.copy(name) for name in self.members}
        return {name: copy["spec"]["replicas"] for name, copy in copies.items() if copy}

    async def placed(self) -> list[str]:
        """Members that hold a copy of the Deployment."""
        return sorted(await self.replicas())

    async def remove(self, path: str) -> None:
        """Delete an object of the control plane; one that is gone is fine."""
        try:
            await self.control.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise

    async def clean(self) -> None:
        """Remove what was created, and wait until the members hold no copy of the Deployment."""
        for path in reversed(self._created):
            await self.remove(path)
        await comes_to("members with a copy after the walk", self.placed, [])
