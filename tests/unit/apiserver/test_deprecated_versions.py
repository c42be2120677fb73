"""Warnings about deprecated built-in kinds."""

from services.apiserver.http.deprecations import deprecation
from services.apiserver.kinds.kind_catalog import builtin_registry


def test_deprecated_kinds_are_told() -> None:
    told = {kind.resource.kind: text for kind in builtin_registry().all() if (text := deprecation(kind))}
    assert told == {
        "ComponentStatus": "v1 ComponentStatus is deprecated in v1.19+",
        "Endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    }
