"""Connections to containers, nodes and Services: exec, attach, portforward, proxy and log are admitted, then passed on.

Errors found before a node would be called are those of Kubernetes (a missing object, a pod without a node, a container
that has to be named). What answers for containers is a ContainerRuntime; a server without one answers 501.
"""

from typing import Any, Final
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import forbidden
from services._rules.kubernetes.validation.field_rules import apply, number
from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.core.container_runtime import Connection, ContainerRuntime
from services.apiserver.core.request import RequestInfo, truth
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind, Subresource
from services.apiserver.store.store_port import Key
from services.apiserver.writes.object_writes import Objects

STREAMS: Final = ("attach", "exec", "portforward")
NAMES: Final = frozenset({*STREAMS, "proxy", "log"})
_OF_CONTAINERS: Final = frozenset({*STREAMS, "log"})
_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")
_IN_WORDS: Final = {
    "attach": "attached to",
    "exec": "executed in",
    "portforward": "forwarded to",
    "proxy": "proxied to",
    "log": "read from",
}


class Connections:
    """Answers the subresources that lead to a running container."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.runtime: ContainerRuntime | None = None
        """Set where containers are simulated."""

    async def answer(
        self, kind: Kind, sub: Subresource, info: RequestInfo, http: BaseRequest, call: Call
    ) -> web.StreamResponse:
        """Run admission for the connection and serve it; raises ApiError where it cannot be made."""
        query = parse_qs(http.rel_url.raw_query_string, keep_blank_values=True)
        if sub.name == "log":
            _check_log_options(info.name, query)
        else:
            new = _options(sub, info, query)
            attributes = Attributes("CONNECT", kind, sub.name, info.namespace, info.name, new, None, call)
            await self._objects.admission.mutate(attributes)
            await self._objects.admission.validate(attributes)
        if kind.store_key == "/pods":
            return await self._pod(kind, sub.name, info, query, http, call)
        if kind.store_key == "/services":
            raise self._service(kind, info)
        name = _host(info.name)
        self._objects.get(kind, "", name)
        raise _unreachable(name, sub.name)

    async def _pod(
        self, kind: Kind, sub: str, info: RequestInfo, query: dict[str, list[str]], http: BaseRequest, call: Call
    ) -> web.StreamResponse:
        name = _host(info.name) if sub == "proxy" else info.name
        pod = kind.from_store(self._objects.get(kind, info.namespace, name).obj)
        spec, state = pod.get("spec") or {}, pod.get("status") or {}
        if sub == "proxy":
            if not state.get("podIP"):
                raise status.bad_request("address not allowed")
            raise _unreachable(spec.get("nodeName", ""), sub)
        container = ""
        if sub != "portforward":
            container = _container(name, spec, (query.get("container") or [""])[0])
        node = spec.get("nodeName")
        if not node and sub == "log":
            # Nothing was written yet.
            return web.Response(status=204)
        if not node:
            raise status.bad_request(f"pod {name} does not have a host assigned")
        if self._objects.store.get(Key("", "nodes", "", node)) is None:
            details = {"name": node, "kind": "nodes"}
            raise ApiError(404, "NotFound", f'nodes "{node}" not found', details)
        if self.runtime is None or sub not in _OF_CONTAINERS:
            raise _unreachable(node, sub)
        return await self.runtime.connect(Connection(sub, pod, container, query, call.user), http)

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


_LOG_NUMBERS: Final = (
    number("tailLines", 0),
    number("limitBytes", 1, detail="must be greater than 0"),
    number("sinceSeconds", 1, detail="must be greater than 0"),
)


def _check_log_options(pod: str, query: dict[str, list[str]]) -> None:
    """Raise 400 for numbers of a log's options that are none, 422 for options that ask for nothing."""
    options: dict[str, Any] = {}
    for name in ("tailLines", "limitBytes", "sinceSeconds"):
        if text := (query.get(name) or [""])[0]:
            try:
                options[name] = int(text)
            except ValueError:
                raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    found = apply(_LOG_NUMBERS[:2], options)
    if "sinceSeconds" in options and query.get("sinceTime"):
        found.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    else:
        found += _LOG_NUMBERS[2](options, "")
    if found:
        raise status.invalid("PodLogOptions", pod, found)


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


def _container(pod: str, spec: Manifest, wanted: str) -> str:
    """The container that is meant; raises 400 unless it is one of the pod's, or the pod has only one."""
    names = [c["name"] for c in spec.get("containers") or ()]
    if not wanted:
        if len(names) > 1:
            shown = f"choose one of: [{' '.join(names)}]"
            first = [c["name"] for c in spec.get("initContainers") or ()]
            if first:
                shown += f" or one of the init containers: [{' '.join(first)}]"
            raise status.bad_request(f"a container name must be specified for pod {pod}, {shown}")
        return str(names[0])
    for place in ("initContainers", "ephemeralContainers"):
        names += [c["name"] for c in spec.get(place) or ()]
    if wanted not in names:
        raise status.bad_request(f"container {wanted} is not valid for pod {pod}")
    return wanted


def _unreachable(node: str, sub: str) -> ApiError:
    where = f'node "{node}"' if node else "what it leads to"
    text = (
        f"nothing can be {_IN_WORDS[sub]} containers here: no kubelet answers for {where}. Containers are reached "
        "through the API server of their cluster"
    )
    return ApiError(501, "NotImplemented", text)
