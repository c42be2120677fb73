"""The load of a fault round: Deployments created, scaled, rolled and deleted at once through the API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from tests.e2e.space import clusters, propagation, weighed

MEMBERS = ("member1", "member2", "member3")
MIRROR = "mirror.example"
_TRIES = 800
_PAUSE = 0.1
_TRANSIENT = frozenset({429, 500, 502, 503, 504})


class Wanted(Struct):
    """What a Deployment shall be in the end; zero replicas: it was deleted."""

    shape: str
    replicas: int
    image: str


class Step(Struct, frozen=True):
    """One request of the script of a Deployment."""

    verb: str
    replicas: int
    image: str


def shares(wanted: Wanted, moved: bool) -> dict[str, int]:
    """Replicas by member, as the policies below say it in words."""
    match wanted.shape:
        case "everywhere":
            return dict.fromkeys(MEMBERS, wanted.replicas)
        case "divided":
            return {"member1": wanted.replicas * 2 // 3, "member3": wanted.replicas // 3}
        case "single":
            return {"member2": wanted.replicas}
        case "moving":
            return {"member3" if moved else "member1": wanted.replicas}
        case _:
            raise ValueError(wanted.shape)


def image_in(member: str, wanted: Wanted) -> str:
    """The image a member shall run: member2 has a mirror for what runs everywhere."""
    if wanted.shape == "everywhere" and member == "member2":
        return f"{MIRROR}/{wanted.image}"
    return wanted.image


def policies(namespace: str) -> list[Manifest]:
    """One propagation policy per shape, and the override of the mirror."""

    def selector(shape: str) -> list[Manifest]:
        labels = {"matchLabels": {"shape": shape}}
        return [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": labels}]

    def policy(shape: str, placement: Manifest) -> Manifest:
        return propagation(shape, selector(shape), placement, namespace)

    return [
        policy("everywhere", {}),
        policy("divided", weighed(member1=2, member3=1)),
        policy("single", clusters("member2")),
        policy("moving", clusters("member1")),
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "OverridePolicy",
            "metadata": {"name": "mirror", "namespace": namespace},
            "spec": {
                "resourceSelectors": selector("everywhere"),
                "overrideRules": [
                    {
                        "targetCluster": {"clusterNames": ["member2"]},
                        "overriders": {
                            "imageOverrider": [{"component": "Registry", "operator": "add", "value": MIRROR}]
                        },
                    }
                ],
            },
        },
    ]


def deployment(namespace: str, name: str, wanted: Wanted) -> Manifest:
    """The Deployment as a user writes it."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, "shape": wanted.shape}},
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": wanted.image}]},
            },
        },
    }


