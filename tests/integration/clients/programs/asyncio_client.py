"""The asynchronous client: objects, four kinds of patches, a watch, a conflict."""

import asyncio

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.rest import ApiException


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        made = await core.create_namespaced_config_map("default", {"metadata": {"name": "a"}, "data": {"x": "1"}})
        for media, body in (
            ("application/json-patch+json", [{"op": "add", "path": "/data/y", "value": "2"}]),
            ("application/merge-patch+json", {"data": {"x": None}}),
            ("application/strategic-merge-patch+json", {"data": {"z": "3"}}),
        ):
            await core.patch_namespaced_config_map("a", "default", body, _content_type=media)
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"own": "4"}}
        found = await core.patch_namespaced_config_map(
            "a", "default", applied, field_manager="m", _content_type="application/apply-patch+yaml"
        )
        assert found.data == {"y": "2", "z": "3", "own": "4"}, found.data
        made.data = {"late": "1"}
        try:
            await core.replace_namespaced_config_map("a", "default", made)
        except ApiException as error:
            assert error.status == 409
        else:
            raise AssertionError("an object of an old version replaced a newer one")
        version = found.metadata.resource_version
        await core.delete_namespaced_config_map("a", "default")
        async with watch.Watch() as stream:
            async for event in stream.stream(
                core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=30
            ):
                assert event["type"] == "DELETED"
                break


asyncio.run(main())
print("done")
