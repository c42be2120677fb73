"""What the simulated cluster holds of an object, and of which objects it takes note."""

from services.apiserver.core.cloning import clone
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.member_sim.embedded import Embedded
from services.member_sim.world.world_model import APPS, CONFIG_MAPS, ROOT_CA, SERVICE_ACCOUNTS, Key, Write, key_of
from services.member_sim.world.world_state import State


async def server() -> ApiServer:
    found = ApiServer(MemoryStore(), builtin_registry(), Settings(tls=False, controllers=False))
    await found.local.create("v1", "namespaces", {"metadata": {"name": "ns"}})
    return found


async def test_update_keeps_managed_fields_that_are_not_held() -> None:
    api = await server()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await api.local.create(
        "apps/v1", "deployments", {"metadata": {"name": "d", "namespace": "ns"}, "spec": spec}
    )
    kept = clone(made)
    state = State()
    state.apply(APPS, made, 0.0)
    assert made == kept
    held = state.find(key_of(APPS, made))
    assert held is not None
    assert "managedFields" not in held["metadata"]
    assert held["spec"] == made["spec"]
    body = {**held, "spec": {**held["spec"], "replicas": 5}}
    outcome = await Embedded(api).perform(Write("update", key_of(APPS, made), body))
    assert outcome.manifest is not None
    managers = {entry["manager"]: entry["fieldsV1"] for entry in outcome.manifest["metadata"]["managedFields"]}
    assert "f:template" in managers["local"]["f:spec"]
    assert managers["member-sim"]["f:spec"] == {"f:replicas": {}}


async def test_only_objects_of_the_controllers_are_read() -> None:
    api = await server()
    for name in (ROOT_CA, "other"):
        await api.local.create("v1", "configmaps", {"metadata": {"name": name, "namespace": "ns"}})
    for name in ("default", "other"):
        await api.local.create("v1", "serviceaccounts", {"metadata": {"name": name, "namespace": "ns"}})
    port = Embedded(api)
    for resource, name in ((CONFIG_MAPS, ROOT_CA), (SERVICE_ACCOUNTS, "default")):
        found, _ = await port.read(resource)
        assert [key_of(resource, manifest) for manifest in found] == [Key(resource, "ns", name)]
        changes = port.watch(resource, "0")
        assert (await anext(changes)).manifest["metadata"]["name"] == name
        await api.local.delete("v1", resource, "ns", "other")
        await api.local.delete("v1", resource, "ns", name)
        last = await anext(changes)
        assert (last.gone, last.manifest["metadata"]["name"]) == (True, name)
        await changes.aclose()  # type: ignore[attr-defined]  # a generator
