"""Texts inside of objects that admission reads: schedules, Lua scripts, URLs, names."""

import pytest

from services._rules.admission.common import value_formats as formats
from services._rules.admission.later import cron_federated_hpa as cron_autoscaling
from services._rules.interpreter.scripts import lua_syntax


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *",
        "*/5 * * * * *",
        "0 0 1 1 * 2030",
        "0 0 0 1 1 * 2030",
        "0 12 * * MON-FRI",
        "0 0 1 jan *",
        "1-10/3,40 * * * *",
        "0 0 L * *",
        "15 10 15W * *",
        "0 9 * * 1#2",
        "0 9 * * 5L",
        "0 0 * * 7",
        "@daily",
        "@5minutes",
        "@Always",
    ],
)
def test_schedules_that_are_let_through(schedule: str) -> None:
    assert cron_autoscaling.is_valid_schedule(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "5-1 * * * *",
        "*/0 * * * *",
        "1,,2 * * * *",
        "@every 5m",
        "x * * * *",
        "L * * * *",
        "TZ=UTC 0 9 * * *",
        "* * * * 8",
        "0 0 40W * *",
        "* * * * 1#6",
        "* * * * * * * *",
    ],
)
def test_schedules_that_are_refused(schedule: str) -> None:
    assert not cron_autoscaling.is_valid_schedule(schedule)


@pytest.mark.parametrize(
    ("zone", "known"),
    [("", True), ("UTC", True), ("Local", True), ("Europe/Berlin", True), ("Mars/Base", False), ("../etc", False)],
)
def test_time_zones(zone: str, known: bool) -> None:
    assert cron_autoscaling.is_known_time_zone(zone) is known


@pytest.mark.parametrize(
    "script",
    [
        "",
        "-- nothing",
        "--[[ long\n comment ]] x = 1",
        "x = [==[ a ]] b ]==]",
        "local a, b = 1, 'it\\'s'",
        "function a.b:c(x, ...) return ... end",
        "for i = 1, 10, 2 do break end",
        "for k, v in pairs(t) do t[k] = nil; end",
        "while true do if x then break else y() end end",
        "repeat local a = #t until a == 0 or not b",
        "t = {1, [2] = 3, x = 4; f(), function() end}",
        "a.b['c'].d = f{1}'s':m(2)",
        "(f or g)(x)",
        "goto done; ::done::",
        "return 0x1F + 1.5e-3 ^ -2 .. 'a' ~= nil",
        "local function f() return end;;",
    ],
)
def test_chunks_of_lua(script: str) -> None:
    assert lua_syntax.problem(script) is None


@pytest.mark.parametrize(
    "script",
    [
        "x = = 1",
        "a.b.c",
        "f",
        "(f(x))",
        "f() = 1",
        "if x then",
        "retur 1",
        "return return",
        "return 1 x = 2",
        "function 1x() end",
        "function F(",
        "function f(a,) end",
        "local a = 'open",
        "local a = 'new\nline'",
        "x = [[ open",
        "--[[ open",
        "break",
        "while x do function f() break end end",
        "function f() return ... end",
        "x = {1, 2",
        "x = {,}",
        "for i = 1 do end",
        "a = f\n(b)",
        "x = 1 end",
        "x = @",
        "x = " + "(" * 500 + "1" + ")" * 500,
    ],
)
def test_texts_that_are_no_lua(script: str) -> None:
    assert lua_syntax.problem(script)


def test_the_line_of_an_error_is_named() -> None:
    problem = lua_syntax.problem("x = 1\ny = [[\n]]\nz = = 2")
    assert problem is not None
    assert problem.startswith("line 4:")


@pytest.mark.parametrize(
    ("text", "scheme", "user", "host", "path"),
    [
        ("https://h:1/p", "https", "", "h:1", "/p"),
        ("HTTPS://u:p@h", "https", "u:p", "h", ""),
        ("http://[::1]:80/x", "http", "", "[::1]:80", "/x"),
        ("/only/path", "", "", "", "/only/path"),
        ("p:80", "p", "", "", "80"),
    ],
)
def test_parts_of_urls(text: str, scheme: str, user: str, host: str, path: str) -> None:
    url = formats.Url(text)
    assert (url.error, url.scheme, url.user, url.host, url.path) == ("", scheme, user, host, path)


@pytest.mark.parametrize("text", ["10.0.0.1:6443", "https://h:port/", "https://a b/", "https://h/\x01"])
def test_texts_that_are_no_urls(text: str) -> None:
    assert formats.Url(text).error


@pytest.mark.parametrize(("name", "good"), [("a" * 48, True), ("a" * 49, False), ("a.b", False), ("", False)])
def test_names_of_clusters(name: str, good: bool) -> None:
    assert (formats.cluster_name(name) == []) is good
