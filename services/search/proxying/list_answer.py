"""Sends a list of all clusters: whole where it is small, and else part by part with its metadata at the end."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.kube.answers.share import Share
from services._kit.kube.api import BadAnswer
from services.apiserver.core.status_errors import ApiError
from services.search.proxying.answer_reading import bad_answer
from services.search.proxying.union_lists import Part, UnionList
from services.search.proxying.view_ports import Caller
from services.search.union.object_forms import ObjectForms
from services.search.union.page_token import write_page_token

KEPT_BYTES: Final = 8 << 20
"""Bytes of a list that are kept before it begins: until then a cluster that fails is answered with its error."""
JSON: Final = "application/json"
_PIECE: Final = 256 << 10


class ListAnswer:
    """One list on its way to a client."""

    def __init__(self, http: BaseRequest, found: UnionList, forms: ObjectForms) -> None:
        self._http = http
        self._found = found
        self._forms = forms
        self._response: web.StreamResponse | None = None
        self._kept: list[bytes] = []
        self._size = 0
        self._any = False
        self._kind = ("", "")
        self._share = Share()

    async def send(self, caller: Caller) -> web.StreamResponse:
        """Read and send it; raises ApiError before it has begun, and ConnectionError where it breaks off later."""
        try:
            async with aclosing(self._found.parts(caller)) as parts:
                async for part in parts:
                    if not self._kind[0] and part.kind:
                        self._kind = part.kind, part.api_version
                    await self._take(part)
                    if self._size >= (_PIECE if self._response is not None else KEPT_BYTES):
                        await self._flush()
        except ApiError as error:
            if self._response is None:
                raise
            # The client has to see that the list is not complete.
            if self._http.transport is not None:
                self._http.transport.abort()
            raise ConnectionResetError(f"a list broke off: {error}") from error
        ends = self._forms.ends(*self._kind)
        metadata = b',"metadata":' + msgspec.json.encode(self._metadata())
        if self._response is None:
            body = b"".join((ends.head, metadata, ends.opening, *self._kept, b"]}"))
            return web.Response(body=body, content_type=JSON)
        self._kept += [b"]", metadata, b"}"]
        await self._flush()
        await self._response.write_eof()
        return self._response

    async def _take(self, part: Part) -> None:
        def take(raw: bytes) -> None:
            shown = self._forms.part(raw)
            if self._any:
                self._kept.append(b",")
            self._any = True
            self._kept.append(shown)
            self._size += len(shown)

        try:
            # Rows of a table take their time.
            await self._share.each(part.objects, take)
        except BadAnswer as error:
            raise bad_answer(part.cluster, error) from error

    async def _flush(self) -> None:
        if self._response is None:
            self._response = web.StreamResponse(headers={"Content-Type": JSON})
            await self._response.prepare(self._http)
            ends = self._forms.ends(*self._kind)
            self._kept[:0] = [ends.head, ends.opening]
        await self._response.write(b"".join(self._kept))
        self._kept, self._size = [], 0

    def _metadata(self) -> Manifest:
        metadata: Manifest = {"resourceVersion": self._found.versions.text()}
        if self._found.token is not None:
            metadata["continue"] = write_page_token(self._found.token)
        return metadata
