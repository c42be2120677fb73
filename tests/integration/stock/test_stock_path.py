"""The main path with API servers that run no controllers: definitions, division, updates, status, removal."""

from __future__ import annotations

import asyncio
import base64
from functools import partial

import pytest

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules import constants as const
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.integration.stock.conftest import Stock
from tests.integration.stock.walking import (
    CLUSTER_POLICIES,
    CLUSTERS,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    POLICIES,
    SECRETS,
    Walk,
    deployment,
    found,
    weights,
)
from tests.support.closing import closing
from tests.support.waiting import comes_to

pytestmark = pytest.mark.xdist_group("stock")


async def test_crds_are_accepted_and_reapplied_unchanged(stock: Stock, control: KubeClient) -> None:
    wanted = needed_definitions()
    before = {crd["metadata"]["name"]: crd for crd in (await control.get(resource_path(*DEFINITIONS)))["items"]}
    for crd in wanted:
        conditions = {
            entry["type"]: entry["status"] for entry in before[crd["metadata"]["name"]]["status"]["conditions"]
        }
        assert conditions.get("Established") == "True"
        assert conditions.get("NamesAccepted") == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"
    assert await apply_definitions(control, wanted) == f"0 created, 0 updated, {len(wanted)} unchanged"
    after = {crd["metadata"]["name"]: crd for crd in (await control.get(resource_path(*DEFINITIONS)))["items"]}
    for crd in wanted:
        name = crd["metadata"]["name"]
        assert after[name]["metadata"]["resourceVersion"] == before[name]["metadata"]["resourceVersion"]


async def test_member_joins_with_identity_and_credentials(
    stock: Stock, control: KubeClient, members: dict[str, KubeClient]
) -> None:
    for name, member in members.items():
        cluster = await control.get(resource_path(*CLUSTERS, "", name))
        system = await member.get(resource_path(*NAMESPACES, "", "kube-system"))
        assert cluster["spec"]["id"] == system["metadata"]["uid"]
        assert cluster["status"]["kubernetesVersion"] == (await member.get("/version"))["gitVersion"]
        ref = cluster["spec"]["secretRef"]
        secret = await control.get(resource_path(*SECRETS, ref["namespace"], ref["name"]))
        token = base64.b64decode(secret["data"]["token"]).decode()
        async with closing(KubeClient.from_token(member.server, token, insecure=True)) as ours:
            assert (await ours.get(resource_path(*NAMESPACES, "", "kube-system")))["metadata"]["uid"]


async def test_a_deployment_is_divided_claimed_and_marked(walk: Walk) -> None:
    await walk.begin()
    assert await walk.replicas() == {walk.first: 1, walk.second: 1}
    policy = await walk.control.get(walk.path(POLICIES))
    permanent = policy["metadata"]["labels"][const.PROPAGATION_POLICY_ID_LABEL]

    async def claim() -> object:
        return (await walk.template())["metadata"]["labels"].get(const.PROPAGATION_POLICY_ID_LABEL)

    await comes_to("the id in the template's claim", claim, permanent)
    template = await walk.template()
    assert template["metadata"]["annotations"][const.PROPAGATION_POLICY_NAME_ANNOTATION] == walk.name
    assert template["metadata"]["annotations"][const.PROPAGATION_POLICY_NAMESPACE_ANNOTATION] == "default"
    for member in (walk.first, walk.second):
        copy = (await walk.copy(member))["metadata"]
        assert copy["labels"][const.MANAGED_LABEL] == "true"
        assert copy["labels"][const.PROPAGATION_POLICY_ID_LABEL] == permanent
        assert copy["labels"][const.WORK_ID_LABEL]
        assert copy["labels"][const.RESOURCE_BINDING_ID_LABEL]
        assert copy["annotations"][const.TEMPLATE_UID_ANNOTATION] == template["metadata"]["uid"]
        assert copy["annotations"][const.WORK_NAMESPACE_ANNOTATION] == f"karmada-es-{member}"


async def test_the_story_is_told_in_events_of_the_template(walk: Walk) -> None:
    await walk.begin()
    wanted = {"ApplyPolicySucceed", "ScheduleBindingSucceed", "SyncWorkSucceed", "SyncSucceed"}

    async def told() -> bool:
        listed = await walk.control.get(
            resource_path(*EVENTS, "default"), params={"fieldSelector": f"involvedObject.name={walk.name}"}
        )
        assert all(event["type"] == "Normal" for event in listed["items"]), listed["items"]
        return {event["reason"] for event in listed["items"]} >= wanted

    await comes_to("events of the Deployment", told)


