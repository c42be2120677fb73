"""Decides which objects an installation has on its host cluster: the product's manifests, as they are wanted.

`manifests.yaml` is written by k8s/generate.py from the same description as the files below k8s/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.service_roles import SIGNER_OF_AGENTS, dns
from services.cli.hosting.wanted_installation import Part, Wanted, kube_registry

BOOTSTRAPPING: Final = "karmada.io/bootstrapping"
"""Label of everything on the host that belongs to an installation."""
_FILE: Final = Path(__file__).with_name("manifests.yaml")
_WRITTEN_FOR: Final = "fleetlog-system"
_WORKLOADS: Final = ("Deployment", "StatefulSet")
_VALUES: Final = {"Deployment": "app-defaults", "StatefulSet": "app-defaults", "Secret": "secret-defaults"}
STORE, SERVER, LOG, RELOADER = "etcd", "kube-apiserver", "nats", "reloader"
_RENEWAL: Final = "certificate-renewal"
_SIGNER: Final = dns(SIGNER_OF_AGENTS)
AGENTS_DOOR: Final = "log"
"""The Service by which agents of members reach the log."""
_EXTERNAL: Final = "fleetlog-external-etcd"
_OURS: Final = "karmada-controller-manager"
"""What Karmada calls everything that is none of these."""
_PARTS: Final = {
    STORE: "etcd",
    LOG: "etcd",
    SERVER: "karmada-apiserver",
    "scheduler": "karmada-scheduler",
    "webhook": "karmada-webhook",
    "gateway": "karmada-aggregated-apiserver",
}
"""What Karmada calls a workload."""


def shipped() -> list[Manifest]:
    """The manifests of the product."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [item for item in yaml.load_all(_FILE.read_text(encoding="utf-8"), Loader=loader) if item]


def bootstrapping(kind: str) -> dict[str, str]:
    """The label of an object of a kind."""
    return {BOOTSTRAPPING: _VALUES.get(kind, "service-defaults")}


def host_objects(wanted: Wanted) -> list[Manifest]:
    """Every object but Secrets, in the order in which they are written."""
    found = []
    for item in shipped():
        if item["kind"] == "Namespace":
            continue
        if wanted.etcd.servers and _workload_of(item) == STORE:
            continue
        found.append(_placed(item, wanted))
    return found


def external_secret(wanted: Wanted, files: Mapping[str, str]) -> list[Manifest]:
    """The Secret with which the API server reaches an etcd that is there; none where it needs nothing."""
    if not wanted.etcd.servers or not files:
        return []
    return [secret(_EXTERNAL, wanted.namespace, files)]


