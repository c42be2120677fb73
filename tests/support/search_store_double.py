"""An OpenSearch that keeps documents in memory and refuses what the real one would refuse, or answers badly if told to.

It answers the calls of search only: making an index, bulk, refresh, and reading an index by scrolling.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

_ACTIONS = {
    "index": {"_index", "_id", "version", "version_type"},
    "delete": {"_index", "_id", "version", "version_type"},
}


class SearchStoreDouble:
    """`mode` says how it fails: `down` (503), `full` (429 for every document), `half` (429 for every other one).

    `rejecting` (429 for every bulk request), `forbidden` (403 for every document, of its account).
    """

    def __init__(self) -> None:
        self.mode = ""
        self.blocked: dict[str, int] = {}
        """Indices that take no documents, but deletions, as those of a full disk; with the status that says so."""
        self.refuses_indices = False
        self.most_documents = 0
        """Actions of a bulk request, more of which are too large; 0: any number."""
        self.creates = True
        """Whether a document makes the index that it is for."""
        self.user, self.password = "", ""
        self.indices: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, Any] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self.requests: list[tuple[str, str]] = []
        self.largest_bulk = 0
        self.writes: list[tuple[str, str]] = []
        """Kind and id of every action that was taken."""
        self._scrolls: dict[str, list[dict[str, Any]]] = {}
        self._made = 0
        self.url = ""

    def documents(self, index: str) -> dict[str, dict[str, Any]]:
        """Documents of an index by id."""
        return self.indices.get(index, {})

    def lose(self, index: str) -> None:
        """Forget an index, as a store that was restored from before would."""
        self.indices.pop(index, None)
        self.mappings.pop(index, None)
        for place in [place for place in self.versions if place[0] == index]:
            del self.versions[place]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SearchStoreDouble]:
        """Answer until the block ends."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path))
        if self.user:
            expected = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            if request.headers.get("Authorization") != f"Basic {expected}":
                return _error(401, "security_exception")
        if self.mode == "down":
            return _error(503, "unavailable")
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        match request.method, request.path.strip("/").split("/"):
            case "PUT", [index]:
                return self._make(index, json.loads(body))
            case "POST", ["_bulk"]:
                if request.content_type != "application/x-ndjson":
                    return _error(406, "media_type_header_exception")
                return self._bulk(body)
            case "POST", [index, "_refresh"]:
                return web.json_response({}) if index in self.indices else _error(404, "index_not_found_exception")
            case "POST", [index, "_search"] if request.query.get("scroll"):
                return self._search(index, json.loads(body))
            case "POST", ["_search", "scroll"]:
                return self._scroll(json.loads(body)["scroll_id"], 1000)
            case "DELETE", ["_search", "scroll"]:
                for token in json.loads(body)["scroll_id"]:
                    self._scrolls.pop(token, None)
                return web.json_response({"succeeded": True})
            case _:
                return _error(400, f"no such call: {request.method} {request.path}")

    def _make(self, index: str, body: Any) -> web.Response:
        if index != index.lower():
            return _error(400, "invalid_index_name_exception")
        if self.refuses_indices:
            return _error(400, "validation_exception")
        if index in self.indices:
            return _error(400, "resource_already_exists_exception")
        if set(body) - {"settings", "mappings", "aliases"}:
            return _error(400, "parse_exception")
        self.indices[index], self.mappings[index] = {}, body
        return web.json_response({"acknowledged": True, "index": index})

    def _bulk(self, body: bytes) -> web.Response:
        if not body.endswith(b"\n"):
            return _error(400, "illegal_argument_exception")
        self.largest_bulk = max(self.largest_bulk, len(body))
        if self.mode == "rejecting":
            return _error(429, "rejected_execution_exception")
        if self.most_documents and body.count(b'"_index":') > self.most_documents:
            return web.Response(status=413, text="<html>too large</html>", content_type="text/html")
        lines = iter(body[:-1].split(b"\n"))
        items: list[dict[str, Any]] = []
        for line in lines:
            ((kind, head),) = json.loads(line).items()
            if kind not in _ACTIONS or set(head) - _ACTIONS[kind]:
                return _error(400, "illegal_argument_exception")
            document = json.loads(next(lines)) if kind == "index" else None
            refused = self.mode == "full" or (self.mode == "half" and len(items) % 2 == 0)
            if self.mode == "forbidden":
                answer = {"status": 403, "error": {"type": "security_exception", "reason": "no permissions"}}
            elif document is not None and head["_index"] in self.blocked:
                reason = f"index [{head['_index']}] blocked by: disk usage exceeded flood-stage watermark"
                status = self.blocked[head["_index"]]
                answer = {"status": status, "error": {"type": "cluster_block_exception", "reason": reason}}
            elif document is not None and not self.creates and head["_index"] not in self.indices:
                answer = {"status": 404, "error": {"type": "index_not_found_exception"}}
            elif refused:
                answer = {"status": 429, "error": {"type": "rejected_execution_exception"}}
            else:
                answer = self._apply(kind, head, document)
            items.append({kind: {"_index": head["_index"], "_id": head["_id"], **answer}})
        return web.json_response({"errors": any("error" in next(iter(i.values())) for i in items), "items": items})

    def _apply(self, kind: str, head: dict[str, Any], document: dict[str, Any] | None) -> dict[str, Any]:
        index, uid = head["_index"], head["_id"]
        known = self.versions.get((index, uid), 0)
        version = head.get("version", known + 1)
        if version < known and head.get("version_type") == "external_gte":
            return {"status": 409, "error": {"type": "version_conflict_engine_exception"}}
        self.versions[index, uid] = version
        documents = self.indices.setdefault(index, {})
        if document is None:
            found = documents.pop(uid, None)
            self.writes.append(("delete", uid))
            return {"status": 200 if found is not None else 404, "result": "deleted" if found else "not_found"}
        for field in ("spec", "status"):
            if not isinstance(document[field], str):
                return {"status": 400, "error": {"type": "mapper_parsing_exception"}}
        if "refuse-me" in document["metadata"].get("name", ""):
            return {"status": 400, "error": {"type": "mapper_parsing_exception"}}
        created = uid not in documents
        documents[uid] = document
        self.writes.append(("index", uid))
        return {"status": 201 if created else 200, "result": "created" if created else "updated"}

    def _search(self, index: str, body: dict[str, Any]) -> web.Response:
        if index not in self.indices:
            return _error(404, "index_not_found_exception")
        hits = []
        for uid, document in self.indices[index].items():
            source = {"metadata": {"annotations": document["metadata"].get("annotations", {})}}
            hits.append({"_index": index, "_id": uid, "_version": self.versions[index, uid], "_source": source})
        self._made += 1
        token = f"scroll-{self._made}"
        self._scrolls[token] = hits
        return self._scroll(token, body["size"])

    def _scroll(self, token: str, size: int) -> web.Response:
        if token not in self._scrolls:
            return _error(404, "search_context_missing_exception")
        hits, self._scrolls[token] = self._scrolls[token][:size], self._scrolls[token][size:]
        return web.json_response({"_scroll_id": token, "hits": {"hits": hits}})


def _error(status: int, kind: str) -> web.Response:
    return web.json_response({"error": {"type": kind, "reason": kind}, "status": status}, status=status)
