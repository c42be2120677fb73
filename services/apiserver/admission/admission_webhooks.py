"""Admission webhooks: which hooks a write concerns, in which order they are called, and what their answers do."""

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from schemas.manifest import Manifest
from services._kit.kube.answers.exchange import READ_BUFFER
from services._kit.kube.api import UNREADABLE
from services._rules.kubernetes.patch import json_patch as patches
from services._rules.kubernetes.selectors import Selector
from services._rules.kubernetes.validation.field_errors import invalid
from services.apiserver.admission.chain import Attributes
from services.apiserver.admission.match_constraints import namespace_of, selector_of, selects, version_of
from services.apiserver.admission.scales import set_replicas
from services.apiserver.admission.webhook_call import CallFailed, WebhookTarget, check_response, send
from services.apiserver.admission.webhook_reviews import BODIES, as_version, internal, other_kind, review_of, seen
from services.apiserver.admission.write_reviews import Decide, ExpressionFailed, Review
from services.apiserver.core import status_errors as status
from services.apiserver.core.cloning import clone
from services.apiserver.core.metrics import WEBHOOK_SECONDS
from services.apiserver.core.outbound import Outbound
from services.apiserver.core.service_addresses import Resolver, Unresolved
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import DecodeError, Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import Event, Key, Store

GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"


MOST_CODE = 599
"""The highest code that a refusal may choose; clients cannot read an answer with one that is no code of HTTP."""


class Hook:
    """One webhook of one configuration, compiled."""

    def __init__(self, raw: Manifest) -> None:
        self.name: str = raw["name"]
        self.rules: list[Manifest] = raw.get("rules") or []
        self.equivalent = raw.get("matchPolicy", "Equivalent") == "Equivalent"
        self.ignore = raw.get("failurePolicy", "Fail") == "Ignore"
        self.dry_run = raw.get("sideEffects") in ("None", "NoneOnDryRun")
        self.again = raw.get("reinvocationPolicy") == "IfNeeded"
        self.timeout: int = raw.get("timeoutSeconds") or 10
        self.versions: list[str] = raw.get("admissionReviewVersions") or ["v1"]
        self.target = WebhookTarget(raw.get("clientConfig") or {})
        self.namespaces = selector_of(raw.get("namespaceSelector"))
        self.objects = selector_of(raw.get("objectSelector"))
        self.conditions: list[Manifest] = raw.get("matchConditions") or []


