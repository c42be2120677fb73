"""Compiling expressions and evaluating them, through the language's implementation in C++.

An expression is checked with the declared types of its variables; what is evaluated is compiled without them, because
objects are plain JSON. The implementation stops an evaluation after ten thousand rounds of loops by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

import msgspec

from services._rules.kubernetes.cel import costs
from services._rules.kubernetes.cel.functions import FUNCTIONS, OPAQUE_TYPES, Function
from services._rules.kubernetes.cel.literals import literal_problems
from services._rules.kubernetes.cel.optional_results import declaration, with_optionals
from services._rules.kubernetes.cel.selections import Selection, pruned, selected
from services._rules.kubernetes.cel.syntax import Node, syntax_of, variables, walk
from services._rules.kubernetes.cel.value_sizes import Looks, Seen, Sized

COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
_LIBRARIES: Final = "name: kubernetes\nextensions:\n" + "".join(
    f"- name: {name}\n"
    for name in ("optional", "bindings", "strings", "sets", "lists", "math", "two-var-comprehensions")
)
LONGEST: Final = 16_384
"""Characters of an expression: compiling a longer one would hold up others."""
_REFUSED: Final = {"lists.range": "range", "cel.@mapInsert": "transformMap"}
"""Functions that make much out of little, or that the implementation cannot run."""
_OPAQUE: Final = re.compile("|".join(re.escape(name) for name in OPAQUE_TYPES))
_OPTIONAL: Final = tuple(function for function in FUNCTIONS if function.gives.startswith("optional("))
_OPTIONAL_NAMES: Final = frozenset(function.name for function in _OPTIONAL)
_STRUCT: Final = re.compile(r" not found in struct '[^']*'")


class CompileError(ValueError):
    """An expression that cannot be used; the text lists the places."""


class EvaluationError(Exception):
    """An evaluation that has no result."""


class CostExceeded(EvaluationError):
    """An evaluation that was not begun or not finished because it costs too much."""


@cache
def _cel() -> Any:
    from cel_expr_python import cel  # Only servers that meet an expression pay for loading it.

    return cel


@cache
def load() -> None:
    """Load what compiling needs, which takes a fifth of a second the first time."""
    from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2  # noqa: F401

    Program("true", ())


@cache
def _config() -> Any:
    return _cel().NewEnvConfigFromYaml(_LIBRARIES)


@cache
def _checked_config() -> Any:
    declared = [declaration(one.name, one.takes, one.gives, member=one.member) for one in _OPTIONAL]
    # JSON is YAML, too.
    return _cel().NewEnvConfigFromYaml(f"{_LIBRARIES}functions: {msgspec.json.encode(declared).decode()}\n")


def _type(name: str) -> Any:
    """Return a type of the checker by the name that the tables of functions use."""
    types = _cel().Type
    if name.startswith("list("):
        return types.List(_type(name[5:-1]))
    if name.startswith("map("):
        key, _, value = name[4:-1].partition(", ")
        return types.Map(_type(key), _type(value))
    return getattr(types, name.upper()) if name.islower() and "." not in name else types(name)


def _declarations(*, checked: bool) -> list[Any]:
    """Return the declarations of the functions: with their types to check by, or as they run, with maps for others."""
    found: dict[str, list[Any]] = {}
    seen: set[tuple[Any, ...]] = set()
    for function in FUNCTIONS:
        if checked and function in _OPTIONAL:
            continue
        takes, gives = function.takes, function.gives
        if not checked:
            takes = tuple(_running(name) for name in takes)
            gives = "dyn"
        key = (function.name, function.member, takes)
        if key in seen:
            continue
        seen.add(key)
        found.setdefault(function.name, []).append(_overload(function, takes, gives, checked=checked))
    return [_cel().FunctionDecl(name, overloads) for name, overloads in found.items()]


def _running(name: str) -> str:
    if _OPAQUE.search(name):
        return "map(dyn, dyn)"
    return "list(dyn)" if name.startswith("list(") else name


def _overload(function: Function, takes: tuple[str, ...], gives: str, *, checked: bool) -> Any:
    identity = "_".join((function.name, *takes)).replace("(", "_").replace(")", "").replace(", ", "_")
    given = {} if checked else {"impl": function.call}
    return _cel().Overload(
        identity,
        return_type=_type(gives),
        parameters=[_type(name) for name in takes],
        is_member=function.member,
        **given,
    )


@cache
def _checked_functions() -> list[Any]:
    return _declarations(checked=True)


@cache
def _running_functions() -> list[Any]:
    return _declarations(checked=False)


@lru_cache(maxsize=64)
def _running_env(names: tuple[str, ...]) -> Any:
    cel = _cel()
    return cel.NewEnv(config=_config(), variables=dict.fromkeys(names, cel.Type.DYN), functions=_running_functions())


class Checked(msgspec.Struct, frozen=True):
    """An expression that was found right."""

    gives: str
    """The name of the type of its result."""
    tree: Node


class Checker:
    """Checks expressions over variables of declared types."""

    def __init__(self, pool: Any, types: Mapping[str, str]) -> None:
        declared = {name: _type(given) for name, given in types.items()}
        self._env = _cel().NewEnv(pool, config=_checked_config(), variables=declared, functions=_checked_functions())

    def check(self, expression: str) -> Checked:
        """Return the expression with its types; raises CompileError."""
        _refuse_long(expression)
        try:
            compiled = self._env.compile(expression)
            tree = syntax_of(compiled.serialize())
        except RuntimeError as error:
            raise CompileError(_issues(str(error))) from None
        _refuse(tree)
        if problems := list(literal_problems(tree)):
            raise CompileError("\n".join(f"ERROR: <input>: {text}" for text in problems))
        return Checked(str(compiled.return_type().name()).lower(), tree)


def _refuse_long(expression: str) -> None:
    if len(expression) > LONGEST:
        text = f"expression code point size exceeds limit: size: {len(expression)}, limit {LONGEST}"
        raise CompileError(f"ERROR: <input>:-1:0: {text}")


def _refuse(tree: Node) -> None:
    for part in walk(tree):
        if part.name in _REFUSED:
            raise CompileError(f"ERROR: <input>: undeclared reference to '{_REFUSED[part.name]}' (in container '')")


def _issues(text: str) -> str:
    """Return the compiler's text without the code of its kind of error and the names of generated types."""
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]").removesuffix(" [CANCELLED]")
    issues = _STRUCT.sub("", text).split("\nERROR: ")
    # What follows from an error that is in the list already.
    return "\nERROR: ".join(issues[:1] + [issue for issue in issues[1:] if "'*error*'" not in issue])