async def test_more_replicas_and_other_weights_are_divided_otherwise(walk: Walk) -> None:
    await walk.begin()
    await walk.change({"spec": {"replicas": 8}})
    await comes_to("replicas by member", walk.replicas, {walk.first: 4, walk.second: 4})
    await walk.change({"spec": {"placement": weights({walk.first: 3, walk.second: 1})}}, POLICIES)
    await comes_to("replicas by member", walk.replicas, {walk.first: 6, walk.second: 2})
    await walk.change({"spec": {"placement": weights({walk.first: 1, walk.third: 1})}}, POLICIES)
    await comes_to("replicas by member", walk.replicas, {walk.first: 4, walk.third: 4})


async def test_a_changed_image_and_a_removed_field_reach_every_copy(walk: Walk) -> None:
    await walk.begin()
    live = await walk.template()
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "registry.example/web:2"
    del container["resources"]
    live["metadata"]["labels"]["tier"] = "front"
    await walk.control.update(walk.path(), {name: value for name, value in live.items() if name != "status"})

    async def seen(member: str) -> object:
        copy = await walk.copy(member)
        container = copy["spec"]["template"]["spec"]["containers"][0]
        return container["image"], container.get("resources") or None, copy["metadata"]["labels"].get("tier")

    for member in (walk.first, walk.second):
        await comes_to(f"the copy in {member}", partial(seen, member), ("registry.example/web:2", None, "front"))
    await walk.change({"metadata": {"labels": {"tier": None}}})
    for member in (walk.first, walk.second):
        await comes_to(f"the copy in {member}", partial(seen, member), ("registry.example/web:2", None, None))


async def test_status_of_members_is_summed_on_the_template(walk: Walk, stock: Stock) -> None:
    await walk.begin(replicas=12)
    await comes_to("replicas by member", walk.replicas, {walk.first: 6, walk.second: 6})

    async def report(member: str, ready: int) -> None:
        copy = await walk.copy(member)
        status = {"observedGeneration": copy["metadata"]["generation"], "replicas": 6, "updatedReplicas": 6}
        status |= {"readyReplicas": ready, "availableReplicas": ready, "unavailableReplicas": 6 - ready}
        await walk.members[member].patch(f"{walk.path()}/status", {"status": status})

    for ready in range(1, 7):
        await asyncio.gather(report(walk.first, ready), report(walk.second, ready))

    async def summed() -> object:
        status = (await walk.template()).get("status") or {}
        return tuple(status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"))

    await comes_to("the summed status", summed, (12, 12, 12, 12))
    template = await walk.template()
    assert template["status"]["observedGeneration"] == template["metadata"]["generation"]
    await report(walk.second, 2)
    await comes_to("the summed status", summed, (12, 12, 8, 8))
    assert "background_work_failed" not in stock.fleet.layout.log("status_aggregator").read_text()


async def test_an_object_of_another_owner_is_left_alone_and_told_of(walk: Walk) -> None:
    foreign = deployment(walk.name, replicas=3, image="registry.example/other:1")
    await walk.members[walk.first].create(resource_path(*DEPLOYMENTS, "default"), foreign)
    try:
        await walk.begin()

        async def warned() -> bool:
            listed = await walk.control.get(
                resource_path(*EVENTS, "default"), params={"fieldSelector": f"involvedObject.name={walk.name}"}
            )
            return any(event["type"] == "Warning" and walk.first in event["message"] for event in listed["items"])

        await comes_to("a warning", warned)
        assert await walk.replicas() == {walk.first: 3, walk.second: 1}
    finally:
        await walk.members[walk.first].delete(walk.path())


async def test_config_maps_and_secrets_follow_their_content(walk: Walk) -> None:
    metadata = {"name": walk.name, "namespace": "default"}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
    await walk.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}})
    await walk.create(SECRETS, {**secret, "stringData": {"password": "first"}})
    selectors = [walk.selector("v1", "ConfigMap"), walk.selector("v1", "Secret")]
    await walk.policy(selectors, {"clusterAffinity": {"clusterNames": [walk.first, walk.third]}})

    async def content() -> dict[str, object]:
        maps = {name: (await walk.copy(name, CONFIG_MAPS)).get("data") for name in walk.members}
        secrets = {name: (await walk.copy(name, SECRETS)).get("data") for name in walk.members}
        return {name: (maps[name], secrets[name]) for name in walk.members}

    def everywhere(value: object) -> dict[str, object]:
        return {walk.first: value, walk.second: (None, None), walk.third: value}

    first = {"password": base64.b64encode(b"first").decode()}
    await comes_to("content", content, everywhere(({"a": "1"}, first)))
    await walk.change({"data": {"a": None, "b": "2"}}, CONFIG_MAPS)
    second = {"password": base64.b64encode(b"second").decode()}
    await walk.change({"data": second}, SECRETS)
    await comes_to("content", content, everywhere(({"b": "2"}, second)))
    for kind in (CONFIG_MAPS, SECRETS):
        await walk.control.delete(walk.path(kind))
    await comes_to("content", content, everywhere((None, None)))


