"""Indexes roles and their bindings: the rules that an identity holds, and whether one of them allows an access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import Access, PolicyRule, rules_in
from services._rules.kubernetes.rbac.user_names import MASTERS, account_user

GROUP: Final = "rbac.authorization.k8s.io"
_MOST_HOLDINGS: Final = 4096
_MOST_WEIGHED: Final = 16_384


class Place(NamedTuple):
    """Where a role or binding is: its kind, its namespace (empty: cluster scope) and its name."""

    kind: str
    namespace: str
    name: str


class Verdict(Struct, frozen=True):
    """Whether an access is allowed, and by which binding; of a refusal, which bindings could not be resolved."""

    allowed: bool
    reason: str = ""


_ALLOWED: Final = Verdict(True)


class Subject(NamedTuple):
    """Whom a binding names: `User` or `Group`, and the name that identities bear."""

    kind: str
    name: str

    def __str__(self) -> str:
        """The subject as reasons name it."""
        return f'{self.kind} "{self.name}"'


class Holder(Protocol):
    """Who asks: a user and its groups."""

    @property
    def name(self) -> str:
        """The user."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Its groups."""


class _Binding(Struct, frozen=True):
    """One binding of a role to the subjects in the order of the manifest, with the text that names each."""

    place: Place
    role: Place
    subjects: tuple[tuple[Subject, str], ...]

    def grant(self, subject: str) -> str:
        """The sentence that names what allows an access."""
        name = f"{self.place.name}/{self.place.namespace}" if self.place.namespace else self.place.name
        return f'RBAC: allowed by {self.place.kind} "{name}" of {self.role.kind} "{self.role.name}" to {subject}'


class _Weighed(NamedTuple):
    """What the roles of an identity say of accesses that differ in the name of the object only."""

    of_names: tuple[tuple[frozenset[str], Verdict], ...]
    """Verdicts that hold for some names, in their order."""
    otherwise: Verdict

    def of(self, name: str) -> Verdict:
        """The verdict for one name."""
        for names, verdict in self.of_names:
            if name in names:
                return verdict
        return self.otherwise


class _Holding(Struct, frozen=True):
    """Rules that one binding gives to an identity, and the sentence about it."""

    rules: tuple[PolicyRule, ...]
    grant: str


class RoleIndex:
    """Roles and bindings as they stand; what an identity holds and may do is kept until one of them changes."""

    def __init__(self) -> None:
        self._roles: dict[Place, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[Place, _Binding] = {}
        self._bound: dict[Subject, dict[Place, None]] = {}
        self._held: dict[tuple[str, tuple[str, ...], str], tuple[tuple[_Holding, ...], str]] = {}
        self._weighed: dict[tuple[str, tuple[str, ...], str, str, tuple[str, str, str, str]], _Weighed] = {}

    def take(self, place: Place, manifest: Manifest | None) -> None:
        """Take in a role or binding as it stands (None: it is gone)."""
        self._held.clear()
        self._weighed.clear()
        if not place.kind.endswith("Binding"):
            if manifest is None:
                self._roles.pop(place, None)
            else:
                self._roles[place] = rules_in(manifest)
            return
        before = self._bindings.pop(place, None)
        for subject, _ in before.subjects if before is not None else ():
            bound = self._bound.get(subject, {})
            bound.pop(place, None)
            if not bound:
                self._bound.pop(subject, None)
        if manifest is None:
            return
        binding = self._bindings[place] = _binding(place, manifest)
        for subject, _ in binding.subjects:
            self._bound.setdefault(subject, {})[place] = None

    def decide(self, holder: Holder, access: Access) -> Verdict:
        """Whether any role of an identity allows an access; system:masters may do everything."""
        if MASTERS in holder.groups:
            return _ALLOWED
        of_resource = access.group, access.resource, access.subresource, access.namespace
        key = (holder.name, holder.groups, access.verb, access.path, of_resource)
        weighed = self._weighed.get(key)
        if weighed is None:
            if len(self._weighed) >= _MOST_WEIGHED:
                self._weighed.clear()
            weighed = self._weighed[key] = self._weigh(holder, access)
        return weighed.of(access.name) if weighed.of_names else weighed.otherwise

    def _weigh(self, holder: Holder, access: Access) -> _Weighed:
        holdings, missing = self._holdings(holder, access.namespace)
        of_names: list[tuple[frozenset[str], Verdict]] = []
        for holding in holdings:
            for rule in holding.rules:
                if not rule.concerns(access):
                    continue
                verdict = Verdict(True, holding.grant)
                if access.path or not rule.names:
                    return _Weighed(tuple(of_names), verdict)
                of_names.append((frozenset(rule.names), verdict))
        return _Weighed(tuple(of_names), Verdict(False, missing))

    def rules_of(self, holder: Holder, namespace: str) -> tuple[list[PolicyRule], str]:
        """All rules that an identity holds in a namespace, and the bindings that could not be resolved."""
        holdings, missing = self._holdings(holder, namespace)
        return [rule for holding in holdings for rule in holding.rules], missing

    def role(self, place: Place) -> tuple[PolicyRule, ...] | None:
        """The rules of a role; None where there is no such role."""
        return self._roles.get(place)

    def _holdings(self, holder: Holder, namespace: str) -> tuple[tuple[_Holding, ...], str]:
        key = (holder.name, holder.groups, namespace)
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= _MOST_HOLDINGS:
                self._held.clear()
            held = self._held[key] = self._resolved(holder, namespace)
        return held

    def _resolved(self, holder: Holder, namespace: str) -> tuple[tuple[_Holding, ...], str]:
        found: list[_Holding] = []
        missing: list[str] = []
        for binding, subject in self._bindings_of(holder, namespace):
            rules = self._roles.get(binding.role)
            if rules is None:
                missing.append(f'{binding.role.kind.lower()}.{GROUP} "{binding.role.name}" not found')
            else:
                found.append(_Holding(rules, binding.grant(subject)))
        if not missing:
            return tuple(found), ""
        distinct = list(dict.fromkeys(missing))
        together = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
        return tuple(found), f"RBAC: {together}"

    def _bindings_of(self, holder: Holder, namespace: str) -> Iterator[tuple[_Binding, str]]:
        """Bindings of an identity that count in a namespace, those of the cluster first, by name."""
        subjects = {Subject("User", holder.name), *(Subject("Group", group) for group in holder.groups)}
        wanted = ("", namespace)
        places = {place for one in subjects for place in self._bound.get(one, ()) if place.namespace in wanted}
        for place in sorted(places, key=lambda place: (place.namespace, place.name)):
            binding = self._bindings[place]
            yield binding, next(text for subject, text in binding.subjects if subject in subjects)


def _binding(place: Place, manifest: Manifest) -> _Binding:
    reference = manifest.get("roleRef") or {}
    kind = str(reference.get("kind", ""))
    role = Place(kind, place.namespace if kind == "Role" else "", str(reference.get("name", "")))
    return _Binding(place, role, tuple(_subjects(manifest.get("subjects") or (), place.namespace)))


def _subjects(subjects: Iterable[Manifest], namespace: str) -> Iterator[tuple[Subject, str]]:
    for subject in subjects:
        kind, name = str(subject.get("kind", "")), str(subject.get("name", ""))
        if kind == "ServiceAccount":
            space = str(subject.get("namespace") or namespace)
            if space:
                yield Subject("User", account_user(space, name)), f'ServiceAccount "{name}/{space}"'
        elif kind in ("User", "Group"):
            found = Subject(kind, name)
            yield found, str(found)
