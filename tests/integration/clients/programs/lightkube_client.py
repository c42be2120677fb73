"""lightkube: typed objects, apply, patch, list, watch, status of an error, generic resources."""

from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

client = Client(field_manager="tester", namespace="default")
client.create(Namespace(metadata=ObjectMeta(name="team")))
made = client.create(ConfigMap(metadata=ObjectMeta(name="a", labels={"k": "v"}), data={"x": "1"}))
made.data["y"] = "2"
made = client.replace(made)
client.patch(ConfigMap, "a", {"data": {"x": None}}, patch_type=PatchType.MERGE)
assert client.get(ConfigMap, "a").data == {"y": "2"}
assert [item.metadata.name for item in client.list(ConfigMap, labels={"k": "v"})] == ["a"]
template = PodTemplateSpec(
    metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=[Container(name="web", image="nginx")])
)
wanted = Deployment(
    apiVersion="apps/v1",
    kind="Deployment",
    metadata=ObjectMeta(name="web", namespace="team"),
    spec=DeploymentSpec(selector=LabelSelector(matchLabels={"a": "b"}), template=template, replicas=2),
)
client.apply(wanted)
wanted.spec.replicas = 4
assert client.apply(wanted).spec.replicas == 4
try:
    client.create(ConfigMap(metadata=ObjectMeta(name="Not_A_Name")))
except ApiError as error:
    assert (error.status.code, error.status.reason) == (422, "Invalid")
version = client.get(ConfigMap, "a").metadata.resourceVersion
client.delete(ConfigMap, "a")
for operation, found in client.watch(ConfigMap, resource_version=version, server_timeout=30):
    assert (operation, found.metadata.name) == ("DELETED", "a")
    break
Lease = create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases")
client.create(Lease(metadata={"name": "l"}, spec={"holderIdentity": "me"}))
assert client.get(Lease, "l").spec["holderIdentity"] == "me"
print("done")
