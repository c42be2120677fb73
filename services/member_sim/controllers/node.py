"""Nodes: which ones exist, what they offer, whether they are ready, and the taints that follow from it."""

from collections.abc import Iterable

from schemas.manifest import Manifest
from services.member_sim.world.world_model import (
    NODES,
    NOTHING,
    Config,
    Decision,
    Key,
    Turn,
    Write,
    condition,
    stamp,
)
from services.member_sim.world.world_state import State

NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def node_names(config: Config) -> list[str]:
    """Return the names of the nodes that the member has by itself."""
    return [f"{config.member}-node-{number}" for number in range(1, config.nodes + 1)]


def initial_nodes(state: State, config: Config) -> Iterable[Key]:
    """Return the keys of own nodes that do not exist yet; deciding them creates them."""
    return [Key(NODES, "", name) for name in node_names(config) if state.get(NODES, "", name) is None]


def decide_node(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one node: taints of its condition, its status; nothing while nothing changes."""
    node = state.find(key)
    names = node_names(turn.config)
    if node is None:
        return Decision([Write("create", key, _new(key.name, names, turn.config))]) if key.name in names else NOTHING
    if "deletionTimestamp" in node["metadata"]:
        return NOTHING
    ready = key.name not in state.down
    writes = []
    spec = node.get("spec") or {}
    taints = _taints(spec, ready, turn.now)
    if taints != (spec.get("taints") or []):
        changed = {name: value for name, value in spec.items() if name != "taints"}
        if taints:
            changed["taints"] = taints
        writes.append(Write("update", key, {**node, "spec": changed}))
    status = _status(node, key.name, names, ready, turn)
    if status != node.get("status"):
        writes.append(Write("status", key, status, uid=node["metadata"]["uid"]))
    return Decision(writes)


def _new(name: str, names: list[str], config: Config) -> Manifest:
    number = names.index(name)
    region = config.region or config.member
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": region,
                "topology.kubernetes.io/zone": f"{region}-{'abcdefghij'[number % max(min(config.zones, 10), 1)]}",
            },
        },
        "spec": {
            "podCIDR": f"10.{number >> 8 & 255}.{number & 255}.0/24",
            "providerID": f"simulated://{config.member}/{name}",
        },
    }


def _taints(spec: Manifest, ready: bool, now: float) -> list[Manifest]:
    """Return the node's taints with those of its own state added or taken away."""
    present = list(spec.get("taints") or ())
    wanted = []
    if spec.get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    if not ready:
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    kept = [t for t in present if t["key"] not in (NOT_READY, UNSCHEDULABLE) or (t["key"], t["effect"]) in wanted]
    # Without a time the end of a limited toleration could not be computed.
    kept = [{**t, "timeAdded": stamp(now)} if t["effect"] == "NoExecute" and "timeAdded" not in t else t for t in kept]
    have = {(t["key"], t["effect"]) for t in kept}
    return kept + [{"key": k, "effect": e, "timeAdded": stamp(now)} for k, e in wanted if (k, e) not in have]


def _status(node: Manifest, name: str, names: list[str], ready: bool, turn: Turn) -> Manifest:
    """Return the status; capacity that a client changed is kept."""
    old = node.get("status") or {}
    config = turn.config
    offered = {"cpu": config.cpu, "ephemeral-storage": "100Gi", "memory": config.memory, "pods": str(config.pods)}
    number = names.index(name) if name in names else 250
    status: Manifest = {**old}
    status.setdefault("capacity", offered)
    status.setdefault("allocatable", offered)
    status.setdefault(
        "addresses",
        [
            {"type": "InternalIP", "address": f"172.20.{(number + 2) >> 8 & 255}.{(number + 2) & 255}"},
            {"type": "Hostname", "address": name},
        ],
    )
    status["nodeInfo"] = {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "simulated",
        "osImage": "Simulated node",
        "containerRuntimeVersion": "simulated://1.0",
        "kubeletVersion": config.version,
        "kubeProxyVersion": config.version,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    wanted = [_condition(node, kind, "False", f"KubeletHas{_ENOUGH[kind]}", turn.now) for kind in _PRESSURES]
    if ready:
        wanted.append(_condition(node, "Ready", "True", "KubeletReady", turn.now))
    else:
        wanted = [_condition(node, kind, "Unknown", "NodeStatusUnknown", turn.now) for kind in (*_PRESSURES, "Ready")]
    own = {entry["type"] for entry in wanted}
    status["conditions"] = [c for c in old.get("conditions") or () if c["type"] not in own] + wanted
    return status


_ENOUGH = {"MemoryPressure": "SufficientMemory", "DiskPressure": "NoDiskPressure", "PIDPressure": "SufficientPID"}


def _condition(node: Manifest, kind: str, status: str, reason: str, now: float) -> Manifest:
    old = condition(node, kind)
    if old is not None and old.get("status") == status and old.get("reason") == reason:
        return old
    at = stamp(now)
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": "Simulated kubelet.",
    }
