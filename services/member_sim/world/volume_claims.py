"""Claims: a volume is made for each claim of the default storage class and bound to it, and goes with it."""

from schemas.manifest import Manifest
from services.member_sim.world.world_model import (
    CLAIMS,
    NOTHING,
    VOLUMES,
    Decision,
    Key,
    Turn,
    Write,
)
from services.member_sim.world.world_state import State

PROVISIONER = "simulated.fleetlog"
_BOUND = "pv.kubernetes.io/bind-completed"


def decide_claim(state: State, key: Key, turn: Turn) -> Decision:  # noqa: ARG001 - the shape of every decision
    """Decide the writes for one claim: its volume, the binding, the status."""
    claim = state.find(key)
    if claim is None or "deletionTimestamp" in claim["metadata"] or state.closing(key.namespace):
        return NOTHING
    meta, spec = claim["metadata"], claim["spec"]
    named = spec.get("volumeName")
    if not named and spec.get("storageClassName") == "":
        # Without a class a claim waits for a volume that a user creates.
        return NOTHING
    name = named or f"pvc-{meta['uid']}"
    volume = state.get(VOLUMES, "", name)
    writes: list[Write] = []
    if volume is None:
        if named and not str(named).startswith("pvc-"):
            return NOTHING
        writes.append(Write("create", Key(VOLUMES, "", name), _volume(name, claim)))
    if not named:
        bound = {**(meta.get("annotations") or {}), _BOUND: "yes"}
        body = {**claim, "metadata": {**meta, "annotations": bound}, "spec": {**spec, "volumeName": name}}
        writes.append(Write("update", key, body))
    if volume is not None:
        spec_of_volume = volume["spec"]
        capacity, modes = spec_of_volume.get("capacity") or {}, spec_of_volume.get("accessModes") or []
    else:
        capacity, modes = _size(spec), spec.get("accessModes") or []
    status: Manifest = {**(claim.get("status") or {}), "phase": "Bound", "accessModes": modes, "capacity": capacity}
    if status != claim.get("status"):
        writes.append(Write("status", key, status, uid=meta["uid"]))
    return Decision(writes)


def decide_volume(state: State, key: Key, turn: Turn) -> Decision:  # noqa: ARG001 - the shape of every decision
    """Decide the writes for one volume: its phase, or its end once its claim is gone."""
    volume = state.find(key)
    if volume is None:
        return NOTHING
    meta, spec = volume["metadata"], volume["spec"]
    reference = spec.get("claimRef")
    phase = "Available"
    if reference:
        claim = state.get(CLAIMS, reference.get("namespace", ""), reference["name"])
        held = claim is not None and claim["metadata"]["uid"] == reference.get("uid", claim["metadata"]["uid"])
        phase = "Bound" if held else "Released"
        dynamic = spec.get("persistentVolumeReclaimPolicy") == "Delete"
        if not held and dynamic and "deletionTimestamp" not in meta:
            return Decision([Write("delete", key, uid=meta["uid"])])
    if (volume.get("status") or {}).get("phase") == phase:
        return NOTHING
    status = {**(volume.get("status") or {}), "phase": phase}
    return Decision([Write("status", key, status, uid=meta["uid"])])


def _size(spec: Manifest) -> Manifest:
    return {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")}


def _volume(name: str, claim: Manifest) -> Manifest:
    meta, spec = claim["metadata"], claim["spec"]
    body: Manifest = {
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "capacity": _size(spec),
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "hostPath": {"path": f"/var/lib/simulated/{name}"},
        "persistentVolumeReclaimPolicy": "Delete",
        "volumeMode": spec.get("volumeMode") or "Filesystem",
    }
    if spec.get("storageClassName"):
        body["storageClassName"] = spec["storageClassName"]
    annotations = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": body,
    }
