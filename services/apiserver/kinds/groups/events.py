"""Events: core/v1, as they are stored, and the events.k8s.io view of them."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, invalid, required
from services._rules.kubernetes.validation.object_metadata import immutable
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
NAME_LIMIT, NOTE_LIMIT = 128, 1024


def _selectors(obj: Manifest) -> dict[str, str]:
    target = obj.get("involvedObject") or {}
    source = obj.get("source") or {}
    meta = obj["metadata"]
    return {
        "metadata.name": meta["name"],
        "metadata.namespace": meta.get("namespace", ""),
        "involvedObject.kind": target.get("kind", ""),
        "involvedObject.namespace": target.get("namespace", ""),
        "involvedObject.name": target.get("name", ""),
        "involvedObject.uid": target.get("uid", ""),
        "involvedObject.apiVersion": target.get("apiVersion", ""),
        "involvedObject.resourceVersion": target.get("resourceVersion", ""),
        "involvedObject.fieldPath": target.get("fieldPath", ""),
        "reason": obj.get("reason", ""),
        "reportingComponent": obj.get("reportingComponent", ""),
        "source": source.get("component") or obj.get("reportingComponent", ""),
        "type": obj.get("type", ""),
    }


class CoreEvent(BuiltinKind):
    """core/v1 Event."""

    create_on_update = True

    def check(self, obj: Manifest) -> list[FieldError]:
        """The event's namespace must be that of its object (or default for cluster-wide ones)."""
        target = obj.get("involvedObject") or {}
        namespace = obj["metadata"].get("namespace", "")
        if target.get("namespace", "") == namespace:
            return []
        if not target.get("namespace") and namespace == "default":
            return []
        return [invalid("involvedObject.namespace", target.get("namespace", ""), "does not match event.namespace")]

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the object, the reason, the source and the type."""
        return _selectors(obj)


class Event(BuiltinKind):
    """events.k8s.io Event; stored in the core form."""

    create_on_update = True

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
        found: list[FieldError] = []
        core = self.to_store(obj)
        target, namespace = core.get("involvedObject") or {}, obj["metadata"].get("namespace", "")
        if target.get("namespace", "") != namespace and not (not target.get("namespace") and namespace == "default"):
            text = "does not match event.namespace"
            found.append(invalid("involvedObject.namespace", target.get("namespace", ""), text))
        if self.resource.version == "v1beta1":
            return found
        if not obj.get("eventTime"):
            found.append(required("eventTime"))
        if "/" not in obj.get("reportingController", "") and not obj.get("reportingController"):
            found.append(required("reportingController"))
        for name in ("reportingInstance", "action", "reason"):
            text = obj.get(name, "")
            if not text:
                found.append(required(name))
            elif len(text) > NAME_LIMIT:
                found.append(invalid(name, "", f"can have at most {NAME_LIMIT} characters"))
        if len(obj.get("note", "")) > NOTE_LIMIT:
            found.append(invalid("note", "", f"can have at most {NOTE_LIMIT} characters"))
        if obj.get("type") not in ("Normal", "Warning"):
            found.append(invalid("type", "", "has invalid value: " + obj.get("type", "")))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the series may change."""
        found = self.check(new)
        for name in ("regarding", "related", "reason", "action", "note", "type", "eventTime", "reportingController"):
            found += immutable(name, new.get(name), old.get(name))
        return found

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the object, the reason, the source and the type, under the names of core events."""
        return _selectors(self.to_store(obj) if "regarding" in obj else obj)
