"""Asks the index of search, or the log at a moment, for the objects that a query means, and prints them."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import check_output
from services.cli.common.running import Failed, complain, patience
from services.cli.search.found_objects import FoundObject, show
from services.cli.search.search_setup import GROUP, VERSION
from services.search.index.cached_from import CACHED_FROM
from services.search.querying.query_syntax import Query, QueryError, Term, parse_query

PATH: Final = f"/apis/{GROUP}/{VERSION}/objects"
_PAGE: Final = 500
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class SearchRequest(Struct, frozen=True):
    """What a command line asks for."""

    text: str
    clusters: tuple[str, ...] = ()
    namespace: str = ""
    output: str = ""
    limit: int = 500

    def query(self) -> Query:
        """The query with what the options add; raises Failed."""
        check_output(self.output, ("wide", "json", "yaml", "name"))
        if self.limit < 0:
            raise Failed(f"--limit {self.limit}: use 0 for all, or how many objects are shown at most")
        for name in (*self.clusters, *filter(None, (self.namespace,))):
            if not _NAME.fullmatch(name):
                raise Failed(f"{name[:80]!r} is no name of a cluster or namespace")
        try:
            query = parse_query(self.text)
        except QueryError as error:
            raise Failed(str(error)) from None
        added = [Term("cluster", "=", self.clusters)] if self.clusters else []
        added += [Term("namespace", "=", (self.namespace,))] if self.namespace else []
        return Query((*query.terms, *added))

    @property
    def whole_text(self) -> str:
        """The same as one text, for the service."""
        more = [f"cluster={','.join(self.clusters)}"] if self.clusters else []
        more += [f"namespace={self.namespace}"] if self.namespace else []
        return " ".join((self.text, *more))


async def search_index(target: ControlPlaneOptions, request: SearchRequest) -> int:
    """Print what the index holds now; raises Failed."""
    request.query()
    found: list[FoundObject] = []
    async with open_control(target) as control, patience("searching"):
        params = {"query": request.whole_text}
        cut = False
        while True:
            left = request.limit - len(found) if request.limit else _PAGE
            try:
                page = await control.client.get(PATH, params={**params, "limit": str(min(left, _PAGE))})
            except ApiError as error:
                if error.status in (404, 503):
                    raise Failed(
                        f"this control plane does not answer searches ({error.message}); is the service search "
                        "running, and its APIService registered (docs/search.md)?"
                    ) from None
                raise Failed(f"the search was refused: {error.message or error}") from None
            found += [FoundObject(_origin(item), item) for item in page.get("items") or ()]
            token = (page.get("metadata") or {}).get("continue")
            if not token or (request.limit and len(found) >= request.limit):
                cut = bool(token)
                break
            params["continue"] = token
    show(found, request.output)
    if cut:
        complain(f"only the first {len(found)} objects are shown; use --limit, 0 for all")
    return 0


async def search_past(access: LogAccess, request: SearchRequest, at: str) -> int:
    """Print what the log says was delivered at a moment; raises Failed."""
    from services.cli.search.past_objects import past_objects

    query, then = request.query(), moment(at, "--at", time.time())
    async with open_log(access) as connection, patience("reading the log"):
        found, cut = await _first(past_objects(streams(connection), query, then), request.limit)
    if not found:
        complain(f"at {stamp(then)} the log knew of no such object in a member; it knows what Fleetlog delivered")
        return 0
    show(found, request.output)
    if cut:
        complain(f"only the first {len(found)} objects are shown; use --limit, 0 for all")
    return 0


async def _first(objects: AsyncIterator[FoundObject], limit: int) -> tuple[list[FoundObject], bool]:
    found: list[FoundObject] = []
    async for each in objects:
        if limit and len(found) >= limit:
            return found, True
        found.append(each)
    return found, False


def _origin(item: Manifest) -> str:
    return str((item["metadata"].get("annotations") or {}).get(CACHED_FROM) or "")
