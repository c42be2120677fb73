"""Variables and files of pods: read as their node may, packed with the owners and modes that they have in the pod."""

from __future__ import annotations

import base64
import io
import tarfile
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient
from tests.containers.cluster.pod_options import Unsupported, expanded, field_of

Files = dict[str, bytes]
_MODE: Final = 0o644


class Content(NamedTuple):
    """Files of a volume, and their mode."""

    files: Files
    mode: int


class PodSources:
    """What one pod's manifest refers to, read with the identity of its node."""

    def __init__(self, client: KubeClient, pod: Manifest, facts: Mapping[str, str]) -> None:
        self._client = client
        self._pod = pod
        self._facts = facts
        self._namespace: str = pod["metadata"]["namespace"]

    async def variables(self, container: Manifest) -> dict[str, str]:
        """The environment of a container."""
        found: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            kind = "secretRef" if "secretRef" in source else "configMapRef"
            values = await self._files(kind.removesuffix("Ref"), source[kind]["name"])
            found |= {source.get("prefix", "") + name: value.decode() for name, value in values.items()}
        for entry in container.get("env") or ():
            origin = entry.get("valueFrom") or {}
            if "fieldRef" in origin:
                found[entry["name"]] = field_of(self._pod, origin["fieldRef"]["fieldPath"], self._facts)
            elif "secretKeyRef" in origin:
                key = origin["secretKeyRef"]
                found[entry["name"]] = (await self._files("secret", key["name"]))[key["key"]].decode()
            elif "configMapKeyRef" in origin:
                key = origin["configMapKeyRef"]
                found[entry["name"]] = (await self._files("configMap", key["name"]))[key["key"]].decode()
            elif origin:
                raise Unsupported(f"env {entry['name']}: valueFrom {', '.join(origin)}")
            else:
                found[entry["name"]] = expanded(entry.get("value", ""), found)
        return found

    async def content(self, volume: Manifest) -> Content | None:
        """What is in a volume at first, None for one in memory; raises Unsupported and ApiError."""
        read: dict[str, Callable[[Manifest], Awaitable[Files]]] = {
            "secret": lambda one: self._chosen("secret", one["secretName"], one),
            "configMap": lambda one: self._chosen("configMap", one["name"], one),
            "projected": self._projected,
        }
        for kind, look in read.items():
            if kind in volume:
                return Content(await look(volume[kind]), volume[kind].get("defaultMode") or _MODE)
        if (volume.get("emptyDir") or {}).get("medium") == "Memory":
            return None
        return Content({}, _MODE)

    async def _projected(self, given: Manifest) -> Files:
        found: Files = {}
        for source in given["sources"]:
            ((kind, one),) = source.items()
            if kind in ("secret", "configMap"):
                found |= await self._chosen(kind, one["name"], one)
            elif kind == "serviceAccountToken":
                found[one["path"]] = await self._token(one)
            elif kind == "downwardAPI":
                for item in one["items"]:
                    path = item["fieldRef"]["fieldPath"]
                    found[item["path"]] = field_of(self._pod, path, self._facts).encode()
            else:
                raise Unsupported(f"projected source {kind}")
        return found

    async def _token(self, one: Manifest) -> bytes:
        account = self._pod["spec"]["serviceAccountName"]
        meta = self._pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec: dict[str, Any] = {"boundObjectRef": bound, "expirationSeconds": one.get("expirationSeconds", 3600)}
        if one.get("audience"):
            spec["audiences"] = [one["audience"]]
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self._client.create(path, body))["status"]["token"]).encode()

    async def _chosen(self, kind: str, name: str, given: Manifest) -> Files:
        found = await self._files(kind, name)
        if not given.get("items"):
            return found
        return {item["path"]: found[item["key"]] for item in given["items"]}

    async def _files(self, kind: str, name: str) -> Files:
        plural = "secrets" if kind == "secret" else "configmaps"
        read = await self._client.get(f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")
        data = read.get("data") or {}
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in data.items()}
        binary = {key: base64.b64decode(value) for key, value in (read.get("binaryData") or {}).items()}
        return {**{key: value.encode() for key, value in data.items()}, **binary}


def archive(content: Content, group: int) -> bytes:
    """Files of root's and a group's that are written now, as a tar file.

    As in a cluster, files are links through `..data` to a directory of their version.
    """
    now = time.time()
    version = f"..{now:.6f}"
    entries = []
    if files := content.files:
        entries.append((_entry(version, 0o755, type=tarfile.DIRTYPE), b""))
        # Owned by a group, files can be read by it whatever their mode says of others.
        mode = content.mode | 0o040
        entries += [(_entry(f"{version}/{path}", mode, size=len(data)), data) for path, data in sorted(files.items())]
        targets = {name: f"..data/{name}" for name in sorted({path.partition("/")[0] for path in files})}
        # Last, for it exchanges all of them at once.
        targets["..data"] = version
        entries += [(_entry(name, 0o777, type=tarfile.SYMTYPE, linkname=to), b"") for name, to in targets.items()]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as out:
        for entry, data in entries:
            entry.gid, entry.mtime = group, now
            out.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _entry(path: str, mode: int, **facts: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(f"./{path}")
    entry.mode = mode
    for name, value in facts.items():
        setattr(entry, name, value)
    return entry
