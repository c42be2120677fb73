"""Answers `proxying/NAME/proxy/…`: decides what a request is about, and what answers it.

Authorization for `proxying/proxy` lies with the server that sent the request here. Members are asked in the caller's
name, so that their own roles and bindings count; what is at hand is shown without asking them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.base.answer_limits import in_force
from services._kit.kube.api import BadAnswer
from services._kit.proxying.caller_limits import CallerLimits, TooManyRequests
from services._kit.proxying.member_exchange import MemberTransport
from services._rules.proxying import sent_back
from services._rules.proxying.header_rules import upgrade_of
from services._rules.proxying.inner_requests import METHODS, BadPath, inner_path, lasts
from services.apiserver.core.request import ListOptions
from services.apiserver.core.status_errors import bad_request, method_not_allowed, too_many_requests
from services.apiserver.reads.negotiation import form_of_watch, negotiate, not_acceptable
from services.search.proxying.answer_reading import AnswerReader, bad_answer
from services.search.proxying.cluster_route import ClusterRoute
from services.search.proxying.kind_watches import KindWatches
from services.search.proxying.list_answer import JSON, ListAnswer
from services.search.proxying.object_lookup import ObjectLookup
from services.search.proxying.union_lists import UnionList, member_path
from services.search.proxying.view_ports import AtHand, Caller, Selected
from services.search.registries.member_facts import Gvr
from services.search.union.object_forms import ObjectForms
from services.search.union.provenance_marks import marked, version_of
from services.search.union.resource_names import Asked, Route, asked_for, refuse_nested, route_of
from services.search.union.version_map import ZERO, VersionMap, read_version

_SEGMENTS: Final = 6
"""Of the path of the proxy itself: apis, group, version, proxying, name, proxy."""
LONGEST_SELECTOR: Final = 8 << 10
"""Characters of a selector."""


class GlobalProxy:
    """All members as one API server; `reads` carries what is asked of many members, `members` what is for one."""

    def __init__(
        self,
        selected: Selected,
        at_hand: AtHand,
        reads: MemberTransport,
        members: MemberTransport,
        now: Callable[[], dt.datetime],
        limits: CallerLimits,
    ) -> None:
        self.limits = limits
        """What is under way."""
        self._selected = selected
        self._at_hand = at_hand
        self._reader = AnswerReader(reads, in_force())
        self._lookup = ObjectLookup(selected, at_hand, self._reader)
        self._watches = KindWatches(selected, at_hand, self._reader)
        self._clusters = ClusterRoute(self._lookup, members)
        self._now = now

    async def answer(self, http: BaseRequest, caller: Caller) -> web.StreamResponse:
        """Answer a request to the proxy; raises ApiError before the answer has begun."""
        if http.method not in METHODS:
            raise method_not_allowed()
        try:
            path = inner_path(http.rel_url.raw_path, _SEGMENTS)
        except BadPath as error:
            raise bad_request(str(error)) from error
        asked = asked_for(http.method, path, http.rel_url.raw_query_string)
        refuse_nested(asked)
        lasting = asked.verb == "watch" or lasts(
            http.method, path, asked.query, upgrade_of(tuple(http.headers.items()))
        )
        try:
            with self.limits.request(caller.user, lasts=lasting):
                return await self._answered(http, asked, caller)
        except TooManyRequests as error:
            raise too_many_requests(str(error)) from error

    async def _answered(self, http: BaseRequest, asked: Asked, caller: Caller) -> web.StreamResponse:
        gvr = asked.gvr
        route = route_of(asked, covered=gvr is not None and self._selected.covers(gvr))
        prefix = "/".join(http.rel_url.raw_path.split("/")[: _SEGMENTS + 1])
        if gvr is None or route is Route.CONTROL_PLANE:
            return _sent_back()
        if route is Route.CLUSTER:
            return await self._clusters.answer(http, asked, gvr, caller, prefix)
        return await self._read(http, asked, gvr, caller)

    async def _read(self, http: BaseRequest, asked: Asked, gvr: Gvr, caller: Caller) -> web.StreamResponse:
        """A read over all clusters."""
        if http.method != "GET":
            raise method_not_allowed()
        for name in ("labelSelector", "fieldSelector"):
            if len(asked.query.get(name, "")) > LONGEST_SELECTOR:
                raise bad_request(f"{name} has {len(asked.query[name])} characters, more than {LONGEST_SELECTOR}")
        form = negotiate(http.headers.get("Accept", ""))
        if form is None or form.yaml:
            raise not_acceptable((JSON,))
        if asked.verb == "watch":
            form = form_of_watch(form)
        forms = ObjectForms(gvr, form, asked.query.get("includeObject", ""), self._now)
        if asked.verb == "get":
            return await self._get(asked, gvr, forms, caller)
        options = ListOptions(asked.query)
        options.watch = asked.verb == "watch"
        options.check()
        if options.watch:
            return await self._watches.answer(http, asked, gvr, options, forms, caller)
        scopes = self._selected.scopes(gvr)
        found = UnionList(asked, gvr, options, scopes, self._reader, self._at_hand)
        return await ListAnswer(http, found, forms).send(caller)

    async def _get(self, asked: Asked, gvr: Gvr, forms: ObjectForms, caller: Caller) -> web.Response:
        """One object, from the one cluster that has it."""
        cluster = await self._lookup.holder(gvr, asked.namespace, asked.name, caller)
        version = read_version(asked.query.get("resourceVersion", "")).of(cluster)
        cached = self._at_hand.find(cluster, gvr, asked.namespace, asked.name) if version == ZERO else None
        try:
            if cached is None:
                path = member_path(gvr, asked.namespace, asked.name)
                cached = await self._reader.whole(cluster, path, {"resourceVersion": version}, caller)
            own = version_of(cached)
            body = forms.single(marked(cached, cluster, VersionMap({cluster: own} if own else {}).text()))
        except BadAnswer as error:
            raise bad_answer(cluster, error) from error
        return web.Response(body=body, content_type=JSON)


def _sent_back() -> web.Response:
    """The answer to a request that is the control plane's own."""
    return web.Response(
        status=sent_back.STATUS,
        headers={sent_back.HEADER: "true"},
        text="no registry selects this: ask the control plane for it",
    )
