"""Events: core/v1, as they are stored, and the events.k8s.io view of them."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid
from services._rules.kubernetes.validation.field_rules import Check, needed
from services.apiserver.kinds.builtin import BuiltinKind

# events.k8s.io name -> core name
_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {core: name for name, core in _NAMES.items()}


_OF_TARGET = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _selectors(obj: Manifest) -> dict[str, str]:
    target = obj.get("involvedObject") or {}
    source = obj.get("source") or {}
    meta = obj["metadata"]
    return {
        "metadata.name": meta["name"],
        "metadata.namespace": meta.get("namespace", ""),
        **{f"involvedObject.{name}": target.get(name, "") for name in _OF_TARGET},
        "reason": obj.get("reason", ""),
        "reportingComponent": obj.get("reportingComponent", ""),
        "source": source.get("component") or obj.get("reportingComponent", ""),
        "type": obj.get("type", ""),
    }


def _namespace_of(obj: Manifest, target: Manifest) -> Errors:
    """The event's namespace must be that of its object (or default for cluster-wide ones)."""
    own, other = obj["metadata"].get("namespace", ""), target.get("namespace", "")
    if other != own and not (not other and own == "default"):
        yield invalid("involvedObject.namespace", other, "does not match event.namespace")


class CoreEvent(BuiltinKind):
    """core/v1 Event."""

    create_on_update = True

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the namespace."""
        return list(_namespace_of(obj, obj.get("involvedObject") or {}))

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the object, the reason, the source and the type."""
        return _selectors(obj)


def _short(name: str, limit: int) -> Check:
    def check(obj: Manifest, _: str) -> Errors:
        if not (len(obj.get(name, "")) <= limit):
            yield invalid(name, "", f"can have at most {limit} characters")

    return check


def _type(obj: Manifest, _: str) -> list[FieldError]:
    kind = obj.get("type", "")
    return [] if kind in ("Normal", "Warning") else [invalid("type", "", f"has invalid value: {kind}")]


_NAMED = ("reportingInstance", "action", "reason")


class Event(BuiltinKind):
    """events.k8s.io Event; stored in the core form."""

    create_on_update = True
    # Of a new-style event.
    rules = (
        needed("eventTime", "reportingController"),
        *(rule for name in _NAMED for rule in (needed(name), _short(name, 128))),
        _short("note", 1024),
        _type,
    )
    fixed = ("regarding", "related", "reason", "action", "note", "type", "eventTime", "reportingController")

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the core/v1 form."""
        result = {_NAMES.get(name, name): value for name, value in obj.items()}
        result["apiVersion"] = "v1"
        return result

    def from_store(self, obj: Manifest) -> Manifest:
        """Return the events.k8s.io form."""
        result = {_BACK.get(name, name): value for name, value in obj.items()}
        result["apiVersion"] = self.resource.api_version
        return result

    def check(self, obj: Manifest) -> list[FieldError]:
        """A new-style event must have a time, a controller, an action and a reason."""
        found = list(_namespace_of(obj, self.to_store(obj).get("involvedObject") or {}))
        return found if self.resource.version == "v1beta1" else found + super().check(obj)

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the object, the reason, the source and the type, under the names of core events."""
        return _selectors(self.to_store(obj) if "regarding" in obj else obj)
