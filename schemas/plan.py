"""What would follow from a change set: bindings, placements and copies before and after, and the blast radius."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Change = Literal["created", "changed", "deleted", "unchanged"]


class PlannedObject(Struct, frozen=True, omit_defaults=True):
    """One object of the change set, as `kind`, `namespace` (empty for cluster-scoped ones) and `name`.

    `file` is where it was read from. `problem` says why the control plane would refuse it, `guard` what the guard of a
    policy asks for. The change of a refused object is not part of the plan.
    """

    kind: str
    namespace: str
    name: str
    change: Change
    file: str = ""
    problem: str = ""
    guard: str = ""


class PlannedBinding(Struct, frozen=True, omit_defaults=True):
    """A binding that would be requested, changed, released, or left without a policy (`orphaned`).

    `before` and `after` name the policy that claims the object, as `Kind/namespace/name`; empty for none.
    """

    object: str
    change: Literal["created", "changed", "released", "orphaned"]
    before: str = ""
    after: str = ""


class PlannedPlacement(Struct, frozen=True, omit_defaults=True):
    """Clusters of an object before and after, with replicas (None: they are not counted there).

    `why` is the scheduler's reason to decide, `failure` what it would report where no cluster fits.
    """

    object: str
    before: dict[str, int | None] = {}
    after: dict[str, int | None] = {}
    why: str = ""
    failure: str = ""


class PlannedManifest(Struct, frozen=True, omit_defaults=True):
    """The copy of an object in one cluster: created, changed, removed there, or left there without a work (`kept`).

    `diff` is a unified diff, where it was asked for; never of a Secret (`withheld`). `problem` says why the copy cannot
    be rendered.
    """

    object: str
    cluster: str
    change: Literal["created", "changed", "removed", "kept"]
    diff: str = ""
    problem: str = ""
    withheld: bool = False


class BlastRadius(Struct, frozen=True, omit_defaults=True):
    """How far a change set reaches.

    `workloads` are objects whose clusters, replicas or copies would differ, `clusters` those that notice. Replicas move
    from one cluster to another, start, or stop. `copies` are manifests that would be created, changed or removed.
    `disturbed` are the objects that are placed now and would move, change or go, or be left without a policy: what a
    guard counts; `orphaned` those of them that only lose their policy. `claimed` are the objects that the policies of
    the change set claim now.
    """

    workloads: int = 0
    clusters: int = 0
    moved: int = 0
    started: int = 0
    stopped: int = 0
    copies: int = 0
    disturbed: int = 0
    orphaned: int = 0
    claimed: int = 0


class Plan(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that would follow, in the order of keys. `position` is that of the last fact it was computed from.

    `at` is the time it is computed for, in seconds since 1970. `notes` say what could not be foreseen.
    """

    position: int
    at: float
    radius: BlastRadius = BlastRadius()
    objects: tuple[PlannedObject, ...] = ()
    bindings: tuple[PlannedBinding, ...] = ()
    placements: tuple[PlannedPlacement, ...] = ()
    manifests: tuple[PlannedManifest, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything would differ."""
        differs = any(item.change != "unchanged" and not item.problem for item in self.objects)
        return differs or bool(self.bindings or self.placements or self.manifests)
