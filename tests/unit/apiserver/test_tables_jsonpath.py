"""The JSONPath dialect of printer columns and scale paths."""

import pytest

from services._rules.kubernetes.jsonpath import JSONPathError, compile_path, simple_fields

POD = {
    "metadata": {"name": "p", "labels": {"a.b/c": "v", "k": "w"}},
    "spec": {"containers": [{"name": "a", "image": "i1"}, {"name": "b", "image": "i2"}, {"name": "c"}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "n": 2}, {"type": "Other", "status": "False", "n": 5}],
        "replicas": 0,
        "none": None,
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["p"]),
        ("{.metadata.name}", ["p"]),
        ("$.metadata.name", ["p"]),
        ("metadata.name", ["p"]),
        (".metadata.labels['a.b/c']", ["v"]),
        (r".metadata.labels.a\.b/c", ["v"]),
        (".spec.containers[0].name", ["a"]),
        (".spec.containers[-1].name", ["c"]),
        (".spec.containers[7].name", []),
        (".spec.containers[*].image", ["i1", "i2"]),
        (".spec.containers[0:2].name", ["a", "b"]),
        (".spec.containers[1:].name", ["b", "c"]),
        (".spec.containers[0,2].name", ["a", "c"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Other')].status", ["False"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".status.conditions[?(@.n>2)].type", ["Other"]),
        (".status.conditions[?(@.n<=2)].type", ["Ready"]),
        (".spec.containers[?(@.image)].name", ["a", "b"]),
        ('.status.conditions[?(@.type=="None")].status', []),
        ("..image", ["i1", "i2"]),
        (".metadata.labels.*", ["v", "w"]),
        (".status.replicas", [0]),
        (".status.none", [None]),
        (".status.missing.deeper", []),
        (".metadata.name.deeper", []),
    ],
)
def test_paths_find_values(path: str, found: list) -> None:
    assert compile_path(path)(POD) == found


@pytest.mark.parametrize("path", [".x[", ".x[a]", ".x[?(@.a==b)]", ".a b", ".x[::0]", ".[]"])
def test_paths_that_cannot_be_understood_are_refused(path: str) -> None:
    with pytest.raises(JSONPathError):
        compile_path(path)


def test_simple_paths_are_recognised() -> None:
    assert simple_fields(".spec.replicas") == ("spec", "replicas")
    assert simple_fields("spec.replicas") is None
    assert simple_fields(".spec.x[0]") is None