class Program:
    """An expression that can be evaluated; its variables are JSON values."""

    def __init__(self, expression: str, names: tuple[str, ...]) -> None:
        _refuse_long(expression)
        self._names = names
        self._env = _running_env(names)
        try:
            self._compiled = self._env.compile(expression)
            serialized = self._compiled.serialize()
            self.tree = syntax_of(serialized)
            if any(part.name in _OPTIONAL_NAMES for part in walk(self.tree)):
                self._compiled = self._env.deserialize(with_optionals(serialized, _OPTIONAL_NAMES))
        except RuntimeError as error:
            raise CompileError(_issues(str(error))) from None
        _refuse(self.tree)
        self.uses = variables(self.tree)
        self.selection = selected(self.tree)
        self._grows = costs.grows(self.tree)
        self._fixed = 0 if self._grows else costs.cost(self.tree, {})

    def cost_of(self, shapes: Mapping[str, Sized]) -> int:
        """Return the largest cost for variables of these sizes."""
        return costs.cost(self.tree, shapes) if self._grows else self._fixed

    def cost_with(self, inputs: Inputs) -> int:
        """Return the largest cost of an evaluation with these inputs."""
        return costs.cost(self.tree, inputs.sizes(self.uses)) if self._grows else self._fixed

    def take_over(self, inputs: Inputs) -> Any:
        """Return what the expression sees of the inputs, as it is evaluated with."""
        return inputs.activation(self._env, self._names, self.selection)

    def evaluate(self, inputs: Inputs) -> Any:
        """Return the result; raises EvaluationError."""
        return self.result(self.take_over(inputs))

    def result(self, activation: Any) -> Any:
        """Return the result with inputs that are taken over; raises EvaluationError."""
        try:
            result = self._compiled.eval(activation)
            kind = result.type()
            if kind == _cel().Type.ERROR or kind == _cel().Type.UNKNOWN:
                raise _failure(str(result.value()))
            return result.plain_value()
        except RuntimeError as error:
            raise _failure(str(error)) from None
        except TypeError:
            raise EvaluationError("the result has a type that cannot be used") from None


class Inputs:
    """The variables of one evaluation or of several."""

    __slots__ = ("_activations", "_selection", "_sizes", "looks", "values")

    def __init__(self, values: dict[str, Any], selection: Selection | None = None) -> None:
        """`selection` is what all expressions select that are evaluated with them: it is taken over once for all."""
        self.values = values
        self.looks = Looks()
        self._selection = selection
        self._activations: dict[int, Any] = {}
        self._sizes: dict[str, Sized] = {}

    def activation(self, env: Any, names: tuple[str, ...], selection: Selection) -> Any:
        """Return the variables as an environment takes them."""
        if self._selection is None:
            return env.Activation(self._pruned(names, selection))
        found = self._activations.get(id(env))
        if found is None:
            found = self._activations[id(env)] = env.Activation(self._pruned(names, self._selection))
        return found

    def _pruned(self, names: tuple[str, ...], selection: Selection) -> dict[str, Any]:
        return {name: pruned(self.values.get(name), selection.get(name, {})) for name in names}

    def sizes(self, names: frozenset[str]) -> dict[str, Sized]:
        """Return the sizes of those variables that are wanted; what is looked up in them counts from now on."""
        self.looks.count = 0
        for name in names & self.values.keys():
            if name not in self._sizes:
                self._sizes[name] = Seen([self.values[name]], self.looks)
        return self._sizes


_TEXTS: Final = (
    (re.compile(r'Key not found in map : "?(.*?)"?$', re.DOTALL), "no such key: {}"),
    (re.compile(r"No matching overloads found : .*", re.DOTALL), "no such overload"),
    (re.compile(r"Index error: index=(-?\d+) .*"), "index out of bounds: {}"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero"), "modulus by zero"),
)
_CODE: Final = re.compile(r"^[A-Z_]+: ")


def _failure(text: str) -> EvaluationError:
    """Return an error with the text that cel-go has for it."""
    text = _CODE.sub("", text)
    text = re.sub(r" \[[A-Z_]+\]$", "", text)
    if "Iteration budget exceeded" in text:
        return CostExceeded(COST_EXCEEDED)
    for pattern, wanted in _TEXTS:
        match = pattern.search(text)
        if match:
            return EvaluationError(wanted.format(*match.groups()))
    return EvaluationError(text)