class Webhooks:
    """The admission plugin; follows both configuration kinds."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        outbound: Outbound,
        resolver: Callable[[], Resolver],
    ) -> None:
        self._store = store
        self._registry = registry
        self._outbound = outbound
        self._resolver = resolver
        self._hooks: dict[str, list[Hook] | None] = {MUTATING: None, VALIDATING: None}
        self._session: aiohttp.ClientSession | None = None
        self.decide: Decide | None = None
        """Answers match conditions that ask the authorizer."""

    async def start(self) -> None:
        """Follow the configurations."""
        self._session = aiohttp.ClientSession(
            connector=self._outbound.connector(),
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._store.listen(self._on_event, *((GROUP, plural) for plural in self._hooks))

    async def stop(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _on_event(self, event: Event) -> None:
        self._hooks[event.entry.key.resource] = None

    def _of(self, plural: str) -> list[Hook]:
        found = self._hooks[plural]
        if found is None:
            found = [Hook(raw) for e in self._store.list(GROUP, plural) for raw in e.obj.get("webhooks") or []]
            self._hooks[plural] = found
        return found

    # -- the plugin

    async def mutate(self, attributes: Attributes) -> None:
        """Call the mutating webhooks one after the other, and some again when a later one changed the object."""
        hooks = self._of(MUTATING)
        if not hooks or self._exempt(attributes):
            return
        again: list[tuple[Hook, Kind]] = []
        changed_after: set[int] = set()
        for hook in hooks:
            kind = await self._match(hook, attributes)
            if kind is None:
                continue
            if await self._mutate_one(hook, kind, attributes):
                changed_after.update(range(len(again)))
            if hook.again:
                again.append((hook, kind))
        for number, (hook, kind) in enumerate(again):
            if number in changed_after:
                await self._mutate_one(hook, kind, attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Call the validating webhooks at once; the first refusal in order counts."""
        hooks = self._of(VALIDATING)
        if not hooks or self._exempt(attributes):
            return
        matching = [(h, k) for h in hooks if (k := await self._match(h, attributes)) is not None]
        if not matching:
            return
        calls = [self._review(h, k, attributes, mutating=False) for h, k in matching]
        if len(calls) == 1:
            await calls[0]
            return
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    @staticmethod
    def _exempt(attributes: Attributes) -> bool:
        resource = attributes.kind.resource
        return resource.group == GROUP and resource.plural in (MUTATING, VALIDATING)

    async def _match(self, hook: Hook, attributes: Attributes) -> Kind | None:
        """The kind in whose version the webhook is to be called; None when the write does not concern it."""
        kind = version_of(hook.rules, attributes, self._registry, equivalent=hook.equivalent)
        if kind is None or not selects(hook.objects, attributes):
            return None
        if hook.namespaces is not None and not self._namespace_matches(hook.namespaces, attributes):
            return None
        return kind if not hook.conditions or await self._meets(hook, kind, attributes) else None

    async def _meets(self, hook: Hook, kind: Kind, attributes: Attributes) -> bool:
        """Whether a write meets the match conditions; raises ApiError where that cannot be told and matters."""
        review = Review(attributes, kind, namespace_of(attributes, self._store), self.decide)
        try:
            return await review.holds(hook.conditions)
        except ExpressionFailed as e:
            if hook.ignore:
                return False
            raise status.forbidden(attributes.kind.resource, attributes.name, str(e)) from e

    def _namespace_matches(self, selector: Selector, attributes: Attributes) -> bool:
        kind = attributes.kind
        if kind.store_key == "/namespaces":
            obj = attributes.new if attributes.new is not None else attributes.old
            return obj is not None and selector.matches(obj["metadata"].get("labels") or {})
        if not kind.resource.namespaced:
            return True
        entry = self._store.get(Key("", "namespaces", "", attributes.namespace))
        return entry is not None and selector.matches(entry.obj["metadata"].get("labels") or {})

    # -- one call

    async def _mutate_one(self, hook: Hook, kind: Kind, attributes: Attributes) -> bool:
        response = await self._review(hook, kind, attributes, mutating=True)
        if response is None or not response.get("patch"):
            return False
        try:
            operations = msgspec.json.decode(base64.b64decode(response["patch"]))
        except (binascii.Error, RecursionError, *UNREADABLE) as e:
            raise internal(str(e)) from e
        if not operations:
            return False
        before = attributes.new
        if before is None:
            text = f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
            raise internal(f"{text}operation")
        shown = seen(before, kind, attributes)
        try:
            patched = patches.json_patch(clone(shown), operations, absent_is_null=True)
        except (patches.PatchError, RecursionError) as e:
            raise internal(str(e)) from e
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise internal(f'admission webhook "{hook.name}" attempted to change an object into something else')
        self._check_identity(patched, shown, attributes)
        if attributes.operation == "CONNECT":
            return False
        attributes.new = self._taken_in(patched, before, kind, attributes)
        return bool(attributes.new != before)

    def _check_identity(self, new: Manifest, old: Manifest, attributes: Attributes) -> None:
        """Refuse a patch that makes another object of this one; a new object may get another name."""
        was, is_now = (f"{part.get('apiVersion', '')}/{part.get('kind', '')}" for part in (old, new))
        if was != is_now:
            raise other_kind(old, new, self._registry)
        meta, before = new["metadata"], old["metadata"]
        if (meta.get("namespace") or attributes.namespace) != (before.get("namespace") or attributes.namespace):
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise status.bad_request(text)
        if attributes.operation == "UPDATE":
            fixed = [name for name in ("name", "uid") if meta.get(name) != before.get(name)]
            if fixed:
                found = [invalid(f"metadata.{name}", meta.get(name) or "", "field is immutable") for name in fixed]
                raise status.invalid(attributes.kind.group_kind, attributes.name, found)

    @staticmethod
    def _taken_in(new: Manifest, before: Manifest, kind: Kind, attributes: Attributes) -> Manifest:
        """The patched object as the write goes on with it: decoded, defaulted, in the version of the request."""
        asked = attributes.kind
        if attributes.subresource == "scale":
            return set_replicas(asked, clone(before), (new.get("spec") or {}).get("replicas") or 0)
        if attributes.subresource in BODIES:
            return new
        try:
            kind.decode(new, msgspec.json.encode({k: new[k] for k in sorted(new)}))
        except DecodeError as e:
            text = str(e).partition(" cannot be handled as a ")[2].partition(": ")[2] or str(e)
            raise internal(text) from e
        kind.prune(new)
        new = as_version(new, kind, asked)
        asked.default(new)
        if not new["metadata"].get("managedFields") and before["metadata"].get("managedFields"):
            new["metadata"]["managedFields"] = before["metadata"]["managedFields"]
        return new

    async def _review(self, hook: Hook, kind: Kind, attributes: Attributes, *, mutating: bool) -> Manifest | None:
        """Call a webhook; None when it failed and may be ignored. Raises ApiError when it refuses."""
        call = attributes.call
        if call.dry_run and not hook.dry_run:
            raise status.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = next((v for v in hook.versions if v in ("v1", "v1beta1")), "")
        review, uid = review_of(kind, attributes, version, mutating=mutating)
        try:
            if not version:
                raise CallFailed(f"webhook does not accept known AdmissionReview versions {hook.versions}")
            assert self._session is not None
            with WEBHOOK_SECONDS.labels(hook.name).time():
                response = await send(self._session, hook.target, review, hook.timeout, self._resolver())
            check_response(response, uid, version, mutating=mutating)
        except (CallFailed, Unresolved) as e:
            if hook.ignore:
                return None
            raise internal(f'failed calling webhook "{hook.name}": {e}') from e
        call.warnings += response.get("warnings") or []
        for name, text in (response.get("auditAnnotations") or {}).items():
            call.annotations[f"{hook.name}/{name}"] = text
        if not response.get("allowed"):
            raise denied(hook.name, response.get("status") or {})
        return response


def denied(name: str, given: Manifest) -> ApiError:
    """The refusal of a webhook as an answer."""
    code = max(given.get("code") or 0, 400)
    if code > MOST_CODE:
        code = 403
    message, reason = given.get("message") or "", given.get("reason") or ""
    text = f'admission webhook "{name}" denied the request'
    if message:
        text += f": {message}"
    elif reason:
        text += f": {reason}"
    else:
        text += " without explanation"
    details: dict[str, Any] | None = given.get("details")
    return ApiError(code, reason, text, details)
