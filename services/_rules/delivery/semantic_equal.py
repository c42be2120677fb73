"""Decides whether applying a manifest would change the live object, so that needless writes are skipped.

What the manifest does not mention is the server's or the member's (defaults, allocated addresses, status) unless it was
ours before: a field of the manifest applied last, or a label or annotation recorded as managed. Where the comparison
cannot know, it reports that a write is needed: a needless write is harmless, a missing one is not.
"""

from base64 import b64encode
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.constants import MANAGED_ANNOTATIONS_ANNOTATION, MANAGED_LABELS_ANNOTATION
from services._rules.delivery.metadata_retention import recorded_keys
from services._rules.kubernetes.quantity import QuantityError, parse

_IGNORED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
# Maps that no server fills in: a key more in the live object is a difference.
_WHOLE_MAPS: Final = frozenset(
    {"data", "binaryData", "matchLabels", "nodeSelector", "labels", "annotations", "parameters"}
)
# A selector without these is a plain map of labels.
_SELECTOR_MEMBERS: Final = frozenset({"matchLabels", "matchExpressions"})
# Members that Kubernetes drops when they hold their zero value.
_OMITTED: Final = frozenset(
    {
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "initialDelaySeconds",
        "minReadySeconds",
        "nodePort",
        "paused",
        "preserveUnknownFields",
        "publishNotReadyAddresses",
        "readOnly",
        "stdin",
        "stdinOnce",
        "tty",
    }
)
_OMITTED_OBJECTS: Final = frozenset(
    {"annotations", "binaryData", "data", "labels", "limits", "matchLabels", "metadata", "nodeSelector", "parameters"}
    | {"requests", "resources", "rollingUpdate", "selector", "strategy", "updateStrategy"}
)
# Empty texts that mean something of their own.
_MEANT_EMPTY: Final = frozenset({"storageClassName"})
# Objects whose members are quantities, and members that are.
_QUANTITY_MAPS: Final = frozenset(
    {"requests", "limits", "capacity", "overhead", "hard", "default", "defaultRequest", "max", "min", "podFixed"}
)
_QUANTITIES: Final = frozenset({"sizeLimit", "divisor", "averageValue"})
# Lists whose entries have an identity, so that their order does not count.
_MERGE_KEYS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "containers": (("name", None),),
    "initContainers": (("name", None),),
    "volumes": (("name", None),),
    "volumeMounts": (("mountPath", None),),
    "imagePullSecrets": (("name", None),),
    "secrets": (("name", None),),
    "hostAliases": (("ip", None),),
    "ports": (("port", None), ("containerPort", None), ("protocol", "TCP")),
    "topologySpreadConstraints": (("topologyKey", None), ("whenUnsatisfiable", None)),
}


def needs_update(desired: Manifest, live: Manifest, previously_applied: Manifest | None = None) -> bool:
    """Whether writing the desired manifest over the live object would change it.

    `desired` is the manifest after retention; `previously_applied` what was written last, None where unknown.
    """
    previous = previously_applied or {}
    if _metadata_differs(desired, live, previous):
        return True
    compare = Comparison(desired)
    if desired.get("kind") == "Secret" and desired.get("stringData"):
        desired = _with_encoded(desired)
        previous = _with_encoded(previous)
    for name in desired.keys() | previous.keys():
        if name not in _IGNORED and compare.member_differs(name, desired, live, previous):
            return True
    # A key more in the live object counts only where no server puts one: the whole content of these kinds is ours.
    return compare.is_content and any(live.get(name) and not desired.get(name) for name in ("data", "binaryData"))


def _metadata_differs(desired: Manifest, live: Manifest, previous: Manifest) -> bool:
    wanted, found, before = (_object(obj, "metadata") for obj in (desired, live, previous))
    notes = _object(found, "annotations")
    for member, record in (("labels", MANAGED_LABELS_ANNOTATION), ("annotations", MANAGED_ANNOTATIONS_ANNOTATION)):
        pairs, present = _object(wanted, member), _object(found, member)
        if pairs == present:
            continue
        for key, value in pairs.items():
            if present.get(key) != value:
                return True
        for key in recorded_keys(notes, record).union(_object(before, member)):
            if key in present and key not in pairs:
                return True
    return False


def _object(obj: Manifest, member: str) -> Manifest:
    """An object in an object; empty where there is something else, which the server validates."""
    value = obj.get(member)
    return value if isinstance(value, dict) else {}


def _with_encoded(secret: Manifest) -> Manifest:
    """A Secret with its plain texts where a server moves them."""
    plain = _object(secret, "stringData")
    encoded = {key: b64encode(str(text).encode()).decode() for key, text in plain.items()}
    copy = {name: value for name, value in secret.items() if name != "stringData"}
    copy["data"] = {**_object(secret, "data"), **encoded}
    return copy


