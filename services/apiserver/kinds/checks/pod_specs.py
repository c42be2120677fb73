"""Checks of pods and pod templates, in the order in which an API server reports them."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import security_contexts as security_checks
from services.apiserver.kinds.checks import volumes as volume_checks

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_DEADLINE = 2**31 - 1
_NAMESERVERS, _SEARCHES, _SEARCH_LENGTH = 3, 32, 2048


def pod(obj: Manifest) -> list[FieldError]:
    """Return what is wrong with a pod outside its metadata."""
    found = spec(obj.get("spec") or {}, "spec")
    if obj.get("spec", {}).get("ephemeralContainers"):
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    return found


def template(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a pod template."""
    metadata = value.get("metadata") or {}
    found = meta.labels(metadata.get("labels") or {}, f"{field}.labels")
    found += meta.annotations(metadata.get("annotations") or {}, f"{field}.annotations")
    body = value.get("spec") or {}
    found += spec(body, f"{field}.spec")
    if body.get("ephemeralContainers"):
        found.append(forbidden(f"{field}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return found


def spec(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a pod spec."""
    volumes = value.get("volumes") or []
    known, found = volume_checks.volumes(volumes, f"{field}.volumes", has_account=bool(value.get("serviceAccountName")))
    containers = value.get("containers") or []
    found += container_checks.containers(containers, known, f"{field}.containers")
    found += container_checks.init_containers(
        value.get("initContainers") or [], containers, known, f"{field}.initContainers"
    )
    found += _policies(value, field)
    found += meta.labels(value.get("nodeSelector") or {}, f"{field}.nodeSelector")
    found += security_checks.pod(value, field)
    for index, item in enumerate(value.get("imagePullSecrets") or []):
        if not item.get("name"):
            found.append(required(f"{field}.imagePullSecrets[{index}].name"))
    found += affinity_checks.affinity(value.get("affinity") or {}, f"{field}.affinity")
    found += _dns_config(value, field)
    for index, gate in enumerate(value.get("readinessGates") or []):
        kind = gate.get("conditionType", "")
        found += [
            invalid(f"{field}.readinessGates[{index}].conditionType", kind, text) for text in names.qualified(kind)
        ]
    found += affinity_checks.spread(value.get("topologySpreadConstraints") or [], f"{field}.topologySpreadConstraints")
    found += _names(value, field)
    deadline = value.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_DEADLINE:
        found.append(
            invalid(f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {MAX_DEADLINE}, inclusive")
        )
    for name in ("hostname", "subdomain"):
        if text := value.get(name):
            found += [invalid(f"{field}.{name}", text, message) for message in names.label(text)]
    found += tolerations(value.get("tolerations") or [], f"{field}.tolerations")
    found += _host_aliases(value.get("hostAliases") or [], f"{field}.hostAliases")
    for name in ("priorityClassName", "runtimeClassName"):
        if text := value.get(name):
            found += [invalid(f"{field}.{name}", text, message) for message in names.subdomain(text)]
    if value.get("preemptionPolicy", "Never") not in ("PreemptLowerPriority", "Never"):
        supported = ("PreemptLowerPriority", "Never")
        found.append(not_supported(f"{field}.preemptionPolicy", value["preemptionPolicy"], supported))
    found += container_checks.amounts(value.get("overhead") or {}, f"{field}.overhead")
    return found


def _policies(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name, supported in (("restartPolicy", RESTART_POLICIES), ("dnsPolicy", DNS_POLICIES)):
        chosen = value.get(name, "")
        if not chosen:
            found.append(required(f"{field}.{name}"))
        elif chosen not in supported:
            found.append(not_supported(f"{field}.{name}", chosen, supported))
    return found


def _dns_config(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    config = value.get("dnsConfig")
    if value.get("dnsPolicy") == "None" and not (config or {}).get("nameservers"):
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        found.append(required(f"{field}.dnsConfig" if config is None else f"{field}.dnsConfig.nameservers", text))
    servers, searches = (config or {}).get("nameservers") or [], (config or {}).get("searches") or []
    if len(servers) > _NAMESERVERS:
        text = f"must not have more than {_NAMESERVERS} nameservers"
        found.append(invalid(f"{field}.dnsConfig.nameservers", servers, text))
    for index, server in enumerate(servers):
        if not volume_checks.is_address(server):
            found.append(invalid(f"{field}.dnsConfig.nameservers[{index}]", server, "must be valid IP address"))
    if len(searches) > _SEARCHES:
        text = f"must not have more than {_SEARCHES} search paths"
        found.append(invalid(f"{field}.dnsConfig.searches", searches, text))
    if len(" ".join(searches)) > _SEARCH_LENGTH:
        text = f"must not have more than {_SEARCH_LENGTH} characters (including spaces) in the search list"
        found.append(invalid(f"{field}.dnsConfig.searches", searches, text))
    for index, search in enumerate(searches):
        place, domain = f"{field}.dnsConfig.searches[{index}]", search.removesuffix(".")
        found += [invalid(place, domain, text) for text in names.subdomain(domain)]
    for index, option in enumerate((config or {}).get("options") or []):
        if not option.get("name"):
            found.append(required(f"{field}.dnsConfig.options[{index}]", "must not be empty"))
    return found


def _names(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name in ("serviceAccountName", "nodeName"):
        if text := value.get(name):
            found += [invalid(f"{field}.{name}", text, message) for message in names.subdomain(text)]
    return found


def tolerations(items: list[Manifest], field: str) -> list[FieldError]:
    """Return what is wrong with a list of tolerations."""
    found: list[FieldError] = []
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        key, operator, effect = item.get("key", ""), item.get("operator", ""), item.get("effect", "")
        if key:
            found += [invalid(f"{place}.key", key, text) for text in names.qualified(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(invalid(f"{place}.operator", operator, text))
        if item.get("tolerationSeconds") is not None and effect != "NoExecute":
            found.append(
                invalid(f"{place}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
            )
        value = item.get("value", "")
        if operator in ("Equal", ""):
            if texts := names.label_value(value):
                found.append(invalid(f"{place}.operator", value, ";".join(texts)))
        elif operator == "Exists":
            if value:
                found.append(invalid(f"{place}.operator", item, "value must be empty when `operator` is 'Exists'"))
        else:
            found.append(not_supported(f"{place}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in EFFECTS:
            found.append(not_supported(f"{place}.effect", effect, EFFECTS))
    return found


def _host_aliases(items: list[Manifest], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, item in enumerate(items):
        address = item.get("ip", "")
        if not volume_checks.is_address(address):
            found.append(invalid(f"{field}.ip", address, "must be valid IP address"))
        for name in item.get("hostnames") or []:
            found += [invalid(f"{field}.hostnames", name, text) for text in names.subdomain(name)]
        del index
    return found
