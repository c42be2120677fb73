"""Makes of a manifest and the stored object what the control plane would store: merged, defaulted, admitted."""

from __future__ import annotations

import copy
import datetime as dt
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.api import UNREADABLE
from services._rules.admission import Context, Denied, default, validate
from services._rules.feature_gates import feature_gates
from services.apiserver.crds.custom_kinds import custom_kinds
from services.apiserver.crds.generate import definitions
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import DecodeError, Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.settings import Settings
from services.foresight.difference import LAST_APPLIED

# The server draws an id of its own.
_ANY_ID: Final = "00000000-0000-0000-0000-000000000000"


class Stored(Struct, frozen=True):
    """An object as it would be stored, or the reason why it would be refused."""

    manifest: Manifest
    problem: str = ""


class Merging:
    """Prepares objects by the kinds, defaults and rules of the embedded API server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._gates = feature_gates(settings.feature_gates)
        self._count = 0

    @cached_property
    def registry(self) -> Registry:
        """The built-in kinds and Karmada's."""
        registry = builtin_registry()
        for crd in (*definitions(optional=False), *definitions(optional=True)):
            for kind in custom_kinds(crd):
                registry.add_kind(kind)
        return registry

    def stored(self, given: Manifest, live: Manifest | None, *, replace: bool = False) -> Stored:
        """What would be stored of a manifest; `live` is the stored object (None: it is created).

        With `replace` the manifest is the whole object, else it is laid over the stored one.
        """
        try:
            whole = given if replace else merged(given, live)
            obj: Manifest = msgspec.json.decode(msgspec.json.encode(whole))
        except UNREADABLE as error:
            return Stored(given, f"cannot be read: {error}")
        kind = self.registry.by_api_version(str(obj["apiVersion"]), str(obj["kind"]))
        if live is None:
            self._count += 1
            obj["metadata"]["uid"] = f"{_ANY_ID[:-6]}{self._count:06d}"
        if kind is None:
            return Stored(_counted(obj, live))
        try:
            kind.decode(obj)
        except (DecodeError, *UNREADABLE) as error:
            return Stored(obj, str(error))
        return self._checked(kind, obj, live)

    def _checked(self, kind: Kind, obj: Manifest, live: Manifest | None) -> Stored:
        kind.prune(obj)
        kind.default(obj)
        operation: Any = "CREATE" if live is None else "UPDATE"
        context = Context(
            namespace=str(obj["metadata"].get("namespace") or ""),
            identity=_ANY_ID,
            now=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),  # noqa: TID251 - a command
            allow_no_execute_taint_policy=self._settings.no_execute_policies,
            multiple_pod_templates=self._gates["MultiplePodTemplatesScheduling"],
            resource_models=self._gates["CustomizedClusterResourceModeling"],
            keeps_faults=True,
        )
        admitted = default(kind.resource.kind, operation, obj, live, context)
        if isinstance(admitted, Denied):
            return Stored(obj, admitted.message)
        obj = admitted.object
        if live is None:
            kind.prepare_create(obj)
            errors = kind.check_metadata(obj) + kind.validate_create(obj)
        else:
            kind.prepare_update(obj, live)
            errors = kind.validate_update(obj, live)
        if errors:
            return Stored(obj, "; ".join(dict.fromkeys(f"{error.field}: {error.message()}" for error in errors)))
        admitted = validate(kind.resource.kind, obj, live, context)
        if isinstance(admitted, Denied):
            return Stored(obj, admitted.message)
        return Stored(admitted.object)


def merged(given: Manifest, live: Manifest | None) -> Manifest:
    """The stored object after `kubectl apply` of a manifest: lists are those of the manifest as they are."""
    if live is None:
        return copy.deepcopy(given)
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        before = msgspec.json.decode(text) if text else {}
    except msgspec.MsgspecError:
        before = {}
    found: Manifest = _merged(copy.deepcopy(live), given, before if isinstance(before, dict) else {})
    return found


def _merged(live: Any, given: Any, before: Any) -> Any:
    """`given` laid over `live`; what stood in `before` and is not given any more goes."""
    if not isinstance(live, dict) or not isinstance(given, dict):
        return copy.deepcopy(given)
    known = before if isinstance(before, dict) else {}
    # Of a map that is not given any more only the fields go that were.
    given = {**{name: {} for name, value in known.items() if isinstance(value, dict) and name in live}, **given}
    kept = {name: value for name, value in live.items() if name in given or name not in known}
    for name, value in given.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(live.get(name), value, known.get(name))
    return kept


def _counted(obj: Manifest, live: Manifest | None) -> Manifest:
    """An object of a kind that is not known here, with the generation that its server would give it."""

    def content(each: Manifest) -> Manifest:
        return {name: value for name, value in each.items() if name not in ("metadata", "status")}

    if live is None:
        generation = 1
    else:
        generation = int(live["metadata"].get("generation") or 0) + (content(obj) != content(live))
    return {**obj, "metadata": {**obj["metadata"], "generation": generation}}
