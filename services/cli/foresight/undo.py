"""The command `fleetlog undo`: brings back an earlier version of a policy or template, after showing what follows."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient
from services._rules.admission.radius_guard import CONFIRM_RADIUS
from services._rules.secrets.secret_objects import is_secret_resource
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import table
from services.cli.common.running import Failed, complain, patience
from services.cli.foresight.change_files import Given, live_objects
from services.cli.foresight.earlier_versions import Version, chosen, content, manifest_of, restored, versions_of
from services.cli.foresight.plan import Surroundings, plan_set, surroundings
from services.cli.foresight.plan_options import UndoOptions
from services.cli.foresight.plan_text import text
from services.cli.objects.kind_lookup import find, one_object
from services.detector.objects.manifest_content import stripped

_CONFLICT: Final = 409
_TRIES: Final = 5


async def undo(log: LogAndControlOptions, options: UndoOptions) -> int:
    """Restore an earlier version; 1 when its author declines. Raises Failed where there is none, or on a conflict."""
    if options.to and not options.to.isdecimal():
        moment(options.to, "--to", time.time())
    kind, name = one_object(options.words)
    async with AsyncExitStack() as stack:
        around = await surroundings(stack, log)
        if around.client is None:
            raise Failed("undo writes to the control plane, which does not answer")
        resource = find(around.resources, kind)
        space = (options.namespace or around.namespace) if resource.namespaced else ""
        given = Given("", resource, space, name, None)
        if is_secret_resource(resource.group, resource.name):
            raise Failed("the log keeps Secrets encrypted, and this command does not read them")
        async with patience("reading the log"):
            versions = await versions_of(around.logs, given.key)
        if not any(version.event for version in versions):
            raise Failed(f"the log holds no version of {given}; templates are recorded once a policy claims them")
        if options.list_versions:
            print(_listed(versions), end="")
            return 0
        live = (await live_objects(around.client, [given])).get(given.key)
        version, manifest = await _earlier(around, versions, live, options.to, given)
        wanted = restored(manifest, live, given.key)
        if options.confirm_radius:
            wanted["metadata"]["annotations"][CONFIRM_RADIUS] = options.confirm_radius
        return await _restore(around, around.client, given, live, version, wanted, yes=options.yes)


def _listed(versions: Sequence[Version]) -> str:
    rows = [
        (f"#{version.position}", stamp(version.time), "written" if version.event else "deleted", version.generation)
        for version in versions
    ]
    return table(("position", "time", "event", "generation"), rows)


async def _earlier(
    around: Surroundings, versions: Sequence[Version], live: Manifest | None, to: str, given: Given
) -> tuple[Version, Manifest]:
    """The version to restore: the one that was asked for, else the latest that differs from what stands."""
    if to:
        version = chosen(versions, to, time.time(), str(given))
        return version, await manifest_of(around.logs, version)
    for version in reversed(versions):
        if version.event is None:
            continue
        manifest = await manifest_of(around.logs, version)
        if live is None or content(manifest) != content(_typed(live, given)):
            return version, manifest
    raise Failed(f"the log holds no version of {given} that differs from the present one")


def _typed(live: Manifest, given: Given) -> Manifest:
    return {**live, "apiVersion": given.resource.api_version, "kind": given.resource.kind}


async def _restore(
    around: Surroundings,
    client: KubeClient,
    given: Given,
    live: Manifest | None,
    version: Version,
    wanted: Manifest,
    *,
    yes: bool,
) -> int:
    if live is not None and stripped(_typed(live, given)) == stripped(wanted):
        complain(f"{given} is as it was at #{version.position} already; nothing was changed")
        return 0
    one = Given("", given.resource, given.namespace, given.name, wanted)
    planned = await plan_set(around, [one], replace=True)
    print(text(planned.plan, limit=20), end="")
    if planned.refused:
        raise Failed("the control plane would refuse that version; nothing was changed")
    what = f"{given} as of {stamp(version.time)} (#{version.position})"
    if not yes and not _agreed(f"Restore {what}? [y/N] "):
        complain("nothing was changed")
        return 1
    await write(client, one, live)
    complain(f"{what} restored")
    return 0


def _agreed(question: str) -> bool:
    """Whether the person at the terminal agrees; raises Failed where there is none."""
    if not sys.stdin.isatty():
        raise Failed("no terminal to ask at; look at the plan, and say --yes")
    return input(question).strip().lower() in ("y", "yes")


async def write(client: KubeClient, given: Given, live: Manifest | None) -> None:
    """Write an object over the one that was seen, or as a new one; raises Failed where it changed meanwhile.

    Its resourceVersion is that of the object seen: a write in between is a conflict. One that left alone what people
    write, as of a status or a claim, is no reason to give up.
    """
    wanted = given.manifest
    assert wanted is not None
    for attempt in range(_TRIES):
        try:
            if live is None:
                await client.create(given.path.rpartition("/")[0], wanted)
            else:
                await client.update(given.path, wanted)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
        else:
            return
        present = await client.get(given.path) if live is not None and attempt < _TRIES - 1 else None
        if live is None or present is None or stripped(_typed(present, given)) != stripped(_typed(live, given)):
            break
        version = present["metadata"]["resourceVersion"]
        wanted = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    raise Failed(f"{given} was changed by another writer meanwhile; look again with the same command")
