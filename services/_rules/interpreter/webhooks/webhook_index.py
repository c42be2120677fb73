"""Which webhook answers for which kind and operation: all ResourceInterpreterWebhookConfigurations together.

Webhooks are ordered by `<configuration>/<webhook>`; only the first with a matching rule is called
(docs/sources.md#interpreter-webhooks).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, ValidationError, convert

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, InterpretLater, Operation
from services._rules.kubernetes.validation.name_formats import label

CONTEXT_VERSION: Final = "v1alpha1"
PATIENCE: Final = 10.0
"""Seconds that a webhook has where its configuration sets none."""
_SHORTEST, _LONGEST = 1.0, 30.0
_REMEMBERED: Final = 4096
_ANY: Final = "*"
_Key: TypeAlias = tuple[str, str, str]


class Rule(Struct, frozen=True, rename="camel"):
    """Operations on kinds; `*` stands for all of them."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def matches(self, group: str, version: str, kind: str, operation: Operation) -> bool:
        """Whether an operation on a kind is among those of the rule."""
        return (
            _among(operation, self.operations)
            and _among(kind, self.kinds)
            and _among(group, self.api_groups)
            and _among(version, self.api_versions)
        )


class ServiceAddress(Struct, frozen=True):
    """A Service of the control plane that a webhook listens behind."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443

    @property
    def host(self) -> str:
        """Its name within the cluster, which its certificate has to carry."""
        return f"{self.name}.{self.namespace}.svc"


class ClientConfig(Struct, frozen=True, rename="camel"):
    """Where a webhook listens; `ca_bundle` are the PEM certificates that vouch for it, else those of the system."""

    url: str | None = None
    service: ServiceAddress | None = None
    ca_bundle: bytes = b""

    @property
    def address(self) -> str:
        """The URL to call; raises InterpretError where the configuration names none that may be called."""
        if self.service is not None:
            service = self.service
            if label(service.name) or label(service.namespace):
                raise InterpretError("name and namespace must be those of a Service", "clientConfig.service")
            return f"https://{service.host}:{service.port}/{service.path.lstrip('/')}"
        if not self.url:
            raise InterpretError("one of url and service must be set", "clientConfig")
        if urlsplit(self.url).scheme != "https":
            raise InterpretError("must start with https://", "clientConfig.url")
        return self.url


class _Hook(Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] = ()
    timeout_seconds: float | None = None
    interpreter_context_versions: tuple[str, ...] = ()


class Webhook(Struct, frozen=True):
    """One webhook; `timeout` is in seconds."""

    name: str
    """`<configuration>/<webhook>`."""
    client: ClientConfig
    rules: tuple[Rule, ...]
    timeout: float
    versions: tuple[str, ...]

    def wrong(self, what: str, field: str = "") -> InterpretLater:
        """The error of a call: the webhook, what was wrong, where in its configuration or answer."""
        return InterpretLater(f"webhook {self.name}: {f'{field}: ' if field else ''}{what}")


class Webhooks:
    """Webhooks in the order in which they are asked."""

    def __init__(self, configurations: Mapping[str, Manifest] | None = None) -> None:
        found: list[Webhook] = []
        self.unreadable: list[str] = []
        """Configurations from which no webhook can be made, with the reasons; they answer nothing."""
        for name, manifest in (configurations or {}).items():
            try:
                hooks = convert(manifest.get("webhooks") or (), tuple[_Hook, ...])
            except ValidationError as problem:
                self.unreadable.append(f"ResourceInterpreterWebhookConfiguration {name}: webhooks: {problem}")
                continue
            found += [_webhook(name, hook) for hook in hooks]
        self._hooks: Final = tuple(sorted(found, key=lambda hook: hook.name))
        self._known: dict[_Key, Webhook | None] = {}

    def find(self, api_version: str, kind: str, operation: Operation) -> Webhook | None:
        """The webhook to call for an operation on a kind."""
        if not self._hooks:
            return None
        key = (api_version, kind, operation)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            group, _, version = api_version.rpartition("/")
            self._known[key] = next(
                (
                    hook
                    for hook in self._hooks
                    if any(rule.matches(group, version, kind, operation) for rule in hook.rules)
                ),
                None,
            )
        return self._known[key]

    def clients(self) -> frozenset[ClientConfig]:
        """Where webhooks listen."""
        return frozenset(hook.client for hook in self._hooks)


def _webhook(configuration: str, hook: _Hook) -> Webhook:
    timeout = PATIENCE if hook.timeout_seconds is None else min(max(hook.timeout_seconds, _SHORTEST), _LONGEST)
    name = f"{configuration}/{hook.name}"
    return Webhook(name, hook.client_config, hook.rules, timeout, hook.interpreter_context_versions)


def _among(value: str, accepted: tuple[str, ...]) -> bool:
    return value in accepted or _ANY in accepted
