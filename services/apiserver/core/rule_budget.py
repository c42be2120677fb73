"""What the expressions of one request may cost together: units of cost, and processor time."""

import time
from typing import Any, Final

from services._rules.kubernetes.cel import costs
from services._rules.kubernetes.cel.programs import COST_EXCEEDED, CostExceeded, Inputs, Program

SECONDS: Final = 1.0
"""Processor time for the expressions of one request, for which the units of its budget stand."""


class BudgetSpent(Exception):
    """Nothing is left for the evaluation; it was not begun."""


class Budget:
    """What is left; only what evaluations take is counted, not what it takes to decide about them."""

    def __init__(self, cost: int = costs.LIMIT_PER_OBJECT, seconds: float = SECONDS) -> None:
        self._cost = cost
        self._seconds = seconds
        self._assumed: list[tuple[Program, Inputs, int]] = []
        self.spent = 0
        """Units of cost of all that was begun, and the values that were looked at for them."""

    def evaluate(self, program: Program, inputs: Inputs, worst: int | None = None) -> Any:
        """Evaluate a program and take its cost; raises CostExceeded, EvaluationError and BudgetSpent.

        `worst` is the largest cost for any inputs, where it is known.
        """
        self._take(program, inputs, worst)
        if self._cost < 0 or self._seconds < 0:
            raise BudgetSpent
        seen = program.take_over(inputs)
        begun = time.thread_time()
        try:
            return program.result(seen)
        finally:
            self._seconds -= time.thread_time() - begun

    def _take(self, program: Program, inputs: Inputs, worst: int | None) -> None:
        if worst is not None and worst <= costs.LIMIT_PER_EVALUATION:
            self._cost -= worst
            self.spent += worst
            self._assumed.append((program, inputs, worst))
            if self._cost < 0:
                self._look_again()
            return
        cost = program.cost_with(inputs)
        self.spent += inputs.looks.count
        if cost > costs.LIMIT_PER_EVALUATION:
            raise CostExceeded(COST_EXCEEDED)
        self._cost -= cost
        self.spent += cost

    def _look_again(self) -> None:
        """Put what the evaluations can have cost with the sizes of their inputs in place of what was assumed."""
        for program, inputs, worst in self._assumed:
            self._cost += worst - min(worst, program.cost_with(inputs))
        self._assumed.clear()
