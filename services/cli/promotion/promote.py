"""The command `karmadactl promote`: an object of a member becomes a template, with what it needs, and is taken over.

Source: docs/sources.md#commands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, ApiResource, KubeClient, Unreachable, resource_path
from services._rules.constants import POLICY_API
from services._rules.interpreter import InterpretError
from services.cli.common.control_plane import client_of, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions, MemberFile
from services.cli.common.printing import as_json, as_yaml, check_output
from services.cli.common.running import Failed, complain, patience
from services.cli.members.clusters import ProxiedClient, cluster, door_to_members
from services.cli.objects.kind_lookup import discover, find, kind_of, one_object
from services.cli.promotion.dependency_levels import open_levels
from services.cli.promotion.object_policies import promotion_policy
from services.cli.promotion.promotion_options import PromoteOptions
from services.cli.promotion.template_of import claims_of_delivery, template_of


class Place(Struct, frozen=True):
    """Where an object is, in the member as in the control plane."""

    resource: ApiResource
    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """The path of the objects beside it."""
        one = self.resource
        return resource_path(one.group, one.version, one.name, self.namespace if one.namespaced else "")

    @property
    def path(self) -> str:
        """Its path."""
        return f"{self.collection}/{self.name}"

    @property
    def text(self) -> str:
        """`Deployment web/nginx`, for messages."""
        return f"{self.resource.kind} {self.owner}"

    @property
    def owner(self) -> str:
        """`web/nginx`, or the name alone of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.resource.namespaced else self.name


