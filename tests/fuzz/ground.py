"""Objects that are there before wild requests are sent: one or two of the kinds that are used most."""

from __future__ import annotations

from typing import Any, Final

from tests.support.apiserver_process import ServerProcess

_POD: Final[Any] = {
    "containers": [
        {
            "name": "a",
            "image": "b",
            "ports": [{"containerPort": 80, "name": "web"}],
            "env": [{"name": "A", "value": "b"}],
            "resources": {"limits": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        },
        {"name": "b", "image": "c"},
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
_TEMPLATE: Final = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": _POD},
}
_RULES: Final = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
_SCALE: Final = {"scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}, "maxReplicas": 3}
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 1},
                "b": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "c": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
_NAMED: Final = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
_VERSION: Final = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}
_CORE: Final = "/api/v1/namespaces/default/"
_OBJECTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (_CORE + "pods", {"spec": _POD}),
    (_CORE + "configmaps", {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}}),
    (_CORE + "secrets", {"stringData": {"a": "b"}}),
    (_CORE + "services", {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "name": "web"}]}}),
    (_CORE + "serviceaccounts", {}),
    (_CORE + "resourcequotas", {"spec": {"hard": {"count/secrets": "100"}}}),
    (
        _CORE + "persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("/api/v1/nodes", {"spec": {"podCIDR": "10.0.0.0/24"}}),
    ("/apis/apps/v1/namespaces/default/deployments", {"spec": _TEMPLATE}),
    ("/apis/apps/v1/namespaces/default/daemonsets", {"spec": _TEMPLATE}),
    ("/apis/apps/v1/namespaces/default/statefulsets", {"spec": {**_TEMPLATE, "serviceName": "a"}}),
    ("/apis/batch/v1/namespaces/default/jobs", {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}}),
    ("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {"spec": {"podSelector": {}}}),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {"rules": _RULES}),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"rules": _RULES}),
    ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", {"spec": _SCALE}),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {"holderIdentity": "a"}}),
)


def prepare(server: ServerProcess) -> None:
    """Create the objects."""
    for path, body in _OBJECTS:
        for name in ("a", "b"):
            code, answer = server.send(
                "POST", path, {**body, "metadata": {"name": name, "labels": {"a": "b"}}}, user="root"
            )
            assert code == 201, (path, answer)
    definition = {
        "metadata": {"name": "things.fuzz.example.io"},
        "spec": {"group": "fuzz.example.io", "scope": "Namespaced", "names": _NAMED, "versions": [_VERSION]},
    }
    code, answer = server.send(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, user="root"
    )
    assert code == 201, answer
