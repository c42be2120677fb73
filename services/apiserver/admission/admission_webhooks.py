"""Admission webhooks: which hooks a write concerns, in which order they are called, and what their answers do."""

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from schemas.manifest import Manifest
from services._kit.kube.answers.exchange import READ_BUFFER
from services._kit.kube.api import UNREADABLE
from services._rules.kubernetes.patch import json_patch as patches
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, compile_selector
from services.apiserver.admission.chain import Attributes
from services.apiserver.admission.webhook_call import CallFailed, WebhookTarget, send
from services.apiserver.core import status_errors as status
from services.apiserver.core.cloning import clone
from services.apiserver.core.metrics import WEBHOOK_SECONDS
from services.apiserver.core.service_addresses import Resolver, Unresolved
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import DecodeError, Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import Event, Key, Store

GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"


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
        self.namespaces = _selector(raw.get("namespaceSelector"))
        self.objects = _selector(raw.get("objectSelector"))

    def rule_matches(self, operation: str, kind: Kind, subresource: str) -> bool:
        """Whether a rule names this operation on this group, version and resource."""
        resource = kind.resource
        for rule in self.rules:
            operations = rule.get("operations") or []
            if operation not in operations and "*" not in operations:
                continue
            if not _has(rule.get("apiGroups"), resource.group) or not _has(rule.get("apiVersions"), resource.version):
                continue
            scope = rule.get("scope", "*")
            if scope != "*" and (scope == "Namespaced") != resource.namespaced:
                continue
            if any(_resource_matches(r, resource.plural, subresource) for r in rule.get("resources") or []):
                return True
        return False


def _selector(raw: Manifest | None) -> Selector | None:
    if not raw:
        return None
    try:
        return compile_selector(raw)
    except LabelSelectorError:
        return None


