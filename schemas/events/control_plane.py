"""Facts about the identity of the control plane, and about objects missing from it that are not withdrawn yet."""

from __future__ import annotations

from schemas.envelope import Event


class ControlPlaneIdentified(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ControlPlaneIdentified.v1"):
    """The control plane is the one whose namespace kube-system has this uid.

    `revision` is the highest resourceVersion its store was seen at, 0 where versions are no numbers; it is recorded
    now and then. `confirmation` is the position of the AbsenceConfirmed by which it replaced another one, 0 for none.
    """

    uid: str
    revision: int = 0
    confirmation: int = 0


class AbsenceHeld(Event, frozen=True, kw_only=True, omit_defaults=True, tag="AbsenceHeld.v1"):
    """What is missing from the control plane (or a member) does not count as deleted: nothing is withdrawn for it.

    `scope` is `templates` (templates and policies), `clusters` (Cluster objects) or `member/<name>` (the member behind
    a name). `reason` is IdentityChanged, IdentityUnknown, RevisionWentBack or MassDisappearance; `message` is for
    people. `identity` is the uid that is seen now, `expected` the one that is known. `kinds` counts what is missing by
    kind, `missing` names it, up to a bound; `digest` stands for all names. `since` in seconds since 1970.
    """

    scope: str
    reason: str
    message: str
    since: float
    identity: str = ""
    expected: str = ""
    kinds: dict[str, int] = {}
    missing: tuple[str, ...] = ()
    digest: str = ""

    @property
    def count(self) -> int:
        """How many objects are missing."""
        return sum(self.kinds.values())


class AbsenceReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="AbsenceReleased.v1"):
    """Nothing is held in a scope any more: what was missing is back, or its absence was confirmed.

    `confirmation` is the position of the AbsenceConfirmed that let it pass, 0 for none.
    """

    scope: str
    reason: str
    confirmation: int = 0


class AbsenceConfirmed(Event, frozen=True, kw_only=True, omit_defaults=True, tag="AbsenceConfirmed.v1"):
    """An operator confirms that the missing objects are deleted on purpose, or that another identity is the right one.

    It holds for the AbsenceHeld at position `held_at` alone; `digest`, `count` and `identity` are copied from it. `by`
    names the operator as the machine knows him, `at` in seconds since 1970.
    """

    scope: str
    held_at: int
    by: str
    at: float
    identity: str = ""
    digest: str = ""
    count: int = 0
    note: str = ""


AbsenceEvent = AbsenceHeld | AbsenceReleased
ConfirmationEvent = AbsenceConfirmed
IdentityEvent = ControlPlaneIdentified
