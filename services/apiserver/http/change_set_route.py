"""The path that takes change sets: several objects in one request, stored all or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.api import UNREADABLE
from services._rules.kubernetes.rbac.policy_rules import Access
from services.apiserver.auth.authorization import Authorizer
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import Identity
from services.apiserver.http import codec
from services.apiserver.http.handler import Answer, Request
from services.apiserver.writes.object_sets import UNSET, ChangeSets

API_VERSION: Final = "fleetlog.io/v1alpha1"
_PATH: Final = ["apis", "fleetlog.io", "v1alpha1", "changesets"]


class _Set(msgspec.Struct, rename="camel"):
    items: list[Manifest]
    api_version: str = API_VERSION
    kind: str = "ChangeSet"


class ChangeSetRoute:
    """Answers POST on the path; who may send it has to be allowed each write of it as well."""

    def __init__(
        self, sets: ChangeSets, authorizer: Authorizer, on_refusal: Callable[[Identity, Access], None]
    ) -> None:
        self._sets = sets
        self._authorizer = authorizer
        self._on_refusal = on_refusal

    def route(self, request: Request, parts: list[str]) -> Awaitable[Answer] | None:
        """Store a set; None for other paths."""
        return self._stored(request) if parts == _PATH else None

    async def _stored(self, request: Request) -> Answer:
        if request.method != "POST":
            raise status.method_not_allowed()
        try:
            given = msgspec.convert(codec.bounded(await request.body()), type=_Set)
        except UNREADABLE as error:
            raise status.bad_request(f"a change set is a JSON object with items: {error}") from None
        if (given.api_version, given.kind) != (API_VERSION, "ChangeSet"):
            raise status.bad_request(f"expected a ChangeSet of {API_VERSION}")
        self._authorize(request, given.items)
        call = request.call("create")
        call.dry_run = request.query.get("dryRun") == "All"
        stored = await self._sets.write(given.items, call)
        body = {"apiVersion": API_VERSION, "kind": "ChangeSet", "items": stored}
        return Answer(200, msgspec.json.encode(body), warnings=call.warnings)

    def _authorize(self, request: Request, items: list[Manifest]) -> None:
        if self._authorizer.allows_everything:
            return
        for item in items:
            resource, metadata = self._sets.kind_of(item).resource, item["metadata"]
            verb = "create" if metadata.get("resourceVersion") in UNSET else "update"
            space, name = str(metadata.get("namespace") or ""), str(metadata["name"])
            access = Access(verb, resource.group, resource.version, resource.plural, namespace=space, name=name)
            if not self._authorizer.decide(request.user, access).allowed:
                self._on_refusal(request.user, access)
                text = f'User "{request.user.name}" cannot {verb} resource "{resource.plural}" in this change set'
                raise status.forbidden(resource, name, text)
