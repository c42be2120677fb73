"""What the engine is told about a pod's containers, decided from the manifest alone; what is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from k8s.shared import IMAGE
from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import parse

_PLACING: Final = frozenset(
    {
        *("affinity", "nodeName", "nodeSelector", "priority", "priorityClassName", "preemptionPolicy"),
        *("schedulerName", "tolerations", "topologySpreadConstraints"),
    }
)
"""Fields that decide where a pod runs, and those below say nothing that differs here."""
_POD: Final = _PLACING | {
    *("automountServiceAccountToken", "containers", "dnsPolicy", "enableServiceLinks", "hostname", "imagePullSecrets"),
    *("restartPolicy", "securityContext", "serviceAccount", "serviceAccountName", "shareProcessNamespace", "subdomain"),
    *("terminationGracePeriodSeconds", "volumes"),
}
_CONTAINER: Final = {
    *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports"),
    *("readinessProbe", "resources", "securityContext", "startupProbe", "terminationMessagePath"),
    *("terminationMessagePolicy", "volumeMounts"),
}
_POD_SECURITY: Final = {"fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "seccompProfile"}
_SECURITY: Final = {"allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem"}
_PROBE: Final = {
    *("exec", "failureThreshold", "httpGet", "initialDelaySeconds", "periodSeconds", "successThreshold", "tcpSocket"),
    "timeoutSeconds",
}
_VOLUMES: Final = ("configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret")
_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")


class Unsupported(Exception):
    """A pod asks for something that these kubelets do not do; the message names the field."""


@dataclass(frozen=True)
class Probe:
    """When a container is asked, how often, and what counts."""

    asks: Manifest
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int


def check(pod: Manifest) -> None:
    """Raise Unsupported for a field that would not be honoured."""
    spec = pod["spec"]
    _only(spec, _POD, "spec")
    _only(spec.get("securityContext") or {}, _POD_SECURITY, "spec.securityContext")
    for field, wanted in (("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst")):
        if spec.get(field, wanted) != wanted:
            raise Unsupported(f"spec.{field}: {wanted} only, not {spec[field]}")
    if spec.get("enableServiceLinks") is not False:
        raise Unsupported("spec.enableServiceLinks: false only, no variables of Services are made")
    for volume in spec.get("volumes") or ():
        kinds = volume.keys() - {"name"}
        if not kinds <= set(_VOLUMES):
            raise Unsupported(f"volume {volume['name']}: {', '.join(kinds)} is none of {', '.join(_VOLUMES)}")
    for container in spec["containers"]:
        _check_container(container)


def _check_container(container: Manifest) -> None:
    _only(container, _CONTAINER, "container")
    _only(container.get("securityContext") or {}, _SECURITY, "container.securityContext")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        _only(container.get(probe) or {}, _PROBE, probe)
    _only(container.get("lifecycle") or {}, {"preStop"}, "lifecycle")
    for mount in container.get("volumeMounts") or ():
        _only(mount, {"mountPath", "name", "readOnly", "recursiveReadOnly"}, f"mount {mount['mountPath']}")


def _only(given: Mapping[str, Any], known: frozenset[str] | set[str], where: str) -> None:
    if unknown := sorted(name for name in given.keys() - known if given[name] not in (None, [], {})):
        raise Unsupported(f"{where}: {', '.join(unknown)} would not be honoured")


def needs_sandbox(pod: Manifest) -> bool:
    """Whether a container of its own has to hold what the pod's containers share: one alone has it to itself."""
    return len(pod["spec"]["containers"]) > 1 or bool(pod["spec"].get("shareProcessNamespace"))


def sandbox_options(pod: Manifest, shared: Iterable[str]) -> dict[str, Any]:
    """Arguments with which the engine makes the container that the others join; it keeps volumes in memory alive.

    It has network, host name and, where they are shared, processes, and is there for as long as the pod is. Raises
    Unsupported.
    """
    return {
        **_confined(pod, {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}),
        "image": IMAGE,
        # The first of shared processes gets those whose parents ended; unlike `sleep`, `bash` waits for their end.
        "entrypoint": ["bash", "-c", "sleep infinity & wait"],
        "cap_drop": ["ALL"],
        "hostname": _hostname(pod),
        "volumes": [f"{name}:/volumes/{number}" for number, name in enumerate(shared)],
    }


