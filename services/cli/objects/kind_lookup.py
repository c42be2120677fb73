"""Finds the kind that a word means: plural, singular, short name or Kind, with or without group, by discovery."""

from __future__ import annotations

from collections.abc import Sequence

from services._kit.kube.answers.discovery_answers import discover_preferred_first
from services._kit.kube.client import ApiResource, KubeClient
from services.cli.common.running import Failed


async def discover(client: KubeClient) -> list[ApiResource]:
    """Every kind an endpoint serves, in the order of its groups, preferred versions before others.

    A group whose server does not answer is left out.
    """
    return await discover_preferred_first(client.request, client.limits)


def find(resources: Sequence[ApiResource], word: str) -> ApiResource:
    """The kind of `deploy`, `Deployment`, `deployments.apps` or `deployments.v1.apps`; raises Failed if none is."""
    name, _, rest = word.lower().partition(".")
    for resource in resources:
        names = (resource.name, resource.kind.lower(), *resource.short_names)
        if name in names and _in_group(resource, rest) and "list" in resource.verbs:
            return resource
    raise Failed(f"the server doesn't have a resource type {word!r}; see `kubectl api-resources`")


def in_category(resources: Sequence[ApiResource], word: str) -> list[ApiResource]:
    """The kinds of a category such as `all`, each in its preferred version; none where it is no category."""
    found: dict[tuple[str, str], ApiResource] = {}
    for resource in resources:
        if word.lower() in resource.categories and "list" in resource.verbs:
            found.setdefault((resource.group, resource.name), resource)
    return list(found.values())


def kind_of(resources: Sequence[ApiResource], api_version: str, kind: str) -> ApiResource:
    """How a kind of a manifest is served; raises Failed where it is not."""
    for resource in resources:
        if (resource.api_version, resource.kind) == (api_version, kind):
            return resource
    raise Failed(f"the control plane serves no {kind} of {api_version}; install its definition there first")


def _in_group(resource: ApiResource, rest: str) -> bool:
    if not rest or resource.group == rest or resource.group.startswith(f"{rest}."):
        return True
    version, _, group = rest.partition(".")
    return version == resource.version and group == resource.group


def split_target(words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Kinds with their names: of `deploy`, `deploy,svc`, `deploy nginx`, `deploy/nginx svc/web`.

    Raises Failed for mixtures and for nothing at all.
    """
    if not words:
        raise Failed("say which kind: for example `deployments`, `pods` or `deploy/nginx`")
    if any("/" in word for word in words):
        named: dict[str, tuple[str, ...]] = {}
        for word in words:
            kind, _, name = word.partition("/")
            if not kind or not name or "/" in name:
                raise Failed("with KIND/NAME every argument has that form: for example `deploy/nginx svc/nginx`")
            named[kind] = (*named.get(kind, ()), name)
        return list(named.items())
    kinds = [kind for kind in words[0].split(",") if kind]
    if not kinds:
        raise Failed("say which kind: for example `deployments`")
    if len(kinds) > 1 and len(words) > 1:
        raise Failed("names can only be given with one kind")
    return [(kind, tuple(words[1:])) for kind in kinds]


def one_object(words: Sequence[str]) -> tuple[str, str]:
    """Kind and name of `deploy nginx` or `deploy/nginx`; raises Failed for anything else."""
    pairs = split_target(words)
    if len(pairs) != 1 or len(pairs[0][1]) != 1:
        raise Failed("name one object: `deployment nginx` or `deployment/nginx`")
    kind, names = pairs[0]
    return kind, names[0]
