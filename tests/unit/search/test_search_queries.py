"""Queries are read as they are meant, refused with what is wrong, and mean the same by index and by object."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.search.index.member_index import Found, Shelf
from services.search.querying.query_matches import means, means_kind, question_of, rest_of
from services.search.querying.query_syntax import FIELDS, OPERATORS, Query, QueryError, Term, parse_query
from services.search.registries.member_facts import Gvr
from tests.support.member_objects import pod

PODS = Gvr("", "v1", "pods")
DEPLOYMENTS = Gvr("apps", "v1", "deployments")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("kind=Pod", [("kind", "=", ("Pod",))]),
        ("kind==Pod", [("kind", "=", ("Pod",))]),
        (
            "  kind=Pod image~nginx:1.2\tphase!=Running ",
            [("kind", "=", ("Pod",)), ("image", "~", ("nginx:1.2",)), ("phase", "!=", ("Running",))],
        ),
        ("ns=a,b STATUS=Failed", [("namespace", "=", ("a", "b")), ("phase", "=", ("Failed",))]),
        ("image!~'a b'", [("image", "!~", ("a b",))]),
        ('annotation.note="x,y"', [("annotation.note", "=", ("x,y",))]),
        ("label.app.kubernetes.io/name=web", [("label.app.kubernetes.io/name", "=", ("web",))]),
        (".spec.replicas>=3", [(".spec.replicas", ">=", ("3",))]),
        ("nginx", [("name", "~", ("nginx",))]),
        ("label.app=", [("label.app", "=", ("",))]),
        ("image=a@sha256:b", [("image", "=", ("a@sha256:b",))]),
    ],
)
def test_queries_are_read(text: str, terms: list[tuple[str, str, tuple[str, ...]]]) -> None:
    assert parse_query(text) == Query(tuple(Term(*term) for term in terms))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=Pod", "character 1 .*begins with a field"),
        ("kind=Pod imag~nginx", "character 10 .*no field 'imag'.*image"),
        ("kind=Pod 'open", "character 10 .*not closed"),
        ("image~", "character 7 .*is to contain"),
        ("name='a'b", "character 9 .*a space"),
        (".a..b=1", "character 1 .*path"),
        ("label.=1", "no field"),
        ("a=" + "b" * 5000, "5002 characters, more than 4096"),
        (" ".join(["a"] * 40), "more than 32 conditions"),
        ("name=" + ",".join("abcdefghij" * 8), "at most 64 values"),
    ],
)
def test_errors_say_where_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_query(text)


@given(st.text(alphabet=st.sampled_from("abkindPo=!~<>.,'\" \tlabel:/"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(QueryError):
        assert isinstance(parse_query(text), Query)


@pytest.mark.parametrize("word", ["Pod", "pod", "pods", "PODS"])
def test_kinds_are_named_in_any_usual_way(word: str) -> None:
    assert means_kind(parse_query(f"kind={word}"), PODS, "Pod")
    assert not means_kind(parse_query(f"kind!={word}"), PODS, "Pod")
    assert not means_kind(parse_query(f"kind={word}"), DEPLOYMENTS, "Deployment")


def test_kinds_are_told_apart_by_group() -> None:
    assert means_kind(parse_query("kind=deployments.apps apiVersion=apps/v1"), DEPLOYMENTS, "Deployment")
    assert not means_kind(parse_query("kind=deployments.other"), DEPLOYMENTS, "Deployment")
    assert not means_kind(parse_query("apiVersion=v1"), DEPLOYMENTS, "Deployment")
    assert means_kind(parse_query("phase=Running"), PODS, "Pod")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("image~web:1.2 phase=Running", True),
        ("image~nginx", False),
        ("image!~nginx", True),
        ("image=registry.example.com/shop/web:1.2.3", True),
        ("phase!=Running", False),
        ("phase=Pending,Running", True),
        ("label.app=web", True),
        ("label.app!=web", False),
        ("label.none!=x", True),
        ("label.none=x", False),
        ("name~eb-1", True),
        ("name=web-2", False),
        ("namespace=shop cluster=m1", True),
        ("cluster!=m1", False),
        ("node=node-7", True),
        ("owner=web", True),
        ("owner=ReplicaSet/web", True),
        ("ready=true", True),
        ("annotation.prometheus.io/port=8080", True),
        (".spec.containers.resources.requests.memory>100Mi", True),
        (".spec.containers.resources.requests.memory>1Gi", False),
        (".spec.priority<=0", True),
        (".spec.enableServiceLinks=true", True),
        (".metadata.creationTimestamp>2026-01-01", True),
        (".spec.none>1", False),
        (".spec.priority=0", True),
        (".spec.priority=1", False),
        ("owner~ReplicaSet/w", True),
        ('annotation.prometheus.io/port="80 80"', False),
        ("node=node-8,node-7", True),
        ("node=node-8,node-9", False),
        ("node~de-7", True),
        (".spec.containers.ports.containerPort=8080", True),
    ],
)
def test_index_and_object_give_one_answer(text: str, meant: bool) -> None:
    one = pod("web-1", app="web", node="node-7")
    query = parse_query(text)
    assert means(query, "m1", one) is meant
    shelf = Shelf(PODS)
    part = shelf.new_part("m1", "Pod")
    part.put("shop/web-1", shelf.pack("m1", one))
    shelf.show(part)
    rest = rest_of(query)
    found = [found for found in shelf.each(question_of(query)) if isinstance(found, Found)]
    assert any(rest is None or rest(shelf.data(each.stored)) for each in found) is meant


HOSTILE = [{}, {"metadata": 5}, {"metadata": {"labels": []}, "spec": [], "status": "x"}, {"spec": {"containers": [1]}}]


@pytest.mark.parametrize("field", [*FIELDS, "label.a", "annotation.a", ".spec.a"])
def test_malformed_objects_are_no_error(field: str) -> None:
    for operator in OPERATORS:
        query = parse_query(f"{field}{operator}{random.Random(field).randint(1, 9)}")
        for manifest in HOSTILE:
            means(query, "m1", manifest)
