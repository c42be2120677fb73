"""Versions and page tokens of a view over several clusters survive their way through clients, and nothing else does."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.apiserver.core.status_errors import ApiError
from services.search.union.page_token import PageToken, read_page_token, write_page_token
from services.search.union.version_map import VersionMap, packed, read_version, unpacked

# A machine under load draws slowly.
cases = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

names = st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=20)
versions = st.dictionaries(names, st.text("0123456789", min_size=1, max_size=20), max_size=20)


def encoded(document: object) -> str:
    raw = json.dumps(document, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_version_is_sorted_json_in_base64_without_padding() -> None:
    text = VersionMap({"member2": "7", "member1": "1000"}).text()
    assert text == encoded({"member1": "1000", "member2": "7"})
    assert "=" not in text


def test_version_keeps_characters_that_html_would_escape() -> None:
    assert b"<a&b>" in base64.urlsafe_b64decode(VersionMap({"m": "<a&b>"}).text() + "==")


@pytest.mark.parametrize("cluster", ["member1", "elsewhere"])
def test_zero_is_zero_for_every_cluster(cluster: str) -> None:
    assert read_version("0").of(cluster) == "0"
    assert read_version("0").text() == "0"


@pytest.mark.parametrize(
    "text",
    ["", "1", "12345", "1234", "not base64!", "eyJh=", encoded([1]), encoded({"a": 1}), encoded("x"), "/+/+", "=" * 8],
)
def test_other_texts_count_as_no_version(text: str) -> None:
    assert read_version(text).empty
    assert read_version(text).of("member1") == ""
    assert read_version(text).text() == ""


def test_a_very_long_version_counts_as_none() -> None:
    long = VersionMap({f"member{number}": "1" * 100 for number in range(5000)})
    assert read_version(long.text()).empty


def test_deep_nesting_counts_as_no_version() -> None:
    assert read_version(packed(b'{"a":' + b"[" * 100_000)).empty


@cases
@given(versions)
def test_versions_survive_the_way_through_a_client(found: dict[str, str]) -> None:
    assert read_version(VersionMap(found).text()).clusters == found


@cases
@given(st.binary(max_size=200))
def test_packed_bytes_are_unpacked(raw: bytes) -> None:
    assert unpacked(packed(raw)) == (raw or None)


@cases
@given(st.text(max_size=200))
def test_no_text_breaks_reading(text: str) -> None:
    read_version(text)
    with contextlib.suppress(ApiError):
        read_page_token(text)


@pytest.mark.parametrize("text", ["", "x", "!", encoded({"rv": "a"}), encoded({"cluster": 1}), encoded([])])
def test_other_texts_are_no_token(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_page_token(text)
    assert refused.value.code == 400


@cases
@given(versions, names, st.text(max_size=30))
def test_tokens_survive_the_way_through_a_client(found: dict[str, str], cluster: str, member: str) -> None:
    token = PageToken(VersionMap(found), cluster, member)
    assert read_page_token(write_page_token(token)) == token


def test_token_has_the_fields_that_clients_know() -> None:
    token = write_page_token(PageToken(VersionMap({"m1": "5"}), "m2", "abc"))
    assert json.loads(unpacked(token) or b"") == {"rv": encoded({"m1": "5"}), "cluster": "m2", "continue": "abc"}
