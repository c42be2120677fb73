"""Kubelets (`system:node:NAME` in system:nodes): each reads what its pods refer to, and writes what is its own."""

from __future__ import annotations

from functools import cache
from typing import Final

from schemas.manifest import Manifest
from services._rules.interpreter.native.dependencies import pod_dependencies
from services._rules.kubernetes.rbac.policy_rules import Access, PolicyRule
from services._rules.kubernetes.rbac.user_names import node_of
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.auth.authorization import Authorizer, Decision, Rules
from services.apiserver.auth.rbac.default_roles import rules_of
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import Identity
from services.apiserver.store.store_port import Key, Store

_LEASES: Final = "kube-node-lease"
_REFERRED: Final = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "serviceaccounts": "ServiceAccount",
}
_OWN: Final = {("", "nodes"), ("storage.k8s.io", "csinodes"), ("coordination.k8s.io", "leases")}
_RESERVED: Final = "node-restriction.kubernetes.io/"
_MIRROR: Final = "kubernetes.io/config.mirror"


@cache
def _rules() -> tuple[PolicyRule, ...]:
    return rules_of("system:node")


class NodeAuthorizer:
    """Decides about kubelets; roles decide about what it leaves open, and about all others."""

    allows_everything = False

    def __init__(self, store: Store, inner: Authorizer) -> None:
        self._store = store
        self._inner = inner

    def decide(self, identity: Identity, access: Access) -> Decision:
        """Whether the role of all kubelets or one of the bound roles allows it."""
        node = node_of(identity.name, identity.groups)
        reason = self._refusal(node, access) if node else ""
        if node and not reason:
            return Decision(True)
        decision = self._inner.decide(identity, access)
        return decision if decision.allowed or not node else Decision(False, reason)

    def rules(self, identity: Identity, namespace: str) -> Rules:
        """Those of the roles; which objects a kubelet may read cannot be said by rules."""
        found = self._inner.rules(identity, namespace)
        if not node_of(identity.name, identity.groups):
            return found
        return Rules(found.held, "node authorizer does not support user rule resolution", incomplete=True)

    def _refusal(self, node: str, access: Access) -> str:
        """Why a kubelet may not do something; empty where it may."""
        place = access.group, access.resource
        if not any(rule.allows(access) for rule in _rules()):
            return "not one of the things that a kubelet does"
        if place in _OWN and access.verb != "create" and (access.name != node or _elsewhere(access)):
            return f"can only access {access.resource} with the same name as the requesting node"
        kind = _REFERRED.get(access.resource) if not access.group else None
        if kind is None:
            return ""
        if not access.name:
            return "can only read individual resources of this type"
        if not self._referred(node, kind, access.namespace, access.name):
            return f"no relationship found between node '{node}' and this object"
        return ""

    def _referred(self, node: str, kind: str, namespace: str, name: str) -> bool:
        """Whether a pod of the node refers to an object."""
        if kind == "PersistentVolume":
            volume = self._store.get(Key("", "persistentvolumes", "", name))
            claim = (volume.obj.get("spec") or {}).get("claimRef") or {} if volume is not None else {}
            kind, namespace, name = "PersistentVolumeClaim", claim.get("namespace") or "", claim.get("name") or ""
            if not name:
                return False
        word, wanted = f'"{node}"'.encode(), f'"{name}"'.encode()
        for entry in self._store.list("", "pods", namespace):
            # Most pods are of other nodes, or refer to other objects, which their bytes show without decoding.
            if word not in entry.raw or wanted not in entry.raw:
                continue
            spec = entry.look().get("spec") or {}
            if spec.get("nodeName") != node:
                continue
            if kind == "ServiceAccount" and (spec.get("serviceAccountName") or "default") == name:
                return True
            if any((one["kind"], one["name"]) == (kind, name) for one in pod_dependencies(spec, namespace)):
                return True
        return False


def _elsewhere(access: Access) -> bool:
    return access.resource == "leases" and access.namespace != _LEASES


class NodeRestriction:
    """Admission: a kubelet changes its own Node and Lease, and the pods that are bound to it."""

    operations = frozenset({"CREATE", "UPDATE", "DELETE"})
    resources = frozenset({"/nodes", "/pods", "coordination.k8s.io/leases", "storage.k8s.io/csinodes"})

    def __init__(self, store: Store) -> None:
        self._store = store

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Refuse writes of a kubelet to what is not its own; raises 403."""
        user = attributes.call.user
        node = node_of(user.name, user.groups)
        if not node:
            return
        plural = attributes.kind.resource.plural
        if plural == "pods":
            problem = self._pod(node, attributes)
        else:
            name = attributes.name or ((attributes.new or {}).get("metadata") or {}).get("name") or ""
            problem = "" if name == node else f'is not allowed to modify {plural[:-1]} "{name}"'
            if not problem and plural == "leases" and attributes.namespace != _LEASES:
                problem = f"can only access leases in the {_LEASES} system namespace"
            if not problem and plural == "nodes":
                problem = _changed(attributes)
        if problem:
            raise status.forbidden(attributes.kind.resource, attributes.name, f'node "{node}" {problem}')

    def _pod(self, node: str, attributes: Attributes) -> str:
        if attributes.operation == "CREATE" and not attributes.subresource:
            new = attributes.new or {}
            if _MIRROR not in (new["metadata"].get("annotations") or {}):
                return "can only create pods that mirror static ones"
            return "" if _node_name(new) == node else "can only create pods with spec.nodeName set to itself"
        stored = self._store.get(Key("", "pods", attributes.namespace, attributes.name))
        if stored is None or _node_name(stored.obj) == node:
            return ""
        return "can only change pods with spec.nodeName set to itself"


def _node_name(pod: Manifest) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _changed(attributes: Attributes) -> str:
    """What a kubelet may not change of its own Node."""
    new, old = attributes.new, attributes.old
    if new is None or attributes.subresource:
        return ""
    labels, before = ((manifest or {}).get("metadata", {}).get("labels") or {} for manifest in (new, old))
    reserved = {name for name in {*labels, *before} if name.partition("/")[0].endswith(_RESERVED[:-1])}
    if any(labels.get(name) != before.get(name) for name in reserved):
        return f"is not allowed to modify labels with the prefix {_RESERVED}"
    if old is not None and (new.get("spec") or {}).get("taints") != (old.get("spec") or {}).get("taints"):
        return "is not allowed to modify taints"
    return ""
