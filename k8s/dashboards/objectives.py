"""What is left of each error budget, and how fast it burns."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import Dashboard, Panel, Query, Row, Steps, Variable, lines, table

_CHOSEN: Final = '{sloth_slo=~"$objective"}'
_BURNING: Final[Steps] = ((1, "orange"), (6, "red"), (14.4, "dark-red"))


def _burn(window: str) -> Panel:
    # Of the objective numbers there is one for all installations.
    expr = (
        f"max by (sloth_slo) (slo:sli_error:ratio_rate{window}{_CHOSEN})"
        f" / on (sloth_slo) max by (sloth_slo) (slo:error_budget:ratio{_CHOSEN})"
    )
    return lines(f"Burn rate over {window}", expr, "{{sloth_slo}}", steps=_BURNING)


DASHBOARD: Final = Dashboard(
    "service level objectives",
    (
        Row(
            "Budgets",
            (
                table(
                    "Objectives",
                    (
                        Query(f"max by (sloth_slo) (slo:objective:ratio{_CHOSEN})", "objective"),
                        Query(f"max by (sloth_slo) (slo:sli_error:ratio_rate5m{_CHOSEN})", "errors now"),
                        Query(f"max by (sloth_slo) (slo:current_burn_rate:ratio{_CHOSEN})", "burns now"),
                        Query(f"min by (sloth_slo) (slo:period_error_budget_remaining:ratio{_CHOSEN})", "budget left"),
                    ),
                    width=16,
                    about="docs/monitoring.md says what each one counts.",
                ),
                Panel(
                    "Least budget left",
                    (Query(f"min(slo:period_error_budget_remaining:ratio{_CHOSEN})", "left"),),
                    "percentunit",
                    "gauge",
                    # Worst first: the colour below the first bound is that of a panel without any.
                    ((-1e9, "red"), (0.1, "orange"), (0.25, "yellow"), (0.5, "green")),
                    about="Below a quarter only important changes are made, below a tenth none.",
                ),
                lines(
                    "Budget left",
                    f"min by (sloth_slo) (slo:period_error_budget_remaining:ratio{_CHOSEN})",
                    "{{sloth_slo}}",
                    "percentunit",
                ),
                lines(
                    "Errors over the whole period",
                    f"max by (sloth_slo) (slo:sli_error:ratio_rate30d{_CHOSEN})",
                    "{{sloth_slo}}",
                    "percentunit",
                ),
                lines(
                    "Burn rate over the whole period",
                    f"max by (sloth_slo) (slo:period_burn_rate:ratio{_CHOSEN})",
                    "{{sloth_slo}}",
                ),
            ),
        ),
        Row(
            "Burn rates: above 14.4 and 6 someone is called, above 3 and 1 there is a ticket",
            [_burn(each) for each in ("5m", "30m", "1h", "6h", "1d", "3d")],
        ),
    ),
    (Variable("objective", "label_values(slo:objective:ratio, sloth_slo)"),),
)
