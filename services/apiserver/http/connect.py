"""Connections to containers, nodes and Services: exec, attach, portforward, proxy and log are admitted, then refused.

This server has no kubelets behind it. Errors found before a node would be called are those of Kubernetes (a missing
object, a pod without a node, a container that has to be named); otherwise the answer is 501 with the reason.
"""

from typing import Any, Final
from urllib.parse import parse_qs

from schemas.manifest import Manifest
from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.core.request import RequestInfo, truth
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind, Subresource
from services.apiserver.store.store_port import Key
from services.apiserver.writes.object_writes import Objects

STREAMS: Final = ("attach", "exec", "portforward")
NAMES: Final = (*STREAMS, "proxy", "log")
_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")
_IN_WORDS: Final = {
    "attach": "attached to",
    "exec": "executed in",
    "portforward": "forwarded to",
    "proxy": "proxied to",
    "log": "read from",
}


class Connections:
    """Answers the subresources that would lead to a running container."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def refuse(self, kind: Kind, sub: Subresource, info: RequestInfo, query: str, call: Call) -> ApiError:
        """Run admission for the connection and return why it cannot be made; raises ApiError when it is not allowed."""
        if sub.name != "log":
            new = _options(sub, info, parse_qs(query, keep_blank_values=True))
            attributes = Attributes("CONNECT", kind, sub.name, info.namespace, info.name, new, None, call)
            await self._objects.admission.mutate(attributes)
            await self._objects.admission.validate(attributes)
        container = (parse_qs(query).get("container") or [""])[0]
        if kind.store_key == "/pods":
            return self._pod(kind, sub.name, info, container)
        if kind.store_key == "/services":
            return self._service(kind, info)
        name = _host(info.name)
        self._objects.get(kind, "", name)
        return _unreachable(name, sub.name)

    def _pod(self, kind: Kind, sub: str, info: RequestInfo, container: str) -> ApiError:
        name = _host(info.name) if sub == "proxy" else info.name
        pod = kind.from_store(self._objects.get(kind, info.namespace, name).obj)
        spec, state = pod.get("spec") or {}, pod.get("status") or {}
        if sub == "proxy":
            if not state.get("podIP"):
                return status.bad_request("address not allowed")
            return _unreachable(spec.get("nodeName", ""), sub)
        if sub != "portforward":
            _check_container(name, spec, container)
        node = spec.get("nodeName")
        if not node:
            return status.bad_request(f"pod {name} does not have a host assigned")
        if self._objects.store.get(Key("", "nodes", "", node)) is None:
            details = {"name": node, "kind": "nodes"}
            return ApiError(404, "NotFound", f'nodes "{node}" not found', details)
        return _unreachable(node, sub)

    def _service(self, kind: Kind, info: RequestInfo) -> ApiError:
        name, port = _host(info.name), _port(info.name)
        service = self._objects.get(kind, info.namespace, name).obj
        ports = (service.get("spec") or {}).get("ports") or []
        if port.isdigit() and not any(str(p.get("port")) == port for p in ports):
            return status.unavailable(f'no service port {port} found for service "{name}"')
        endpoints = self._objects.store.get(Key("", "endpoints", info.namespace, name))
        if endpoints is None:
            details = {"name": name, "kind": "endpoints"}
            return ApiError(404, "NotFound", f'endpoints "{name}" not found', details)
        if not any(subset.get("addresses") for subset in endpoints.obj.get("subsets") or ()):
            return status.unavailable(f'no endpoints available for service "{name}"')
        return _unreachable("", "proxy")


def _host(name: str) -> str:
    """The object's name in `[scheme:]name[:port]`."""
    parts = name.split(":")
    return parts[1] if len(parts) == 3 else parts[0]


def _port(name: str) -> str:
    parts = name.split(":")
    return parts[-1] if len(parts) > 1 else ""


def _options(sub: Subresource, info: RequestInfo, query: dict[str, list[str]]) -> Manifest:
    """The object that admission sees: the parameters of the connection."""
    options: dict[str, Any] = {"kind": sub.kind, "apiVersion": "v1"}
    if sub.name == "proxy":
        return options | {"path": f"/{info.tail}"} if info.tail else options
    if sub.name == "portforward":
        ports = [int(port) for text in query.get("ports", ()) for port in text.split(",") if port.isdigit()]
        return options | {"ports": ports} if ports else options
    options |= {name: True for name in _FLAGS if truth((query.get(name) or ["false"])[0])}
    if query.get("container"):
        options["container"] = query["container"][0]
    if sub.name == "exec" and query.get("command"):
        options["command"] = query["command"]
    return options


def _check_container(pod: str, spec: Manifest, wanted: str) -> None:
    """Raise 400 unless the container is one of the pod's, or the pod has only one."""
    names = [c["name"] for c in spec.get("containers") or ()]
    if not wanted:
        if len(names) > 1:
            shown = f"choose one of: [{' '.join(names)}]"
            first = [c["name"] for c in spec.get("initContainers") or ()]
            if first:
                shown += f" or one of the init containers: [{' '.join(first)}]"
            raise status.bad_request(f"a container name must be specified for pod {pod}, {shown}")
        return
    for place in ("initContainers", "ephemeralContainers"):
        names += [c["name"] for c in spec.get(place) or ()]
    if wanted not in names:
        raise status.bad_request(f"container {wanted} is not valid for pod {pod}")


def _unreachable(node: str, sub: str) -> ApiError:
    where = f'node "{node}"' if node else "what it leads to"
    text = (
        f"nothing can be {_IN_WORDS[sub]} containers here: no kubelet answers for {where}. Containers of simulated "
        "members do not run; those of other clusters are reached through the API server of their cluster"
    )
    return ApiError(501, "NotImplemented", text)
