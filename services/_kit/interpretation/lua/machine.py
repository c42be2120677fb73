"""Runs interpreter scripts in one Lua 5.1 state: compiled once, a fresh environment per call, bounded memory.

The owner of the process bounds the time: a script that loops never returns from here.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from lupa import lua51
from msgspec import DecodeError, ValidationError
from msgspec.json import decode, encode

from services._kit.interpretation.lua.source import prepared
from services._rules.interpreter.common.interpretation import InterpretError, Operation, shortened
from services._rules.interpreter.scripts.empty_tables import settle_empties
from services._rules.interpreter.scripts.kube_helpers import (
    pod_dependencies_of,
    pod_requirements,
    resource_add,
    resource_quantity,
)
from services._rules.interpreter.scripts.script_calls import FUNCTIONS, LuaValue, arguments_of, result_of

MEMORY: Final = 64 << 20
_SANDBOX: Final = Path(__file__).with_name("sandbox.lua")
_SCRIPTS: Final = 1024
_EXHAUSTED: Final = "not enough memory"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LuaMachine:
    """One Lua state. Texts cross its border as bytes in disguise: one character of Latin-1 per byte of UTF-8."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._limit = 0
        self._open()

    def _open(self) -> None:
        lua = lua51.LuaRuntime(
            encoding="latin-1",
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_handlers=(_no_attribute, _no_attribute),
            overflow_handler=float,
            # Counted from the start, limited only while a script runs.
            max_memory=0,
        )
        self._lua = lua
        lua.execute("python = nil package.loaded.python = nil package.preload.python = nil")
        self._compile, self._run = lua.execute(_SANDBOX.read_text(), self._host())
        self._chunks: dict[str, tuple[Any, str]] = {}

    def evaluate(self, operation: Operation, script: str, arguments: Sequence[Any]) -> Any:
        """The result of one operation; raises InterpretError for whatever is wrong with the script or its answer."""
        try:
            return self._evaluate(operation, script, arguments)
        except InterpretError as problem:
            raise InterpretError(_readable(problem.what), _readable(problem.field)) from None

    def problem(self, script: str) -> str | None:
        """Why a script cannot be run, None where it can; nothing of it is run."""
        try:
            self._chunk(script)
        except (InterpretError, lua51.LuaError) as problem:
            return _readable(str(problem))
        return None

    def _evaluate(self, operation: Operation, script: str, arguments: Sequence[Any]) -> Any:
        given = arguments_of(operation, arguments)
        try:
            chunk, hidden = self._chunk(script)
            answer = self._bounded(chunk, hidden, FUNCTIONS[operation], *[self._table(value) for value in given])
            if not answer[0]:
                raise InterpretError(_text(answer[1]))
            first, second = _value(*answer[1:4]), _value(*answer[4:7])
        except lua51.LuaError as problem:
            raise InterpretError(_text(str(problem))) from None
        try:
            return result_of(operation, first, second, arguments)
        except (DecodeError, RecursionError) as problem:
            raise InterpretError(f"{FUNCTIONS[operation]} returned what is no JSON: {problem}") from None

    def _bounded(self, *arguments: Any) -> Any:
        """Run a script within the bounds of memory. Beyond them Lua may be in the middle of anything: a new state."""
        try:
            self._limit = self._used() + self._memory
            self._lua.set_max_memory(self._limit)
            answer = self._run(*arguments)
            # What went wrong: in the script, or while its result was written down.
            wrong = [answer[at + 1] for at in (1, 4) if answer[at] == "unfit"] if answer[0] else [answer[1]]
            if not any(text.endswith(_EXHAUSTED) for text in wrong):
                return answer
        except lua51.LuaMemoryError:
            pass
        finally:
            self._lua.set_max_memory(0)
            if self._used() > self._memory // 2:
                self._open()
        self._open()
        raise InterpretError(f"the script needs more than {self._memory >> 20} MiB of memory")

    def _used(self) -> int:
        return int(self._lua.get_memory_used())

    def _chunk(self, script: str) -> tuple[Any, str]:
        known = self._chunks.get(script)
        if known is None:
            text, hidden = prepared(script)
            compiled = self._compile(text.encode(errors="replace"))
            if isinstance(compiled, tuple):
                raise InterpretError(_text(compiled[1]))
            if len(self._chunks) >= _SCRIPTS:
                self._chunks.clear()
            known = self._chunks[script] = (compiled, hidden)
        return known

    def _table(self, value: Any) -> Any:
        """A JSON value for Lua; nulls in lists leave no gap."""
        if type(value) is not dict and type(value) is not list:
            return _bytes(value) if type(value) is str else value
        data = encode(value)
        # Decoded again: an object that stands in two places would become one table in two places.
        value = decode(data if data.isascii() else data.decode("latin-1").encode())
        if b"null" in data:
            value = _without_nulls(value)
        return self._lua.table_from(value, recursive=True)

    def _host(self) -> Any:
        def guarded(function: Callable[..., Any]) -> Callable[..., tuple[bool, Any]]:
            def call(*arguments: str) -> tuple[bool, Any]:
                # Lua must not run out of memory while this side builds a table: it would leave without a word.
                self._lua.set_max_memory(0)
                try:
                    return True, self._table(function(*arguments))
                except (InterpretError, ValidationError, DecodeError) as problem:
                    return False, _bytes(str(problem))
                finally:
                    self._lua.set_max_memory(self._limit)

            return call

        def cased(change: Callable[[str], str]) -> Callable[[str], bytes]:
            return lambda text: _bytes(change(_text(text)))

        helpers = {
            "resource_add": guarded(lambda texts: resource_add(_json(texts))),
            "resource_quantity": guarded(lambda text: resource_quantity(_text(text))),
            "pod_requirements": guarded(lambda template: pod_requirements(_settled(_json(template)))),
            "pod_dependencies": guarded(
                lambda template, namespace: pod_dependencies_of(_settled(_json(template)), _text(namespace))
            ),
            "lower": cased(_lower),
            "upper": cased(_upper),
        }
        return self._lua.table_from(helpers)


def _upper(text: str) -> str:
    """Letter by letter, so that none becomes two."""
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)


def _lower(text: str) -> str:
    return "".join(letter.lower()[0] for letter in text)


def _no_attribute(*_: object) -> NoReturn:
    raise AttributeError("scripts see nothing of the host")


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")


def _text(disguised: object) -> str:
    """The text behind what came out of Lua; bytes that are no UTF-8 become replacement characters, one each."""
    return _utf8(str(disguised).encode("latin-1", errors="replace"))


def _readable(text: str) -> str:
    """A text of a script as others get to see it: not too long, and without what moves a terminal."""
    return _CONTROL.sub("�", shortened(text))


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join("�" if "\udc80" <= c <= "\udcff" else c for c in data.decode(errors="surrogateescape"))


def _json(disguised: str) -> Any:
    return decode(_text(disguised))


def _settled(value: Any) -> Any:
    return settle_empties(value, ()) if value != [] else value


def _value(kind: str, value: Any, empties: bool) -> LuaValue:
    if kind in ("table", "unfit"):
        return LuaValue(kind, _text(value).encode(), None, bool(empties))
    return LuaValue(kind, b"", value)


def _without_nulls(value: Any) -> Any:
    if type(value) is dict:
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if type(value) is list:
        return [_without_nulls(member) for member in value if member is not None]
    return value
