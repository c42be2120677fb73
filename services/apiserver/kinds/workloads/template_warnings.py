"""What a client is told of a pod or a pod template that is taken, and that will not do what it seems to ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_rules import lookup, place, repeated
from services.apiserver.kinds.builtin import BuiltinKind

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_CRITICAL: Final = "scheduler.alpha.kubernetes.io/critical-pod"
_GONE: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
}
"""Sources of volumes that kubelets do not mount any more."""


def template_warnings(template: Manifest | None, path: str) -> list[str]:
    """Return the warnings of a pod template at a path, or of a pod, whose path is empty."""
    if not template:
        return []
    spec, field = template.get("spec") or {}, place(path, "spec")
    return [
        *_annotations(template, path),
        *_volumes(spec, field),
        *_repeated(spec, field, "hostAliases", "ip"),
        *_repeated(spec, field, "imagePullSecrets", "name"),
        *_nameless(spec, field),
        *_grace(spec, field),
        *_containers(spec, field),
    ]


class PodMaker(BuiltinKind):
    """A kind whose objects have the template of pods."""

    template_at: ClassVar[str] = "spec.template"
    """The path of the template."""
    names_pods: ClassVar[bool] = True
    """Whether the name of a pod begins with that of the object, and should be a label."""

    def warnings(self, obj: Manifest) -> list[str]:
        """Tell of what is taken and does not do what it seems to ask for."""
        return [*(name_warnings(obj) if self.names_pods else ()), *self._of_template(obj)]

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """Tell of the template; the object has its name already."""
        return self._of_template(new)

    def _of_template(self, obj: Manifest) -> list[str]:
        return template_warnings(lookup(obj, self.template_at), self.template_at)


def name_warnings(obj: Manifest, use: str = "in Pod names and hostnames") -> list[str]:
    """Return a warning for a name that is no label of the DNS, of an object whose pods are named after it."""
    name = obj["metadata"].get("name") or ""
    if not names.label(name):
        return []
    problems = "must not contain dots" if "." in name else " ".join(names.label(name))
    surprise = "which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: this is used {use}, {surprise}: [{problems}]"]


def _annotations(template: Manifest, path: str) -> Iterator[str]:
    field = place(path, "metadata.annotations")
    for key in (template.get("metadata") or {}).get("annotations") or {}:
        if key == _CRITICAL:
            yield f'{field}[{key}]: non-functional in v1.16+; use the "priorityClassName" field instead'
        elif key.startswith(_APPARMOR):
            yield f'{field}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _volumes(spec: Manifest, path: str) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for name in volume.keys() & _GONE.keys():
            yield f"{path}.volumes[{index}].{name}: {_GONE[name]}"


def _repeated(spec: Manifest, path: str, name: str, key: str) -> Iterator[str]:
    values = [item.get(key, "") for item in spec.get(name) or ()]
    for index in repeated(values):
        yield f'{path}.{name}[{index}].{key}: duplicate {key} "{values[index]}"'


def _nameless(spec: Manifest, path: str) -> Iterator[str]:
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _grace(spec: Manifest, path: str) -> Iterator[str]:
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"


def _containers(spec: Manifest, path: str) -> Iterator[str]:
    ports: dict[tuple[int, str], list[tuple[str, Manifest]]] = {}
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            field = f"{path}.{part}[{index}]"
            variables = [item.get("name", "") for item in container.get("env") or ()]
            for again in repeated(variables):
                hidden = f'hides previous definition of "{variables[again]}"'
                yield f"{field}.env[{again}]: {hidden}, which may be dropped when using apply"
            for number, port in enumerate(container.get("ports") or ()):
                yield from _port(port, f"{field}.ports[{number}]", ports)


def _port(port: Manifest, field: str, seen: dict[tuple[int, str], list[tuple[str, Manifest]]]) -> Iterator[str]:
    address, host = port.get("hostIP", ""), port.get("hostPort", 0)
    if address and not host:
        shown = f"Name:{port.get('name', '')} HostPort:0 ContainerPort:{port.get('containerPort', 0)}"
        yield f"{field}: hostIP set without hostPort: {{{shown} Protocol:{port.get('protocol', '')} HostIP:{address}}}"
    others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
    for place_of_other, other in others:
        there, bound = other.get("hostIP", ""), other.get("hostPort", 0)
        if (address, host) == (there, bound):
            yield f"{field}: duplicate port definition with {place_of_other}"
        elif not host or not bound:
            yield f"{field}: overlapping port definition with {place_of_other}"
        elif host == bound and bool(address) != bool(there):
            yield f"{field}: dangerously ambiguous port definition with {place_of_other}"
    others.append((field, port))
