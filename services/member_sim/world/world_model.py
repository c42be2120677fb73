"""The vocabulary of the simulated cluster: keys, writes, decisions, one turn of the loop, small manifest readers."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from schemas.manifest import Manifest

Operation = Literal["create", "update", "status", "bind", "delete"]

APPS = "deployments.apps"
REPLICASETS = "replicasets.apps"
STATEFULSETS = "statefulsets.apps"
DAEMONSETS = "daemonsets.apps"
JOBS = "jobs.batch"
CRONJOBS = "cronjobs.batch"
PODS = "pods"
NODES = "nodes"
NAMESPACES = "namespaces"
SERVICES = "services"
ENDPOINTS = "endpoints"
SLICES = "endpointslices.discovery.k8s.io"
SERVICE_ACCOUNTS = "serviceaccounts"
CONFIG_MAPS = "configmaps"
CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
BUDGETS = "poddisruptionbudgets.policy"
QUOTAS = "resourcequotas"
SCHEDULER = "scheduler"
"""Not a resource: the key under which pods without a node are scheduled together."""

KINDS: dict[str, tuple[str, str]] = {
    APPS: ("apps/v1", "Deployment"),
    REPLICASETS: ("apps/v1", "ReplicaSet"),
    STATEFULSETS: ("apps/v1", "StatefulSet"),
    DAEMONSETS: ("apps/v1", "DaemonSet"),
    JOBS: ("batch/v1", "Job"),
    CRONJOBS: ("batch/v1", "CronJob"),
    PODS: ("v1", "Pod"),
    NODES: ("v1", "Node"),
    NAMESPACES: ("v1", "Namespace"),
    SERVICES: ("v1", "Service"),
    ENDPOINTS: ("v1", "Endpoints"),
    SLICES: ("discovery.k8s.io/v1", "EndpointSlice"),
    SERVICE_ACCOUNTS: ("v1", "ServiceAccount"),
    CONFIG_MAPS: ("v1", "ConfigMap"),
    CLAIMS: ("v1", "PersistentVolumeClaim"),
    VOLUMES: ("v1", "PersistentVolume"),
    BUDGETS: ("policy/v1", "PodDisruptionBudget"),
    QUOTAS: ("v1", "ResourceQuota"),
}
"""Every resource the controllers watch, with its apiVersion and kind."""

ROOT_CA = "kube-root-ca.crt"
ONLY_NAMED: dict[str, str] = {SERVICE_ACCOUNTS: "default", CONFIG_MAPS: ROOT_CA}
"""Resources of which the controllers read objects of one name only; there may be very many others."""

QUOTED = frozenset(
    {APPS, REPLICASETS, STATEFULSETS, DAEMONSETS, JOBS, CRONJOBS, PODS, SERVICES, CLAIMS, BUDGETS, QUOTAS}
)
"""Resources of namespaces whose objects a quota can count here."""

RESOURCE_OF_KIND: dict[str, str] = {kind: resource for resource, (_, kind) in KINDS.items()}


class Key(NamedTuple):
    """One object of the cluster; the namespace is empty for cluster-scoped objects."""

    resource: str
    namespace: str
    name: str


SCHEDULER_KEY = Key(SCHEDULER, "", "")


class Write(NamedTuple):
    """One change to make; a status body is the whole new status, an update body the whole object.

    `annotations` of a status write are set beside it: as in a cluster, that does not raise the generation.
    """

    op: Operation
    key: Key
    body: Manifest | None = None
    uid: str = ""
    grace: int | None = None
    annotations: Manifest | None = None


class Decision(NamedTuple):
    """The writes due for a key now, and when (Unix seconds) the key has to be decided again."""

    writes: list[Write]
    wake: float | None = None


NOTHING = Decision([])


class Ids(Protocol):
    """Source of the random part of generated names."""

    def suffix(self) -> str:
        """Return five letters or digits that are safe in a name."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How the simulated cluster behaves; all durations in seconds."""

    member: str = "member1"
    nodes: int = 3
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    version: str = "v1.31.4"
    region: str = ""
    zones: int = 3
    ready_delay: float = 0.1
    terminate_delay: float = 0.05
    job_run: float = 0.3
    dual_stack: bool = False
    """Whether pods have an address of IPv6 as well."""
    ca: str = ""
    """PEM certificate authority that goes into every namespace's kube-root-ca.crt."""

    @property
    def tick(self) -> float:
        """Grid on which pods become ready, so that those started together become ready together."""
        return max(self.ready_delay / 5, 0.005)


class Reservations:
    """Room promised to pods whose writes are still on their way, and pod addresses handed out meanwhile."""

    __slots__ = ("_by_pod", "addresses", "on_node")

    def __init__(self) -> None:
        self._by_pod: dict[Key, tuple[str, dict[str, int]]] = {}
        self.on_node: dict[str, dict[str, int]] = {}
        self.addresses: dict[str, str] = {}

    def hold(self, pod: Key, node: str, requests: dict[str, int]) -> None:
        """Count the pod's requests against the node until released."""
        self._by_pod[pod] = (node, requests)
        held = self.on_node.setdefault(node, {})
        for name, amount in requests.items():
            held[name] = held.get(name, 0) + amount

    def release(self, pod: Key) -> None:
        """Forget a promise: the pod is in the state now, or its write failed."""
        entry = self._by_pod.pop(pod, None)
        if entry is None:
            return
        node, requests = entry
        held = self.on_node[node]
        for name, amount in requests.items():
            held[name] -= amount
        if not held.get("pods"):
            del self.on_node[node]


class Turn(NamedTuple):
    """What a decision may use besides the state: the time, names, promises and settings."""

    now: float
    ids: Ids
    reserved: Reservations
    config: Config


def key_of(resource: str, manifest: Manifest) -> Key:
    """Return the key of a manifest of that resource."""
    meta = manifest["metadata"]
    return Key(resource, meta.get("namespace", ""), meta["name"])


def controller_of(manifest: Manifest) -> Manifest | None:
    """Return the owner reference that controls the object, if any."""
    for reference in manifest["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Manifest = reference
            return found
    return None


def owner_reference(resource: str, owner: Manifest) -> Manifest:
    """Return the reference a controller puts on what it creates for ``owner``."""
    version, kind = KINDS[resource]
    meta = owner["metadata"]
    return {
        "apiVersion": version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(manifest: Manifest, kind: str) -> Manifest | None:
    """Return the status condition of that type."""
    for entry in (manifest.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind:
            found: Manifest = entry
            return found
    return None


def is_true(manifest: Manifest, kind: str) -> bool:
    """Return whether the status condition of that type is "True"."""
    entry = condition(manifest, kind)
    return entry is not None and entry.get("status") == "True"


def with_metadata(manifest: Manifest, **changes: Any) -> Manifest:
    """Return the manifest with some metadata fields replaced; everything else is shared."""
    return {**manifest, "metadata": {**manifest["metadata"], **changes}}


@lru_cache(maxsize=64)
def _stamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(now: float) -> str:
    """Return RFC 3339 time with second resolution, as Kubernetes writes it."""
    return _stamp(int(now))


@lru_cache(maxsize=4096)
def seconds(text: str) -> float:
    """Return Unix seconds of an RFC 3339 time, 0 when it cannot be read."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def earliest(*deadlines: float | None) -> float | None:
    """Return the first of the deadlines that are set."""
    known = [deadline for deadline in deadlines if deadline is not None]
    return min(known) if known else None
