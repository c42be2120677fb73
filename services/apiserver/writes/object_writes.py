"""Creating and changing stored objects: the one path that HTTP requests and in-process callers share.

Each write is atomic per object: it is computed from the present state without waiting on anything but admission and is
accepted by the store only if that state is still the present one; otherwise it is computed again.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, invalid
from services.apiserver.admission.chain import Admission, Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.core.audit import Audit
from services.apiserver.core.duplicate_fields import doubled_fields
from services.apiserver.core.object_uids import new_uid
from services.apiserver.core.request_context import Call, stamp
from services.apiserver.core.status_errors import ApiError
from services.apiserver.flow.work_aside import WorkAside
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.kind_model import DecodeError, Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import (
    Conflict,
    Entry,
    Key,
    Store,
    StoreTooLarge,
    StoreUnavailable,
)
from services.apiserver.writes.field_manager import Ownership

Outcome = Entry | Manifest
"""A stored object, or what a dry run would have stored (in the version of the request's kind)."""

Make = Callable[[Manifest], Manifest]


class Allocate(Protocol):
    """Fills what the server gives out into a new state (of `old`, None: of nothing); a dry run reserves nothing."""

    def __call__(self, kind: Kind, new: Manifest, old: Manifest | None, *, dry_run: bool) -> None:
        """Raise 422 when the object asks for something that it cannot have."""


_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_UNKEPT = ("clusterName", "selfLink")
_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", *_UNKEPT)


class Objects:
    """All writes but deletions, over a store and a registry of kinds."""

    def __init__(
        self, store: Store, registry: Registry, admission: Admission, ownership: Ownership, audit: Audit
    ) -> None:
        self.store = store
        self.registry = registry
        self.admission = admission
        self.ownership = ownership
        self.audit = audit
        self.aside = WorkAside()
        """Does what takes long with large objects."""
        self.allocate: Allocate | None = None
        """Fills in what the server gives out (cluster IPs, node ports), between preparing and checking."""
        self.remove_now: Callable[[Kind, Entry, Manifest, Call], Awaitable[None]] | None = None
        """Set by the deleter: removes an object whose last finalizer an update took away."""

    def key(self, kind: Kind, namespace: str, name: str) -> Key:
        """Where objects of the kind are kept."""
        return Key(kind.store_group, kind.resource.plural, namespace if kind.resource.namespaced else "", name)

    def get(self, kind: Kind, namespace: str, name: str) -> Entry:
        """A stored object; raises 404."""
        entry = self.store.get(self.key(kind, namespace, name))
        if entry is None:
            raise status.not_found(kind.resource, name)
        return entry

    # -- reading bodies

    def decode(self, kind: Kind, obj: Any, raw: bytes | None, call: Call) -> Manifest:
        """Check a body against its kind: apiVersion and kind, JSON types, unknown fields; drops the unknown."""
        resource = kind.resource
        if obj is None and not kind.custom:
            obj = {}
        if not isinstance(obj, dict):
            raise status.bad_request(f"couldn't get version/kind; json parse error: {type(obj).__name__} given")
        self._check_type(kind, obj)
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        asked = call.validation in ("Strict", "Warn")
        doubled = doubled_fields(raw) if raw and asked else []
        unknown = kind.unknown_fields(obj) if kind.custom and asked else []
        try:
            unknown += kind.decode(obj, raw)
        except DecodeError as e:
            where = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            text = str(e)
            raise status.bad_request(text if text.startswith(where[:20]) else where + text) from e
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        if doubled or unknown:
            strange = [f'duplicate field "{path}"' for path in doubled]
            self._tell_strange(kind, [*strange, *(f'unknown field "{path}"' for path in unknown)], call)
        if not isinstance(kind, BuiltinKind):
            kind.prune(obj)  # built-in kinds drop unknown fields while decoding
        return obj

    def _check_type(self, kind: Kind, obj: Manifest) -> None:
        resource = kind.resource
        api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
        if api_version == resource.api_version and name == resource.kind:
            return
        if not api_version and not name:
            return
        if not isinstance(api_version, str) or not isinstance(name, str):
            raise status.bad_request("couldn't get version/kind; json parse error: apiVersion and kind must be strings")
        if name and name != resource.kind:
            known = self.registry.by_api_version(api_version, name) if api_version else None
            version = (api_version or resource.api_version).rpartition("/")[2]
            if known is None and api_version:
                raise status.bad_request(
                    f'{name} in version "{version}" cannot be handled as a {resource.kind}: '
                    f'no kind "{name}" is registered for version "{api_version}" in scheme'
                )
            raise status.bad_request(
                f'{name} in version "{version}" cannot be handled as a {resource.kind}: converting '
                f"({version}.{name}) to ({_internal(resource.group)}.{resource.kind}): unknown conversion"
            )
        if api_version and api_version != resource.api_version:
            raise status.bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({resource.api_version})"
            )

    @staticmethod
    def _tell_strange(kind: Kind, texts: list[str], call: Call) -> None:
        if call.validation != "Strict":
            # Who does not say how strict to be is warned of what costs nothing to find.
            call.warnings += texts if call.validation != "Ignore" else ()
            return
        version = f'{kind.resource.kind} in version "{kind.resource.version}"'
        raise status.bad_request(
            f"{version} cannot be handled as a {kind.resource.kind}: strict decoding error: {', '.join(texts)}"
        )

    # -- create

    async def create(self, kind: Kind, namespace: str, obj: Manifest, call: Call, *, apply: bool = False) -> Outcome:
        """Create an object from a decoded body that this call may change."""
        meta = obj["metadata"]
        given = meta.get("namespace") or ""
        if kind.resource.namespaced and given and given != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not kind.resource.namespaced:
            meta.pop("namespace", None)
        revision = meta.pop("resourceVersion", None)
        user, size = call.user.name, call.weight
        # A coroutine for each step of a small object would take longer than some of the steps.
        light = size < self.aside.heavy
        if light:
            self._begun(kind, obj, call, apply=apply)
        else:
            await self.aside.run(user, size, self._begun, kind, obj, call, apply=apply)
        attributes = Attributes("CREATE", kind, "", namespace, meta.get("name") or "", obj, None, call)
        obj = await self.admission.mutate(attributes)
        meta = obj["metadata"]
        for name in _SYSTEM:
            meta.pop(name, None)
        meta["uid"] = new_uid()
        meta["creationTimestamp"] = stamp()
        if kind.resource.namespaced:
            meta["namespace"] = namespace
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generate(kind, namespace, meta["generateName"])
        if light:
            kind.prepare_create(obj)
        else:
            await self.aside.run(user, size, kind.prepare_create, obj)
        if self.allocate is not None:
            self.allocate(kind, obj, None, dry_run=call.dry_run)
        if light:
            _check_new(kind, obj)
        else:
            await self.aside.run(user, size, _check_new, kind, obj)
        attributes.new, attributes.name = obj, meta["name"]
        await self.admission.validate(attributes)
        stored = not (apply or call.dry_run)
        if stored and revision and revision.isascii() and revision.isdigit() and int(revision):
            raise status.internal("resourceVersion should not be set on objects to be created")
        call.warnings += kind.warnings(obj)
        key = self.key(kind, namespace, meta["name"])
        if call.dry_run:
            self._refuse_taken(kind, key)
            if revision:
                meta["resourceVersion"] = revision  # Only what is stored gets another one.
            return obj
        try:
            entry = await self.store.put(key, kind.to_store(obj), 0)
        except Conflict:
            self._refuse_taken(kind, key)
            raise status.already_exists(kind.resource, key.name) from None
        except (StoreUnavailable, StoreTooLarge) as e:
            raise store_error(e) from e
        self.audit.write(call, "create", entry, None)
        return entry

    def _begun(self, kind: Kind, obj: Manifest, call: Call, *, apply: bool) -> None:
        """Default a new object and record who set its fields."""
        kind.default(obj)
        if not apply:
            self.ownership.created(kind, obj, call)

    def _refuse_taken(self, kind: Kind, key: Key) -> None:
        found = self.store.get(key)
        if found is None:
            return
        error = status.already_exists(kind.resource, key.name)
        if found.obj["metadata"].get("deletionTimestamp"):
            error.message = f"object is being deleted: {error.message}"
        raise error

    def _generate(self, kind: Kind, namespace: str, prefix: str) -> str:
        while True:
            name = prefix[:58] + "".join(random.choices(_SUFFIX, k=5))
            if self.store.get(self.key(kind, namespace, name)) is None:
                return name

    # -- update

    async def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        make: Make,
        call: Call,
        *,
        subresource: str = "",
        verb: str = "update",
        create: Callable[[], Awaitable[Outcome]] | None = None,
        patch: bool = False,
    ) -> Outcome:
        """Replace an object by what `make` builds from its present state (which `make` must not change).

        `create` is called when the object does not exist; without it that is a 404. `patch` makes the request repeat
        on a concurrent write even though the new object names the revision it was built from.
        """
        key = self.key(kind, namespace, name)
        for _ in range(64):
            entry = self.store.get(key)
            if entry is None:
                if create is None:
                    raise status.not_found(kind.resource, name)
                return await create()
            old = kind.from_store(entry.obj)
            size = max(call.weight, len(entry.raw))
            new = await self.aside.run(call.user.name, size, make, old)
            pinned = self._check_revision(kind, new, old, patch=patch, subresource=subresource)
            result = await self._replace(kind, entry, old, new, call, subresource, verb)
            if result is not None:
                return result
            if pinned:
                raise status.conflict(kind.resource, name, status.MODIFIED)
        raise status.conflict(kind.resource, name, status.MODIFIED)

    def _check_revision(self, kind: Kind, new: Manifest, old: Manifest, *, patch: bool, subresource: str = "") -> bool:
        """Check uid and resourceVersion of a new object; returns whether it insists on the revision."""
        meta, before = new["metadata"], old["metadata"]
        name = before["name"]
        uid = meta.get("uid")
        if uid and uid != before["uid"] and patch:
            raise status.invalid(kind.group_kind, name, [invalid("metadata.uid", uid, "field is immutable")] * 2)
        if uid and uid != before["uid"]:
            where = f"/registry/{kind.resource.plural}/{before.get('namespace', '')}/{name}"
            raise status.conflict(
                kind.resource,
                name,
                f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}",
            )
        revision = meta.get("resourceVersion") or ""
        if revision and not (revision.isascii() and revision.isdigit()):
            raise status.internal(f'strconv.ParseUint: parsing "{revision}": invalid syntax')
        if revision in ("", "0"):
            if not kind.unconditional_update:
                error = invalid("metadata.resourceVersion", Raw("0x0"), "must be specified for an update")
                refused = status.invalid(kind.resource.group_resource, name, [error])
                if refused.details is not None:
                    refused.details["kind"] = kind.resource.plural
                raise refused
            if subresource or not kind.revision_is_checked:
                meta["resourceVersion"] = before["resourceVersion"]
            return False
        if revision != before["resourceVersion"]:
            raise status.conflict(kind.resource, name, status.MODIFIED)
        return not patch

    async def _replace(
        self, kind: Kind, entry: Entry, old: Manifest, new: Manifest, call: Call, subresource: str, verb: str
    ) -> Outcome | None:
        """Write a new state over `entry`; None when another write came first."""
        key = entry.key
        meta, before = new["metadata"], old["metadata"]
        self._keep_system(meta, before, key)
        user, size = call.user.name, max(call.weight, len(entry.raw))
        await self.aside.run(user, size, self._changed, kind, new, old, call, subresource)
        attributes = Attributes("UPDATE", kind, subresource, key.namespace, key.name, new, old, call)
        admitted = subresource == "binding"  # What is admitted there is the binding.
        if not admitted:
            new = await self.admission.mutate(attributes)
        meta = new["metadata"]
        self._keep_system(meta, before, key)
        if subresource in ("", "scale"):
            await self.aside.run(user, size, kind.prepare_update, new, old)
            if self.allocate is not None:
                self.allocate(kind, new, old, dry_run=call.dry_run)
        await self.aside.run(user, size, _check_changed, kind, new, old, subresource)
        attributes.new = new
        if not admitted:
            await self.admission.validate(attributes)
        if subresource != "status":
            call.warnings += kind.change_warnings(new, old)
        if _finished(kind, new, before):
            if not call.dry_run and self.remove_now is not None:
                try:
                    await self.remove_now(kind, entry, new, call)
                except Conflict:
                    return None
            return new
        if self.ownership.unchanged(new, old):
            return entry
        if call.dry_run:
            return new
        try:
            result = await self.store.put(key, kind.to_store(new), entry.revision)
        except Conflict:
            return None
        except (StoreUnavailable, StoreTooLarge) as e:
            raise store_error(e) from e
        self.audit.write(call, verb, result, entry, subresource)
        return result

    def _changed(self, kind: Kind, new: Manifest, old: Manifest, call: Call, subresource: str) -> None:
        """Default a new state and record who set its fields."""
        kind.default(new)
        if not call.applied:
            self.ownership.updated(kind, new, old, call, subresource)

    @staticmethod
    def _keep_system(meta: Manifest, before: Manifest, key: Key) -> None:
        """Metadata that only the server writes keeps its value."""
        for name in ("uid", "creationTimestamp"):
            if name in before:
                meta[name] = before[name]
            else:
                meta.pop(name, None)
        if "deletionTimestamp" in before:
            meta["deletionTimestamp"] = before["deletionTimestamp"]
        if meta.get("deletionGracePeriodSeconds") is None and "deletionGracePeriodSeconds" in before:
            meta["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
        for name in _UNKEPT:
            meta.pop(name, None)
        meta["name"] = key.name
        if key.namespace:
            meta["namespace"] = key.namespace
        else:
            meta.pop("namespace", None)
        if "generateName" in before and "generateName" not in meta:
            meta["generateName"] = before["generateName"]


def _check_new(kind: Kind, obj: Manifest) -> None:
    """Raise 422 for a new object that breaks the rules of its kind."""
    errors = kind.check_metadata(obj) + kind.validate_create(obj)
    if errors:
        raise status.invalid(kind.group_kind, obj["metadata"].get("name") or "", errors)


def _check_changed(kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    """Prepare a new state where its subresource asks for that; raise 422 where it breaks the rules of its kind."""
    errors: list[FieldError]
    if subresource == "status":
        kind.prepare_status(new, old)
        errors = kind.check_metadata_update(new, old, whole=False) + kind.validate_status(new, old)
    elif subresource in ("", "scale"):
        errors = kind.check_metadata_update(new, old) + kind.validate_update(new, old)
    else:
        # Kinds with rules for a further subresource (approval) have a pair of methods named after it.
        prepare = getattr(kind, f"prepare_{subresource}", None)
        if prepare is not None:
            prepare(new, old)
        errors = kind.check_metadata_update(new, old, whole=False)
        check = getattr(kind, f"validate_{subresource}", None)
        if check is not None:
            errors += check(new, old)
    if errors:
        raise status.invalid(kind.group_kind, new["metadata"]["name"], errors)


def _finished(kind: Kind, new: Manifest, before: Manifest) -> bool:
    """Whether an update takes away the last thing that kept a deleted object."""
    if not before.get("deletionTimestamp") or new["metadata"].get("finalizers"):
        return False
    if kind.store_key == "/namespaces":
        return not (new.get("spec") or {}).get("finalizers")
    return before.get("deletionGracePeriodSeconds") == 0


def _internal(group: str) -> str:
    """The short name Kubernetes gives a group in conversion messages."""
    return group.partition(".")[0] or "core"


def store_error(error: StoreUnavailable | StoreTooLarge) -> ApiError:
    """A failure of the store as an answer."""
    if isinstance(error, StoreTooLarge):
        text = f"Request entity too large: limit is exceeded: {error}"
        return ApiError(413, "RequestEntityTooLarge", text)
    return status.unavailable(f"the object store is not available: {error}")
