"""What the expressions of one request may cost together: units of cost, and processor time."""

import time
from typing import Any, Final

from services._rules.kubernetes.cel import costs
from services._rules.kubernetes.cel.programs import COST_EXCEEDED, CostExceeded, Inputs, Program

SECONDS: Final = 0.1
"""Processor time for the expressions of one request: others wait while they are evaluated."""


class BudgetSpent(Exception):
    """Nothing is left for the evaluation; it was not begun."""


class Budget:
    """What is left."""

    def __init__(self, cost: int = costs.LIMIT_PER_OBJECT, seconds: float = SECONDS) -> None:
        self._cost = cost
        self._until = time.thread_time() + seconds

    def evaluate(self, program: Program, inputs: Inputs, worst: int | None = None) -> Any:
        """Evaluate a program and take its cost; raises CostExceeded, EvaluationError and BudgetSpent.

        `worst` is the largest cost for any inputs, where it is known.
        """
        cost = program.cost_with(inputs, worst)
        if cost > costs.LIMIT_PER_EVALUATION:
            raise CostExceeded(COST_EXCEEDED)
        self._cost -= cost
        if self._cost < 0 or time.thread_time() > self._until:
            raise BudgetSpent
        return program.evaluate(inputs)
