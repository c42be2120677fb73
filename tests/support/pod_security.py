"""The Pod Security Standard "restricted", as a check of a pod template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Manifest = dict[str, Any]
CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
VOLUMES: Final = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
)
SYSCTLS: Final = frozenset(
    (
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
        *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
        *("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
    )
)
SE_LINUX: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
SECCOMP: Final = frozenset(("RuntimeDefault", "Localhost"))
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def violations(template: Manifest) -> list[str]:
    """What a pod of this template breaks of the standard, with its place."""
    return [*_of_pod(template), *_of_containers(template["spec"])]


def _of_pod(template: Manifest) -> Iterator[str]:
    spec = template["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes", ()):
        kinds = set(volume) - {"name"}
        if not kinds <= VOLUMES:
            yield f"volume {volume['name']}: {kinds}"
    for name, value in template["metadata"].get("annotations", {}).items():
        if name.startswith(APP_ARMOR) and not (value == "runtime/default" or value.startswith("localhost/")):
            yield name
    context = spec.get("securityContext", {})
    for sysctl in context.get("sysctls", ()):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    if context.get("runAsUser") == 0:
        yield "runAsUser"
    yield from _alike("pod", context)


def _of_containers(spec: Manifest) -> Iterator[str]:
    pod = spec.get("securityContext", {})
    for container in (each for kind in CONTAINERS for each in spec.get(kind, ())):
        name, context = container["name"], container.get("securityContext", {})
        yield from _alike(name, context)
        if context.get("privileged"):
            yield f"{name}: privileged"
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities"
        if context.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
        if context.get("runAsUser") == 0:
            yield f"{name}: runAsUser"
        if context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"{name}: runAsNonRoot"
        if context.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in SECCOMP:
            yield f"{name}: seccompProfile"
        for port in container.get("ports", ()):
            if port.get("hostPort"):
                yield f"{name}: hostPort"
        probes = ("livenessProbe", "readinessProbe", "startupProbe")
        asked = [container.get(probe, {}) for probe in probes]
        asked += [container.get("lifecycle", {}).get(hook, {}) for hook in ("postStart", "preStop")]
        if any(one.get(way, {}).get("host") for one in asked for way in ("httpGet", "tcpSocket")):
            yield f"{name}: host of a probe"


def _alike(place: str, context: Manifest) -> Iterator[str]:
    """What a pod and a container say in the same way."""
    options = context.get("seLinuxOptions", {})
    if options.get("type", "") not in SE_LINUX or options.get("user") or options.get("role"):
        yield f"{place}: seLinuxOptions"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield f"{place}: appArmorProfile"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield f"{place}: windowsOptions"
