"""Taking requests apart: paths, queries, selectors, accepted forms."""

import pytest

from services.apiserver.core.request import ListOptions, RequestInfo, parse_query, split_path
from services.apiserver.core.status_errors import ApiError
from services.apiserver.http.codec import decode_yaml
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.reads.negotiation import Form, discovery_version, negotiate
from services.apiserver.reads.request_selectors import Selection, label_test


@pytest.mark.parametrize(
    ("path", "namespace", "resource", "name", "subresource"),
    [
        ("namespaces/a/pods", "a", "pods", "", ""),
        ("namespaces/a/pods/p", "a", "pods", "p", ""),
        ("namespaces/a/pods/p/status", "a", "pods", "p", "status"),
        ("namespaces", "", "namespaces", "", ""),
        ("namespaces/a", "", "namespaces", "a", ""),
        ("namespaces/a/finalize", "", "namespaces", "a", "finalize"),
        ("nodes/n/status", "", "nodes", "n", "status"),
        ("pods", "", "pods", "", ""),
    ],
)
def test_resource_paths(path: str, namespace: str, resource: str, name: str, subresource: str) -> None:
    info = RequestInfo("", "v1", split_path(f"/{path}"))
    assert (info.namespace, info.resource, info.name, info.subresource) == (namespace, resource, name, subresource)
    watched = RequestInfo("", "v1", split_path(f"/watch/{path}"))
    assert (watched.watch_prefix, watched.resource, watched.name) == (True, resource, name)


def test_names_are_unescaped_after_the_path_was_split() -> None:
    assert split_path("/clusterroles/system%3Aa%2Fb/") == ["clusterroles", "system:a/b"]


def test_a_query_part_that_cannot_be_unescaped_is_left_out() -> None:
    assert parse_query("a=%zz&b=1&b=2&c") == {"b": "1", "c": ""}


def test_label_selectors() -> None:
    test = label_test("a in (b, c),d")
    assert test is not None
    assert test({"a": "c", "d": "1"})
    assert not test({"a": "c"})
    assert label_test("") is None


def test_malformed_label_selector_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as refused:
        label_test("a in b")
    assert refused.value.code == 400


def test_field_selectors() -> None:
    pods = builtin_registry().find("", "v1", "pods")
    assert pods is not None
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}}
    assert Selection(pods, "", "spec.nodeName=x,status.phase!=Failed").matches(pod)
    assert not Selection(pods, "", "metadata.name==q").matches(pod)
    assert Selection(pods, "", "metadata.name=q").name == "q"
    with pytest.raises(ApiError, match=r"field label not supported: spec\.nope"):
        Selection(pods, "", "spec.nope=1")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        ("text/html, application/yaml;q=0.5", Form(yaml=True)),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form(view="Table")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form()),
        ("application/json;q=0.1,application/yaml", Form(yaml=True)),
        (
            "application/json;q=0.1,application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Form(view="PartialObjectMetadataList"),
        ),
        ("text/html", None),
    ],
)
def test_accepted_forms(accept: str, form: Form | None) -> None:
    assert negotiate(accept) == form


def test_discovery_is_aggregated_when_it_is_preferred() -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert discovery_version(f"{aggregated},application/json") == "v2"
    assert discovery_version(f"application/json,{aggregated}") == ""


@pytest.mark.parametrize(
    "query",
    [
        {"watch": "1", "resourceVersionMatch": "Exact", "resourceVersion": "5"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Odd", "resourceVersion": "5"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"watch": "1", "sendInitialEvents": "true"},
    ],
)
def test_list_options_without_meaning_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        ListOptions(query).check()
    assert refused.value.code == 422


def test_yaml_bodies_are_read_as_kubernetes_reads_them() -> None:
    body = b"a: y\nb: 2024-01-01\nc: 0o17\n1: &x [one]\nd: *x\n"
    assert decode_yaml(body) == {"a": True, "b": "2024-01-01", "c": 15, "1": ["one"], "d": ["one"]}


BOMB = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (name, name, b",".join([b"*%c" % (name - 1)] * 9)) for name in b"bcdefg"
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"a: [1\nb: 2", "yaml: line 2: "),
        (b"a: \xff", "utf-8"),
        (BOMB, "aliases"),
    ],
)
def test_yaml_that_cannot_be_read_is_400(body: bytes, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        decode_yaml(body)
    assert refused.value.code == 400
    assert words in refused.value.message
