"""A kopf operator: handlers of creation, update and deletion, a finalizer, a status, Events beside the object."""

import asyncio
import logging
import threading

import kopf
from kubernetes import client, config, watch

logging.basicConfig(level=logging.INFO)
config.load_kube_config()
core, custom, ext = client.CoreV1Api(), client.CustomObjectsApi(), client.ApiextensionsV1Api()
PLACE = ("example.com", "v1", "default", "gears")
anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
version["subresources"] = {"status": {}}
spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
ext.create_custom_resource_definition({"metadata": {"name": "gears.example.com"}, "spec": spec})
handled = []


@kopf.on.startup()
def quick(settings, **_):
    settings.posting.level = 20
    settings.persistence.finalizer = "example.com/finalizer"


@kopf.on.create("example.com", "v1", "gears")
def created(spec, body, patch, **_):
    kopf.info(body, reason="Sized", message="it has a size")
    handled.append("created")
    patch.status["size"] = spec["size"]


@kopf.on.update("example.com", "v1", "gears")
def updated(old, new, **_):
    handled.append(f"updated {old['spec']['size']} {new['spec']['size']}")


@kopf.on.delete("example.com", "v1", "gears")
def deleted(**_):
    handled.append("deleted")


ready, stop = threading.Event(), threading.Event()


def operate():
    asyncio.run(kopf.operator(namespaces=["default"], ready_flag=ready, stop_flag=stop, standalone=True))


operator = threading.Thread(target=operate, daemon=True)
operator.start()
assert ready.wait(60)


def until(check, since="0"):
    if check(custom.get_namespaced_custom_object(*PLACE, "g")):
        return
    for event in watch.Watch().stream(custom.list_namespaced_custom_object, *PLACE, timeout_seconds=60):
        if event["type"] == "DELETED" or check(event["object"]):
            return
    raise AssertionError(handled)


gear = {"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"size": 1}}
custom.create_namespaced_custom_object(*PLACE, gear)
until(lambda found: found.get("status", {}).get("size") == 1)
assert custom.get_namespaced_custom_object(*PLACE, "g")["metadata"]["finalizers"] == ["example.com/finalizer"]
custom.patch_namespaced_custom_object(*PLACE, "g", {"spec": {"size": 2}})
last = "kopf.zalando.org/last-handled-configuration"
until(lambda found: '"size":2' in found["metadata"]["annotations"].get(last, ""))
custom.delete_namespaced_custom_object(*PLACE, "g")
for event in watch.Watch().stream(custom.list_namespaced_custom_object, *PLACE, timeout_seconds=60):
    if event["type"] == "DELETED":
        break
    if not custom.list_namespaced_custom_object(*PLACE)["items"]:
        break
assert handled == ["created", "updated 1 2", "deleted"], handled
about = {event.involved_object.name for event in core.list_namespaced_event("default").items}
assert "g" in about, about
stop.set()
operator.join(60)
print("done")
