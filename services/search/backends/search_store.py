"""Calls of one OpenSearch cluster, with the credentials of its Secret; loaded when a registry names one."""

from __future__ import annotations

import base64
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services.search.backends.document_ledger import Action
from services.search.backends.object_documents import MAPPING
from services.search.index.cached_from import CACHED_FROM
from services.search.registries.wanted_kinds import OpenSearch, SecretRef

if TYPE_CHECKING:
    from opensearchpy import AsyncOpenSearch

SECONDS: Final = 30.0
_PAGE: Final = 1000
_KEPT_OPEN: Final = "2m"
_PRESENT: Final = "resource_already_exists_exception"


class StoreTrouble(Exception):
    """The backend cannot be used now; the text says why, without credentials."""


class StoreBusy(StoreTrouble):
    """The backend answers, but takes no more documents for now."""


class StoreTooLarge(StoreTrouble):
    """A request was refused for its size: one with fewer documents may be taken."""


class IndexRefused(StoreTrouble):
    """The backend does not make one index; others are not concerned."""


class SearchStore:
    """A client of one backend; raises StoreTrouble for everything that may pass."""

    def __init__(self, client: AsyncOpenSearch) -> None:
        self._client = client
        self._made: set[str] = set()

    @classmethod
    async def open(cls, backend: OpenSearch, control: KubeClient) -> SearchStore:
        """A client with the credentials of this moment; raises StoreTrouble."""
        secret = await _secret(control, backend.secret_ref)
        # A second of processor time and 30 MB, which installations without a backend do not pay.
        from opensearchpy import AsyncOpenSearch

        # Its requests are reported by their outcome here.
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)
        context: ssl.SSLContext | None = None
        if any(address.startswith("https") for address in backend.addresses):
            try:
                context = ssl.create_default_context(cadata=secret.get("ca.crt") or None)
            except ssl.SSLError as error:
                raise StoreTrouble(f"ca.crt of its Secret cannot be read: {error}") from None
        user, password = secret.get("username") or secret.get("userName", ""), secret.get("password", "")
        return cls(
            AsyncOpenSearch(
                hosts=list(backend.addresses),
                http_auth=(user, password) if user else None,
                http_compress=True,
                ssl_context=context,
                timeout=SECONDS,
                max_retries=0,
                retry_on_timeout=False,
            )
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def ensure(self, index: str) -> bool:
        """Make an index unless it is there; whether it was made."""
        if index in self._made:
            return False
        made = True
        answer = await self._call("PUT", f"/{index}", body=MAPPING, ignore=(400,))
        if "error" in answer:
            made = False
            kind, reason = _error(answer["error"])
            if kind != _PRESENT:
                raise IndexRefused(f"index {index} cannot be made: {kind}: {reason}"[:300])
        self._made.add(index)
        return made

    def forget(self, index: str) -> None:
        """Make an index again before it is written to: the backend says that there is none."""
        self._made.discard(index)

    async def write(self, actions: Sequence[Action]) -> list[tuple[Action, int, str]]:
        """Send actions in one request: each with the status and the error of its answer, which begins with its type."""
        lines: list[bytes] = []
        for action in actions:
            head: Manifest = {"_index": action.index, "_id": action.id}
            if action.version:
                # An instance that is behind must not put an older state over a newer one.
                head |= {"version": action.version, "version_type": "external_gte"}
            if action.body:
                lines += [msgspec.json.encode({"index": head}), action.body]
            else:
                lines.append(msgspec.json.encode({"delete": head}))
        answer = await self._call("POST", "/_bulk", body=b"\n".join([*lines, b""]), media="application/x-ndjson")
        items = answer.get("items")
        if not isinstance(items, list) or len(items) != len(actions):
            raise StoreTrouble("its answer to a bulk request does not name every document")
        return [(action, *_outcome(item)) for action, item in zip(actions, items, strict=True)]

    async def each(self, index: str) -> AsyncIterator[tuple[str, int, str]]:
        """Id, version and member of every document of an index; none where there is no such index."""
        body = {
            "size": _PAGE,
            "sort": ["_doc"],
            "version": True,
            "_source": ["metadata.annotations"],
            "query": {"match_all": {}},
        }
        await self._call("POST", f"/{index}/_refresh", ignore=(404,))
        page = await self._call("POST", f"/{index}/_search", body=body, params={"scroll": _KEPT_OPEN}, ignore=(404,))
        token = ""
        try:
            while True:
                if (page.get("_shards") or {}).get("failed"):
                    raise StoreTrouble(f"index {index} cannot be read whole: some of its shards do not answer")
                token = str(page.get("_scroll_id") or token)
                hits = (page.get("hits") or {}).get("hits") or ()
                for hit in hits:
                    metadata = (hit.get("_source") or {}).get("metadata") or {}
                    cluster = str((metadata.get("annotations") or {}).get(CACHED_FROM) or "")
                    yield str(hit["_id"]), int(hit.get("_version") or 0), cluster
                if not hits or not token:
                    return
                page = await self._call("POST", "/_search/scroll", body={"scroll": _KEPT_OPEN, "scroll_id": token})
        finally:
            if token:
                await self._call("DELETE", "/_search/scroll", body={"scroll_id": [token]}, ignore=(404,))

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: dict[str, str] | None = None,
        ignore: tuple[int, ...] = (),
        media: str = "application/json",
    ) -> Manifest:
        from opensearchpy.exceptions import OpenSearchException, TransportError

        try:
            answer = await self._client.transport.perform_request(
                method, path, params=params or {}, body=body, ignore=ignore, headers={"content-type": media}
            )
        except TransportError as error:
            text = f"{method} {path}: {error.status_code} {error.error}"[:300]
            if error.status_code == 429:
                raise StoreBusy(text) from None
            raise (StoreTooLarge if error.status_code == 413 else StoreTrouble)(text) from None
        except (OpenSearchException, OSError, ValueError) as error:
            raise StoreTrouble(f"{method} {path}: {type(error).__name__}: {error}"[:300]) from None
        if not isinstance(answer, dict):
            raise StoreTrouble(f"{method} {path}: the answer is no JSON object")
        return answer


def _outcome(item: object) -> tuple[int, str]:
    found = next(iter(item.values()), None) if isinstance(item, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("status"), int):
        raise StoreTrouble("its answer to a bulk request has a document without status")
    return found["status"], ": ".join(filter(None, _error(found.get("error"))))


def _error(error: object) -> tuple[str, str]:
    """Type and reason of an error."""
    if isinstance(error, dict):
        return str(error.get("type") or ""), str(error.get("reason") or "")[:200]
    return str(error or ""), ""


async def _secret(control: KubeClient, ref: SecretRef) -> dict[str, str]:
    """The values of a Secret as texts, none where no Secret is named; raises StoreTrouble."""
    if not ref.name:
        return {}
    try:
        found = await control.get(resource_path("", "v1", "secrets", ref.namespace, ref.name))
        return {name: base64.b64decode(value).decode() for name, value in (found.get("data") or {}).items()}
    except ApiError as error:
        advice = "; search reads Secrets in karmada-cluster, elsewhere it needs a Role (docs/search.md)"
        raise StoreTrouble(
            f"Secret {ref.namespace}/{ref.name} cannot be read: {error}"[:300] + advice * (error.status == 403)
        ) from None
    except Unreachable as error:
        raise StoreTrouble(f"Secret {ref.namespace}/{ref.name} cannot be read: {error}"[:300]) from None
    except (ValueError, TypeError):
        raise StoreTrouble(f"Secret {ref.namespace}/{ref.name} holds values that are no texts") from None