class Load:
    """`count` Deployments of four shapes with random scripts; `done` and `total` count their steps."""

    def __init__(self, client: KubeClient, namespace: str, count: int, chance: random.Random) -> None:
        self.namespace = namespace
        self.wanted: dict[str, Wanted] = {}
        self.moved = False
        self.done = 0
        self.retries = 0
        self.client = client
        self._progress = asyncio.Condition()
        self._scripts: dict[str, list[Step]] = {}
        for number in range(count):
            self._scripts[f"app-{number:03d}"] = _script(chance)
        shapes = ("everywhere", "divided", "single", "moving")
        self._shape = {name: chance.choice(shapes) for name in self._scripts}
        self.total = sum(len(script) for script in self._scripts.values())

    def rebind(self, client: KubeClient) -> None:
        """Go on with another client: the API server was started anew."""
        self.client = client

    def path(self, name: str = "") -> str:
        """URL path of the Deployments of the round, or of one."""
        return resource_path("apps", "v1", "deployments", self.namespace, name)

    async def prepare(self) -> None:
        """Create the namespace and the policies."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.insist(lambda: self.client.create("/api/v1/namespaces", body), "create")
        for policy in policies(self.namespace):
            plural = "overridepolicies" if policy["kind"] == "OverridePolicy" else "propagationpolicies"
            path = resource_path("policy.karmada.io", "v1alpha1", plural, self.namespace)
            await self.insist(lambda p=path, b=policy: self.client.create(p, b), "create")

    async def run(self, concurrency: int = 16) -> None:
        """Play every script; each Deployment's steps in order, different Deployments side by side."""
        free = asyncio.Semaphore(concurrency)

        async def play(name: str) -> None:
            for step in self._scripts[name]:
                async with free:
                    await self.step(name, step)
                async with self._progress:
                    self.done += 1
                    self._progress.notify_all()

        async with asyncio.TaskGroup() as group:
            for name in self._scripts:
                group.create_task(play(name))

    async def reached(self, share: float) -> None:
        """Return once this share of all steps is done."""
        async with self._progress:
            await self._progress.wait_for(lambda: self.done >= share * self.total)

    async def move(self) -> None:
        """Edit the policy of the shape `moving`: member3 instead of member1."""
        path = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", self.namespace, "moving")
        body: Manifest = {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["member3"]}}}}
        await self.insist(lambda: self.client.patch(path, body), "patch")
        self.moved = True

    async def add(self, name: str, shape: str, step: Step) -> None:
        """Create one more Deployment than the scripts know, of a chosen shape."""
        self._shape[name] = shape
        await self.step(name, step)

    async def delete_all(self) -> None:
        """Delete what is left."""
        for name, wanted in self.wanted.items():
            if wanted.replicas:
                await self.step(name, Step("delete", 0, ""))

    async def step(self, name: str, step: Step) -> None:
        """Make one request and remember what shall be so from then on."""
        wanted = self.wanted.get(name) or Wanted(self._shape[name], 0, "")
        replicas = step.replicas * (3 if wanted.shape == "divided" else 1)
        match step.verb:
            case "create":
                wanted.replicas, wanted.image = replicas, step.image
                body = deployment(self.namespace, name, wanted)
                await self.insist(lambda: self.client.create(self.path(), body), "create")
            case "scale":
                wanted.replicas = replicas
                change: Manifest = {"spec": {"replicas": replicas}}
                await self.insist(lambda: self.client.patch(self.path(name), change), "patch")
            case "roll":
                wanted.image = step.image
                container = {"name": "main", "image": step.image}
                roll: Manifest = {"spec": {"template": {"spec": {"containers": [container]}}}}
                await self.insist(lambda: self.client.patch(self.path(name), roll), "patch")
            case "delete":
                wanted.replicas = 0
                await self.insist(lambda: self.client.delete(self.path(name), propagation="Background"), "delete")
            case _:
                raise ValueError(step.verb)
        self.wanted[name] = wanted

    async def insist(self, request: Callable[[], Awaitable[object]], verb: str) -> None:
        """Repeat a request while the API server or its log is away; what a lost answer left behind counts as done."""
        for attempt in range(_TRIES):
            try:
                await request()
            except Unreachable:
                pass
            except ApiError as error:
                repeated = attempt > 0
                if repeated and (error.status, verb) in ((409, "create"), (404, "delete")):
                    return
                if error.status not in _TRANSIENT and not (error.status == 409 and verb == "patch"):
                    raise
            else:
                return
            self.retries += 1
            await asyncio.sleep(_PAUSE)
        raise TimeoutError(f"the API server refused to {verb} {_TRIES} times")


def _script(chance: random.Random) -> list[Step]:
    steps = [Step("create", chance.randint(1, 2), f"nginx:1.{chance.randint(20, 29)}")]
    for _ in range(chance.randint(0, 3)):
        if chance.random() < 0.6:
            steps.append(Step("scale", chance.randint(1, 3), ""))
        else:
            steps.append(Step("roll", 0, f"nginx:1.{chance.randint(20, 29)}"))
    if chance.random() < 0.33:
        steps.append(Step("delete", 0, ""))
    return steps
