"""Which writes an admission policy, a binding or a webhook concerns: rules, selectors, versions of one kind."""

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, compile_selector
from services.apiserver.admission.chain import Attributes
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import Key, Store


class Constraints:
    """The matchConstraints of a policy or the matchResources of a binding, compiled."""

    def __init__(self, raw: Manifest) -> None:
        self._rules: list[Manifest] = raw.get("resourceRules") or []
        self._excluded: list[Manifest] = raw.get("excludeResourceRules") or []
        self._equivalent = raw.get("matchPolicy", "Equivalent") == "Equivalent"
        self._namespaces = selector_of(raw.get("namespaceSelector"))
        self._objects = selector_of(raw.get("objectSelector"))

    def match(self, attributes: Attributes, store: Store, registry: Registry, *, without_rules: bool) -> Kind | None:
        """Return the kind in whose version the write concerns this, or None.

        `without_rules` is for bindings, which concern all that their policy does if they have no rules.
        """
        if not self._selected(attributes, store):
            return None
        if version_of(self._excluded, attributes, registry, equivalent=self._equivalent) is not None:
            return None
        if not self._rules and without_rules:
            return attributes.kind
        return version_of(self._rules, attributes, registry, equivalent=self._equivalent)

    def _selected(self, attributes: Attributes, store: Store) -> bool:
        if self._namespaces is not None:
            labels = namespace_labels(attributes, store)
            if labels is not None and not self._namespaces.matches(labels):
                return False
        return selects(self._objects, attributes)


def version_of(rules: list[Manifest], attributes: Attributes, registry: Registry, *, equivalent: bool) -> Kind | None:
    """Return the kind in whose version one of the rules names a write; another version only if it is `equivalent`."""
    kind = attributes.kind
    if any(_concerns(rule, kind, attributes) for rule in rules):
        return kind
    if rules and equivalent:
        for other in registry.versions_of(kind):
            if other is not kind and any(_concerns(rule, other, attributes) for rule in rules):
                return other
    return None


def selects(selector: Selector | None, attributes: Attributes) -> bool:
    """Whether a selector chooses the object of a write, as it was or as it becomes."""
    if selector is None:
        return True
    seen = [obj for obj in (attributes.new, attributes.old) if obj is not None]
    return any(selector.matches((obj.get("metadata") or {}).get("labels") or {}) for obj in seen)


def selector_of(raw: Manifest | None) -> Selector | None:
    """Return a compiled selector; None for one that is empty or cannot be compiled."""
    if not raw:
        return None
    try:
        return compile_selector(raw)
    except LabelSelectorError:
        return None


def _has(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _concerns(rule: Manifest, kind: Kind, attributes: Attributes) -> bool:
    resource = kind.resource
    if not _has(rule.get("operations"), attributes.operation) or not _has(rule.get("apiGroups"), resource.group):
        return False
    if not _has(rule.get("apiVersions"), resource.version):
        return False
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") != resource.namespaced:
        return False
    named = rule.get("resourceNames")
    if named and attributes.name not in named:
        return False
    return any(_names(item, resource.plural, attributes.subresource) for item in rule.get("resources") or ())


def _names(rule: str, plural: str, subresource: str) -> bool:
    name, slash, sub = rule.partition("/")
    if name not in ("*", plural):
        return False
    return sub in ("*", subresource) if slash else not subresource


def namespace_labels(attributes: Attributes, store: Store) -> dict[str, str] | None:
    """Return the labels of the namespace that a write is in or is about; None for one in no namespace."""
    kind = attributes.kind
    if kind.store_key == "/namespaces":
        obj = attributes.new if attributes.new is not None else attributes.old
        return (obj["metadata"].get("labels") or {}) if obj is not None else {}
    namespace = namespace_of(attributes, store)
    if not kind.resource.namespaced:
        return None
    return (namespace["metadata"].get("labels") or {}) if namespace is not None else {}


def namespace_of(attributes: Attributes, store: Store) -> Any:
    """Return the namespace that a write is in; None for one in no namespace."""
    if not attributes.kind.resource.namespaced:
        return None
    entry = store.get(Key("", "namespaces", "", attributes.namespace))
    return entry.obj if entry is not None else None
