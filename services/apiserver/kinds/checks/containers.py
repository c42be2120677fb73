"""Checks of the containers of a pod: those that run, those before them, and those that are added for a look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    not_found,
    not_supported,
    required,
    too_many,
)
from services._rules.kubernetes.validation.field_rules import (
    PORT_RANGE,
    Rules,
    apply,
    choice,
    distinct,
    each,
    inside,
    needed,
    number,
    repeated,
    text,
)
from services.apiserver.kinds.checks import handlers, resources, security_contexts
from services.apiserver.kinds.checks.container_variables import VARIABLES
from services.apiserver.kinds.checks.mounts import mounted

PROTOCOLS = ("SCTP", "TCP", "UDP")
PROTOCOL = choice("protocol", PROTOCOLS, need="")


class Around(msgspec.Struct, frozen=True):
    """What the containers of one pod are checked against: its volumes and its period of grace."""

    volumes: Mapping[str, Manifest]
    grace: int | None


def _untrimmed(value: str) -> list[str]:
    return ["must not have leading or trailing whitespace"] if value.strip() != value else []


IMAGE = text("image", _untrimmed, need="")
TRIMMED_IMAGE = text("image", _untrimmed)
"""A rule of the containers of pods; those of templates may hold anything until a pod is made of them."""


def _good_port_name(port: Manifest) -> str | None:
    name = port.get("name")
    return None if not name or names.port_name(name) else name


_CONTAINER_PORT = (
    text("name", names.port_name),
    distinct(_good_port_name, lambda port, field: duplicate(f"{field}.name", port["name"])),
    number("containerPort", 1, 65535, need=""),
    number("hostPort", 0, 65535, PORT_RANGE),
    PROTOCOL,
)


def host_ports(items: list[Manifest], field: str) -> Errors:
    """Return an error for each host port that two containers want."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        for position, port in enumerate(item.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            wanted = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if wanted in seen:
                yield duplicate(f"{field}[{index}].ports[{position}].hostPort", wanted)
            seen.add(wanted)


_RESIZED: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")


def _resize(policies: list[Manifest], field: str) -> Errors:
    """Yield what is wrong with the policies of resizing; most errors name the list, not the policy."""
    seen = set()
    for index, item in enumerate(policies):
        name, policy = item.get("resourceName", ""), item.get("restartPolicy", "")
        if name in seen:
            yield duplicate(f"{field}[{index}]", name)
        seen.add(name)
        for value, known in ((name, _RESIZED), (policy, _RESIZE_POLICIES)):
            if value not in known:
                yield not_supported(field, value, known) if value else required(field)


privileged_allowed = True
"""Whether containers may be privileged (kube-apiserver's --allow-privileged); set once when the server starts."""


def _privileged(value: Manifest, field: str) -> Errors:
    if value.get("privileged") and not privileged_allowed:
        yield forbidden(f"{field}.privileged", "disallowed by cluster policy")


_POLICIES: Final = ("File", "FallbackToLogsOnError")


_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_RESTARTS: Final = ("Restart", "RestartAllContainers")
_EXIT_CODES: Final = (choice("operator", ("In", "NotIn"), blank=True), needed("values", detail="must be specified"))


