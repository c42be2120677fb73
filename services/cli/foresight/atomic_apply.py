"""The command `fleetlog apply --atomic`: writes a change set all or none, and marks it for the detector.

The embedded control plane stores a set as one batch. A stock one has no such thing: there every object is dry-run
first, then they are written one by one, and what was written is taken back where one is refused after all.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._rules.policies.change_set_marks import CHANGE_SET, marked
from services._rules.policies.skip_rules import compile_skip_rules
from services.apiserver.settings import from_environment
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed, complain, patience
from services.cli.foresight.change_files import Given, live_objects, read_files, read_set
from services.cli.foresight.merging import Merging, merged
from services.cli.foresight.plan_options import ApplyOptions
from services.cli.objects.kind_lookup import discover
from services.detector.kind_watch import is_policy
from services.detector.objects.manifest_content import stripped
from services.foresight.difference import LAST_APPLIED

PATH: Final = "/apis/fleetlog.io/v1alpha1/changesets"
API_VERSION: Final = "fleetlog.io/v1alpha1"
MOST_OBJECTS: Final = 500
_DRY: Final = {"dryRun": "All"}
Did = Literal["created", "configured", "unchanged"]


class Member(Struct, frozen=True):
    """One object of a set: how it was given, what is written (None: nothing to do), and what stands."""

    given: Given
    wanted: Manifest | None
    live: Manifest | None

    @property
    def did(self) -> Did:
        """What the write is called."""
        if self.wanted is None:
            return "unchanged"
        return "created" if self.live is None else "configured"


async def apply(target: ControlPlaneOptions, options: ApplyOptions) -> int:
    """Apply a change set; raises Failed or ApiError for the first object that is refused, and nothing is changed."""
    if not options.atomic:
        raise Failed("this command applies all objects or none: say --atomic; for one after the other there is kubectl")
    try:
        merging = Merging(from_environment())
    except (ValueError, OSError) as error:
        raise Failed(str(error)) from None
    files = options.files
    wanted = read_files(files.filename, (), recursive=files.recursive)
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(open_control(target))
        client = control.client
        resources = await discover(client)
        change_set = read_set(wanted, resources, files.namespace or control.namespace)
        if len(change_set) > MOST_OBJECTS:
            raise Failed(f"{len(change_set)} objects in one change set, at most {MOST_OBJECTS} are allowed")
        async with patience("applying"):
            live = await live_objects(client, change_set)
            members = members_of(merging, change_set, live, secrets.token_hex(6))
            in_store = await _write(client, members, dry_run=options.dry_run)
    _report(members, in_store=in_store, dry_run=options.dry_run, output=options.output)
    return 0


def members_of(
    merging: Merging, change_set: Sequence[Given], live: Mapping[ObjectKey | PolicyKey, Manifest], set_id: str
) -> list[Member]:
    """What is written of a set: manifests laid over what stands, each with the mark of the set."""
    found: list[Member] = []
    for given in change_set:
        assert given.manifest is not None
        before = live.get(given.key)
        typed = {"apiVersion": given.resource.api_version, "kind": given.resource.kind}
        wanted = {**merged(given.manifest, before), **typed}
        noted = {**given.manifest, **typed}
        annotations = {**(wanted["metadata"].get("annotations") or {}), LAST_APPLIED: _compact(noted)}
        wanted = {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}
        # The server's defaults are no difference; what it would refuse it shall name itself.
        same = before is not None and stripped({**before, **typed}) == stripped(
            merging.stored(wanted, before, replace=True).manifest
        )
        found.append(Member(given, None if same else wanted, before))
    skip = compile_skip_rules()
    watched = [
        member.wanted is not None
        and (
            is_policy(member.given.resource)
            or not skip.skips_kind(member.given.resource.api_version, member.given.resource.kind)
        )
        for member in found
    ]
    count = sum(watched)
    # What the detector does not watch is not waited for.
    return [
        msgspec.structs.replace(member, wanted=marked(member.wanted, set_id, count))
        if member.wanted is not None and seen
        else member
        for member, seen in zip(found, watched, strict=True)
    ]


def _compact(manifest: Manifest) -> str:
    return msgspec.json.encode(manifest).decode() + "\n"


async def _write(client: KubeClient, members: Sequence[Member], *, dry_run: bool) -> bool:
    """Write a set; whether the control plane stored it as one."""
    items = [member.wanted for member in members if member.wanted is not None]
    if not items:
        return True
    body = {"apiVersion": API_VERSION, "kind": "ChangeSet", "items": items}
    try:
        await client.request("POST", PATH, params=_DRY if dry_run else None, body=msgspec.json.encode(body))
    except ApiError as error:
        if not _unknown(error):
            raise
    else:
        return True
    await _write_each(client, [member for member in members if member.wanted is not None], dry_run=dry_run)
    return False


def _unknown(error: ApiError) -> bool:
    """Whether a control plane knows no change sets: refusals of our own name the object that they are about."""
    if error.message.startswith("items["):
        return False
    return error.status == 404 or (error.status == 403 and "changesets" in error.message)


async def _write_each(client: KubeClient, members: Sequence[Member], *, dry_run: bool) -> None:
    """Dry-run every object, then write them in turn: overrides and policies first, then templates."""
    for member in members:
        await _send(client, member, dry_run=True)
    if dry_run:
        return
    ordered = sorted(members, key=lambda member: isinstance(member.given.key, ObjectKey))
    done: list[tuple[Member, Manifest]] = []
    for member in ordered:
        try:
            done.append((member, await _send(client, member, dry_run=False)))
        except (ApiError, Unreachable) as error:
            left = await _take_back(client, done)
            what = f"; {', '.join(left)} could not be taken back" if left else "; what was written was taken back"
            raise Failed(f"{member.given}: {error}{what if done else '; nothing was written'}") from None


async def _send(client: KubeClient, member: Member, *, dry_run: bool) -> Manifest:
    assert member.wanted is not None
    given, method = member.given, "POST" if member.live is None else "PUT"
    path = given.path.rpartition("/")[0] if member.live is None else given.path
    try:
        answer = await client.request(
            method, path, params=_DRY if dry_run else None, body=msgspec.json.encode(member.wanted)
        )
    except ApiError as error:
        if not dry_run:
            raise
        raise ApiError(error.status, error.reason, f"{given}: {error.message}; nothing was written") from None
    stored: Manifest = msgspec.json.decode(answer)
    return stored


async def _take_back(client: KubeClient, done: Sequence[tuple[Member, Manifest]]) -> list[str]:
    """Undo writes in the opposite order; the names of those that cannot be."""
    left: list[str] = []
    for member, stored in reversed(done):
        given, metadata = member.given, stored["metadata"]
        try:
            if member.live is None:
                await client.delete(given.path, uid=metadata["uid"])
            else:
                version = {"resourceVersion": metadata["resourceVersion"]}
                before = {**member.live, "metadata": {**member.live["metadata"], **version}}
                await client.update(given.path, before)
        except (ApiError, Unreachable) as error:
            left.append(f"{given} ({error})")
    return left


def _report(members: Sequence[Member], *, in_store: bool, dry_run: bool, output: str) -> None:
    if output:
        found: dict[str, Any] = {
            "kind": "ChangeSet",
            "apiVersion": "fleetlog/v1",
            "atomicInStore": in_store,
            "dryRun": dry_run,
            "changeSet": _set_id(members),
            "objects": [
                {
                    "kind": member.given.resource.kind,
                    "namespace": member.given.namespace,
                    "name": member.given.name,
                    "did": member.did,
                }
                for member in members
            ],
        }
        print((as_json if output == "json" else as_yaml)(found), end="")
        return
    for member in members:
        print(f"{member.given} {member.did}{' (dry run)' if dry_run else ''}")
    if not in_store and not dry_run:
        complain("not atomic in the store: this control plane took the objects one by one; they are decided as one")


def _set_id(members: Sequence[Member]) -> str:
    for member in members:
        if member.wanted is not None and CHANGE_SET in (member.wanted["metadata"].get("annotations") or {}):
            return str(member.wanted["metadata"]["annotations"][CHANGE_SET])
    return ""
