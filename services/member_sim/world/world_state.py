"""Projection of the cluster: its objects with the indexes decisions need, and which keys a change makes dirty."""

from collections.abc import Iterable, Iterator

from schemas.manifest import Manifest
from services.member_sim.world.pod_requests import amounts, pod_requests
from services.member_sim.world.world_model import (
    APPS,
    BUDGETS,
    CLAIMS,
    CRONJOBS,
    DAEMONSETS,
    ENDPOINTS,
    JOBS,
    NAMESPACES,
    NODES,
    ONLY_NAMED,
    PODS,
    QUOTAS,
    QUOTED,
    REPLICASETS,
    RESOURCE_OF_KIND,
    SCHEDULER_KEY,
    SERVICES,
    SLICES,
    STATEFULSETS,
    VOLUMES,
    Key,
    controller_of,
    key_of,
    with_metadata,
)

Pair = tuple[str, str]
_FINAL_PHASES = ("Succeeded", "Failed")
_WORKLOADS = (APPS, REPLICASETS, STATEFULSETS, DAEMONSETS, JOBS, CRONJOBS, SERVICES, CLAIMS, BUDGETS)
_OWN = frozenset(
    (APPS, REPLICASETS, STATEFULSETS, DAEMONSETS, JOBS, CRONJOBS, NODES, SERVICES, CLAIMS, VOLUMES, BUDGETS, QUOTAS)
)


