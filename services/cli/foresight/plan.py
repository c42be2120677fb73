"""The command `fleetlog plan`: what would follow from a change set, decided in memory with the services' own code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.plan import Plan, PlannedObject
from services._kit.kube.answers.listing import each_item
from services._kit.kube.client import ApiError, ApiResource, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import AsBytes
from services._kit.log.stream_port import Log
from services._rules.admission.radius_guard import guarded, refusal
from services._rules.feature_gates import feature_gates
from services._rules.policies.matching import compile_selector
from services.apiserver.settings import from_environment
from services.cli.common.control_plane import open_control
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.karmadactl_options import DEFAULT_NAMESPACE
from services.cli.common.logbook import open_log, streams
from services.cli.common.moments import moment
from services.cli.common.printing import as_yaml, render
from services.cli.common.running import Failed, complain, patience
from services.cli.foresight.change_files import Given, live_objects, read_files, read_set, resource_of, unforeseen
from services.cli.foresight.merging import Merging
from services.cli.foresight.plan_options import PlanOptions
from services.cli.foresight.plan_text import document, text
from services.cli.objects.kind_lookup import discover
from services.detector.dependencies.required_objects import Served
from services.detector.objects.manifest_content import stripped
from services.detector.policies.policy_view import PROPAGATION_KINDS
from services.detector.state import OVERRIDE_KINDS
from services.foresight.difference import plan_of
from services.foresight.planning import Change, Planner
from services.foresight.reading import Asked, read_world, settle
from services.foresight.world import Circumstances, World, circumstances_of

CHANGED: Final = 2
"""The exit code of a plan in which something would differ."""


class Surroundings(Struct):
    """What a plan is computed from: the log, the control plane (None: not asked), its kinds, the usual namespace."""

    logs: Mapping[str, Log]
    client: KubeClient | None
    resources: Sequence[ApiResource]
    namespace: str
    merging: Merging
    circumstances: Circumstances


class Planned(Struct):
    """A plan, and the objects it was made of: as they stand, and as they would be stored."""

    plan: Plan
    change_set: Sequence[Given]
    live: Mapping[ObjectKey | PolicyKey, Manifest]
    wanted: Mapping[ObjectKey | PolicyKey, Manifest]

    @property
    def refused(self) -> bool:
        """Whether the control plane would refuse one of them."""
        return any(item.problem for item in self.plan.objects)


async def plan(log: LogAndControlOptions, options: PlanOptions) -> int:
    """Print what would follow; 0 where nothing would differ, 2 where something would, 1 where an object is refused."""
    at = moment(options.at, "--at", time.time()) if options.at else None
    files = options.files
    wanted = read_files(files.filename, options.delete, recursive=files.recursive)
    async with AsyncExitStack() as stack:
        around = await surroundings(stack, log, ask=at is None)
        change_set = read_set(wanted, around.resources, files.namespace or around.namespace)
        planned = await plan_set(around, change_set, at=at, diffs=options.show != "placements", limit=options.limit)
    found = planned.plan
    render(options.output, lambda: document(found), lambda: text(found, options.show, options.limit))
    if planned.refused:
        complain("error: the control plane would refuse the change set; nothing was planned")
        return 1
    return CHANGED if found.changes else 0


async def surroundings(stack: AsyncExitStack, log: LogAndControlOptions, *, ask: bool = True) -> Surroundings:
    """Open the log and, where `ask`, the control plane; raises Failed where the log cannot be read."""
    try:
        settings = from_environment()
    except (ValueError, OSError) as error:
        raise Failed(str(error)) from None
    merging = Merging(settings)
    gates = feature_gates(settings.feature_gates)
    connection = await stack.enter_async_context(open_log(log.access))
    client, namespace = None, DEFAULT_NAMESPACE
    resources: list[ApiResource] = []
    if ask:
        try:
            control = await stack.enter_async_context(open_control(log.target))
            resources, namespace, client = await discover(control.client), control.namespace, control.client
        except (Unreachable, Failed) as error:
            complain(f"the control plane does not answer ({error}); the plan is made from the log alone")
    if client is None:
        resources = [
            ApiResource(
                one.plural, one.kind, one.namespaced, one.verbs, one.short_names, group=one.group, version=one.version
            )
            for one in (kind.resource for kind in merging.registry.all())
        ]
    kinds = {(one.group, one.kind): Served(one.name, one.namespaced) for one in resources}
    return Surroundings(streams(connection), client, resources, namespace, merging, circumstances_of(gates, kinds))


async def plan_set(
    around: Surroundings,
    change_set: Sequence[Given],
    *,
    at: float | None = None,
    diffs: bool = False,
    limit: int = 0,
    replace: bool = False,
) -> Planned:
    """What would follow from a change set, now or at a time; with `replace` manifests are whole objects.

    Raises Failed for an object that is not there.
    """
    asked = Asked()
    try:
        async with patience("reading the log"):
            world = await read_world(around.logs, asked, at, around.circumstances)
        async with patience("reading the control plane"):
            live = await _live(around, change_set, world)
            if around.client is not None:
                asked.asking.interpreters.reach_services(around.client)
                await _offer(around, change_set, live, world)
        objects, changes, wanted = _changes(around.merging, change_set, live, replace=replace)
        planner = Planner(
            world,
            time.time() if at is None else at,
            interpreter=asked.asking.interpreter,
            manifests=diffs or any(_renders(change) for change in changes),
        )
        for given in change_set:
            if why := unforeseen(given):
                planner.notes.setdefault(why)
        if not any(item.problem for item in objects):
            planner.apply(change for change in changes if _covered(change))

            async def stored(key: ObjectKey) -> bytes | None:
                return await _stored(around, key)

            async with patience("deciding"):
                await settle(planner, around.logs, asked, stored)
        found = plan_of(planner, objects, as_yaml if diffs else None, limit)
    finally:
        await asked.close()
    return Planned(_with_guards(found, change_set, live, wanted), change_set, live, wanted)


def _renders(change: Change) -> bool:
    """Whether copies may differ although nothing moves."""
    return isinstance(change.key, ObjectKey) or change.key.kind in OVERRIDE_KINDS


def _covered(change: Change) -> bool:
    return isinstance(change.key, PolicyKey) or not change.key.group.endswith("karmada.io")


async def _live(
    around: Surroundings, change_set: Sequence[Given], world: World
) -> dict[ObjectKey | PolicyKey, Manifest]:
    """The objects of the change set as they stand: in the control plane, or on the log."""
    if around.client is not None:
        live = await live_objects(around.client, change_set)
        return {key: {**manifest, **_named(change_set, key)} for key, manifest in live.items()}
    state = world.detector
    found: dict[ObjectKey | PolicyKey, Manifest] = {}
    for given in change_set:
        key = given.key
        if isinstance(key, PolicyKey):
            if key in state.policies:
                found[key] = state.policies[key].manifest
        elif key in world.withheld:
            raise Failed(f"{given}: its manifest is not on the log in full; the control plane has to be asked")
        elif key in state.templates:
            found[key] = state.templates[key]
    return found


def _named(change_set: Sequence[Given], key: ObjectKey | PolicyKey) -> Manifest:
    one = next(given.resource for given in change_set if given.key == key)
    return {"apiVersion": one.api_version, "kind": one.kind}


async def _offer(
    around: Surroundings,
    change_set: Sequence[Given],
    live: Mapping[ObjectKey | PolicyKey, Manifest],
    world: World,
) -> None:
    """Show the world the objects that a policy of the change set may claim and that no policy has claimed yet."""
    assert around.client is not None
    wanted: dict[tuple[ApiResource, str], None] = {}
    overrides = {given.name for given in change_set if given.resource.kind in OVERRIDE_KINDS}
    policies = [given.manifest for given in change_set if given.resource.kind in PROPAGATION_KINDS and given.manifest]
    policies += [
        view.manifest
        for view in world.detector.policies.values()
        if overrides.intersection(view.spec.get("dependentOverrides") or ())
    ]
    for manifest in policies:
        spec = manifest.get("spec")
        for each in (spec.get("resourceSelectors") or ()) if isinstance(spec, dict) else ():
            selector = compile_selector(each) if isinstance(each, dict) else None
            resource = resource_of(around.resources, selector.api_version, selector.kind) if selector else None
            if selector is not None and resource is not None:
                space = str(manifest["metadata"].get("namespace") or "") or selector.namespace
                wanted[resource, space if resource.namespaced else ""] = None
    reading = AsBytes()
    for resource, space in wanted:

        def take(raw: msgspec.Raw, one: ApiResource = resource) -> None:
            kept = reading.read(raw, one.api_version, one.kind)
            if kept is not None:
                key = ObjectKey(one.group, one.name, kept.namespace, kept.name)
                if key not in live:
                    world.offer(key, kept.data)

        await each_item(around.client, resource_path(resource.group, resource.version, resource.name, space), take)


def _changes(
    merging: Merging,
    change_set: Sequence[Given],
    live: Mapping[ObjectKey | PolicyKey, Manifest],
    *,
    replace: bool = False,
) -> tuple[list[PlannedObject], list[Change], dict[ObjectKey | PolicyKey, Manifest]]:
    objects: list[PlannedObject] = []
    changes: list[Change] = []
    wanted: dict[ObjectKey | PolicyKey, Manifest] = {}
    # Policies first, so that a template of the set finds them.
    for given in sorted(change_set, key=lambda each: isinstance(each.key, ObjectKey)):
        before = live.get(given.key)
        kind, space, name = given.resource.kind, given.namespace, given.name
        if given.manifest is None:
            if before is None:
                raise Failed(f"{given} does not exist, so it cannot be deleted")
            objects.append(PlannedObject(kind, space, name, "deleted"))
            changes.append(Change(given.key, None))
            continue
        stored = merging.stored(given.manifest, before, replace=replace)
        if stored.problem:
            change: Any = "created" if before is None else "changed"
            objects.append(PlannedObject(kind, space, name, change, given.file, problem=stored.problem))
            continue
        wanted[given.key] = stored.manifest
        if before is not None and stripped(before) == stripped(stored.manifest):
            objects.append(PlannedObject(kind, space, name, "unchanged", given.file))
            continue
        objects.append(PlannedObject(kind, space, name, "created" if before is None else "changed", given.file))
        changes.append(Change(given.key, stored.manifest))
    return objects, changes, wanted


async def _stored(around: Surroundings, key: ObjectKey) -> bytes | None:
    """An object as the control plane holds it: a Secret, which is never printed, or what another object requires."""
    served = next((one for one in around.resources if (one.group, one.name) == (key.group, key.resource)), None)
    if around.client is None or served is None:
        return None
    try:
        manifest = await around.client.get(
            resource_path(served.group, served.version, served.name, key.namespace, key.name)
        )
    except ApiError:
        return None
    return msgspec.json.encode(stripped({**manifest, "apiVersion": served.api_version, "kind": served.kind}))


def _with_guards(
    found: Plan,
    change_set: Sequence[Given],
    live: Mapping[ObjectKey | PolicyKey, Manifest],
    wanted: Mapping[ObjectKey | PolicyKey, Manifest],
) -> Plan:
    """The plan with what the guards of its policies would say."""
    said: dict[tuple[str, str, str], str] = {}
    for given in change_set:
        before, after = live.get(given.key), wanted.get(given.key)
        if not isinstance(given.key, PolicyKey) or before is None or (given.manifest is not None and after is None):
            continue
        if guarded(before, after):
            radius = found.radius
            said[given.resource.kind, given.namespace, given.name] = refusal(
                before, after, radius.disturbed, radius.claimed
            )
    objects = tuple(
        msgspec.structs.replace(item, guard=said.get((item.kind, item.namespace, item.name), ""))
        for item in found.objects
    )
    return msgspec.structs.replace(found, objects=objects)
