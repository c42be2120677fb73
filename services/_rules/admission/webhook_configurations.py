"""Builds the configurations by which a kube-apiserver asks the webhook, from the table of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.webhook_table import CONVERSION_PATH, HOOKS, Hook, Step

NAME: Final = "fleetlog"
"""What both configurations are called."""
_API: Final = "admissionregistration.k8s.io/v1"
KINDS: Final[Mapping[Step, str]] = {
    "mutating": "MutatingWebhookConfiguration",
    "validating": "ValidatingWebhookConfiguration",
}


class Target:
    """Where an API server finds the webhook: a URL, or a Service; `bundle` is its authority in base64."""

    def __init__(self, bundle: str, *, url: str = "", namespace: str = "", service: str = "", port: int = 443) -> None:
        self._bundle = bundle
        self._url = url.rstrip("/")
        self._service: dict[str, Any] = {"namespace": namespace, "name": service, "port": port}

    def client(self, path: str) -> Manifest:
        """The clientConfig of one path."""
        where = {"url": f"{self._url}{path}"} if self._url else {"service": {**self._service, "path": path}}
        return {**where, **({"caBundle": self._bundle} if self._bundle else {})}


def webhook_configurations(target: Target) -> list[Manifest]:
    """The configuration of the mutating webhooks, and that of the validating ones."""
    return [
        {
            "apiVersion": _API,
            "kind": kind,
            "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "fleetlog"}},
            "webhooks": [_entry(hook, target) for hook in HOOKS.values() if hook.step == step],
        }
        for step, kind in KINDS.items()
    ]


def with_conversion(definition: Manifest, target: Target) -> Manifest:
    """A CustomResourceDefinition whose versions the webhook converts."""
    webhook = {"clientConfig": target.client(CONVERSION_PATH), "conversionReviewVersions": ["v1"]}
    spec = {**definition["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}
    return {**definition, "spec": spec}


def _entry(hook: Hook, target: Target) -> Manifest:
    place = hook.place
    rule = {
        "apiGroups": [place.group],
        "apiVersions": [place.version],
        "resources": [place.plural],
        "operations": list(hook.operations),
        "scope": "*",
    }
    entry: Manifest = {
        "name": hook.name,
        "clientConfig": target.client(hook.path),
        "rules": [rule],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore" if hook.tolerated else "Fail",
        "sideEffects": hook.side_effects,
        "timeoutSeconds": hook.seconds,
        "admissionReviewVersions": ["v1"],
    }
    if hook.label:
        entry["objectSelector"] = {"matchExpressions": [{"key": hook.label, "operator": "Exists"}]}
    return entry
