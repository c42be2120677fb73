"""Converts CustomResourceDefinitions between apiextensions.k8s.io/v1 and v1beta1."""

from typing import Final

from schemas.manifest import Manifest

_PER_VERSION: Final = (("schema", "validation"), ("subresources", "subresources"))


def to_v1(crd: Manifest) -> Manifest:
    """Return a v1beta1 definition in v1; what stands at the top of its spec goes into every version."""
    spec = dict(crd["spec"])
    spec.pop("version", None)
    shared: Manifest = {}
    for name, top in _PER_VERSION:
        if (value := spec.pop(top, None)) is not None:
            shared[name] = value
    columns = spec.pop("additionalPrinterColumns", None)
    versions = []
    for version in spec.get("versions") or ():
        merged = {**shared, **version}
        own = version.get("additionalPrinterColumns") or columns
        if own:
            merged["additionalPrinterColumns"] = [_renamed(column, "JSONPath", "jsonPath") for column in own]
        versions.append(merged)
    spec["versions"] = versions
    if "conversion" in spec:
        spec["conversion"] = _conversion_to_v1(spec["conversion"])
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    return {**crd, "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}


def to_v1beta1(crd: Manifest) -> Manifest:
    """Return a v1 definition in v1beta1; what is equal in all versions goes to the top of its spec."""
    spec = dict(crd["spec"])
    versions = [dict(version) for version in spec.get("versions") or ()]
    if versions:
        spec["version"] = versions[0]["name"]
    for version in versions:
        if columns := version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [_renamed(column, "jsonPath", "JSONPath") for column in columns]
    for name, top in (*_PER_VERSION, ("additionalPrinterColumns", "additionalPrinterColumns")):
        values = [version.get(name) for version in versions]
        if values and all(value == values[0] for value in values):
            for version in versions:
                version.pop(name, None)
            if values[0] is not None:
                spec[top] = values[0]
    spec["versions"] = versions
    if "conversion" in spec:
        spec["conversion"] = _conversion_to_v1beta1(spec["conversion"])
    spec.setdefault("preserveUnknownFields", False)
    return {**crd, "apiVersion": "apiextensions.k8s.io/v1beta1", "spec": spec}


def _renamed(column: Manifest, old: str, new: str) -> Manifest:
    return {new if name == old else name: value for name, value in column.items()}


def _conversion_to_v1(conversion: Manifest) -> Manifest:
    result = {"strategy": conversion.get("strategy", "None")}
    client, reviews = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if client is not None or reviews:
        webhook: Manifest = {"conversionReviewVersions": reviews or []}
        if client is not None:
            webhook["clientConfig"] = client
        result["webhook"] = webhook
    return result


def _conversion_to_v1beta1(conversion: Manifest) -> Manifest:
    result: Manifest = {"strategy": conversion.get("strategy", "None")}
    webhook = conversion.get("webhook") or {}
    if webhook.get("clientConfig") is not None:
        result["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions"):
        result["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return result
