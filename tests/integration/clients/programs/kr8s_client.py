"""kr8s: create, get, list by labels, patch, scale, watch, wait, delete."""

import threading

import kr8s
from kr8s.objects import ConfigMap, Deployment, new_class

api = kr8s.api()
assert api.version()["major"] == "1"
made = ConfigMap({"metadata": {"name": "a", "namespace": "default", "labels": {"k": "v"}}, "data": {"x": "1"}})
made.create()
assert made.exists()
assert [item.name for item in kr8s.get("configmaps", namespace="default", label_selector={"k": "v"})] == ["a"]
made.patch({"data": {"y": "2"}})
made.label(more="yes")
made.annotate(note="text")
made.refresh()
assert made.data.to_dict() == {"x": "1", "y": "2"}
assert (made.labels["more"], made.annotations["note"]) == ("yes", "text")

pod = {"containers": [{"name": "web", "image": "nginx"}]}
spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}
web = Deployment({"metadata": {"name": "web", "namespace": "default"}, "spec": {**spec, "replicas": 1}})
web.create()
web.patch({"spec": {"replicas": 3}})
web.refresh()
assert web.replicas == 3

timer = threading.Timer(0.5, lambda: Deployment.get("web", namespace="default").delete())
timer.start()
web.wait("delete", timeout=60)
timer.join()
assert not web.exists()

Lease = new_class(kind="Lease", version="coordination.k8s.io/v1", namespaced=True)
Lease({"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "me"}}).create()
assert Lease.get("l", namespace="default").spec.holderIdentity == "me"
made.delete()
assert "deployments" in {item["name"] for item in api.api_resources()}
try:
    ConfigMap.get("a", namespace="default")
except kr8s.NotFoundError:
    print("done")
