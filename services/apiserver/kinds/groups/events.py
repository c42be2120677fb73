"""Events: core/v1, as they are stored, and the events.k8s.io view of them."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid
from services._rules.kubernetes.validation.field_rules import (
    Check,
    apply,
    formed,
    immutable,
    inside,
    needed,
    text,
)
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


_CLUSTER_WIDE = ("default", "kube-system")


def _namespace_of(obj: Manifest, path: str) -> Errors:
    """The event's namespace must be that of its object (one of two for cluster-wide objects)."""
    own, other = obj["metadata"].get("namespace", ""), (obj.get("involvedObject") or {}).get("namespace", "")
    if obj.get("eventTime"):
        wrong = not other and own not in _CLUSTER_WIDE
    else:
        wrong = own != (other or _CLUSTER_WIDE[0])
    if wrong:
        yield invalid(f"{path}involvedObject.namespace", other, "does not match event.namespace")


def _short(name: str, limit: int) -> Check:
    def check(obj: Manifest, _: str) -> Errors:
        if len(obj.get(name, "").encode()) > limit:
            yield invalid(name, "", f"can have at most {limit} characters")

    return check


_CONTROLLER = (needed("reportingController"), text("reportingController", names.qualified, blank=True))


def _controller(obj: Manifest, _: str) -> list[FieldError]:
    return [error for rule in _CONTROLLER for error in rule({"reportingController": obj.get("reportingComponent")}, "")]


# Of an event that has a time, in the core form.
_NEW_STYLE = (
    _controller,
    needed("reportingInstance"),
    _short("reportingInstance", 128),
    needed("action"),
    _short("action", 128),
    needed("reason"),
    _short("reason", 128),
    _short("message", 1024),
)


def _common(obj: Manifest) -> list[FieldError]:
    """What is wrong with an event in the core form, whatever the version of the request."""
    found = list(_namespace_of(obj, ""))
    if obj.get("eventTime"):
        found += apply(_NEW_STYLE, obj)
    namespace = obj["metadata"].get("namespace", "")
    return found + list(formed(names.subdomain)(namespace, "namespace"))


class _AnyEvent(BuiltinKind):
    create_on_update = True

    def check_name(self, name: str) -> list[str]:
        """Names need only fit into a path."""
        return names.path_segment(name)


class CoreEvent(_AnyEvent):
    """core/v1 Event."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the namespace, and what an event with a time must have."""
        return _common(obj)

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the object, the reason, the source and the type."""
        return _selectors(obj)


def _type(obj: Manifest, _: str) -> list[FieldError]:
    kind = obj.get("type", "")
    return [] if kind in ("Normal", "Warning") else [invalid("type", "", f"has invalid value: {kind}")]


def _unset(name: str) -> Check:
    def check(obj: Manifest, _: str) -> Errors:
        value = obj.get(name)
        if any(value.values()) if isinstance(value, dict) else value:
            yield invalid(name, "", "needs to be unset")

    return check


def _series(series: Manifest, path: str) -> Errors:
    if series.get("count", 0) < 2:
        yield invalid(f"{path}.count", "", "should be at least 2")
    yield from needed("lastObservedTime")(series, path)


# Of an event that is written as events.k8s.io/v1, in the core form.
_STRICT = (
    inside("series", _series),
    needed("eventTime"),
    _type,
    *(_unset(name) for name in ("firstTimestamp", "lastTimestamp", "count", "source")),
)
# Names of what an update may not change: in the core form, and as an answer names it.
_FIXED = (
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
    ("action", "action"),
    ("related", "related"),
    ("message", "note"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    *((name, name) for name in ("firstTimestamp", "lastTimestamp", "count", "source")),
)


class Event(_AnyEvent):
    """events.k8s.io Event; stored in the core form, whose names refusals use."""

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
        return _common(self.to_store(obj))

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """Events of the old style are refused."""
        return super().validate_create(obj) + apply(_STRICT, self.to_store(obj))

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the series of an event goes on."""
        found = self.check(new)
        after, before = self.to_store(new), self.to_store(old)
        if after.get("series") != before.get("series"):
            found += inside("series", _series)(after, "")
        return found + [
            error for name, shown in _FIXED for error in immutable(shown, after.get(name), before.get(name))
        ]

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the object, the reason, the source and the type, under the names of core events."""
        return _selectors(self.to_store(obj) if "regarding" in obj else obj)
