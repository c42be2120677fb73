"""Image references: the table of worked examples, and what is refused."""

import pytest

from services._rules.overrides import image_overriders as image
from services._rules.overrides.image_overriders import ImageError

HEX = "0123456789abcdef" * 4
DIGEST = f"sha256:{HEX}"


@pytest.mark.parametrize(
    ("before", "component", "operator", "value", "after"),
    [
        ("myapp:1.0.0", "Registry", "add", "test-repo", "test-repo/myapp:1.0.0"),
        ("registry.k8s.io/pause:3.9", "Registry", "add", "-mirror", "registry.k8s.io-mirror/pause:3.9"),
        ("nginx", "Registry", "replace", "reg.example:5000", "reg.example:5000/nginx"),
        ("library/nginx:1.25", "Registry", "replace", "reg.example", "reg.example/library/nginx:1.25"),
        ("reg.example/a/b:v1", "Registry", "remove", "", "a/b:v1"),
        ("localhost/app", "Registry", "remove", "", "app"),
        ("reg.example/a/b:v1", "Repository", "add", "-fips", "reg.example/a/b-fips:v1"),
        ("reg.example/a/b:v1", "Repository", "replace", "x", "reg.example/x:v1"),
        ("reg.example/a:v1", "Repository", "remove", "", "reg.example/:v1"),
        ("nginx:1.25", "Tag", "add", "-alpine", "nginx:1.25-alpine"),
        ("nginx", "Tag", "add", "v1", "nginx:v1"),
        ("nginx:1.25", "Tag", "replace", DIGEST, f"nginx@{DIGEST}"),
        (f"nginx@{DIGEST}", "Tag", "replace", "1.27", "nginx:1.27"),
        ("nginx:1.25", "Tag", "replace", f"@{DIGEST}", "nginx:1.25"),
        ("nginx:1.25", "Tag", "replace", ":v1", "nginx:1.25"),
        (f"nginx:1.25@{DIGEST}", "Registry", "replace", "r.io", "r.io/nginx:1.25"),
        (f"nginx@{DIGEST}", "Tag", "remove", "", "nginx"),
        ("nginx:1.25", "Tag", "remove", "", "nginx"),
    ],
)
def test_one_part_changes(before: str, component: str, operator: str, value: str, after: str) -> None:
    assert image.change(before, component, operator, value) == after


@pytest.mark.parametrize(
    "text",
    ["", "Nginx", ":1.0", "a//b", "nginx:", "-a", "nginx@sha256:abc", f"nginx@md5:{HEX}", f"n@sha256:{HEX.upper()}"],
)
def test_malformed_image_reference_is_refused(text: str) -> None:
    with pytest.raises(ImageError):
        image.parse(text)


def test_a_name_of_more_than_255_characters_is_refused() -> None:
    assert image.parse("a" * 255).repository == "a" * 255
    with pytest.raises(ImageError, match="longer"):
        image.parse("a" * 256)


def test_the_message_hints_at_upper_case() -> None:
    with pytest.raises(ImageError, match="upper-case"):
        image.parse("library/Nginx")
