"""Namespaces: each gets a default ServiceAccount and the cluster's certificate authority."""

from services.member_sim.world.world_model import (
    CONFIG_MAPS,
    NOTHING,
    ROOT_CA,
    SERVICE_ACCOUNTS,
    Decision,
    Key,
    Turn,
    Write,
)
from services.member_sim.world.world_state import State


def decide_namespace(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one namespace."""
    if state.closing(key.name):
        return NOTHING
    writes = []
    if state.get(SERVICE_ACCOUNTS, key.name, "default") is None:
        body = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": key.name},
        }
        writes.append(Write("create", Key(SERVICE_ACCOUNTS, key.name, "default"), body))
    data = {"ca.crt": turn.config.ca}
    present = state.get(CONFIG_MAPS, key.name, ROOT_CA)
    if present is None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "namespace": key.name},
            "data": data,
        }
        writes.append(Write("create", Key(CONFIG_MAPS, key.name, ROOT_CA), body))
    elif present.get("data") != data:
        writes.append(Write("update", Key(CONFIG_MAPS, key.name, ROOT_CA), {**present, "data": data}))
    return Decision(writes)