def secret(name: str, namespace: str, texts: Mapping[str, str]) -> Manifest:
    """A Secret of an installation."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": bootstrapping("Secret")},
        "type": "Opaque",
        "stringData": dict(texts),
    }


def _workload_of(item: Manifest) -> str:
    """The workload that an object belongs to."""
    return str(item["metadata"]["name"])


def _placed(item: Manifest, wanted: Wanted) -> Manifest:
    item = _renamed(item, _WRITTEN_FOR, wanted.namespace)
    metadata = item["metadata"]
    labels = {**(metadata.get("labels") or {}), **bootstrapping(item["kind"])}
    item["metadata"] = {**metadata, "namespace": wanted.namespace, "labels": labels}
    if item["kind"] == "RoleBinding":
        item["subjects"] = [{**subject, "namespace": wanted.namespace} for subject in item["subjects"]]
    name = _workload_of(item)
    part = wanted.parts[_PARTS.get(name, _OURS)]
    if item["kind"] in _WORKLOADS:
        _workload(item["spec"], name, part, wanted)
    elif item["kind"] == "CronJob":
        _workload(item["spec"]["jobTemplate"]["spec"], name, part, wanted)
    elif item["kind"] == "Service" and name in (SERVER, AGENTS_DOOR):
        item["spec"] |= {"type": "NodePort"}
        item["spec"]["ports"][0]["nodePort"] = wanted.port if name == SERVER else wanted.log_port
        if name == SERVER and part.service_annotations:
            item["metadata"]["annotations"] = part.service_annotations
    elif item["kind"] == "NetworkPolicy" and name == LOG:
        # From anywhere, by the port of the nodes: keys and certificates decide who gets in.
        item["spec"]["ingress"].append({"ports": [{"protocol": "TCP", "port": 4222}]})
    elif item["kind"] == "NetworkPolicy" and name == SERVER and wanted.etcd.servers:
        item["spec"]["egress"].append({"to": [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/0", "::/0")]})
    return item


def _renamed(value: Any, old: str, new: str) -> Any:
    """A copy with another namespace in every text that names it, as in `nats.NAMESPACE.svc`."""
    if isinstance(value, str):
        return value.replace(f".{old}.svc", f".{new}.svc")
    if isinstance(value, dict):
        return {name: _renamed(each, old, new) for name, each in value.items()}
    return [_renamed(each, old, new) for each in value] if isinstance(value, list) else value


def _workload(spec: Manifest, name: str, part: Part, wanted: Wanted) -> None:
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    # The log has its own size: three servers that agree. Requests of agents are answered once.
    if part.replicas and spec.get("replicas") and name not in (LOG, _SIGNER):
        spec["replicas"] = part.replicas
    container["image"] = _image(container["image"], name, part, wanted)
    for beside in pod["containers"][1:]:
        # It is the product's, whatever the first one is.
        beside["image"] = _image(beside["image"], RELOADER, wanted.parts[_OURS], wanted)
    for each in pod["containers"]:
        each["imagePullPolicy"] = wanted.images.pull_policy
    if wanted.images.pull_secrets:
        pod["imagePullSecrets"] = [{"name": each} for each in wanted.images.pull_secrets]
    if part.priority:
        pod["priorityClassName"] = part.priority
    if name != LOG:
        pod |= part.pod
    if name not in (LOG, _RENEWAL):
        if part.resources:
            container["resources"] = part.resources
        if name != _SIGNER:
            _arguments(container, name, part.arguments)
    if name == STORE:
        _store(spec, pod, wanted)
    elif name == SERVER and wanted.etcd.servers:
        _outside_store(pod, container, wanted)


def _image(image: str, name: str, part: Part, wanted: Wanted) -> str:
    if part.image and name != LOG:
        return part.image
    registry = wanted.images.registry
    if name == SERVER:
        repository, _, tag = image.rpartition(":")
        image = f"{repository}:{wanted.images.kube_tag or tag}"
        registry = registry or kube_registry(wanted.images)
    return f"{registry.rstrip('/')}/{image.rpartition('/')[2]}" if registry else image


def _arguments(container: Manifest, name: str, given: Sequence[str]) -> None:
    """Lay further arguments over those that are there, by key; of a service they are its settings."""
    if not given:
        return
    if name in (STORE, SERVER):
        program, *flags = container["command"]
        merged = {flag.partition("=")[0]: flag for flag in (*flags, *given)}
        container["command"] = [program, *(merged[key] for key in sorted(merged))]
        return
    for flag in given:
        key, _, value = flag.partition("=")
        variable = "FLEETLOG_" + key.removeprefix("--").upper().replace("-", "_").replace(".", "_")
        container["env"] = [one for one in container["env"] if one["name"] != variable]
        container["env"].append({"name": variable, "value": value or "true"})


def _store(spec: Manifest, pod: Manifest, wanted: Wanted) -> None:
    etcd = wanted.etcd
    if etcd.nodes:
        pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **dict(one.split("=", 1) for one in etcd.nodes)}
    if etcd.mode == "emptyDir":
        del spec["volumeClaimTemplates"]
        pod["volumes"].append({"name": "data", "emptyDir": {}})
        return
    claim = spec["volumeClaimTemplates"][0]["spec"]
    if etcd.size:
        claim["resources"] = {"requests": {"storage": etcd.size}}
    if etcd.storage_class:
        claim["storageClassName"] = etcd.storage_class


def _outside_store(pod: Manifest, container: Manifest, wanted: Wanted) -> None:
    """Point the API server to an etcd that is there."""
    etcd = wanted.etcd
    own = ("--etcd-servers", "--etcd-cafile", "--etcd-certfile", "--etcd-keyfile")
    flags = [flag for flag in container["command"] if not flag.startswith(own)]
    flags.append(f"--etcd-servers={','.join(etcd.servers)}")
    files = {"--etcd-cafile": (etcd.ca, "ca.crt"), "--etcd-certfile": (etcd.cert, "tls.crt")}
    files["--etcd-keyfile"] = (etcd.key, "tls.key")
    flags += [f"{flag}=/tls/external-etcd/{name}" for flag, (path, name) in files.items() if path]
    if etcd.prefix:
        flags.append(f"--etcd-prefix={etcd.prefix}")
    container["command"] = flags
    if etcd.ca or etcd.cert:
        container["volumeMounts"].append({"name": "external-etcd", "mountPath": "/tls/external-etcd", "readOnly": True})
        pod["volumes"].append({"name": "external-etcd", "secret": {"secretName": _EXTERNAL, "defaultMode": 0o440}})