class Promotion:
    """Templates that one run makes of objects of a member, and takes back where it cannot go on."""

    def __init__(self, control: KubeClient, member: KubeClient, name: str, served: Sequence[ApiResource]) -> None:
        self.control = control
        self._member = member
        self._name = name
        self._served = served
        self._made: list[tuple[Place, Manifest]] = []

    async def read(self, place: Place) -> Manifest:
        """The object in the member, with its kind; raises Failed where it is not there."""
        try:
            found = await self._member.get(place.path)
        except ApiError as error:
            if error.status != 404:
                raise
            raise Failed(f"{place.text} is not in cluster {self._name}") from None
        return {**found, "apiVersion": place.resource.api_version, "kind": place.resource.kind}

    async def exists(self, place: Place) -> bool:
        """Whether the control plane has it already."""
        try:
            await self.control.get(place.path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def promote_dependencies(self, needed: Sequence[Manifest], namespace: str) -> None:
        """Make templates of what an object needs; raises what went wrong, and then nothing of them is left.

        One that the control plane has already ends it, too: that is said, and is no error.
        """
        for reference in needed:
            try:
                met = await self._promote_all(await self._places(reference, namespace))
            except (ApiError, Unreachable, Failed):
                await self._revert()
                raise
            if met is not None:
                await self._revert()
                complain(f"{met.text} is in the control plane already: dependencies are left as they are")
                return

    async def _promote_all(self, places: Sequence[Place]) -> Place | None:
        """The place that was taken already, at which it ended."""
        for place in places:
            found = await self.read(place)
            if await self.exists(place):
                return place
            await self.control.create(place.collection, template_of(found))
            self._made.append((place, found))
            print(f"Dependency ({place.text}) is created successfully")
        return None

    async def _places(self, reference: Manifest, namespace: str) -> list[Place]:
        """Where the objects are that a reference means; raises Failed for a kind that is not served."""
        resource = kind_of(self._served, str(reference.get("apiVersion")), str(reference.get("kind")))
        if reference.get("name"):
            return [Place(resource, namespace, str(reference["name"]))]
        selector = ",".join(f"{key}={value}" for key, value in _labels(reference).items())
        if not selector:
            raise Failed(f"a dependency of kind {resource.kind} has neither name nor labels; mend its interpreter")
        collection = Place(resource, namespace, "").collection
        listed = await self._member.get(f"{collection}?labelSelector={quote(selector)}")
        return [Place(resource, namespace, str(item["metadata"]["name"])) for item in listed.get("items") or ()]

    async def _revert(self) -> None:
        """Take back what was made: the member's objects stay, and belong to no work any more."""
        while self._made:
            place, found = self._made.pop()
            claims = claims_of_delivery(found)
            if claims:
                await self._member.patch(place.path, {"metadata": {"labels": dict.fromkeys(claims)}})
            try:
                await self.control.delete(place.path)
            except ApiError as error:
                if error.status != 404:
                    raise
            complain(f"{place.text} is taken back from the control plane")


def _labels(reference: Manifest) -> dict[str, str]:
    return dict((reference.get("labelSelector") or {}).get("matchLabels") or {})


async def promote(target: ControlPlaneOptions, options: PromoteOptions) -> int:
    """Promote an object; raises Failed, ApiError and InterpretError."""
    check_output(options.output, ("json", "yaml"))
    if not options.cluster:
        raise Failed("say which member runs it: -C NAME; `karmadactl get clusters` lists them")
    word, name = one_object(options.words)
    async with (
        patience(f"promoting {name}"),
        open_control(target) as control,
        _open_member(control.client, options) as member,
    ):
        served = await discover(control.client)
        try:
            resource = find(served, word)
        except Failed:
            raise Failed(
                f"the control plane serves no {word!r}; install its definition there first, or name its version and "
                "group, as in deployment.v1.apps"
            ) from None
        place = Place(resource, options.namespace or control.namespace, name)
        return await _run(Promotion(control.client, member, options.cluster, served), place, options)


async def _run(promotion: Promotion, place: Place, options: PromoteOptions) -> int:
    found = await promotion.read(place)
    if options.dependencies and not options.dry_run and not options.output:
        await _dependencies(promotion, place, found)
    template = template_of(found)
    policy = promotion_policy(template, options.cluster, name=options.policy_name, dependencies=options.dependencies)
    if options.output:
        documents = [template, policy] if options.auto_policy else [template]
        write, between = (as_json, "") if options.output == "json" else (as_yaml, "---\n")
        print(between.join(map(write, documents)), end="")
        return 0
    if await promotion.exists(place):
        complain(
            f"{place.text} is in the control plane already; nothing was changed: edit its policy to reach "
            f"cluster {options.cluster}, too"
        )
        return 0
    if options.dry_run:
        print(f"{place.text} would be promoted (dry run)")
        return 0
    await promotion.control.create(place.collection, template)
    print(f"ResourceTemplate ({place.owner}) is created successfully")
    if options.auto_policy:
        await _create_policy(promotion.control, policy)
    group_version = place.resource.api_version
    print(
        f'Resource "{group_version if "/" in group_version else f"/{group_version}"}, '
        f'Resource={place.resource.name}"({place.owner}) is promoted successfully'
    )
    return 0


async def _dependencies(promotion: Promotion, place: Place, found: Manifest) -> None:
    async with open_levels(promotion.control) as levels:
        try:
            answer = await levels.dependencies_of(found)
        except InterpretError as error:
            raise Failed(f"what {place.text} needs cannot be found out: {error}") from None
    if answer is None:
        complain(f"warning: no interpreter knows what a {place.resource.kind} needs; it is promoted alone")
        return
    level, needed = answer
    print(f"Dependencies are found by the {level}")
    await promotion.promote_dependencies(needed, place.namespace)


async def _create_policy(control: KubeClient, policy: Manifest) -> None:
    metadata = policy["metadata"]
    group, _, version = POLICY_API.partition("/")
    plural = "propagationpolicies" if "namespace" in metadata else "clusterpropagationpolicies"
    owner = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
    try:
        await control.create(resource_path(group, version, plural, metadata.get("namespace", "")), policy)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        raise Failed(
            f"{policy['kind']} {owner} exists already; the template was created: give the policy another name with "
            "--policy-name, or edit the one that is there"
        ) from None
    print(f"{policy['kind']} ({owner}) is created successfully")


@asynccontextmanager
async def _open_member(control: KubeClient, options: PromoteOptions) -> AsyncIterator[KubeClient]:
    """A client of the member: behind the control plane's proxy, or with a kubeconfig of its own."""
    await cluster(control, options.cluster)
    file = options.file
    if not file.path:
        yield ProxiedClient(control, options.cluster, await door_to_members(control))
        return
    kubeconfig = read_kubeconfig(Path(file.path))
    member = await client_of(Path(file.path), kubeconfig, _chosen(kubeconfig, file, options.cluster))
    try:
        yield member
    finally:
        await member.close()


def _chosen(kubeconfig: Manifest, file: MemberFile, name: str) -> str:
    """The context: as asked, the one with the cluster's name, or the current one."""
    contexts = [entry.get("name") for entry in kubeconfig.get("contexts") or ()]
    return file.context or (name if name in contexts else "")
