"""What a Deployment needs beside it follows it: to the same clusters, when it moves, and when it goes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import until, until_equal
from tests.e2e.space import Space, clusters
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("workloads")

ATTACHED = "settings-configmap"


def reading(space: Space, name: str = "web") -> Manifest:
    """A Deployment that mounts the settings and signs in with a Secret."""
    web = space.load("web.yaml")
    web["metadata"]["name"] = name
    for part in (web["spec"]["selector"]["matchLabels"], web["spec"]["template"]["metadata"]["labels"]):
        part["app"] = name
    pod = web["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "settings", "configMap": {"name": "settings"}}]
    pod["imagePullSecrets"] = [{"name": "key"}]
    return web


def binding(space: Space, name: str = ATTACHED) -> dict[str, Any]:
    return space.control.get("resourcebinding", name, space.name) or {}


def owners(space: Space) -> dict[str, list[str]]:
    """Who requires the settings, and where those run."""
    found = (binding(space).get("spec") or {}).get("requiredBy") or []
    return {item["name"]: [cluster["name"] for cluster in item.get("clusters") or ()] for item in found}


def reasons(space: Space, name: str) -> set[str]:
    return {reason for _, reason, _ in space.events(name)}


@pytest.mark.main_path
def test_dependencies_follow_their_deployment(space: Space) -> None:
    settings, key = space.load("settings.yaml"), space.load("key.yaml")
    web = space.apply(reading(space))
    space.policy(web, clusters("member1", "member2"), propagateDeps=True)
    space.until_in("deployment", "web", ("member1", "member2"))
    # They come after what needs them.
    for manifest in (settings, key):
        space.apply(manifest)
    for kind, name in (("configmap", settings["metadata"]["name"]), ("secret", key["metadata"]["name"])):
        space.until_in(kind, name, ("member1", "member2"))
    until_equal("owners", lambda: owners(space), {"web-deployment": ["member1", "member2"]})
    assert "placement" not in binding(space)["spec"]
    annotations = binding(space, "web-deployment")["metadata"]["annotations"]
    assert '"kind":"ConfigMap"' in annotations["resourcebinding.karmada.io/dependencies"]
    until("Events on the template", lambda: "GetDependenciesSucceed" in reasons(space, "web"))
    until(
        "Events on the binding",
        lambda: "SyncScheduleResultToDependenciesSucceed" in reasons(space, "web-deployment"),
    )
    settings["data"] = {**settings["data"], "added": "later"}
    space.apply(settings)
    space.until_field("member2", "configmap", "settings", "data.added", "later")
    space.policy(web, clusters("member3"), propagateDeps=True)
    for kind, name in (("deployment", "web"), ("configmap", "settings"), ("secret", key["metadata"]["name"])):
        space.until_in(kind, name, ("member3",))
    space.control.delete("deployment", "web", space.name)
    for kind, name in (("deployment", "web"), ("configmap", "settings"), ("secret", key["metadata"]["name"])):
        space.until_in(kind, name, ())
    # The binding stays until its object goes.
    until_equal("owners", lambda: owners(space), {})
    assert binding(space)["spec"]["conflictResolution"] == "Abort"
    told = run_command(
        "fleetlog", "explain", "configmap", "settings", "-n", space.name, "--dir", str(space.fleet.layout.directory)
    )
    assert told.returncode == 0, told.stderr
    assert "Required before by deployments.apps/" in told.stdout


def test_owners_that_disagree_about_a_shared_object(space: Space) -> None:
    for name in ("settings.yaml", "key.yaml"):
        space.apply(space.load(name))
    web, api = space.apply(reading(space)), space.apply(reading(space, "api"))
    space.policy(web, clusters("member1"), propagateDeps=True, conflictResolution="Overwrite")
    space.policy(api, clusters("member2"), propagateDeps=True, preserveResourcesOnDeletion=True)
    space.until_in("configmap", "settings", ("member1", "member2"))

    def merged() -> tuple[object, object]:
        spec = binding(space).get("spec") or {}
        return spec.get("conflictResolution"), spec.get("preserveResourcesOnDeletion")

    until_equal("merged", merged, ("Overwrite", True))
    until("a warning", lambda: "DependencyPolicyConflict" in reasons(space, ATTACHED))
    until_equal("owners", lambda: owners(space), {"api-deployment": ["member2"], "web-deployment": ["member1"]})
    space.policy(web, clusters("member1"), propagateDeps=True, conflictResolution="Abort")
    space.policy(api, clusters("member2"), propagateDeps=True, preserveResourcesOnDeletion=False)
    until_equal("merged", merged, ("Abort", False))
    space.control.delete("deployment", "api", space.name)
    space.until_in("configmap", "settings", ("member1",))
