"""What an object takes in memory with all that it alone refers to, counted object by object."""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from msgspec import Struct

_SHARED: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def deep_size(root: object) -> int:
    """Bytes of everything that can be reached, each object once; classes, modules and functions are not counted.

    It does not depend on the allocator, nor on what else the process has: equal objects give equal sizes.
    """
    size, seen, waiting = 0, {id(root)}, [root]
    while waiting:
        found = waiting.pop()
        size += sys.getsizeof(found)
        for each in _parts(found):
            if id(each) not in seen and not isinstance(each, _SHARED):
                seen.add(id(each))
                waiting.append(each)
    return size


def _parts(found: object) -> list[Any]:
    # The collector does not look into structs that ask it not to.
    if isinstance(found, Struct):
        return [getattr(found, name) for name in found.__struct_fields__]
    return gc.get_referents(found) if gc.is_tracked(found) or isinstance(found, dict | tuple | list) else []
