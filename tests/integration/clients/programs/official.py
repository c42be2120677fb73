"""The official client: objects, selectors, pages, watches, patches, definitions, reviews, leases, leader election."""

import threading

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

config.load_kube_config()
core, apps, ext = client.CoreV1Api(), client.AppsV1Api(), client.ApiextensionsV1Api()
core.create_namespace({"metadata": {"name": "tenant"}})


def refused(code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == code, (code, error.status, error.body)
        return error.body
    raise AssertionError(f"{call.__name__} was not refused with {code}")


# Objects, selectors, pages.
for number in range(25):
    labels = {"odd": str(number % 2)}
    core.create_namespaced_config_map("tenant", {"metadata": {"name": f"c{number:02}", "labels": labels}})
refused(409, core.create_namespaced_config_map, "tenant", {"metadata": {"name": "c00"}})
refused(404, core.read_namespaced_config_map, "absent", "tenant")
odd = core.list_namespaced_config_map("tenant", label_selector="odd=1").items
assert [item.metadata.name for item in odd] == [f"c{number:02}" for number in range(1, 25, 2)]
page = core.list_namespaced_config_map("tenant", label_selector="odd", limit=10)
seen, version = [item.metadata.name for item in page.items], page.metadata.resource_version
core.delete_namespaced_config_map("c20", "tenant")
while page.metadata._continue:
    page = core.list_namespaced_config_map("tenant", label_selector="odd", limit=10, _continue=page.metadata._continue)
    assert page.metadata.resource_version == version
    seen += [item.metadata.name for item in page.items]
assert seen == [f"c{number:02}" for number in range(25)], seen

# A watch with a selector sees objects come into it and leave it.
changes = []


def follow():
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        "tenant",
        label_selector="odd=1",
        resource_version=version,
        timeout_seconds=30,
    )
    for event in stream:
        changes.append((event["type"], event["object"].metadata.name))
        if len(changes) == 3:
            return


follower = threading.Thread(target=follow)
follower.start()
for name, value in (("c00", "1"), ("c00", "0"), ("c02", "1")):
    core.patch_namespaced_config_map(name, "tenant", {"metadata": {"labels": {"odd": value}}})
follower.join(60)
assert changes == [("ADDED", "c00"), ("DELETED", "c00"), ("ADDED", "c02")], changes

# Patches, preconditions, dry run, status and scale.
pod = {"containers": [{"name": "web", "image": "nginx"}]}
spec = {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}}
made = apps.create_namespaced_deployment("tenant", {"metadata": {"name": "web"}, "spec": spec})
assert (made.spec.replicas, made.spec.template.spec.restart_policy) == (1, "Always")
side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}
made = apps.patch_namespaced_deployment("web", "tenant", side)
assert sorted(item.name for item in made.spec.template.spec.containers) == ["side", "web"]
apps.patch_namespaced_deployment_scale("web", "tenant", {"spec": {"replicas": 4}})
assert apps.read_namespaced_deployment_scale("web", "tenant").spec.replicas == 4
apps.patch_namespaced_deployment("web", "tenant", {"spec": {"replicas": 9}}, dry_run="All")
found = apps.read_namespaced_deployment("web", "tenant")
assert found.spec.replicas == 4
found.spec.replicas = 5
apps.replace_namespaced_deployment("web", "tenant", found)
refused(409, apps.replace_namespaced_deployment, "web", "tenant", found)
body = refused(422, apps.patch_namespaced_deployment, "web", "tenant", {"spec": {"replicas": -1}})
assert "spec.replicas" in body
wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="other"))
refused(409, apps.delete_namespaced_deployment, "web", "tenant", body=wrong)

# Definitions, their objects through the dynamic client, server-side apply.
rules = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            },
        }
    },
}
names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": rules}}]
definition = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gears.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
}
ext.create_custom_resource_definition(definition)
for event in watch.Watch().stream(ext.list_custom_resource_definition, timeout_seconds=30):
    conditions = event["object"].status.conditions or []
    if any(item.type == "Established" and item.status == "True" for item in conditions):
        break
dynamic = DynamicClient(client.ApiClient())
gears = dynamic.resources.get(api_version="example.com/v1", kind="Gear")
gear = {"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"size": 3}}
assert gears.create(body=gear, namespace="tenant").spec.color == "red"
for size, color, field in ((0, "red", "spec.size"), (3, "green", "spec.color")):
    bad = {**gear, "metadata": {"name": "bad"}, "spec": {"size": size, "color": color}}
    assert field in refused(422, gears.create, body=bad, namespace="tenant")
applied = {**gear, "spec": {"size": 5}}
gears.server_side_apply(body=applied, name="g", namespace="tenant", field_manager="one", force_conflicts=True)
other = {**gear, "spec": {"size": 6}}
assert "conflict" in refused(
    409, gears.server_side_apply, body=other, name="g", namespace="tenant", field_manager="two"
)
gears.server_side_apply(body=other, name="g", namespace="tenant", field_manager="two", force_conflicts=True)
assert gears.get(name="g", namespace="tenant").spec.size == 6

# Who may do what: a ServiceAccount without a role, then with one.
core.create_namespaced_service_account("tenant", {"metadata": {"name": "robot"}})
token = core.create_namespaced_service_account_token("robot", "tenant", {"spec": {"expirationSeconds": 600}})
there = client.Configuration.get_default_copy()
there.cert_file = there.key_file = None
there.api_key = {"authorization": f"Bearer {token.status.token}"}
robot = client.CoreV1Api(client.ApiClient(there))
refused(403, robot.list_namespaced_config_map, "tenant")
rbac = client.RbacAuthorizationV1Api()
rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
rbac.create_namespaced_role("tenant", {"metadata": {"name": "lister"}, "rules": [rule]})
subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "tenant"}
role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lister"}
binding = {"metadata": {"name": "lister"}, "subjects": [subject], "roleRef": role}
rbac.create_namespaced_role_binding("tenant", binding)
assert len(robot.list_namespaced_config_map("tenant").items) >= 24
refused(403, robot.list_namespaced_secret, "tenant")
refused(403, robot.delete_namespaced_config_map, "c01", "tenant")

# Leases, garbage collection, the end of a namespace.
leases = client.CoordinationV1Api()
leases.create_namespaced_lease("tenant", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
lease = leases.read_namespaced_lease("l", "tenant")
lease.spec.holder_identity = "b"
assert leases.replace_namespaced_lease("l", "tenant", lease).spec.holder_identity == "b"
owner = core.create_namespaced_config_map("tenant", {"metadata": {"name": "owner"}})
reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
core.create_namespaced_secret("tenant", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
since = core.list_namespaced_secret("tenant").metadata.resource_version
core.delete_namespaced_config_map("owner", "tenant")
for event in watch.Watch().stream(
    core.list_namespaced_secret,
    "tenant",
    resource_version=since,
    timeout_seconds=30,
    field_selector="metadata.name=owned",
):
    if event["type"] == "DELETED":
        break
else:
    raise AssertionError("the owned Secret stayed")
since = core.list_namespace().metadata.resource_version
core.delete_namespace("tenant")
for event in watch.Watch().stream(core.list_namespace, resource_version=since, timeout_seconds=60):
    if (event["type"], event["object"].metadata.name) == ("DELETED", "tenant"):
        break
else:
    raise AssertionError("the namespace stayed")
print("done")
