"""Taking requests apart: paths, queries, selectors, accepted forms."""

import pytest

from services._rules.kubernetes.content_negotiation import names_offered
from services.apiserver.core.request import ListOptions, RequestInfo, parse_query, split_path
from services.apiserver.core.status_errors import ApiError
from services.apiserver.http.codec import decode_yaml
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.reads.negotiation import (
    Form,
    discovery_version,
    form_of_resource,
    form_of_watch,
    negotiate,
)
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
    ("group", "version", "plural", "field", "message"),
    [
        (
            "",
            "v1",
            "configmaps",
            "data=x",
            '"data" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("", "v1", "nodes", "metadata.namespace=x", "field label not supported: metadata.namespace"),
        ("", "v1", "persistentvolumes", "metadata.namespace=", ""),
        ("", "v1", "pods", "spec.host=n", ""),
        ("", "v1", "events", "regarding.name=x", "field label not supported: regarding.name"),
        ("events.k8s.io", "v1", "events", "regarding.name=x,reportingController=y", ""),
        ("events.k8s.io", "v1", "events", "involvedObject.name=x", "field label not supported: involvedObject.name"),
        ("batch", "v1", "jobs", "status.successful=1", ""),
        ("batch", "v1", "jobs", "spec.x=1", 'field label "spec.x" not supported for batchv1.Job'),
        (
            *("apps", "v1", "replicasets", "status.replicas=0"),
            '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("certificates.k8s.io", "v1", "certificatesigningrequests", "spec.signerName=x", ""),
        ("", "v1", "pods", "z=1,a=1", "field label not supported: a"),
        ("", "v1", "pods", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("", "v1", "pods", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ("", "v1", "pods", "metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("", "v1", "pods", "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("", "v1", "pods", "metadata.name=a\\,b,,", ""),
    ],
)
def test_names_in_field_selectors(group: str, version: str, plural: str, field: str, message: str) -> None:
    kind = builtin_registry().find(group, version, plural)
    assert kind is not None
    if not message:
        Selection(kind, "", field).matches({"metadata": {"name": "x"}})
        return
    with pytest.raises(ApiError) as refused:
        Selection(kind, "", field)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_a_selector_of_events_has_the_names_of_its_version() -> None:
    registry = builtin_registry()
    stored = {"metadata": {"name": "e"}, "involvedObject": {"name": "p"}, "reportingComponent": "c"}
    for group, fields in (("", "involvedObject.name=p"), ("events.k8s.io", "regarding.name=p,reportingController=c")):
        kind = registry.find(group, "v1", "events")
        assert kind is not None
        assert Selection(kind, "", fields).matches(kind.from_store(stored))
        assert not Selection(kind, "", fields.replace("=p", "=q")).matches(kind.from_store(stored))


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
        ("application/*", Form()),
        ("*", Form()),
        ("*/*,application/yaml", Form(yaml=True)),
        ("*/*;q=0.9,application/yaml;q=0.1", Form(yaml=True)),
        ("application/json;q=x,application/yaml;q=0.1", Form(yaml=True)),
        ("application/json;as=Table", None),
        ("application/json;g=meta.k8s.io;v=v1", None),
        ("application/json;as=Odd;v=v1;g=meta.k8s.io,text/html,*/*;q=0.1", Form()),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form(view="Table", version="v1beta1")),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", None),
        ("application/json;stream=watch", Form()),
        ("application/json;stream=odd", None),
        ("application/json;charset=utf-8;odd", Form()),
        ("application/json/x, application/yaml", Form(yaml=True)),
    ],
)
def test_accepted_forms(accept: str, form: Form | None) -> None:
    assert negotiate(accept) == form


@pytest.mark.parametrize("accept", ["application/*", "text/html", "application/jsonx", "a/b;q=1, c/d"])
def test_a_built_in_kind_wants_a_media_type_in_full(accept: str) -> None:
    with pytest.raises(ApiError, match="406: Not Acceptable"):
        form_of_resource(accept, custom=False)
    assert names_offered("application/*") is False
    assert form_of_resource("application/*", custom=True) == Form()


def test_a_watch_has_no_yaml_and_no_lists_in_its_events() -> None:
    with pytest.raises(ApiError, match="application/json;stream=watch"):
        form_of_watch(Form(yaml=True))
    assert form_of_watch(Form(view="PartialObjectMetadataList")) == Form()


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
        {"watch": "1", "sendInitialEvents": "false"},
        {"sendInitialEvents": "true"},
        {"watch": "1", "sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan", "continue": "x"},
    ],
)
def test_list_options_without_meaning_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        ListOptions(query).check()
    assert refused.value.code == 422


def test_every_rule_that_options_break_is_named() -> None:
    options = ListOptions({"continue": "x", "resourceVersionMatch": "Odd"})
    with pytest.raises(ApiError) as refused:
        options.check()
    assert refused.value.details is not None
    assert [cause["message"] for cause in refused.value.details["causes"]] == [
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        "Forbidden: resourceVersionMatch is forbidden when continue is provided",
        'Unsupported value: "Odd": supported values: "Exact", "NotOlderThan", ""',
    ]


@pytest.mark.parametrize(("value", "watch"), [("", True), ("1", True), ("False", False), ("0", False), ("no", True)])
def test_only_false_and_zero_are_false(value: str, watch: bool) -> None:
    assert ListOptions({"watch": value}).watch is watch


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
