"""The commands `karmadactl taint`, `cordon` and `uncordon` (docs/sources.md#commands)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient
from services._rules.constants import TAINT_CLUSTER_UNSCHEDULABLE
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.moments import present
from services.cli.common.running import Failed
from services.cli.members.clusters import CLUSTERS, cluster

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
ATTEMPTS: Final = 5
_KEY: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Taint(Struct, frozen=True):
    """A taint; for removals an empty effect means every effect."""

    key: str
    effect: str = ""
    value: str = ""


class Changes(Struct, frozen=True):
    """Taints to set and taints to remove."""

    add: tuple[Taint, ...] = ()
    remove: tuple[Taint, ...] = ()

    @property
    def verb(self) -> str:
        """What to call the change."""
        if self.add and self.remove:
            return "modified"
        return "tainted" if self.add else "untainted"


def parse(specs: Sequence[str]) -> Changes:
    """Taints of `key=value:Effect`, `key:Effect`, `key:Effect-` and `key-`; raises Failed for anything else."""
    add: list[Taint] = []
    remove: list[Taint] = []
    for spec in specs:
        target = remove if spec.endswith("-") else add
        body = spec.removesuffix("-")
        pair, _, effect = body.partition(":")
        key, equals, value = pair.partition("=")
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise Failed(f"taint {spec!r}: use KEY=VALUE:EFFECT to set and KEY:EFFECT- or KEY- to remove")
        if target is add and not effect:
            raise Failed(f"taint {spec!r} has no effect; use {key}{equals}{value}:EFFECT with one of {_effects()}")
        if effect and effect not in EFFECTS:
            raise Failed(f"taint {spec!r} has the effect {effect!r}; use one of {_effects()}")
        taint = Taint(key, effect, value if target is add else "")
        if any((other.key, other.effect) == (key, effect) for other in target):
            raise Failed(f"taint {key}:{effect} is given twice")
        target.append(taint)
    for taint in add:
        if any(other.key == taint.key and other.effect in ("", taint.effect) for other in remove):
            raise Failed(f"taint {taint.key}:{taint.effect} is both set and removed")
    return Changes(tuple(add), tuple(remove))


def _effects() -> str:
    return ", ".join(EFFECTS)


def changed(present: Sequence[Manifest], changes: Changes, *, overwrite: bool, now: str) -> tuple[list[Manifest], str]:
    """The taints after the changes, and what to call that; `now` is the time of new NoExecute taints.

    Raises Failed for a taint to remove that is not there, and for another value without `overwrite`.
    """
    taints = list(present)
    verb = changes.verb
    for removal in changes.remove:
        kept = [item for item in taints if not _matches(item, removal)]
        if len(kept) == len(taints):
            raise Failed(f"taint {removal.key}{':' if removal.effect else ''}{removal.effect} not found")
        taints = kept
    for taint in changes.add:
        same = next((item for item in taints if _matches(item, taint)), None)
        if same is not None:
            if (same.get("value") or "") == taint.value:
                continue
            if not overwrite:
                raise Failed(
                    f"taint {taint.key}:{taint.effect} is there with the value {same.get('value') or ''!r}; "
                    "replace it with --overwrite"
                )
            taints.remove(same)
            verb = "modified"
        new: Manifest = {"key": taint.key, "effect": taint.effect}
        if taint.value:
            new["value"] = taint.value
        if taint.effect == "NoExecute":
            # Tolerations with seconds count from here.
            new["timeAdded"] = now
        taints.append(new)
    return taints, verb


def _matches(item: Manifest, taint: Taint) -> bool:
    return item.get("key") == taint.key and taint.effect in ("", item.get("effect"))


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cluster names and taints of the arguments; raises Failed where one of them is missing."""
    if not words or words[0] not in ("cluster", "clusters"):
        raise Failed("say `taint clusters NAME… KEY=VALUE:EFFECT…`; only clusters can be tainted here")
    names = [word for word in words[1:] if not _is_taint(word)]
    specs = [word for word in words[1:] if _is_taint(word)]
    if not names:
        raise Failed("name at least one cluster")
    if not specs:
        raise Failed("give at least one taint: KEY=VALUE:EFFECT, or KEY:EFFECT- to remove one")
    return names, specs


def _is_taint(word: str) -> bool:
    return ":" in word or "=" in word or word.endswith("-")


async def taint_clusters(
    target: ControlPlaneOptions, words: Sequence[str], *, overwrite: bool = False, dry_run: bool = False
) -> int:
    """Change the taints of clusters, saying what was done to each; raises Failed for the first that refuses."""
    names, specs = split_words(words)
    changes = parse(specs)

    async with open_control(target) as control:
        for name in names:

            def change(item: Manifest) -> tuple[list[Manifest], str]:
                return changed(_taints(item), changes, overwrite=overwrite, now=present())

            verb = await _write(control.client, name, change, dry_run=dry_run)
            print(f"cluster/{name} {verb}{' (dry run)' if dry_run else ''}")
    return 0


async def set_schedulable(target: ControlPlaneOptions, name: str, *, schedulable: bool, dry_run: bool = False) -> int:
    """Set or remove the taint that keeps new work away; says whether there was anything to do."""
    word = "uncordoned" if schedulable else "cordoned"
    taint = Taint(TAINT_CLUSTER_UNSCHEDULABLE, "NoSchedule")

    def change(item: Manifest) -> tuple[list[Manifest], str]:
        present = _taints(item)
        kept = [other for other in present if not _matches(other, taint)]
        if schedulable:
            return kept, word if len(kept) < len(present) else f"already {word}"
        if len(kept) < len(present):
            return list(present), f"already {word}"
        return [*present, {"key": taint.key, "effect": taint.effect}], word

    async with open_control(target) as control:
        verb = await _write(control.client, name, change, dry_run=dry_run)
    print(f"{name} cluster {verb}{' (dry run)' if dry_run else ''}")
    return 0


def _taints(item: Manifest) -> list[Manifest]:
    return item["spec"].get("taints") or []


async def _write(
    client: KubeClient,
    name: str,
    change: Callable[[Manifest], tuple[list[Manifest], str]],
    *,
    dry_run: bool,
) -> str:
    """Read, change and write the taints of a cluster, again after a conflict with another writer."""
    for attempt in range(ATTEMPTS):
        item = await cluster(client, name)
        taints, verb = change(item)
        if dry_run or taints == _taints(item):
            return verb
        version = item["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
        try:
            await client.patch(f"{CLUSTERS}/{name}", patch)
            return verb
        except ApiError as error:
            if error.status != 409 or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")
