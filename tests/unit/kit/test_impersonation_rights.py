"""Who joined a member may have left the impersonator without rights: they are made, beside those of others."""

from __future__ import annotations

import pytest

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError
from services._kit.members.impersonator import ensure_impersonation
from services._rules.proxying.impersonator_rights import without_account


class Member:
    """Objects of a member by their paths; every creation is refused where `refusal` says so."""

    def __init__(self, refusal: str = "") -> None:
        self.objects: dict[str, Manifest] = {}
        self.refusal = refusal
        self.conflicts = 0

    async def get(self, path: str) -> Manifest:
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        return self.objects[path]

    async def create(self, path: str, manifest: Manifest) -> Manifest:
        if self.refusal:
            raise ApiError(409 if self.refusal == "AlreadyExists" else 403, self.refusal, path)
        self.objects[f"{path}/{manifest['metadata']['name']}"] = manifest
        return manifest

    async def update(self, path: str, manifest: Manifest) -> Manifest:
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError(409, "Conflict", path)
        self.objects[path] = manifest
        return manifest


RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE, BINDING = (f"{RBAC}/{kind}/karmada-impersonator" for kind in ("clusterroles", "clusterrolebindings"))


async def test_missing_rights_are_made_once() -> None:
    member = Member()
    assert await ensure_impersonation(member, "place")  # type: ignore[arg-type]  # a member without connections
    assert set(member.objects) == {ROLE, BINDING}
    assert member.objects[ROLE]["rules"][0]["verbs"] == ["impersonate"]
    subject = {"kind": "ServiceAccount", "name": "karmada-impersonator", "namespace": "place"}
    assert member.objects[BINDING]["subjects"] == [subject]
    member.objects[ROLE] = {"rules": []}
    assert not await ensure_impersonation(member, "place")  # type: ignore[arg-type]  # the same
    assert member.objects[ROLE] == {"rules": []}


async def test_another_one_may_be_first_and_a_refusal_is_told() -> None:
    assert await ensure_impersonation(Member("AlreadyExists"), "place")  # type: ignore[arg-type]  # the same
    with pytest.raises(ApiError):
        await ensure_impersonation(Member("Forbidden"), "place")  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize("conflicts", [0, 2])
async def test_account_of_another_namespace_comes_beside_the_first(conflicts: int) -> None:
    member = Member()
    await ensure_impersonation(member, "first")  # type: ignore[arg-type]  # the same
    member.conflicts = conflicts
    assert await ensure_impersonation(member, "second")  # type: ignore[arg-type]  # the same
    binding = member.objects[BINDING]
    assert [subject["namespace"] for subject in binding["subjects"]] == ["first", "second"]
    assert not await ensure_impersonation(member, "first")  # type: ignore[arg-type]  # the same
    left = without_account(binding, "first")
    assert left is not None
    assert [subject["namespace"] for subject in left["subjects"]] == ["second"]
    assert without_account(left, "second") is None


async def test_binding_of_another_role_stays_as_it_is() -> None:
    member = Member()
    await ensure_impersonation(member, "first")  # type: ignore[arg-type]  # the same
    member.objects[BINDING]["roleRef"] = {"kind": "ClusterRole", "name": "other"}
    assert not await ensure_impersonation(member, "second")  # type: ignore[arg-type]  # the same
    assert len(member.objects[BINDING]["subjects"]) == 1