def _restart_rules(value: Manifest, field: str) -> Errors:
    rules, place = value.get("restartPolicyRules") or [], f"{field}.restartPolicyRules"
    if rules and value.get("restartPolicy") is None:
        yield required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used")
    if len(rules) > _MOST_RULES:
        yield too_many(place, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        where, codes = f"{place}[{index}]", rule.get("exitCodes")
        if rule.get("action", "") not in _RESTARTS:
            yield not_supported(f"{where}.action", rule.get("action", ""), _RESTARTS)
        if codes is None:
            yield required(f"{where}.exitCodes", "must be specified")
            continue
        yield from apply(_EXIT_CODES, codes, f"{where}.exitCodes")
        values = codes.get("values") or []
        if len(values) > _MOST_CODES:
            yield too_many(f"{where}.exitCodes.values", len(values), _MOST_CODES)
        for again in repeated(values):
            yield duplicate(f"{where}.exitCodes.values[{again}]", values[again])


_COMMON: Final[Rules] = (
    text("name", names.label, need=""),
    needed("image"),
    choice("terminationMessagePolicy", _POLICIES, need=""),
    each("ports", *_CONTAINER_PORT),
    *VARIABLES,
    choice("imagePullPolicy", ("Always", "IfNotPresent", "Never"), need=""),
    inside("resources", resources.required_resources),
    inside("resizePolicy", _resize),
    inside("securityContext", _privileged, *security_contexts.CONTAINER),
    choice("restartPolicy", ("Always", "Never", "OnFailure")),
    _restart_rules,
)
"""The rules that all containers have in common."""


def _checked(item: Manifest, place: str, around: Around) -> list[FieldError]:
    found = apply(_COMMON, item, place)
    if "volumeMounts" in item or "volumeDevices" in item:
        found += mounted(item, place, around.volumes)
    return found


def _asked(item: Manifest, place: str, around: Around) -> list[FieldError]:
    found = apply(handlers.ASKED, item, place)
    if value := item.get("lifecycle"):
        found += handlers.lifecycle(value, f"{place}.lifecycle", around.grace)
    return found


def _repeated(name: str, taken: set[str], place: str) -> list[FieldError]:
    if name in taken:
        return [duplicate(f"{place}.name", name)]
    taken.add(name)
    return []


def _repeated_name(name: str, taken: set[str], place: str) -> list[FieldError]:
    """As `_repeated`; containers without a name do not make one another repeated."""
    return _repeated(name, taken, place) if name or name in taken else []


def containers(items: list[Manifest], around: Around, field: str) -> list[FieldError]:
    """Return what is wrong with the containers of a pod."""
    if not items:
        return [required(field)]
    found: list[FieldError] = []
    taken: set[str] = set()
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        found += _checked(item, place, around)
        found += _repeated(item.get("name", ""), taken, place)
        found += _asked(item, place, around)
    return [*found, *host_ports(items, field)]


def init_containers(items: list[Manifest], others: list[Manifest], around: Around, field: str) -> Errors:
    """Return what is wrong with the init containers of a pod; their names must differ from the containers'."""
    taken = {item.get("name", "") for item in others}
    for index, item in enumerate(items):
        place, name = f"{field}[{index}]", item.get("name", "")
        yield from _checked(item, place, around)
        yield from _repeated_name(name, taken, place)
        yield from host_ports([item], field)
        policy = item.get("restartPolicy")
        unwanted = [part for part in ("lifecycle", *handlers.PROBES) if part in item]
        if policy == "Always":
            yield from _asked(item, place, around)
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            yield from [forbidden(f"{place}.{part}", detail) for part in unwanted]


_NOT_FOR_A_LOOK: Final = ("ports", "resources", *handlers.PROBES, "lifecycle", "restartPolicy", "resizePolicy")
_CANNOT: Final = "cannot be set for an Ephemeral Container"


def ephemeral_containers(spec: Manifest, around: Around, field: str) -> Errors:
    """Return what is wrong with the ephemeral containers of a pod: they have nothing that lasts."""
    others = {item.get("name", "") for part in ("containers", "initContainers") for item in spec.get(part) or ()}
    taken = set(others)
    for index, item in enumerate(spec.get("ephemeralContainers") or ()):
        place, target = f"{field}[{index}]", item.get("targetContainerName")
        yield from _checked(item, place, around)
        yield from TRIMMED_IMAGE(item, place)
        yield from _repeated(item.get("name", ""), taken, place)
        if target and target not in others:
            yield not_found(f"{place}.targetContainerName", target)
        yield from [forbidden(f"{place}.{part}", _CANNOT) for part in _NOT_FOR_A_LOOK if item.get(part)]
        for position, mount in enumerate(item.get("volumeMounts") or ()):
            unwanted = [part for part in ("subPath", "subPathExpr") if mount.get(part)]
            yield from [forbidden(f"{place}.volumeMounts[{position}].{part}", _CANNOT) for part in unwanted]
