"""A Lua state gives scripts what they are promised and nothing else, and every call a fresh room."""

from typing import Any

import pytest

from services._kit.interpretation.lua.machine import LuaMachine
from services._kit.interpretation.lua.source import prepared
from services._rules.interpreter import InterpretError, Operation


@pytest.fixture(scope="module")
def machine() -> LuaMachine:
    return LuaMachine(16 << 20)


def reflect(machine: LuaMachine, expression: str, obj: Any = None, before: str = "") -> Any:
    script = f"{before}\nfunction ReflectStatus(obj)\n  return {{ v = {expression} }}\nend"
    return machine.evaluate(Operation.STATUS, script, [obj or {}]).get("v")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1 .. ''", "1"),
        ("0.1 .. '|' .. 2 ^ 53", "0.1|9007199254740992"),
        ("1e22 .. ''", "1e+22"),
        ("1234567.5 .. ''", "1.2345675e+06"),
        ("0.00001 .. ''", "1e-05"),
        ("tostring(1 / 3)", "0.3333333333333333"),
        ("'a' .. 'b' .. 1 .. ('c' .. 2)", "ab1c2"),
        ("table.concat({ 1, 2.5, 'x' }, '..')", "1..2.5..x"),
        ("string.format('%s %s %d %q', nil, 2 ^ 53, 7, 'a\"b')", 'nil 9007199254740992 7 "a\\"b"'),
        ("[[a..b]] .. 'c..d' --[[ x..y ]]", "a..bc..d"),
        ("select('#', ...) .. ''", "0"),
        ("('été'):upper() .. ('É'):lower()", "ÉTÉé"),
        ("('straße ΣΑΣ'):upper() .. ('ΣΑΣ İ'):lower()", "STRAßE ΣΑΣσασ i"),
        (r"string.format('%q', 'a\0b\1\127')", r'"a\x00b\x01\x7f"'),
        ("tostring(tonumber('inf')) .. tostring(tonumber('-NaN')) .. tostring(tonumber('Infinity'))", "nilnilnil"),
        ("tonumber('n', 36) .. tonumber(' 0x1F ') .. tonumber('1e2')", "2331100"),
        ("('é✓'):reverse()", "\ufffd\ufffd\ufffd\ufffd\ufffd"),
        ("os.date('!%Y-%m-%d', 86400)", "1970-01-02"),
    ],
)
def test_texts_read_as_scripts_expect(machine: LuaMachine, expression: str, text: str) -> None:
    script = f"local function count(...) return select('#', ...) end\nlocal v = {expression}\n"
    script += "function ReflectStatus(obj) return { v = v } end"
    assert machine.evaluate(Operation.STATUS, script, [{}]) == {"v": text}


@pytest.mark.parametrize(
    "expression",
    [
        "io.open('/etc/passwd')",
        "os.getenv('HOME')",
        "os.execute('true')",
        "debug.getinfo(1)",
        "coroutine.create(print)",
        "python.eval('1')",
        "package.loaded.python.builtins",
        "package.loadlib('x', 'y')",
        "loadstring('return 1')",
        "getmetatable('')",
        "setmetatable({}, {})",
        "rawget({}, 1)",
        "('x'):rep(3)",
        "string.gsub('a', 'a', 'b')",
        "string.dump(print)",
        "require('json')",
        "require('kube').resourceAdd.__globals__",
        "collectgarbage()",
        "newproxy()",
        "setfenv(1, {})",
    ],
)
def test_closed_off_functions_raise(machine: LuaMachine, expression: str) -> None:
    with pytest.raises(InterpretError, match=r"script:3: "):
        reflect(machine, expression)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("{ 1, 2, nil, 4 }", "gaps"),
        ("{ 'a', k = 'v' }", "names and numbers"),
        ("{ [true] = 1 }", "a key is a boolean"),
        ("1 / 0", "not finite"),
        ("print", "a value is a function"),
        ("obj.m and { obj.m, obj.m }", "two places"),
        ("'a' .. {}", "concatenate a table"),
        ("nil .. 'a'", "concatenate a nil"),
        ("#string.format('%99999d', 1)", "invalid format"),
        ("string.rep", "a value is a function"),
    ],
)
def test_tables_that_are_no_json_are_refused(machine: LuaMachine, expression: str, said: str) -> None:
    with pytest.raises(InterpretError) as refused:
        reflect(machine, expression, {"m": {"a": 1}})
    assert said in str(refused.value)


def test_very_deep_and_recursive_tables_are_refused(machine: LuaMachine) -> None:
    deep = "local r = {} local t = r for i = 1, 10000 do t.a = {} t = t.a end"
    with pytest.raises(InterpretError, match="nested deeper"):
        reflect(machine, "r", before=deep)
    with pytest.raises(InterpretError, match="inside itself"):
        machine.evaluate(Operation.REVISE, "function ReviseReplica(o) o.o = o return o end", [{"kind": "x"}, 1])


def test_values_arrive_and_return(machine: LuaMachine) -> None:
    spec = {"n": None, "list": [1, None, "zwei", {"t": True}], "big": 2**53 + 1, "half": 0.5, 'q"\\\n\x01é✓': "\t"}
    script = "function ReviseReplica(obj, n) obj.spec.n = n return obj end"
    assert machine.evaluate(Operation.REVISE, script, [{"kind": "x", "spec": spec}, 4]) == {
        "kind": "x",
        "spec": {**spec, "n": 4, "list": [1, "zwei", {"t": True}], "big": 2**53},
    }