class LabelIndex:
    """Objects under (namespace, label, value); an object may be under several."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], dict[str, Manifest]] = {}

    def put(self, namespace: str, pairs: Iterable[Pair], manifest: Manifest) -> None:
        """Add an object, or replace what was there under its name."""
        name = manifest["metadata"]["name"]
        for label, value in pairs:
            self._found.setdefault((namespace, label, value), {})[name] = manifest

    def drop(self, namespace: str, pairs: Iterable[Pair], name: str) -> None:
        """Take an object away from under these labels."""
        for label, value in pairs:
            where = (namespace, label, value)
            there = self._found.get(where)
            if there is not None:
                there.pop(name, None)
                if not there:
                    del self._found[where]

    def under(self, namespace: str, pair: Pair) -> dict[str, Manifest]:
        """Return the objects under one label by name."""
        return self._found.get((namespace, *pair), {})

    def matching(self, namespace: str, selector: dict[str, str]) -> list[Manifest]:
        """Return the objects whose labels contain the selector, which must not be empty."""
        fewest = min((self.under(namespace, pair) for pair in selector.items()), key=len)
        wanted = selector.items()
        return [m for m in fewest.values() if wanted <= (m["metadata"].get("labels") or {}).items()]


class State:
    """Objects by resource, namespace and name, without managedFields; their parts are shared and never changed."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, dict[str, Manifest]]] = {}
        self._children: dict[str, dict[Key, Manifest]] = {}
        self._pods_on: dict[str, dict[Key, Manifest]] = {}
        self._gone: set[str] = set()
        self._labelled = LabelIndex()
        self._selecting = LabelIndex()
        self.used: dict[str, dict[str, int]] = {}
        self.capacity: dict[str, dict[str, int]] = {}
        self.unplaced: dict[Key, Manifest] = {}
        self.addresses: dict[str, str] = {}
        self.placed_at: dict[str, float] = {}
        self.doomed_at: dict[str, float] = {}
        self.hashes: dict[tuple[str, int, int], str] = {}
        self.exited: dict[str, int] = {}
        """Exit codes of main processes that a client ended, by uid of the pod."""
        self.down: set[str] = set()
        """Names of nodes whose kubelet a fault has stopped."""
        self.crashing: set[tuple[str, str, str]] = set()
        """(namespace, kind, name) of workloads or pods whose containers a fault keeps crashing."""

    def get(self, resource: str, namespace: str, name: str) -> Manifest | None:
        """Return one object."""
        return self._objects.get(resource, {}).get(namespace, {}).get(name)

    def find(self, key: Key) -> Manifest | None:
        """Return the object under a key."""
        return self._objects.get(key.resource, {}).get(key.namespace, {}).get(key.name)

    def in_namespace(self, resource: str, namespace: str) -> dict[str, Manifest]:
        """Return the objects of a resource in a namespace ("" for cluster-scoped resources) by name."""
        return self._objects.get(resource, {}).get(namespace, {})

    def all_of(self, resource: str) -> Iterator[Manifest]:
        """Yield the objects of a resource in all namespaces."""
        for objects in self._objects.get(resource, {}).values():
            yield from objects.values()

    def children(self, uid: str, resource: str) -> list[Manifest]:
        """Return the objects of a resource that the owner with that uid controls."""
        return [child for key, child in self._children.get(uid, {}).items() if key.resource == resource]

    def pods_on(self, node: str) -> dict[Key, Manifest]:
        """Return the pods placed on a node, finished ones included."""
        return self._pods_on.get(node, {})

    def pods_with(self, namespace: str, selector: dict[str, str]) -> list[Manifest]:
        """Return the pods of a namespace that carry all labels of a selector, which must not be empty."""
        return self._labelled.matching(namespace, selector)

    def closing(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted or does not exist."""
        found = self.get(NAMESPACES, "", namespace)
        return found is None or "deletionTimestamp" in found["metadata"]

    def apply(self, resource: str, manifest: Manifest, now: float) -> list[Key]:
        """Take in the present state of an object, from a watch or from the answer to a write; returns dirty keys."""
        key = key_of(resource, manifest)
        meta = manifest["metadata"]
        old = self.find(key)
        if old is not None:
            before = old["metadata"]
            if int(meta["resourceVersion"]) <= int(before["resourceVersion"]):
                return []
            if before["uid"] != meta["uid"]:
                self._forget(key, old)
        elif meta["uid"] in self._gone:
            return []
        if "managedFields" in meta:
            # More than half of an object, and not read here; an update without them keeps them.
            manifest = with_metadata(manifest)
            del manifest["metadata"]["managedFields"]
        self._objects.setdefault(resource, {}).setdefault(key.namespace, {})[key.name] = manifest
        owner = controller_of(manifest)
        if owner is not None:
            self._children.setdefault(owner["uid"], {})[key] = manifest
        dirty = self._dirty(key, manifest, owner)
        if resource == NAMESPACES and old is None:
            # Watches of different resources race: workloads may have been seen before their namespace.
            dirty += [Key(kind, key.name, name) for kind in _WORKLOADS for name in self.in_namespace(kind, key.name)]
        if resource == PODS:
            dirty += self._index_pod(key, manifest, old, now)
        elif resource == SERVICES:
            if old is not None:
                self._selecting.drop(key.namespace, _first_pair(old), key.name)
            self._selecting.put(key.namespace, _first_pair(manifest), manifest)
        elif resource == NODES:
            self.capacity[key.name] = amounts((manifest.get("status") or {}).get("allocatable"))
            dirty += self._node_dirty(key.name)
            if old is not None and _zone(old) != _zone(manifest):
                # Endpoints name the zone of their node.
                for place, pod in self.pods_on(key.name).items():
                    dirty += self._pod_dirty(place.namespace, pod)
        return dirty

    def remove(self, resource: str, manifest: Manifest) -> list[Key]:
        """Take in that an object is gone; returns dirty keys."""
        key = key_of(resource, manifest)
        self._gone.discard(manifest["metadata"]["uid"])
        old = self.find(key)
        if old is None or old["metadata"]["uid"] != manifest["metadata"]["uid"]:
            return []
        return self._remove(key, old)

    def removed_by_us(self, key: Key, uid: str) -> list[Key]:
        """Take in that our own delete removed the object, before the watch reports it; returns dirty keys."""
        old = self.find(key)
        if old is None or old["metadata"]["uid"] != uid:
            return []
        self._gone.add(uid)
        return self._remove(key, old)

    def owner_key(self, manifest: Manifest) -> Key | None:
        """Return the key of the object's controller when it is of a kind that is simulated here."""
        owner = controller_of(manifest)
        resource = RESOURCE_OF_KIND.get(owner["kind"]) if owner is not None else None
        if owner is None or resource is None:
            return None
        return Key(resource, manifest["metadata"].get("namespace", ""), owner["name"])

    def crashes(self, pod: Manifest) -> bool:
        """Return whether a fault crashes this pod: it, its controller or its controller's controller is named."""
        if not self.crashing:
            return False
        namespace = pod["metadata"].get("namespace", "")
        if (namespace, "Pod", pod["metadata"]["name"]) in self.crashing:
            return True
        manifest: Manifest | None = pod
        while manifest is not None:
            owner = controller_of(manifest)
            if owner is None:
                return False
            if (namespace, owner["kind"], owner["name"]) in self.crashing:
                return True
            above = self.owner_key(manifest)
            manifest = self.find(above) if above is not None else None
        return False

    def _remove(self, key: Key, old: Manifest) -> list[Key]:
        dirty = self._dirty(key, old, controller_of(old))
        self._forget(key, old)
        if key.resource == PODS:
            dirty += self._pod_dirty(key.namespace, old)
            if self.unplaced:
                dirty.append(SCHEDULER_KEY)
        elif key.resource == NODES:
            dirty += self._node_dirty(key.name)
        return dirty

    def _forget(self, key: Key, old: Manifest) -> None:
        namespaces = self._objects[key.resource]
        del namespaces[key.namespace][key.name]
        if not namespaces[key.namespace]:
            del namespaces[key.namespace]
        owner = controller_of(old)
        if owner is not None and owner["uid"] in self._children:
            siblings = self._children[owner["uid"]]
            siblings.pop(key, None)
            if not siblings:
                del self._children[owner["uid"]]
        if key.resource == PODS:
            self._forget_pod(key, old)
        elif key.resource == SERVICES:
            self._selecting.drop(key.namespace, _first_pair(old), key.name)
        elif key.resource == NODES:
            self.capacity.pop(key.name, None)
        elif key.resource == APPS:
            uid = old["metadata"]["uid"]
            for memo in [memo for memo in self.hashes if memo[0] == uid]:
                del self.hashes[memo]

    def _dirty(self, key: Key, manifest: Manifest, owner: Manifest | None) -> list[Key]:
        """Return the keys whose decision reads this object, apart from what pods and nodes add."""
        resource = key.resource
        dirty = [key] if resource in _OWN else []
        if resource in QUOTED:
            dirty += [Key(QUOTAS, key.namespace, name) for name in self.in_namespace(QUOTAS, key.namespace)]
        if owner is not None and resource != PODS:
            above = self.owner_key(manifest)
            if above is not None:
                dirty.append(above)
        if resource == NAMESPACES:
            dirty.append(key)
        elif resource in ONLY_NAMED:
            if key.name == ONLY_NAMED[resource]:
                dirty.append(Key(NAMESPACES, "", key.namespace))
        elif resource == ENDPOINTS:
            dirty.append(Key(SERVICES, key.namespace, key.name))
        elif resource == SLICES and owner is not None:
            dirty.append(Key(SERVICES, key.namespace, owner["name"]))
        elif resource == VOLUMES:
            claim = (manifest.get("spec") or {}).get("claimRef")
            if claim:
                dirty.append(Key(CLAIMS, claim.get("namespace", ""), claim["name"]))
        elif resource == CLAIMS:
            volume = manifest["spec"].get("volumeName")
            if volume:
                dirty.append(Key(VOLUMES, "", volume))
        return dirty

    def _node_dirty(self, name: str) -> list[Key]:
        dirty = list(self.pods_on(name))
        dirty += [key_of(DAEMONSETS, found) for found in self.all_of(DAEMONSETS)]
        if self.unplaced:
            dirty.append(SCHEDULER_KEY)
        return dirty

    def _pod_dirty(self, namespace: str, pod: Manifest) -> list[Key]:
        """Return the keys above and beside a pod: its controllers and the services that may select it."""
        dirty = []
        above = self.owner_key(pod)
        if above is not None:
            dirty.append(above)
            middle = self.find(above) if above.resource == REPLICASETS else None
            top = self.owner_key(middle) if middle is not None else None
            if top is not None:
                dirty.append(top)
        dirty += [Key(BUDGETS, namespace, name) for name in self.in_namespace(BUDGETS, namespace)]
        labels = pod["metadata"].get("labels") or {}
        for pair in labels.items():
            for name, service in self._selecting.under(namespace, pair).items():
                if service["spec"]["selector"].items() <= labels.items():
                    dirty.append(Key(SERVICES, namespace, name))
        return dirty

    def _index_pod(self, key: Key, pod: Manifest, old: Manifest | None, now: float) -> list[Key]:
        uid = pod["metadata"]["uid"]
        dirty = [key, *self._pod_dirty(key.namespace, pod)]
        labels = pod["metadata"].get("labels") or {}
        if old is not None:
            before = old["metadata"].get("labels") or {}
            if before != labels:
                dirty += self._pod_dirty(key.namespace, old)
                self._labelled.drop(key.namespace, before.items(), key.name)
        self._labelled.put(key.namespace, labels.items(), pod)
        node = pod["spec"].get("nodeName")
        status = pod.get("status") or {}
        final = status.get("phase") in _FINAL_PHASES
        if "deletionTimestamp" in pod["metadata"]:
            self.doomed_at.setdefault(uid, now)
        if node and not final:
            self._pods_on.setdefault(node, {})[key] = pod
            if uid not in self.placed_at:
                self.placed_at[uid] = now
                self.unplaced.pop(key, None)
                self._count(node, pod, 1)
        elif node:
            self._pods_on.setdefault(node, {})[key] = pod
            if uid in self.placed_at:
                del self.placed_at[uid]
                self._count(node, pod, -1)
                if self.unplaced:
                    dirty.append(SCHEDULER_KEY)
        elif "deletionTimestamp" not in pod["metadata"] and not final:
            self.unplaced[key] = pod
            dirty.append(SCHEDULER_KEY)
        else:
            self.unplaced.pop(key, None)
        address = status.get("podIP")
        if address:
            self.addresses[address] = uid
        return dirty

    def _forget_pod(self, key: Key, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        self._labelled.drop(key.namespace, (pod["metadata"].get("labels") or {}).items(), key.name)
        self.unplaced.pop(key, None)
        self.doomed_at.pop(uid, None)
        self.exited.pop(uid, None)
        node = pod["spec"].get("nodeName")
        if node:
            there = self._pods_on.get(node, {})
            there.pop(key, None)
            if not there:
                self._pods_on.pop(node, None)
            if self.placed_at.pop(uid, None) is not None:
                self._count(node, pod, -1)
        address = (pod.get("status") or {}).get("podIP")
        if address and self.addresses.get(address) == uid:
            del self.addresses[address]

    def _count(self, node: str, pod: Manifest, sign: int) -> None:
        used = self.used.setdefault(node, {})
        for name, taken in pod_requests(pod["spec"]).items():
            used[name] = used.get(name, 0) + sign * taken
        if not used["pods"]:
            del self.used[node]


def _zone(node: Manifest) -> str:
    return str((node["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone") or "")


def _first_pair(service: Manifest) -> list[tuple[str, str]]:
    """Return one label that every pod of the service has; none without a selector."""
    return list((service["spec"].get("selector") or {}).items())[:1]
