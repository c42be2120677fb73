"""Connections to containers over HTTP: what admission sees of them, and the words with which they are refused."""

from typing import Any

import pytest

from services.apiserver.admission.chain import Attributes
from services.apiserver.core.status_errors import ApiError
from services.apiserver.server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


def pod(name: str, *containers: str, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": c, "image": "busybox"} for c in containers]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name}, "spec": spec}


class Gate:
    """Admission that remembers connections and refuses those that run `rm`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Look at connections."""
        if attributes.operation == "CONNECT" and attributes.new is not None:
            self.seen.append((attributes.subresource, attributes.new))
            if "rm" in attributes.new.get("command", ()):
                raise ApiError(403, "Forbidden", "no rm")


async def test_a_connection_passes_admission_with_its_parameters(client: Any, server: ApiServer) -> None:
    gate = Gate()
    server.objects.admission.plugins.append(gate)
    await client("POST", PODS, pod("p", "c"))
    code, answer = await client("POST", f"{PODS}/p/exec?command=rm&command=-r&container=c&stdout=true&tty=false")
    assert (code, answer["message"]) == (403, "no rm")
    await client("GET", f"{PODS}/p/portforward?ports=80,81")
    await client("GET", f"{PODS}/p/proxy/a/b")
    await client("GET", f"{PODS}/p/log")
    assert gate.seen == [
        (
            "exec",
            {"kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "container": "c", "command": ["rm", "-r"]},
        ),
        ("portforward", {"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81]}),
        ("proxy", {"kind": "PodProxyOptions", "apiVersion": "v1", "path": "/a/b"}),
    ]


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("none/exec?command=ls", 404, 'pods "none" not found'),
        ("one/exec?command=ls", 400, "pod one does not have a host assigned"),
        ("one/log?container=x", 400, "container x is not valid for pod one"),
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [a b]"),
        ("lost/attach", 404, 'nodes "nowhere" not found'),
        ("placed/log?container=c", 501, 'no kubelet answers for node "n1"'),
        ("one/log?tailLines=x", 400, 'parsing "x": invalid syntax'),
        ("one/log?tailLines=-1", 422, 'PodLogOptions "one" is invalid: tailLines: Invalid value: -1'),
        ("one/log?limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("one/log?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("one/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds`"),
        ("placed/portforward", 501, "nothing can be forwarded to containers here"),
        ("one/proxy", 400, "address not allowed"),
    ],
)
async def test_a_connection_is_refused_with_the_reason(client: Any, path: str, code: int, words: str) -> None:
    await client("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    await client("POST", PODS, pod("one", "c"))
    await client("POST", PODS, pod("two", "a", "b"))
    await client("POST", PODS, pod("lost", "c", node="nowhere"))
    await client("POST", PODS, pod("placed", "c", node="n1"))
    found, answer = await client("GET", f"{PODS}/{path}")
    assert found == code
    assert words in answer["message"]


async def test_a_service_without_endpoints_is_not_proxied(client: Any) -> None:
    await client("POST", SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    code, answer = await client("GET", f"{SERVICES}/web:81/proxy/x")
    assert (code, answer["message"]) == (503, 'no service port 81 found for service "web"')
    code, answer = await client("GET", f"{SERVICES}/web:80/proxy/x")
    assert (code, answer["message"]) == (404, 'endpoints "web" not found')
    await client("POST", SERVICES.replace("services", "endpoints"), {"metadata": {"name": "web"}})
    code, answer = await client("GET", f"{SERVICES}/http:web:80/proxy/x")
    assert (code, answer["message"]) == (503, 'no endpoints available for service "web"')