def engine_options(
    pod: Manifest, container: Manifest, variables: Mapping[str, str], places: Mapping[str, str], sandbox: str | None
) -> dict[str, Any]:
    """Arguments with which the engine makes a container; `places` are directories of this machine, or engine volumes.

    Volumes without a place are in memory. `sandbox` is the container whose network is joined. Raises Unsupported.
    """
    spec = pod["spec"]
    own = container.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    _only(capabilities, {"drop"}, "capabilities")
    limits = (container.get("resources") or {}).get("limits") or {}
    requests = (container.get("resources") or {}).get("requests") or {}
    options: dict[str, Any] = {
        **_confined(pod, own),
        "image": container["image"],
        "cap_drop": capabilities.get("drop") or [],
        "environment": dict(variables),
        "volumes": [],
        "tmpfs": {},
    }
    if sandbox is None:
        options["hostname"] = _hostname(pod)
    else:
        options["network_mode"] = f"container:{sandbox}"
        if spec.get("shareProcessNamespace"):
            options["pid_mode"] = f"container:{sandbox}"
    # As in a cluster: a command takes the place of the image's entrypoint, arguments that of its command.
    if container.get("command"):
        options["entrypoint"] = [expanded(word, variables) for word in container["command"]]
    if container.get("args"):
        options["command"] = [expanded(word, variables) for word in container["args"]]
    if "memory" in limits:
        options["mem_limit"] = options["memswap_limit"] = parse(limits["memory"]).value()
    if "cpu" in limits:
        options["nano_cpus"] = parse(limits["cpu"]).milli_value() * 10**6
    if "cpu" in requests:
        options["cpu_shares"] = max(2, parse(requests["cpu"]).milli_value() * 1024 // 1000)
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        place = places.get(mount["name"])
        ending = ":ro" if mount.get("readOnly") else ""
        if place is not None:
            options["volumes"].append(f"{place}:{mount['mountPath']}{ending}")
        elif mount["name"] in volumes:
            options["tmpfs"][mount["mountPath"]] = memory_options(volumes[mount["name"]])
        else:
            raise Unsupported(f"volumeMounts: there is no volume {mount['name']}")
    return options


def memory_options(volume: Manifest) -> str:
    """How a volume in memory is mounted."""
    size = (volume.get("emptyDir") or {}).get("sizeLimit")
    return "mode=1777" + (f",size={parse(size).value()}" if size else "")


def is_shared(pod: Manifest, volume: str) -> bool:
    """Whether several containers of a pod mount a volume."""
    mounts = [one.get("volumeMounts") or () for one in pod["spec"]["containers"]]
    return sum(any(mount["name"] == volume for mount in each) for each in mounts) > 1


def _hostname(pod: Manifest) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def _confined(pod: Manifest, own: Manifest) -> dict[str, Any]:
    """User, groups and confinement of a container with this security context of its own."""
    shared = pod["spec"].get("securityContext") or {}
    if (shared.get("seccompProfile") or {}).get("type", "RuntimeDefault") != "RuntimeDefault":
        raise Unsupported("seccompProfile: RuntimeDefault only")
    user = shared.get("runAsUser")
    if user is None or (shared.get("runAsNonRoot") and not user):
        raise Unsupported("securityContext.runAsUser: has to be given, and not 0 where runAsNonRoot is")
    return {
        "user": f"{user}:{shared.get('runAsGroup', user)}",
        "group_add": [str(shared["fsGroup"])] if "fsGroup" in shared else [],
        "read_only": bool(own.get("readOnlyRootFilesystem")),
        "security_opt": [] if own.get("allowPrivilegeEscalation", True) else ["no-new-privileges:true"],
    }


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with $(NAME) replaced where there is such a variable; $$ is a dollar."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(replaced, text)


def field_of(pod: Manifest, path: str, facts: Mapping[str, str]) -> str:
    """What a fieldRef names; `facts` are the addresses that the status will have. Raises Unsupported."""
    named = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"]["nodeName"],
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        **facts,
    }
    if path not in named:
        raise Unsupported(f"fieldRef {path}: none of {', '.join(sorted(named))}")
    return named[path]


def probe_of(container: Manifest, name: str) -> Probe | None:
    """A probe with its defaults; None where the container has none of this name."""
    given = container.get(name)
    if not given:
        return None
    return Probe(
        asks=given,
        delay=given.get("initialDelaySeconds") or 0,
        period=given.get("periodSeconds") or 10,
        timeout=given.get("timeoutSeconds") or 1,
        successes=given.get("successThreshold") or 1,
        failures=given.get("failureThreshold") or 3,
    )


def port_of(container: Manifest, port: int | str) -> int:
    """The number of a port that may be given by its name; raises Unsupported."""
    if isinstance(port, int):
        return port
    for one in container.get("ports") or ():
        if one.get("name") == port:
            return int(one["containerPort"])
    raise Unsupported(f"port {port}: the container has none of this name")