def test_nothing_stays_from_call_to_call(machine: LuaMachine) -> None:
    taint = "counter = (counter or 0) + 1; string.len = nil; table.insert = nil; require('kube').resourceAdd = nil"
    for _ in range(2):
        assert reflect(machine, "counter", before=taint) == 1
        assert reflect(machine, "('abc'):len()") == 3
        assert reflect(machine, "require('kube').resourceAdd('1', nil, '2')") == "3"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("function GetReplicas(obj)\n  return 1\n", "'end' expected"),
        ("GetReplicas = 5", "GetReplicas is a number, expected a function"),
        ("function getreplicas() return 1 end", "the script defines no function GetReplicas"),
        ("function GetReplicas() error({ code = 3 }) end", "the script raised a table"),
        ("\n\nfunction GetReplicas(o)\n  return o.a.b end", "script:4: "),
        ("\x1bLua", "script:1: "),
        ("function GetReplicas() local function f() return 1 + f() end return f() end", "stack overflow"),
        ("function GetReplicas() return require('kube').resourceAdd('x') end", "'x'"),
        (
            "function GetReplicas() return string.upper(nil) end",
            "bad argument #1 to 'upper' (string expected, got nil)",
        ),
        ("function GetReplicas() return tonumber('1', 99) end", "bad argument #2 to 'tonumber' (base out of range)"),
        ("function GetReplicas() return ('x'):find(nil) end", "bad argument #2 to 'find' (string expected, got nil)"),
        ("function GetReplicas() return require('kube').resourceAdd({}) end", "string expected, got table"),
        ("function GetReplicas() return require('kube').accuratePodRequirements({}, 1) end", "exactly one"),
        ("function GetReplicas() return require('kube').accuratePodRequirements({ spec = 1 }) end", "spec"),
    ],
)
def test_faults_of_scripts_are_told(machine: LuaMachine, script: str, said: str) -> None:
    with pytest.raises(InterpretError) as told:
        machine.evaluate(Operation.REPLICA, script, [{}])
    assert said in str(told.value)


def test_what_a_script_says_is_short_and_moves_no_terminal(machine: LuaMachine) -> None:
    long = "local t = {} for i = 1, 100000 do t[i] = 'na\\nna ' end error('\\27[31m\\0' .. table.concat(t))"
    with pytest.raises(InterpretError) as told:
        machine.evaluate(Operation.REPLICA, f"function GetReplicas() {long} end", [{}])
    assert str(told.value).startswith("script:1: �[31m�na\nna ")
    assert len(str(told.value)) <= 1001


@pytest.mark.parametrize(
    "body",
    [
        "local s = 'x' for i = 1, 60 do s = s .. s end return 1",
        "local t = {} for i = 1, 1e9 do t[i] = { i } end return 1",
        "local s = '\\1' for i = 1, 21 do s = s .. s end return 1, { resourceRequest = { s = s } }",
    ],
)
def test_memory_has_an_end_and_the_next_script_is_unharmed(machine: LuaMachine, body: str) -> None:
    with pytest.raises(InterpretError, match="needs more than 16 MiB"):
        machine.evaluate(Operation.REPLICA, f"function GetReplicas() {body} end", [{}])
    assert reflect(machine, "1") == 1


def test_script_that_catches_memory_errors_frees_its_memory(machine: LuaMachine) -> None:
    hoard = "local s, ok = 'x', true for i = 1, 60 do ok = ok and pcall(function() s = s .. s end) end"
    assert reflect(machine, "ok", before=hoard) is False
    assert reflect(machine, "#obj.text", {"text": "x" * 2_000_000}) == 2_000_000


def test_long_texts_are_refused_by_the_functions_of_texts(machine: LuaMachine) -> None:
    with pytest.raises(InterpretError, match="longer than a million bytes"):
        reflect(machine, "obj.text:upper()", {"text": "x" * 1_000_001})


def test_patterns_that_would_use_up_the_stack_are_refused(machine: LuaMachine) -> None:
    long = "local t, s = {}, {} for i = 1, 20000 do t[i] = 'a?' s[i] = 'a' end t, s = table.concat(t), table.concat(s)"
    for call in ("s:find(t)", "s:match(t)", "s:gmatch(t)()", "s:find(t, 1, false)"):
        with pytest.raises(InterpretError, match="pattern too long"):
            reflect(machine, call, before=f"{long} local v = {call}")
    assert reflect(machine, "s:find(s, 1, true)", before=f"{long}") == 1
    assert reflect(machine, "('abc'):find('c', 1, true)") == 3
    assert reflect(machine, "('a.c'):find('.', 2, true)") == 2
    assert reflect(machine, "('a.c'):find('.', 2)") == 2
    assert reflect(machine, "('a b'):match('(%a) (%a)')") == "a"


def test_the_helper_of_concatenation_cannot_be_reached(machine: LuaMachine) -> None:
    text, name = prepared("return __join")
    assert name not in ("__join",)
    assert text.endswith("return __join")
    assert reflect(machine, "tostring(__join) .. tostring(_G.__join)") == "nilnil"
