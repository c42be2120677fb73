"""Grades of node sizes of a cluster: the default ones, their normal form, their rules (reference 01 §4.4)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from services._rules.kubernetes import quantity

Model = Mapping[str, Any]

_MAX: Final = str(2**63 - 1)
# Upper bounds of the grades; the last grade is open.
_CPU: Final = ("1", "2", "4", "8", "16", "32", "64", "128")
_MEMORY: Final = ("4Gi", "16Gi", "32Gi", "64Gi", "128Gi", "256Gi", "512Gi", "1Ti")


def default_models() -> list[dict[str, Any]]:
    """The grades of a cluster whose owner names none."""
    return [
        {
            "grade": grade,
            "ranges": [
                {"name": name, "min": low, "max": high} for name, low, high in (("cpu", *cpu), ("memory", *memory))
            ],
        }
        for grade, (cpu, memory) in enumerate(zip(_intervals(_CPU), _intervals(_MEMORY), strict=True))
    ]


def normalized(models: Sequence[Model]) -> list[dict[str, Any]]:
    """Sorted by grade, the first starting at nothing and the last open above."""
    result = [dict(item) for item in sorted(models, key=lambda item: item.get("grade") or 0)]
    result[0]["ranges"] = [item | {"min": "0"} for item in result[0].get("ranges") or ()]
    result[-1]["ranges"] = [item | {"max": _MAX} for item in result[-1].get("ranges") or ()]
    return result


def problem(models: Sequence[Model]) -> str:
    """The first thing that is wrong with normalized grades, or nothing."""
    names: list[str] = []
    for position, model in enumerate(models):
        ranges = model.get("ranges") or []
        if position and model.get("grade", 0) == models[position - 1].get("grade", 0):
            return f"grade {model.get('grade', 0)} appears twice"
        found = [item.get("name") or "" for item in ranges]
        if position and found != names:
            return "every grade must have the same resources in the same order"
        names = found
        if wrong := _wrong_ranges(models, position):
            return wrong
    return ""


def _wrong_ranges(models: Sequence[Model], position: int) -> str:
    ranges = models[position].get("ranges") or []
    before = models[position - 1].get("ranges") or [] if position else []
    for number, item in enumerate(ranges):
        name, low, high = item.get("name") or "", quantity.parse(item.get("min")), quantity.parse(item.get("max"))
        if high.nano <= low.nano:
            return f"the upper bound of {name} must be above the lower one"
        if position == 0 and low.nano != 0:
            return f"the first grade of {name} must start at 0"
        if position and not _same(item.get("min"), before[number].get("max")):
            return f"each grade of {name} must start where the one before ends, written the same way"
        if position == len(models) - 1 and str(high) != _MAX:
            return f"the last grade of {name} must be open above"
    return ""


def _same(low: Any, high: Any) -> bool:
    """Whether two bounds are the same amount written the same way; Kubernetes compares them with their spelling."""
    first, second = quantity.parse(low), quantity.parse(high)
    return first == second and str(low).strip() == str(high).strip() and first.format == second.format


def _intervals(bounds: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(("0", *bounds), (*bounds, _MAX), strict=True))