def _has(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _resource_matches(rule: str, plural: str, subresource: str) -> bool:
    name, slash, sub = rule.partition("/")
    if not slash:
        return not subresource and name in ("*", plural)
    return name in ("*", plural) and (sub == "*" or sub == subresource)


class Webhooks:
    """The admission plugin; follows both configuration kinds."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        client_context: Callable[[str], ssl.SSLContext | None],
        resolver: Callable[[], Resolver],
    ) -> None:
        self._store = store
        self._registry = registry
        self._client_context = client_context
        self._resolver = resolver
        self._hooks: dict[str, list[Hook] | None] = {MUTATING: None, VALIDATING: None}
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Follow the configurations."""
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, read_bufsize=READ_BUFFER, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        self._store.listen(self._on_event)

    async def stop(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.group == GROUP and key.resource in self._hooks:
            self._hooks[key.resource] = None

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
            kind = self._match(hook, attributes)
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
        matching = [(h, k) for h in hooks if (k := self._match(h, attributes)) is not None]
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

    def _match(self, hook: Hook, attributes: Attributes) -> Kind | None:
        """The kind in whose version the webhook is to be called; None when the write does not concern it."""
        kind = attributes.kind
        if not hook.rule_matches(attributes.operation, kind, attributes.subresource):
            if not hook.equivalent:
                return None
            for other in self._registry.versions_of(kind):
                if other is not kind and hook.rule_matches(attributes.operation, other, attributes.subresource):
                    kind = other
                    break
            else:
                return None
        if hook.namespaces is not None and not self._namespace_matches(hook.namespaces, attributes):
            return None
        if hook.objects is not None:
            seen = [o for o in (attributes.new, attributes.old) if o is not None]
            if not any(hook.objects.matches((o.get("metadata") or {}).get("labels") or {}) for o in seen):
                return None
        return kind

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
        if response is None or not response.get("patch") or attributes.new is None or attributes.operation == "CONNECT":
            return False
        before = _as(attributes.new, attributes.kind, kind)
        try:
            if response.get("patchType") != "JSONPatch":
                raise CallFailed(f'unsupported patch type "{response.get("patchType") or ""}"')
            try:
                operations = msgspec.json.decode(base64.b64decode(response["patch"]))
                new = patches.json_patch(clone(before), operations)
            except (binascii.Error, *UNREADABLE, patches.PatchError) as e:
                raise CallFailed(f"the patch cannot be applied: {e}") from e
        except CallFailed as e:
            self._failed(hook, e)
            return False
        try:
            kind.decode(new, msgspec.json.encode({k: new[k] for k in sorted(new)}))
        except DecodeError as e:
            text = str(e).partition(" cannot be handled as a ")[2].partition(": ")[2] or str(e)
            raise _internal(text) from e
        kind.prune(new)
        new = _as(new, kind, attributes.kind)
        attributes.kind.default(new)
        if not new["metadata"].get("managedFields") and attributes.new["metadata"].get("managedFields"):
            new["metadata"]["managedFields"] = attributes.new["metadata"]["managedFields"]
        changed = bool(new != attributes.new)
        attributes.new = new
        return changed

    async def _review(self, hook: Hook, kind: Kind, attributes: Attributes, *, mutating: bool) -> Manifest | None:
        """Call a webhook; None when it failed and may be ignored. Raises ApiError when it refuses."""
        if attributes.call.dry_run and not hook.dry_run:
            raise status.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = next((v for v in hook.versions if v in ("v1", "v1beta1")), "")
        review, uid = self._request(kind, attributes, version, mutating=mutating)
        try:
            if not version:
                raise CallFailed(f"webhook does not accept known AdmissionReview versions {hook.versions}")
            assert self._session is not None
            with WEBHOOK_SECONDS.labels(hook.name).time():
                response = await send(
                    self._session, hook.target, review, hook.timeout, self._client_context, self._resolver()
                )
            if version == "v1" and response.get("uid") != uid:
                raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
            if version == "v1" and response.get("patch") and response.get("patchType") != "JSONPatch":
                raise CallFailed(f'unsupported patch type "{response.get("patchType") or ""}"')
        except (CallFailed, Unresolved) as e:
            self._failed(hook, e)
            return None
        if response.get("patch"):
            response.setdefault("patchType", "JSONPatch")
        attributes.call.warnings += response.get("warnings") or []
        if not response.get("allowed"):
            raise _denied(hook.name, response.get("status") or {})
        return response

    @staticmethod
    def _failed(hook: Hook, error: Exception) -> None:
        if not hook.ignore:
            raise _internal(f'failed calling webhook "{hook.name}": {error}')

    def _request(self, kind: Kind, attributes: Attributes, version: str, *, mutating: bool) -> tuple[Manifest, str]:
        """The AdmissionReview to send and its uid."""
        asked, call = attributes.kind, attributes.call
        uid = str(uuid.uuid4())
        request: Manifest = {
            "uid": uid,
            "kind": _kind(kind, attributes),
            "resource": _resource(kind),
            "requestKind": _kind(asked, attributes),
            "requestResource": _resource(asked),
        }
        if attributes.subresource:
            request["subResource"] = request["requestSubResource"] = attributes.subresource
        if attributes.name and call.verb != "deletecollection":
            request["name"] = attributes.name
        namespace = attributes.name if asked.store_key == "/namespaces" else attributes.namespace
        if namespace:
            request["namespace"] = namespace
        request["operation"] = attributes.operation
        request["userInfo"] = call.user.user_info()
        new, old = attributes.new, attributes.old
        request["object"] = None if new is None else _shown(_as(new, asked, kind), mutating=mutating)
        request["oldObject"] = None if old is None else _as(old, asked, kind)
        request["dryRun"] = call.dry_run
        request["options"] = None if attributes.operation == "CONNECT" else self._options(attributes)
        return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}, uid

    @staticmethod
    def _options(attributes: Attributes) -> Manifest:
        call = attributes.call
        if attributes.operation == "DELETE":
            options = dict(call.options or {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"})
            if attributes.kind.store_key == "/namespaces" and attributes.old is not None:
                options.setdefault("preconditions", {"uid": attributes.old["metadata"]["uid"]})
            return options
        name = "CreateOptions" if attributes.operation == "CREATE" else "UpdateOptions"
        return {"kind": name, "apiVersion": "meta.k8s.io/v1", **(call.options or {})}


def _as(obj: Manifest, kind: Kind, other: Kind) -> Manifest:
    """An object in another version of its kind."""
    return obj if kind is other else other.from_store(kind.to_store(obj))


def _shown(obj: Manifest, *, mutating: bool) -> Manifest:
    meta = obj.get("metadata")
    if meta is None or "creationTimestamp" in meta or not mutating:
        return obj
    return {**obj, "metadata": {**meta, "creationTimestamp": None}}


def _kind(kind: Kind, attributes: Attributes) -> Manifest:
    """The kind of the object sent: for a connection that of its options."""
    resource = kind.resource
    if attributes.operation == "CONNECT" and attributes.new is not None:
        return {"group": "", "version": "v1", "kind": attributes.new["kind"]}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(kind: Kind) -> Manifest:
    resource = kind.resource
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _internal(text: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})


def _denied(name: str, given: Manifest) -> ApiError:
    """The refusal of a webhook as an answer."""
    code = given.get("code") or 0
    code = max(code, 400)
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
