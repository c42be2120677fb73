"""Checks of pods and pod templates, in the order in which an API server reports them."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    apply,
    choice,
    each,
    formed,
    inside,
    number,
    text,
    unique,
    valid,
)
from services._rules.kubernetes.validation.status_fields import parsed
from services.apiserver.kinds.checks import affinities, pod_annotations, security_contexts
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import resources as resource_checks
from services.apiserver.kinds.checks import volumes as volume_checks

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_DEADLINE = 2**31 - 1
_NAMESERVERS: Final = 3
_SEARCHES: Final = 32
_SEARCHES_LENGTH: Final = 2048


def _containers(value: Manifest, field: str) -> Errors:
    known, found = volume_checks.volumes(value, field)
    yield from found
    around = container_checks.Around(known, value.get("terminationGracePeriodSeconds"))
    items, first = value.get("containers") or [], value.get("initContainers")
    yield from container_checks.containers(items, around, f"{field}.containers")
    if first:
        yield from container_checks.init_containers(first, items, around, f"{field}.initContainers")
    if value.get("ephemeralContainers"):
        yield from container_checks.ephemeral_containers(value, around, f"{field}.ephemeralContainers")


def _without_underscores(path: str) -> str:
    """A search path as it would be with hyphens; each part of it may begin with one underscore besides."""
    return ".".join(part.removeprefix("_").replace("_", "-") for part in path.split("."))


def _search(value: str, field: str) -> list[FieldError]:
    path = value.removesuffix(".")
    if value == "." or not names.subdomain(_without_underscores(path)):
        return []
    return [invalid(field, path, message) for message in names.subdomain(path)]


_address = valid(parsed, "must be valid IP address")
_OPTIONS = each("options", lambda option, field: [] if option.get("name") else [required(field, "must not be empty")])


_DNS_LISTS = (each("nameservers", _address), each("searches", _search), _OPTIONS)


def _dns(value: Manifest, path: str) -> list[FieldError]:
    config, own, field = value.get("dnsConfig"), value.get("dnsPolicy") == "None", f"{path}.dnsConfig"
    if config is None:
        return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")] if own else []
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if own and not servers:
        message = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{field}.nameservers", message)]
    found: list[FieldError] = []
    if len(servers) > _NAMESERVERS:
        message = f"must not have more than {_NAMESERVERS} nameservers"
        found.append(invalid(f"{field}.nameservers", servers, message))
    if len(searches) > _SEARCHES:
        found.append(invalid(f"{field}.searches", searches, f"must not have more than {_SEARCHES} search paths"))
    if len(" ".join(searches)) > _SEARCHES_LENGTH:
        message = f"must not have more than {_SEARCHES_LENGTH} characters (including spaces) in the search list"
        found.append(invalid(f"{field}.searches", searches, message))
    return found + apply(_DNS_LISTS, config, field)


def _toleration(item: Manifest, field: str) -> Errors:
    key, operator, effect = item.get("key", ""), item.get("operator", ""), item.get("effect", "")
    if key:
        yield from [invalid(f"{field}.key", key, message) for message in names.qualified(key)]
    elif operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{field}.operator", operator, message)
    if item.get("tolerationSeconds") is not None and effect != "NoExecute":
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{field}.effect", effect, message)
    value = item.get("value", "")
    if operator in ("Equal", ""):
        if texts := names.label_value(value):
            yield invalid(f"{field}.operator", value, ";".join(texts))
    elif operator == "Exists":
        if value:
            yield invalid(f"{field}.operator", item, "value must be empty when `operator` is 'Exists'")
    else:
        yield not_supported(f"{field}.operator", operator, ("Equal", "Exists"))


TOLERATIONS = each("tolerations", _toleration, choice("effect", EFFECTS))


_HOST_ALIASES = each(
    "hostAliases",
    lambda alias, field: _address(alias.get("ip", ""), f"{field}.ip"),
    each("hostnames", formed(names.subdomain)),
)


def _gates(gates: list[Manifest], path: str) -> Errors:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name, field = gate.get("name", ""), f"{path}[{index}]"
        yield from [invalid(field, name, message) for message in names.qualified(name)]
        if name in seen:
            yield duplicate(field, name)
        seen.add(name)


_LONGEST_HOSTNAME: Final = 64


def _hostname(name: str, field: str) -> Errors:
    if len(name) > _LONGEST_HOSTNAME:
        yield invalid(field, name, f"must be no more than {_LONGEST_HOSTNAME} characters")
    yield from (invalid(field, name, problem) for problem in names.subdomain(name))


def _one_claim(claim: Manifest, path: str) -> Errors:
    ways = ("resourceClaimName", "resourceClaimTemplateName")
    shown = ", ".join(f"`{name}`" for name in ways)
    match [name for name in ways if claim.get(name) is not None]:
        case []:
            yield invalid(path, claim, f"must specify one of: {shown}")
        case [name]:
            yield from (invalid(f"{path}.{name}", claim[name], problem) for problem in names.subdomain(claim[name]))
        case _:
            yield invalid(path, claim, f"at most one of {shown} may be specified")


RULES: Final[Rules] = (
    _containers,
    choice("restartPolicy", ("Always", "OnFailure", "Never"), need=""),
    choice("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"), need=""),
    inside("nodeSelector", meta.labels),
    security_contexts.pod,
    inside("affinity", *affinities.AFFINITY),
    _dns,
    each("readinessGates", text("conditionType", names.qualified, blank=True)),
    inside("schedulingGates", _gates),
    *affinities.SPREAD,
    text("serviceAccountName", names.subdomain),
    text("nodeName", names.subdomain),
    number("activeDeadlineSeconds", 1, MAX_DEADLINE),
    text("hostname", names.label),
    text("subdomain", names.label),
    inside("hostnameOverride", _hostname),
    TOLERATIONS,
    _HOST_ALIASES,
    text("priorityClassName", names.subdomain),
    inside("runtimeClassName", formed(names.subdomain)),
    choice("preemptionPolicy", ("PreemptLowerPriority", "Never")),
    inside("overhead", resource_checks.amounts),
    inside("os", choice("name", ("linux", "windows"), need="")),
    each("resourceClaims", text("name", names.label, need=""), unique("name"), _one_claim),
)
"""The rules of a pod spec."""


_TRIMMED = each("containers", container_checks.TRIMMED_IMAGE), each("initContainers", container_checks.TRIMMED_IMAGE)


def _annotated(obj: Manifest, field: str) -> list[FieldError]:
    values = (obj.get("metadata") or {}).get("annotations")
    return pod_annotations.meaningful(values, obj.get("spec") or {}, field) if values else []


POD: Final[Rules] = (
    lambda obj, _: _annotated(obj, "metadata.annotations"),
    inside("spec", *RULES, *_TRIMMED, volume_checks.tokens_without_account, absent={}),
)
"""The rules of a pod, on its making and on every later change."""


def _seccomp(obj: Manifest, _: str) -> Errors:
    yield from pod_annotations.seccomp_fields(obj["metadata"].get("annotations") or {}, obj["spec"], "spec")


def _unassigned(value: Manifest, field: str) -> Errors:
    if value.get("nodeName") and value.get("schedulingGates"):
        yield forbidden(f"{field}.nodeName", "cannot be set until all schedulingGates have been cleared")


def _no_ephemeral(detail: str) -> Check:
    """A pod spec without ephemeral containers; `detail` is the text of the error."""

    def check(value: Manifest, field: str) -> list[FieldError]:
        return [forbidden(f"{field}.ephemeralContainers", detail)] if value.get("ephemeralContainers") else []

    return check


def _template_seccomp(value: Manifest, field: str) -> Errors:
    annotations = (value.get("metadata") or {}).get("annotations") or {}
    if annotations:
        yield from pod_annotations.seccomp_fields(annotations, value.get("spec") or {}, f"{field}.spec")


_TEMPLATE_METADATA = (inside("labels", meta.labels), inside("annotations", meta.annotations))


def template_metadata(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the labels and annotations of a pod template; the errors leave out `metadata`."""
    found = apply(_TEMPLATE_METADATA, value.get("metadata") or {}, field)
    return found + _annotated(value, f"{field}.annotations")


NEW_POD: Final[Rules] = (*POD, inside("spec", _no_ephemeral("cannot be set on create"), _unassigned), _seccomp)
"""The rules of a pod on its making."""
TEMPLATE: Final[Rules] = (
    template_metadata,
    inside("spec", *RULES, _no_ephemeral("ephemeral containers not allowed in pod template"), absent={}),
    _template_seccomp,
)
"""The rules of a pod template."""
