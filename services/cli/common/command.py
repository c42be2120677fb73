"""Makes commands of functions: the fields of a named tuple become options, a failure one sentence and an exit code."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from services.cli.common.command_group import CommandGroup
from services.cli.common.go_flags import SwitchCommand

Work = Coroutine[Any, Any, int | None] | int | None
"""What a command leaves to be run, or its exit code."""
Function = TypeVar("Function", bound=Callable[..., Work])


def split_commas(items: Iterable[str]) -> tuple[str, ...]:
    """Converts an option that may be repeated and whose values may hold several items, separated by commas."""
    return tuple(part for item in items for part in item.split(",") if part)


class Commands(typer.Typer):
    """A group of commands; alone on the command line, the name of a group shows its help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": CommandGroup, "rich_markup_mode": None, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Add the function as a command; a parameter that is a named tuple stands for the options of its fields.

        A field names its option (`--name`): typer would derive it from the names of the parameter and the field. A
        tuple is an option that may be repeated; any field may be annotated with a function that converts its value.
        """

        settings["epilog"] = _as_typed(settings.get("epilog"))

        def add(function: Function) -> Function:
            made = {"cls": SwitchCommand, **settings}
            super(Commands, self).command(name, **made)(expanded(function, _run))
            return function

        return add


def _as_typed(epilog: str | None) -> str | None:
    """Examples below a heading, one per line however narrow the terminal is: people copy them."""
    if epilog is None:
        return None
    heading, _, rest = epilog.partition("\n")
    lines = [line for line in rest.splitlines() if line.strip("\b ")]
    return "\n".join([heading, "", "\b", *lines])


def _run(work: Callable[[], Work]) -> None:
    from services.cli.common.running import run

    run(work)


def expanded(function: Callable[..., Any], call: Callable[[Callable[[], Any]], None]) -> Callable[..., None]:
    """What typer sees of a function: each named tuple among its parameters as one option per field; run by `call`."""
    parameters = inspect.signature(function, eval_str=True).parameters

    def called(**given: Any) -> None:
        values = {name: _value(name, one.annotation, given) for name, one in parameters.items()}
        call(lambda: function(**values))

    declared = [each for name, one in parameters.items() for each in _declared(name, one.annotation, one.default)]
    called.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]  # typer reads it
    called.__annotations__ = {}
    called.__name__, called.__doc__ = function.__name__, function.__doc__
    return called


def _declared(name: str, kind: Any, default: Any) -> Iterator[inspect.Parameter]:
    """The parameters of typer for a parameter or a field."""
    if _is_options(kind):
        for field, of in get_type_hints(kind, include_extras=True).items():
            default = kind._field_defaults.get(field, inspect.Parameter.empty)
            yield from _declared(f"{name}__{field}", of, default)
        return
    base, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if get_origin(base) in (tuple, dict):
        required = default is inspect.Parameter.empty
        items = types.GenericAlias(list, get_args(base)[0])
        kind = Annotated[(items if required else items | None, *marks)]
        default = default if required else None
    yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _value(name: str, kind: Any, given: Mapping[str, Any]) -> Any:
    """The value of a parameter or a field, from what typer has read."""
    if _is_options(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{field: _value(f"{name}__{field}", of, given) for field, of in hints.items()})
    base, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    value = tuple(given[name] or ()) if get_origin(base) in (tuple, dict) else given[name]
    for convert in filter(callable, marks):
        value = convert(value)
    return value


def _is_options(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