async def test_a_namespace_is_made_in_every_member_and_used_there(walk: Walk) -> None:
    await walk.control.create(resource_path(*NAMESPACES), {"kind": "Namespace", "metadata": {"name": walk.name}})
    manifest = {"kind": "ConfigMap", "metadata": {"name": walk.name, "namespace": walk.name}, "data": {"a": "1"}}
    await walk.create(CONFIG_MAPS, {"apiVersion": "v1", **manifest})
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": walk.name, "namespace": walk.name},
        "spec": {"resourceSelectors": [walk.selector("v1", "ConfigMap")]},
    }
    await walk.create(POLICIES, policy)
    path = resource_path(*CONFIG_MAPS, walk.name, walk.name)

    async def copies() -> list[str]:
        return [name for name, member in walk.members.items() if await found(member, path)]

    await comes_to("members with the ConfigMap", copies, list(walk.members))


async def test_a_definition_and_then_its_objects_are_propagated(walk: Walk) -> None:
    group = f"{walk.name}.example"
    kind = (group, "v1", "widgets")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    selectors = [
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": f"widgets.{group}"},
        {"apiVersion": f"{group}/v1", "kind": "Widget"},
    ]
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": walk.name},
        "spec": {"resourceSelectors": selectors},
    }
    await walk.create(CLUSTER_POLICIES, policy)
    await walk.create(DEFINITIONS, definition)

    async def served() -> bool:
        return any(resource.group == group for resource in await walk.control.discover())

    await comes_to("the kind in the control plane", served)
    widget: Manifest = {"apiVersion": f"{group}/v1", "kind": "Widget", "spec": {"size": 1}}
    await walk.create(kind, {**widget, "metadata": {"name": walk.name, "namespace": "default"}})

    async def sizes() -> list[object]:
        copies = [await walk.copy(name, kind) for name in walk.members]
        return [copy.get("spec", {}).get("size") for copy in copies]

    await comes_to("the size everywhere", sizes, [1, 1, 1])
    await walk.change({"spec": {"size": 2}}, kind)
    await comes_to("the size everywhere", sizes, [2, 2, 2])
    await walk.remove(walk.path(kind))
    await comes_to("the size everywhere", sizes, [None, None, None])


async def test_deleted_template_removes_its_copies_only(walk: Walk) -> None:
    await walk.begin()
    template = await walk.template()
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": walk.name, "uid": template["metadata"]["uid"]}
    metadata = {"name": walk.name, "namespace": "default", "ownerReferences": [owner]}
    await walk.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    await walk.control.delete(walk.path())
    await comes_to("members with a copy", walk.placed, [])
    assert (await found(walk.control, walk.path(CONFIG_MAPS))) is not None


async def test_without_the_policy_the_copies_stay_and_the_claim_goes(walk: Walk) -> None:
    await walk.begin()
    await walk.control.delete(walk.path(POLICIES))

    async def claims() -> list[str]:
        metadata = (await walk.template())["metadata"]
        names = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
        return [name for name in names if name.startswith("propagationpolicy.karmada.io/")]

    await comes_to("claims on the template", claims, [])
    assert await walk.replicas() == {walk.first: 1, walk.second: 1}

    async def policy() -> Manifest | None:
        return await found(walk.control, walk.path(POLICIES))

    await comes_to("the policy that is deleted", policy, None)
    await walk.policy([walk.selector("apps/v1", "Deployment")], weights({walk.first: 1}))
    await comes_to("replicas by member", walk.replicas, {walk.first: 2})


@pytest.mark.parametrize("field", ["resourceSelectors", "placement"])
async def test_the_schema_refuses_a_policy_of_the_wrong_shape(control: KubeClient, field: str) -> None:
    spec: Manifest = {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], field: "text"}
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "spec": spec}
    with pytest.raises(ApiError) as refused:
        await control.create(resource_path(*POLICIES, "default"), {**policy, "metadata": {"name": "wrong"}})
    assert refused.value.status == 422
    assert field in refused.value.message