class Comparison:
    """The rules that depend on the kind of object, and the walk through both objects."""

    __slots__ = ("is_content", "native", "pod")

    def __init__(self, desired: Manifest) -> None:
        group = str(desired.get("apiVersion") or "").rpartition("/")[0]
        self.native = "." not in group or group.endswith(".k8s.io")
        # Admission adds entries to a Pod's lists, and most of a Pod cannot be changed.
        self.pod = self.native and desired.get("kind") == "Pod"
        self.is_content = self.native and not group and desired.get("kind") in ("ConfigMap", "Secret")

    def member_differs(self, name: str, desired: Manifest, live: Manifest, previous: Manifest) -> bool:
        """Whether one member of two objects differs, seen from the desired one."""
        value = desired.get(name)
        if value is None:
            return previous.get(name) is not None and live.get(name) is not None
        found = live.get(name)
        if found is None:
            return not self._is_dropped(name, value)
        return value != found and self._differs(name, value, found, previous.get(name))

    def is_whole(self, name: str, found: Manifest) -> bool:
        """Whether a member more in a live map is a difference: no server fills this one in."""
        return self.native and (name in _WHOLE_MAPS or (name == "selector" and not found.keys() & _SELECTOR_MEMBERS))

    def _is_dropped(self, name: str, value: Any) -> bool:
        """Whether a server may leave a value out when it stores the object."""
        if value or not self.native:
            return False
        if isinstance(value, str):
            return name not in _MEANT_EMPTY
        if isinstance(value, list):
            return True
        if isinstance(value, dict):
            return name in _OMITTED_OBJECTS
        return name in _OMITTED

    def _differs(self, name: str, value: Any, found: Any, previous: Any) -> bool:
        if isinstance(value, dict):
            return not isinstance(found, dict) or self._object_differs(
                name, value, found, previous if isinstance(previous, dict) else {}
            )
        if isinstance(value, list):
            return not isinstance(found, list) or self._list_differs(
                name, value, found, previous if isinstance(previous, list) else []
            )
        if self.native and name in _QUANTITIES:
            return not _same_quantity(value, found)
        return bool(value != found)

    def _object_differs(self, name: str, value: Manifest, found: Manifest, previous: Manifest) -> bool:
        if self.native:
            if name in _QUANTITY_MAPS:
                return self._amounts_differ(value, found, previous)
            if self.is_whole(name, found) and found.keys() - value.keys():
                return True
        if any(self.member_differs(member, value, found, previous) for member in value):
            return True
        return any(
            member not in value and before is not None and found.get(member) is not None
            for member, before in previous.items()
        )

    def _amounts_differ(self, value: Manifest, found: Manifest, previous: Manifest) -> bool:
        for resource, amount in value.items():
            if amount is not None and not _same_quantity(amount, found.get(resource)):
                return True
        return any(resource in found and resource not in value for resource in previous)

    def _list_differs(self, name: str, value: list[Any], found: list[Any], previous: list[Any]) -> bool:
        if len(value) > len(found) or (len(value) < len(found) and not self.pod):
            return True
        before = previous if len(previous) == len(value) else [None] * len(value)
        if len(value) == len(found) and not any(
            one != other and self._differs(name, one, other, earlier)
            for one, other, earlier in zip(value, found, before, strict=True)
        ):
            return False
        return self._entries_differ(name, value, found, previous)

    def _entries_differ(self, name: str, value: list[Any], found: list[Any], previous: list[Any]) -> bool:
        """Compares by identity; entries without one must be there as they are."""
        keys = _MERGE_KEYS.get(name) if self.native else None
        if keys is None:
            return len(value) == len(found) or any(entry not in found for entry in value)
        wanted, present, before = _by_key(keys, value), _by_key(keys, found), _by_key(keys, previous)
        if len(wanted) != len(value) or len(present) != len(found):
            return True
        for identity, entry in wanted.items():
            other = present.get(identity)
            if other is None or (entry != other and self._differs(name, entry, other, before.get(identity))):
                return True
        return any(identity in present and identity not in wanted for identity in before)


def _by_key(keys: tuple[tuple[str, object], ...], entries: list[Any]) -> dict[tuple[Any, ...], Any]:
    return {
        tuple(str(entry.get(key, default)) for key, default in keys): entry
        for entry in entries
        if isinstance(entry, dict)
    }


def _same_quantity(one: Any, other: Any) -> bool:
    if one == other:
        return True
    if other is None:
        return False
    try:
        return parse(one) == parse(other)
    except QuantityError:
        return False
