"""Checks of pods and pod templates, in the order in which an API server reports them."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    apply,
    choice,
    each,
    every,
    formed,
    inside,
    needed,
    number,
    refused,
    text,
    valid,
)
from services._rules.kubernetes.validation.status_fields import parsed
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import security_contexts as security_checks
from services.apiserver.kinds.checks import volumes as volume_checks

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_DEADLINE = 2**31 - 1
_NAMESERVERS, _SEARCHES, _SEARCH_LENGTH = 3, 32, 2048


def _containers(value: Manifest, field: str) -> Errors:
    known = frozenset(item.get("name", "") for item in value.get("volumes") or ())
    items, first = value.get("containers") or [], value.get("initContainers") or []
    yield from container_checks.containers(items, known, f"{field}.containers")
    yield from container_checks.init_containers(first, items, known, f"{field}.initContainers")


def _search(value: str, field: str) -> list[FieldError]:
    return formed(names.subdomain)(value.removesuffix("."), field)


_address = valid(parsed, "must be valid IP address")
_DNS = inside(
    "dnsConfig",
    refused(
        "nameservers",
        f"must not have more than {_NAMESERVERS} nameservers",
        lambda config: len(config.get("nameservers") or ()) > _NAMESERVERS,
    ),
    each("nameservers", _address),
    refused(
        "searches",
        f"must not have more than {_SEARCHES} search paths",
        lambda config: len(config.get("searches") or ()) > _SEARCHES,
    ),
    refused(
        "searches",
        f"must not have more than {_SEARCH_LENGTH} characters (including spaces) in the search list",
        lambda config: len(" ".join(config.get("searches") or ())) > _SEARCH_LENGTH,
    ),
    each("searches", _search),
    each("options", lambda option, field: [] if option.get("name") else [required(field, "must not be empty")]),
)


def _own_servers(value: Manifest, field: str) -> list[FieldError]:
    config = value.get("dnsConfig")
    if value.get("dnsPolicy") != "None" or (config or {}).get("nameservers"):
        return []
    place = f"{field}.dnsConfig" if config is None else f"{field}.dnsConfig.nameservers"
    return [required(place, "must provide at least one DNS nameserver when `dnsPolicy` is None")]


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
_ALIASES = (inside("ip", _address, absent=""), every("hostnames", formed(names.subdomain)))


def _host_aliases(value: Manifest, field: str) -> list[FieldError]:
    # The errors name the list, not the alias.
    return [error for item in value.get("hostAliases") or () for error in apply(_ALIASES, item, f"{field}.hostAliases")]


SPEC = (
    volume_checks.volumes,
    _containers,
    choice("restartPolicy", ("Always", "OnFailure", "Never"), need=""),
    choice("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"), need=""),
    inside("nodeSelector", meta.labels),
    security_checks.pod,
    each("imagePullSecrets", needed("name")),
    inside("affinity", *affinity_checks.AFFINITY),
    _own_servers,
    _DNS,
    each("readinessGates", text("conditionType", names.qualified, blank=True)),
    each("topologySpreadConstraints", *affinity_checks.SPREAD),
    text("serviceAccountName", names.subdomain),
    text("nodeName", names.subdomain),
    number("activeDeadlineSeconds", 1, MAX_DEADLINE),
    text("hostname", names.label),
    text("subdomain", names.label),
    TOLERATIONS,
    _host_aliases,
    text("priorityClassName", names.subdomain),
    text("runtimeClassName", names.subdomain),
    choice("preemptionPolicy", ("PreemptLowerPriority", "Never")),
    inside("overhead", container_checks.amounts),
)


def _no_ephemeral(detail: str) -> Check:
    """A pod spec without ephemeral containers; `detail` is the text of the error."""

    def check(value: Manifest, field: str) -> list[FieldError]:
        return [forbidden(f"{field}.ephemeralContainers", detail)] if value.get("ephemeralContainers") else []

    return check


POD = (inside("spec", *SPEC, _no_ephemeral("cannot be set on create"), absent={}),)
_TEMPLATE_METADATA = (inside("labels", meta.labels), inside("annotations", meta.annotations))


def template_metadata(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with labels and annotations of a pod template, whose errors leave out `metadata`."""
    return apply(_TEMPLATE_METADATA, value.get("metadata") or {}, field)


TEMPLATE = (
    template_metadata,
    inside("spec", *SPEC, _no_ephemeral("ephemeral containers not allowed in pod template"), absent={}),
)
