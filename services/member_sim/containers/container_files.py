"""What a process finds in a container: variables, files and directories, made from the pod's manifest."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services.member_sim.containers.pod_containers import Container

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIRECTORIES: Final = ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr", "var")
_WEB_SERVERS: Final = frozenset({"nginx", "httpd", "caddy", "apache"})
_TOKENS: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_MOST_FILES, _LONGEST_PATH = 200, 512
INDEX: Final = b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><h1>It works</h1></body></html>\n"


class Inside(Struct, frozen=True):
    """A container from within; a path of `files` without bytes is a directory."""

    hostname: str
    user: int
    directory: str
    variables: dict[str, str]
    files: dict[str, bytes | None]

    def listed(self, path: str) -> list[str] | None:
        """The names in a directory, sorted; None where there is none."""
        if path != "/" and path not in self.files:
            return None
        if path != "/" and self.files[path] is not None:
            return None
        start = "/" if path == "/" else f"{path}/"
        return sorted({name[len(start) :].partition("/")[0] for name in self.files if name.startswith(start)})


def inside(container: Container) -> Inside:
    """What the container looks like from within."""
    pod, spec = container.pod, container.spec
    meta, pod_spec = pod["metadata"], pod.get("spec") or {}
    hostname = str(pod_spec.get("hostname") or meta["name"])[:63]
    context = {**(pod_spec.get("securityContext") or {}), **(spec.get("securityContext") or {})}
    user = int(context.get("runAsUser") or 0)
    home = "/root" if not user else "/"
    variables = {"PATH": _PATH, "HOSTNAME": hostname, "HOME": home, "TERM": "xterm"} if spec.get("tty") else {}
    variables = variables or {"PATH": _PATH, "HOSTNAME": hostname, "HOME": home}
    variables |= {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for entry in spec.get("env") or ():
        value = entry.get("value")
        source = (entry.get("valueFrom") or {}).get("fieldRef")
        if source is not None:
            value = _field(pod, str(source.get("fieldPath") or ""))
        if value is not None or "valueFrom" not in entry:
            variables[str(entry["name"])] = str(value or "")
    return Inside(hostname, user, str(spec.get("workingDir") or "/"), variables, _files(container, hostname))


def _files(container: Container, hostname: str) -> dict[str, bytes | None]:
    pod, spec = container.pod, container.spec
    meta = pod["metadata"]
    address = (pod.get("status") or {}).get("podIP") or "127.0.0.1"
    found: dict[str, bytes | None] = {f"/{name}": None for name in _DIRECTORIES}
    found |= {
        "/etc/hostname": f"{hostname}\n".encode(),
        "/etc/hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{address}\t{hostname}\n".encode(),
        "/etc/os-release": b'NAME="Simulated"\nID=simulated\nPRETTY_NAME="A simulated container"\n',
        "/etc/resolv.conf": (
            f"search {meta.get('namespace', '')}.svc.cluster.local svc.cluster.local cluster.local\n"
            "nameserver 10.96.0.10\noptions ndots:5\n"
        ).encode(),
        "/dev/null": b"",
    }
    if container.image in _WEB_SERVERS:
        found["/usr/share/nginx/html/index.html"] = INDEX
    for mount in (spec.get("volumeMounts") or ())[:_MOST_FILES]:
        path = "/" + str(mount.get("mountPath") or "")[:_LONGEST_PATH].strip("/")
        found[path] = None
        if path == _TOKENS:
            found[f"{path}/namespace"] = str(meta.get("namespace", "")).encode()
    for path in list(found):
        while path.count("/") > 1:
            path = path.rpartition("/")[0]
            found.setdefault(path, None)
    return found


def _field(pod: Manifest, path: str) -> str | None:
    """The value that a field reference names; None for one that is not simulated."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    simple = {
        "metadata.name": meta.get("name"),
        "metadata.namespace": meta.get("namespace"),
        "metadata.uid": meta.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName"),
        "status.hostIP": status.get("hostIP"),
        "status.podIP": status.get("podIP"),
    }
    if path in simple:
        return str(simple[path] or "")
    for name in ("labels", "annotations"):
        start = f"metadata.{name}['"
        if path.startswith(start) and path.endswith("']"):
            return str((meta.get(name) or {}).get(path[len(start) : -2], ""))
    return None


def resolved(directory: str, name: str) -> str:
    """A path from the root, for one that may begin in a directory."""
    parts: list[str] = []
    for part in (name if name.startswith("/") else f"{directory}/{name}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
