"""Reads objects of a cluster over HTTP by kubectl's names for kinds: looking again and again starts no processes."""

from __future__ import annotations

import base64
import functools
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

_SECONDS: Final = 60.0


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


class Reader:
    """One cluster, as a kubeconfig names it; every request has a connection of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._headers = {"Accept": "application/json"}
        self._kinds: dict[str, _Kind] = {}
        self._server = ""
        self._context: ssl.SSLContext | None = None

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
                for name in filter(None, (item["name"], item.get("singularName"), item["kind"].lower(), *short)):
                    self._kinds.setdefault(name, kind)

    def _read(self, path: str) -> Manifest:
        if self._context is None:
            self._load()
        request = urllib.request.Request(f"{self._server}{path}", headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=self._context) as answer:
                found: Manifest = msgspec.json.decode(answer.read())
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise Unread(error.code, f"{path}: {error.code} {error.read().decode(errors='replace')}") from None
        except (OSError, HTTPException) as error:
            raise Unread(0, f"{path}: {error!r}") from None

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


@functools.cache
def _reader(kubeconfig: Path, _written: int) -> Reader:
    return Reader(kubeconfig)


def reader_of(kubeconfig: Path) -> Reader:
    """The reader of a kubeconfig as it is now; what one of them learned of a cluster's kinds serves all."""
    return _reader(kubeconfig, kubeconfig.stat().st_mtime_ns)
