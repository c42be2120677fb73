"""Derived names: properties of the hash and of names that the vectors do not reach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules import names


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "expected"),
    [
        ("Deployment", "nginx", "default", "nginx-687f7fb96f"),
        ("Namespace", "demo", "", "demo-6654f4c4f6"),
        ("ClusterRole", "karmada-impersonator", "", "karmada-impersonator-7cbb6bd5c9"),
        ("Role", "system:reader", "default", "system.reader-7b58496dd4"),
    ],
)
def test_work_names_follow_the_published_table(kind: str, name: str, namespace: str, expected: str) -> None:
    assert names.work_name(kind, name, namespace) == expected


def test_lower_case_keeps_one_character_per_character() -> None:
    assert names.binding_name("Kind", "ΑΣ İ") == "ας i-kind".replace("ς", "σ")


def test_depended_by_hash_of_a_binding() -> None:
    assert names.binding_reference_key("default", "nginx-deployment") == "5bdc5c4dcf"


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_the_hash_uses_safe_characters_only(text: str) -> None:
    assert 1 <= len(names.short_hash(text)) <= 10
    assert set(names.short_hash(text)) <= set("456789bcdf")


@given(st.text(min_size=1))
def test_a_cluster_is_read_back_from_its_namespace(cluster: str) -> None:
    assert names.cluster_of_execution_namespace(names.execution_namespace(cluster)) == cluster
    assert names.is_reserved_namespace(names.execution_namespace(cluster))


def test_a_foreign_namespace_holds_no_works() -> None:
    with pytest.raises(names.NameFormatError, match="kube-system"):
        names.cluster_of_execution_namespace("kube-system")
