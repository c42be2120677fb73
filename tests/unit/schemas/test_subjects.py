"""Every name and group Kubernetes allows survives the way into a subject and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import subjects
from schemas.keys import ObjectKey, PolicyKey

# Names of RBAC objects and custom resources go well beyond DNS labels; only '/' and '%' are refused by the API.
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/%"), min_size=1, max_size=253)
dns = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)
namespaces = st.one_of(st.just(""), st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
resources = st.from_regex(r"[a-z][a-z0-9]{0,60}", fullmatch=True)
keys = st.builds(ObjectKey, group=st.one_of(st.just(""), dns), resource=resources, namespace=namespaces, name=names)


@given(names)
def test_any_name_round_trips_as_one_token(name: str) -> None:
    token = subjects.escape(name)
    assert subjects.unescape(token) == name
    assert not set(token) & set(". *>\t\n\0")
    assert token != subjects.NO_NAMESPACE


@given(keys)
def test_every_object_key_round_trips(key: ObjectKey) -> None:
    for subject in (
        subjects.template(key),
        subjects.binding(key),
        subjects.placement(key),
        subjects.facet("rollup", key),
    ):
        assert subjects.object_key(subject) == key
        assert subject.split(".")[1] == str(key.shard)


@given(keys, names)
def test_work_subjects_name_cluster_and_object(key: ObjectKey, cluster: str) -> None:
    assert subjects.cluster_of(subjects.activity(cluster)) == cluster
    for subject in (subjects.work(cluster, key), subjects.observed(cluster, key)):
        assert subjects.object_key(subject) == key
        assert subjects.cluster_of(subject) == cluster


@given(
    st.builds(
        PolicyKey, kind=st.sampled_from(["PropagationPolicy", "OverridePolicy"]), namespace=namespaces, name=names
    )
)
def test_policies_round_trip(key: PolicyKey) -> None:
    assert subjects.policy_key(subjects.policy(key)) == key


@given(keys, keys)
def test_different_objects_have_different_subjects(one: ObjectKey, other: ObjectKey) -> None:
    assert (subjects.template(one) == subjects.template(other)) == (one == other)


def test_shards_are_stable_for_ever() -> None:
    key = ObjectKey("apps", "deployments", "default", "nginx")
    assert subjects.template(key) == "template.9.deployments=2Eapps.default.nginx"
    assert subjects.facet("rollup", ObjectKey("", "configmaps", "default", "a")) == "rollup.9.configmaps.default.a"
    cluster_wide = ObjectKey("rbac.authorization.k8s.io", "clusterroles", "", "system:x")
    assert subjects.binding(cluster_wide) == "binding.14.clusterroles=2Erbac=2Eauthorization=2Ek8s=2Eio._.system=3Ax"


@pytest.mark.parametrize("subject", ["template.1.a.b", "lease.x", "work.m1", "cluster.m1", "template.1.a.b.c.d"])
def test_foreign_subjects_name_no_object(subject: str) -> None:
    with pytest.raises(subjects.SubjectError):
        subjects.object_key(subject)


@pytest.mark.parametrize("token", ["", "=", "=ZZ", "=FF", "a b"])
def test_tokens_that_escaping_cannot_have_made_are_refused(token: str) -> None:
    with pytest.raises(subjects.SubjectError):
        subjects.unescape(token)
