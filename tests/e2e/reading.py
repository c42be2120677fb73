"""Asks a cluster over HTTP by kubectl's names for kinds: what tests do again and again starts no processes."""

from __future__ import annotations

import base64
import functools
import json
import ssl
import tempfile
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from threading import local
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

_SECONDS: Final = 60.0
_APPLY: Final = urlencode({"fieldManager": "kubectl", "force": "true", "fieldValidation": "Strict"})
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Unread(Exception):
    """The cluster did not answer, or with an error; `code` is 0 without an answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Kind(Struct, frozen=True):
    """Where the objects of a kind are: `/apis/apps/v1`, `deployments`."""

    root: str
    resource: str
    namespaced: bool


class _Connection(HTTPSConnection):
    """Closed with the thread that kept it, at the latest."""

    def __del__(self) -> None:
        self.close()


class Reader:
    """One cluster, as a kubeconfig names it; each thread keeps its connection: a handshake costs more than a look."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._headers = {"Accept": "application/json"}
        self._kinds: dict[str, _Kind] = {}
        self._server = ""
        self._context: ssl.SSLContext | None = None
        self._kept = local()

    def get(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """One object, None when there is none of this name; raises Unread."""
        try:
            return self._read(f"{self._path(kind, namespace)}/{quote(name)}")
        except Unread as error:
            if error.code != 404:
                raise
        # No such object, or no such kind any more: a list tells which.
        self.items(kind, namespace)
        return None

    def items(self, kind: str, namespace: str = "", selector: str = "") -> list[Manifest]:
        """Objects of a kind, or of several with commas between them; raises Unread."""
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        found: list[Manifest] = []
        for one in kind.split(","):
            found += self._read(f"{self._path(one, namespace)}{query}").get("items") or ()
        return found

    def create(self, kind: str, manifest: Manifest, namespace: str = "") -> Manifest:
        """Create an object as it is; raises Unread."""
        return self._read(self._path(kind, namespace), "POST", manifest)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object, without waiting until it is gone; raises Unread."""
        self._read(f"{self._path(kind, namespace)}/{quote(name)}", "DELETE")

    def patch(self, kind: str, name: str, patch: Manifest, namespace: str = "") -> Manifest:
        """Change an object by a merge patch; raises Unread."""
        path = f"{self._path(kind, namespace)}/{quote(name)}"
        return self._read(path, "PATCH", patch, "application/merge-patch+json")

    def apply(self, manifest: Manifest) -> Manifest:
        """Apply an object, or the objects of a list, on the server; unknown fields are errors. Raises Unread."""
        if manifest["kind"] == "List":
            for item in manifest["items"]:
                self.apply(item)
            return manifest
        version, metadata = manifest["apiVersion"], manifest["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        path = self._path(f"{root} {manifest['kind']}", metadata.get("namespace", ""))
        target = f"{path}/{quote(metadata['name'])}?{_APPLY}"
        return self._read(target, "PATCH", _given(manifest), "application/apply-patch+yaml")

    def may(self, verb: str, resource: str, namespace: str = "default") -> bool:
        """Whether its user may do that to `deployments.apps` or `serviceaccounts/token`; raises Unread."""
        whole, _, group = resource.partition(".")
        name, _, part = whole.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part, "namespace": namespace}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = self._read(_REVIEWS, "POST", {**review, "spec": {"resourceAttributes": asked}})
        return bool(answer["status"]["allowed"])

    def _path(self, kind: str, namespace: str) -> str:
        found = self._kinds.get(kind)
        if found is None:
            self._discover()
            found = self._kinds.get(kind)
        if found is None:
            raise Unread(404, f"the server has no resource {kind}")
        inside = f"/namespaces/{namespace or 'default'}" if found.namespaced else ""
        return f"{found.root}{inside}/{found.resource}"

    def _discover(self) -> None:
        """Every name of every kind; of two kinds with the same name the first counts, as it does for kubectl."""
        roots = ["/api/v1"]
        for group in self._read("/apis")["groups"]:
            preferred = group["preferredVersion"]["groupVersion"]
            others = [version["groupVersion"] for version in group["versions"]]
            roots += [f"/apis/{version}" for version in dict.fromkeys([preferred, *others])]
        for root in roots:
            for item in self._read(root)["resources"]:
                if "/" in item["name"]:
                    continue
                kind = _Kind(root, item["name"], item["namespaced"])
                short = item.get("shortNames") or ()
                names = (f"{root} {item['kind']}", item["name"], item.get("singularName"), item["kind"].lower(), *short)
                for name in filter(None, names):
                    self._kinds.setdefault(name, kind)

    def _read(
        self, path: str, method: str = "GET", body: Manifest | None = None, media: str = "application/json"
    ) -> Manifest:
        if self._context is None:
            self._load()
        kept: _Connection | None = getattr(self._kept, "connection", None)
        if kept is None:
            place = urlsplit(self._server)
            kept = self._kept.connection = _Connection(
                str(place.hostname), place.port, timeout=_SECONDS, context=self._context
            )
        used = kept.sock is not None
        try:
            return self._asked(kept, path, method, body, media)
        except (OSError, HTTPException) as error:
            kept.close()
            # A connection may have ended meanwhile, with its server or because it was idle.
            if used and not isinstance(error, TimeoutError):
                return self._read(path, method, body, media)
            raise Unread(0, f"{path}: {error!r}") from None

    def _asked(self, connection: _Connection, path: str, method: str, body: Manifest | None, media: str) -> Manifest:
        sent = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, sent, {**self._headers, "Content-Type": media})
        with connection.getresponse() as answer:
            text = answer.read()
        if answer.status not in (200, 201, 202):
            raise Unread(answer.status, f"{path}: {answer.status} {_said(text)}")
        found: Manifest = msgspec.json.decode(text)
        return found

    def _load(self) -> None:
        """Where the cluster is, and who asks."""
        config = json.loads(self._kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        else:
            with tempfile.NamedTemporaryFile() as both:
                for part in ("client-certificate-data", "client-key-data"):
                    both.write(base64.b64decode(user[part]))
                both.flush()
                context.load_cert_chain(both.name)
        self._context = context


def _said(text: bytes) -> str:
    """The message of a Status, or the text of an answer that is none."""
    try:
        return str(msgspec.json.decode(text, type=dict)["message"])
    except (msgspec.MsgspecError, KeyError):
        return text.decode(errors="replace")


def _given(manifest: Manifest) -> Manifest:
    """What is applied: a field that is null is left out, as it is for kubectl."""
    found = {name: value for name, value in manifest.items() if value is not None}
    return {name: _given(value) if isinstance(value, dict) else value for name, value in found.items()}


@functools.cache
def _reader(kubeconfig: Path, _written: int) -> Reader:
    return Reader(kubeconfig)


def reader_of(kubeconfig: Path) -> Reader:
    """The reader of a kubeconfig as it is now; what one of them learned of a cluster's kinds serves all."""
    return _reader(kubeconfig, kubeconfig.stat().st_mtime_ns)


def forget_readers() -> None:
    """Close the connections of all readers; those asked for later are new."""
    _reader.cache_clear()
