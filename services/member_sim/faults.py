"""The faults of one member: how its API answers, which nodes are stopped, which pods crash."""

from typing import Literal

import msgspec

from schemas.manifest import Manifest
from services.member_sim.world.world_model import NODES, PODS, RESOURCE_OF_KIND, Key
from services.member_sim.world.world_state import State

Mode = Literal["none", "stop", "slow", "refuse"]
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]

_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


class ApiFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the API answers: stop closes the listener, slow delays, refuse answers with ``status``.

    An empty ``verbs`` means all of them.
    """

    mode: Mode = "none"
    delay_ms: int = 1000
    status: Literal[429, 500, 503] = 503
    verbs: list[Verb] = []

    def touches(self, verb: str) -> bool:
        """Return whether requests of this verb are affected."""
        return not self.verbs or verb in self.verbs


class PodFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether the pods of a workload (or one pod) crash."""

    namespace: str
    name: str
    kind: Literal["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod"] = "Deployment"
    crash: bool = True


class NodeFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether nodes are ready; an empty list means all nodes."""

    names: list[str] = []
    ready: bool = False


class UnknownTarget(ValueError):
    """A fault names a node or workload that the member does not have."""


def verb_of(method: str, path: str, query: str) -> str:
    """Return the Kubernetes verb of a request; requests for other paths than objects are ``get``."""
    verb = _VERBS.get(method, method.lower())
    if verb != "get":
        return verb
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    if "watch=" in query and "watch=0" not in query and "watch=false" not in query:
        return "watch"
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "list" if len(rest) == 1 else "get"


def refusal(fault: ApiFault) -> tuple[int, Manifest]:
    """Return code and Status of a refused request."""
    body: Manifest = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"a fault set on this member refuses the request with {fault.status}",
        "reason": _REASONS[fault.status],
        "code": fault.status,
    }
    if fault.status == 429:
        body["details"] = {"retryAfterSeconds": 1}
    return fault.status, body


def set_pods(state: State, fault: PodFault) -> list[Key]:
    """Make pods crash or heal; returns the dirty keys, raises UnknownTarget."""
    if state.get(RESOURCE_OF_KIND[fault.kind], fault.namespace, fault.name) is None:
        raise UnknownTarget(f"there is no {fault.kind} {fault.namespace}/{fault.name} in this member")
    entry = (fault.namespace, fault.kind, fault.name)
    if fault.crash:
        state.crashing.add(entry)
    else:
        state.crashing.discard(entry)
    return [Key(PODS, fault.namespace, name) for name in state.in_namespace(PODS, fault.namespace)]


def set_nodes(state: State, fault: NodeFault) -> list[Key]:
    """Stop or start kubelets; returns the dirty keys, raises UnknownTarget."""
    known = state.in_namespace(NODES, "")
    for name in fault.names:
        if name not in known:
            raise UnknownTarget(f"there is no node {name}; this member has {', '.join(sorted(known)) or 'none'}")
    names = fault.names or list(known)
    if fault.ready:
        state.down.difference_update(names)
    else:
        state.down.update(names)
    return [Key(NODES, "", name) for name in names] + [key for name in names for key in state.pods_on(name)]
