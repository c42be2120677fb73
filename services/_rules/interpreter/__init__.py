"""Resource interpretation: replicas, retention, status, dependencies and health of any kind of resource."""

from services._rules.interpreter.common.interpretation import Interpreter, InterpretError, InterpretLater, Operation
from services._rules.interpreter.native.native_kinds import NativeInterpreter

__all__ = ["InterpretError", "InterpretLater", "Interpreter", "NativeInterpreter", "Operation"]
