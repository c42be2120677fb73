"""Checks of pods and pod templates, in the order in which an API server reports them."""

from __future__ import annotations

from functools import lru_cache
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
_MORE_SEARCHES_SINCE: Final = 26  # the first minor release with longer lists of search paths
_LENIENT_SEARCHES_SINCE: Final = 33  # the first one that takes underscores in search paths, and the root alone
_NUMBERED_ALIASES_SINCE: Final = 28  # the first one whose errors number the aliases of a host
SECCOMP_FIELDS_ONLY_SINCE: Final = 27
"""The first minor release that does not keep the annotations of seccomp profiles in step with the fields."""


def _containers(release: int) -> Check:
    def check(value: Manifest, field: str) -> Errors:
        known, found = volume_checks.volumes(value, field)
        yield from found
        around = container_checks.Around(known, value.get("terminationGracePeriodSeconds"), release)
        items, first = value.get("containers") or [], value.get("initContainers")
        yield from container_checks.containers(items, around, f"{field}.containers")
        if first:
            yield from container_checks.init_containers(first, items, around, f"{field}.initContainers")
        if value.get("ephemeralContainers"):
            yield from container_checks.ephemeral_containers(value, around, f"{field}.ephemeralContainers")

    return check


def _without_underscores(path: str) -> str:
    """A search path as it would be with hyphens; each part of it may begin with one underscore besides."""
    return ".".join(part.removeprefix("_").replace("_", "-") for part in path.split("."))


def _search(release: int) -> Check:
    lenient = release >= _LENIENT_SEARCHES_SINCE

    def check(value: str, field: str) -> list[FieldError]:
        path = value.removesuffix(".")
        if lenient and (value == "." or not names.subdomain(_without_underscores(path))):
            return []
        return [invalid(field, path, message) for message in names.subdomain(path)]

    return check


_address = valid(parsed, "must be valid IP address")
_OPTIONS = each("options", lambda option, field: [] if option.get("name") else [required(field, "must not be empty")])


def _dns(release: int) -> Check:
    most, longest = (32, 2048) if release >= _MORE_SEARCHES_SINCE else (6, 256)
    lists = (each("nameservers", _address), each("searches", _search(release)), _OPTIONS)

    def check(value: Manifest, path: str) -> list[FieldError]:
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
        if len(searches) > most:
            found.append(invalid(f"{field}.searches", searches, f"must not have more than {most} search paths"))
        if len(" ".join(searches)) > longest:
            message = f"must not have more than {longest} characters (including spaces) in the search list"
            found.append(invalid(f"{field}.searches", searches, message))
        return found + apply(lists, config, field)

    return check


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


def _host_aliases(release: int) -> Check:
    def check(value: Manifest, path: str) -> list[FieldError]:
        found: list[FieldError] = []
        for index, alias in enumerate(value.get("hostAliases") or ()):
            newer = release >= _NUMBERED_ALIASES_SINCE
            field = f"{path}.hostAliases[{index}]" if newer else f"{path}.hostAliases"
            found += _address(alias.get("ip", ""), f"{field}.ip")
            for position, name in enumerate(alias.get("hostnames") or ()):
                place = f"{field}.hostnames[{position}]" if newer else f"{field}.hostnames"
                found += [invalid(place, name, message) for message in names.subdomain(name)]
        return found

    return check


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


@lru_cache(maxsize=8)
def rules(release: int) -> Rules:
    """Return the rules of a pod spec, as a release has them."""
    return (
        _containers(release),
        choice("restartPolicy", ("Always", "OnFailure", "Never"), need=""),
        choice("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"), need=""),
        inside("nodeSelector", meta.labels),
        lambda value, field: security_contexts.pod(value, field, release),
        inside("affinity", *affinities.affinity(release)),
        _dns(release),
        each("readinessGates", text("conditionType", names.qualified, blank=True)),
        inside("schedulingGates", _gates),
        *affinities.spread(release),
        text("serviceAccountName", names.subdomain),
        text("nodeName", names.subdomain),
        number("activeDeadlineSeconds", 1, MAX_DEADLINE),
        text("hostname", names.label),
        text("subdomain", names.label),
        inside("hostnameOverride", _hostname),
        TOLERATIONS,
        _host_aliases(release),
        text("priorityClassName", names.subdomain),
        inside("runtimeClassName", formed(names.subdomain)),
        choice("preemptionPolicy", ("PreemptLowerPriority", "Never")),
        inside("overhead", resource_checks.amounts),
        inside("os", choice("name", ("linux", "windows"), need="")),
        each("resourceClaims", text("name", names.label, need=""), unique("name"), _one_claim),
    )


_TRIMMED = each("containers", container_checks.TRIMMED_IMAGE), each("initContainers", container_checks.TRIMMED_IMAGE)


def _annotated(obj: Manifest, field: str, release: int) -> list[FieldError]:
    values = (obj.get("metadata") or {}).get("annotations")
    return pod_annotations.meaningful(values, obj.get("spec") or {}, field, release) if values else []


@lru_cache(maxsize=8)
def pod(release: int) -> Rules:
    """Return the rules of a pod, on its making and on every later change."""
    spec = inside("spec", *rules(release), *_TRIMMED, volume_checks.tokens_without_account, absent={})
    return (lambda obj, _: _annotated(obj, "metadata.annotations", release), spec)


@lru_cache(maxsize=8)
def new_pod(release: int) -> Rules:
    """Return the rules of a pod on its making."""

    def seccomp(obj: Manifest, _: str) -> Errors:
        yield from pod_annotations.seccomp_fields(obj["metadata"].get("annotations") or {}, obj["spec"], "spec")

    return (*pod(release), inside("spec", _no_ephemeral("cannot be set on create"), _unassigned), seccomp)


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


def template_metadata(release: int) -> Check:
    """Rule of the labels and annotations of a pod template, whose errors leave out `metadata`."""

    def check(value: Manifest, field: str) -> list[FieldError]:
        found = apply(_TEMPLATE_METADATA, value.get("metadata") or {}, field)
        return found + _annotated(value, f"{field}.annotations", release)

    return check


@lru_cache(maxsize=8)
def template(release: int) -> Rules:
    """Return the rules of a pod template, as a release has them."""
    no_more = _no_ephemeral("ephemeral containers not allowed in pod template")
    return (template_metadata(release), inside("spec", *rules(release), no_more, absent={}), _template_seccomp)
