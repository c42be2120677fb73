"""Resource interpretation: replicas, retention, status, dependencies and health of any kind of resource."""

from services._rules.interpreter.common.interpretation import (
    AGGREGATE_STATUS,
    INTERPRET_COMPONENT,
    INTERPRET_DEPENDENCY,
    INTERPRET_HEALTH,
    INTERPRET_REPLICA,
    INTERPRET_STATUS,
    RETAIN,
    REVISE_REPLICA,
    Interpreter,
    InterpretError,
    InterpretLater,
)
from services._rules.interpreter.native.native_kinds import NativeInterpreter

__all__ = [
    "AGGREGATE_STATUS",
    "INTERPRET_COMPONENT",
    "INTERPRET_DEPENDENCY",
    "INTERPRET_HEALTH",
    "INTERPRET_REPLICA",
    "INTERPRET_STATUS",
    "RETAIN",
    "REVISE_REPLICA",
    "InterpretError",
    "InterpretLater",
    "Interpreter",
    "NativeInterpreter",
]
