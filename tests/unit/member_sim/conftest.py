"""A cluster without server, network or clock: decisions are applied to the state as a server would store them."""

import heapq
import itertools
from typing import Any

import pytest

from schemas.manifest import Manifest
from services.member_sim.controllers.node import initial_nodes
from services.member_sim.decide import decide
from services.member_sim.world.world_model import (
    APPS,
    KINDS,
    PODS,
    RESOURCE_OF_KIND,
    Config,
    Key,
    Reservations,
    Turn,
    Write,
    key_of,
)
from services.member_sim.world.world_state import State


class Names:
    """Counts instead of drawing letters."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def suffix(self) -> str:
        return f"x{next(self._numbers):04d}"


class Cluster:
    """Runs decisions until nothing is dirty; time moves only to the next deadline."""

    def __init__(self, **settings: Any) -> None:
        self.config = Config(**{"member": "m", "nodes": 2, **settings})
        self.state = State()
        self.now = 1_700_000_000.0
        self.reserved = Reservations()
        self.writes: list[Write] = []
        self._ids = Names()
        self._versions = itertools.count(1)
        self._timers: list[tuple[float, Key]] = []
        self._dirty: dict[Key, None] = {}
        self.create("Namespace", "default", "")
        for key in initial_nodes(self.state, self.config):
            self._dirty[key] = None
        self.settle()

    def create(self, kind: str, name: str, namespace: str = "default", **parts: Any) -> Manifest:
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
        body = {"kind": kind, "metadata": meta, **parts}
        return self._store(Write("create", Key(RESOURCE_OF_KIND[kind], namespace, name), body))

    def change(self, kind: str, name: str, namespace: str = "default", **spec: Any) -> None:
        """Change spec fields as a user would."""
        old = self.get(kind, name, namespace)
        key = Key(RESOURCE_OF_KIND[kind], namespace, name)
        self._store(Write("update", key, {**old, "spec": {**old["spec"], **spec}}))

    def get(self, kind: str, name: str, namespace: str = "default") -> Manifest:
        found = self.state.get(RESOURCE_OF_KIND[kind], namespace, name)
        assert found is not None, f"{kind} {namespace}/{name} does not exist"
        return found

    def all(self, kind: str) -> list[Manifest]:
        return list(self.state.all_of(RESOURCE_OF_KIND[kind]))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        found = self.get(kind, name, namespace)
        self._store(Write("delete", Key(RESOURCE_OF_KIND[kind], namespace, name), uid=found["metadata"]["uid"]))

    def created(self, kind: str, name: str, namespace: str = "default", **parts: Any) -> None:
        """Create an object and let its controllers settle."""
        self.create(kind, name, namespace, **parts)
        self.settle()

    def changed(self, kind: str, name: str, namespace: str = "default", **spec: Any) -> None:
        """Change spec fields and let the controllers settle."""
        self.change(kind, name, namespace, **spec)
        self.settle()

    def deleted(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object and let the controllers settle."""
        self.delete(kind, name, namespace)
        self.settle()

    def marked(self, kind: str, name: str, namespace: str = "default") -> None:
        """Have an object outlive its deletion, as a finalizer does."""
        old = self.get(kind, name, namespace)
        new = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "now"}}
        self._apply(RESOURCE_OF_KIND[kind], new, str(next(self._versions)))

    def again(self, keys: list[Key]) -> None:
        """Look again at keys, as after a fault was set or lifted."""
        self._mark(keys)

    def step(self) -> None:
        """Decide everything that is dirty now, without moving time."""
        for _ in range(500):
            if not self._dirty:
                return
            batch, self._dirty = list(self._dirty), {}
            for key in batch:
                decision = decide(self.state, key, Turn(self.now, self._ids, self.reserved, self.config))
                if decision.wake is not None:
                    assert decision.wake > self.now or decision.writes, f"{key} wants to be woken in the past"
                    heapq.heappush(self._timers, (decision.wake, key))
                for write in decision.writes:
                    self.writes.append(write)
                    self._store(write)
                    self.reserved.release(write.key)
        raise AssertionError(f"the cluster does not come to rest: {batch[:3]}")

    def settle(self, seconds: float = 5.0) -> None:
        """Let time pass, deadline by deadline."""
        end = self.now + seconds
        self.step()
        while self._timers and self._timers[0][0] <= end:
            self.now = max(self.now, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self.now:
                self._dirty[heapq.heappop(self._timers)[1]] = None
            self.step()
        self.now = end

    def _store(self, write: Write) -> Manifest:
        old = self.state.find(write.key)
        if write.op == "delete":
            assert old is not None
            return self._delete(write, old)
        version = str(next(self._versions))
        if write.op == "create":
            assert old is None, f"{write.key} exists"
            assert write.body is not None
            meta = {"uid": f"uid-{version}", "creationTimestamp": "2023-11-14T22:13:20Z", "generation": 1}
            new = {**write.body, "metadata": {**write.body["metadata"], **meta}}
        elif write.op == "status":
            assert old is not None
            annotations = {**(old["metadata"].get("annotations") or {}), **(write.annotations or {})}
            noted = {"annotations": annotations} if annotations else {}
            new = {**old, "metadata": {**old["metadata"], **noted}, "status": write.body}
        elif write.op == "bind":
            assert old is not None
            assert write.body is not None
            new = {**old, "spec": {**old["spec"], "nodeName": write.body["node"]}}
        else:
            assert old is not None
            assert write.body is not None
            assert write.body["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"], "stale update"
            notes = write.key.resource == APPS and write.body["metadata"].get("annotations") != old["metadata"].get(
                "annotations"
            )
            generation = old["metadata"]["generation"] + (notes or write.body.get("spec") != old.get("spec"))
            new = {**write.body, "metadata": {**write.body["metadata"], "generation": generation}}
            if "status" in old:
                new["status"] = old["status"]
        return self._apply(write.key.resource, new, version)

    def _apply(self, resource: str, new: Manifest, version: str) -> Manifest:
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
        self._mark(self.state.apply(resource, new, self.now))
        return new

    def _delete(self, write: Write, old: Manifest) -> Manifest:
        meta = old["metadata"]
        graceful = write.key.resource == PODS and write.grace != 0 and old["spec"].get("nodeName")
        if graceful:
            return self._apply(
                PODS, {**old, "metadata": {**meta, "deletionTimestamp": "now"}}, str(next(self._versions))
            )
        self._mark(self.state.removed_by_us(write.key, meta["uid"]))
        for resource in KINDS:
            for child in self.state.children(meta["uid"], resource):
                self._store(Write("delete", key_of(resource, child), uid=child["metadata"]["uid"]))
        return old

    def _mark(self, keys: list[Key]) -> None:
        for key in keys:
            self._dirty[key] = None


@pytest.fixture
def make_cluster() -> type[Cluster]:
    """The class, for tests that need their own settings."""
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Two nodes with 8 cores each."""
    return Cluster()


@pytest.fixture
def template() -> Any:
    """Make a pod template."""

    def make(app: str = "web", image: str = "web:1", cpu: str = "100m", **spec: Any) -> Manifest:
        container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
        return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}

    return make


@pytest.fixture
def deployment(template: Any) -> Any:
    """Make a Deployment spec."""

    def make(replicas: int = 2, strategy: Manifest | None = None, **more: Any) -> Manifest:
        parts = {key: more.pop(key) for key in list(more) if key in ("image", "cpu", "app")}
        spec: Manifest = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": parts.get("app", "web")}},
            "template": template(**parts),
            "progressDeadlineSeconds": 600,
            **more,
        }
        if strategy is not None:
            spec["strategy"] = strategy
        return spec

    return make


@pytest.fixture
def web_cluster(make_cluster: Any) -> Any:
    """One node, and two pods of Deployment web."""
    found = make_cluster(nodes=1, cpu="4", memory="8Gi")
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
    }
    found.created(
        "Deployment", "web", spec={"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    )
    return found
