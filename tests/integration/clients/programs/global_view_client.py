"""The asynchronous client at the global proxy of two members: pages, a watch, a change, a conflict; `m` is in one."""

import asyncio

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.rest import ApiException

MARK = "resource.karmada.io/cached-from-cluster"


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        pods = await core.list_pod_for_all_namespaces()
        assert [pod.metadata.name for pod in pods.items] == ["a", "b"], pods.items
        assert sorted(pod.metadata.annotations[MARK] for pod in pods.items) == ["member1", "member2"]
        page = await core.list_pod_for_all_namespaces(limit=1)
        rest = await core.list_pod_for_all_namespaces(limit=1, _continue=page.metadata._continue)
        assert [pod.metadata.name for pod in [*page.items, *rest.items]] == ["a", "b"]
        maps = await core.list_namespaced_config_map("default")
        found = await core.read_namespaced_config_map("m", "default")
        found.data = {"x": "2"}
        await core.replace_namespaced_config_map("m", "default", found)
        try:
            await core.replace_namespaced_config_map("m", "default", found)
        except ApiException as error:
            assert error.status == 409, error
        else:
            raise AssertionError("an object of an old version replaced a newer one")
        await core.delete_namespaced_config_map("m", "default")
        seen = []
        async with watch.Watch() as stream:
            async for event in stream.stream(
                core.list_namespaced_config_map,
                "default",
                resource_version=maps.metadata.resource_version,
                timeout_seconds=30,
            ):
                seen.append((event["type"], event["object"].metadata.name))
                if event["type"] == "DELETED":
                    break
        assert seen == [("MODIFIED", "m"), ("DELETED", "m")], seen


asyncio.run(main())
print("done")
