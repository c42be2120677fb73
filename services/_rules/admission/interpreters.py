"""Rules of ResourceInterpreterCustomization and ResourceInterpreterWebhookConfiguration (docs/sources.md#admission)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.admission.common.answer import Refusal
from services._rules.interpreter.scripts import lua_syntax
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    each,
    forbidden,
    invalid,
    not_supported,
    required,
)

Part = Mapping[str, Any]

_OPERATIONS: Final = {
    "retention": "Retain",
    "replicaResource": "InterpretReplica",
    "componentResource": "InterpretComponent",
    "replicaRevision": "ReviseReplica",
    "statusReflection": "InterpretStatus",
    "statusAggregation": "AggregateStatus",
    "healthInterpretation": "InterpretHealth",
    "dependencyInterpretation": "InterpretDependency",
}
# Dependencies found by several customizations add up.
_SHARED: Final = "dependencyInterpretation"
_VERSION: Final = "v1alpha1"
_LONGEST_TIMEOUT: Final = 30


def check_customization(obj: Manifest, existing: Sequence[Part]) -> None:
    """Raises Refusal for an operation that another customization has, or a script that does not compile."""
    name, spec = (obj.get("metadata") or {}).get("name") or "", obj.get("spec") or {}
    target, own = _target(spec), spec.get("customizations") or {}
    for other in existing:
        other_name, other_spec = (other.get("metadata") or {}).get("name") or "", other.get("spec") or {}
        if other_name == name or _target(other_spec) != target:
            continue
        theirs = other_spec.get("customizations") or {}
        for member, operation in _OPERATIONS.items():
            if member != _SHARED and own.get(member) is not None and theirs.get(member) is not None:
                raise Refusal(
                    f"spec.customizations.{member}: ResourceInterpreterCustomization {other_name} already customizes "
                    f"{operation} of {' '.join(target)}: remove it from one of them"
                )
    for member, operation in _OPERATIONS.items():
        script = (own.get(member) or {}).get("luaScript") or ""
        problem = lua_syntax.problem(script)
        if problem is not None:
            raise Refusal(f"spec.customizations.{member}: the script of {operation} does not compile: {problem}")


def validate_webhooks(obj: Manifest) -> list[FieldError]:
    """What is wrong with a ResourceInterpreterWebhookConfiguration."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, hook in enumerate(obj.get("webhooks") or ()):
        place = f"webhooks[{position}]"
        name = hook.get("name") or ""
        if names.subdomain(name.removesuffix(".")) or "." not in name.removesuffix("."):
            found.append(invalid(f"{place}.name", name, "must be a domain of at least two DNS labels"))
        if name in seen:
            found.append(duplicate(f"{place}.name", name))
        seen.add(name)
        for number, rule in enumerate(hook.get("rules") or ()):
            found += _rule(rule, f"{place}.rules[{number}]")
        timeout = hook.get("timeoutSeconds")
        if timeout is not None and not 1 <= timeout <= _LONGEST_TIMEOUT:
            found.append(invalid(f"{place}.timeoutSeconds", timeout, f"must be between 1 and {_LONGEST_TIMEOUT}"))
        found += _client(hook.get("clientConfig") or {}, f"{place}.clientConfig")
        found += _versions(hook.get("interpreterContextVersions") or [], f"{place}.interpreterContextVersions")
    return found


def _target(spec: Part) -> tuple[str, str]:
    target = spec.get("target") or {}
    return target.get("apiVersion") or "", target.get("kind") or ""


def _rule(rule: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for member in ("operations", "apiGroups", "apiVersions", "kinds"):
        values = rule.get(member) or []
        place = f"{field}.{member}"
        if not values:
            found.append(required(place))
        if len(values) > 1 and "*" in values:
            found.append(invalid(place, values, "'*' must stand alone"))
        for position, value in enumerate(values):
            if member == "operations" and value != "*" and value not in _OPERATIONS.values():
                found.append(not_supported(f"{place}[{position}]", value, sorted(_OPERATIONS.values())))
            elif member in ("apiVersions", "kinds") and not value:
                found.append(required(f"{place}[{position}]"))
    return found


def _client(client: Part, field: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url and service must be set")]
    if service is not None:
        return _service(service, f"{field}.service")
    parsed = formats.Url(url or "")
    problems = [parsed.error] if parsed.error else []
    if parsed.scheme != "https":
        problems.append("must start with https://")
    problems += [f"must not have a {what}" for what, text in (("user", parsed.user), ("query", parsed.query)) if text]
    if parsed.fragment:
        problems.append("must not have a fragment")
    if not parsed.host:
        problems.append("must have a host")
    return each(f"{field}.url", url, problems)


def _service(service: Part, field: str) -> list[FieldError]:
    found = [required(f"{field}.{name}") for name in ("namespace", "name") if not service.get(name)]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        found.append(invalid(f"{field}.port", port, "must be between 1 and 65535"))
    path = service.get("path")
    if not path or path == "/":
        return found
    if not path.startswith("/"):
        return [*found, invalid(f"{field}.path", path, "must start with '/'")]
    for segment in path[1:].removesuffix("/").split("/"):
        found += each(f"{field}.path", path, names.subdomain(segment))
    return found


def _versions(versions: list[str], field: str) -> list[FieldError]:
    if not versions:
        return [required(field, f"must include {_VERSION}")]
    found: list[FieldError] = []
    for position, version in enumerate(versions):
        found += each(f"{field}[{position}]", version, names.dns1035(version))
        if version in versions[:position]:
            found.append(duplicate(f"{field}[{position}]", version))
    if _VERSION not in versions:
        found.append(forbidden(field, f"must include {_VERSION}"))
    return found
