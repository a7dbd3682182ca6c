"""Drafts: what retention policies keep, commit and cost, from the run's survey of the trace's rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from replay.amount import MEGABYTES, Amount
from replay.plot.style import BOUND, Looks, looks_for
from replay.report.figure import Figure, Grid, Head, grid
from replay.report.wording import change, count, decimals, percent

Account = dict[str, Any]


def _key(name: str) -> Any:
    return lambda row: row.get(name)


def _two(value: float) -> str:
    return decimals(value, 2)


def _three(value: float) -> str:
    return decimals(value, 3)


def _is_policy(name: str) -> bool:
    """Whether an engine can run it: ``best:`` rows are offline optima."""
    return not name.startswith("best:")


def draft_frame(survey: dict[str, Any]) -> pl.DataFrame:
    """One row a policy and draft step: what the chart shows."""
    rows = [
        {
            "policy": each["policy"],
            "tokens_per_cost": each["tokens_per_cost"],
            "step": step["step"],
            "acceptance_ratio": step["acceptance_ratio"],
        }
        for each in survey["policies"]
        for step in each["steps"]
    ]
    schema = {
        "policy": pl.String,
        "tokens_per_cost": pl.Float64,
        "step": pl.Int64,
        "acceptance_ratio": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def draft_looks(survey: dict[str, Any]) -> Looks:
    """What each retention policy looks like; the optimum in hindsight is the bound."""
    looks = looks_for(each["policy"] for each in survey["policies"])
    return {
        name: look if _is_policy(name) else replace(look, colour=BOUND, line="--", bound=True)
        for name, look in looks.items()
    }


def draft_grid(survey: dict[str, Any], unit: Amount = MEGABYTES) -> Grid:
    """Retention policies side by side."""
    recorded = next((each for each in survey["policies"] if each["policy"] == "recorded"), None)

    def against(row: Account) -> str:
        if (
            recorded is None
            or row is recorded
            or not row["tokens_per_cost"]
            or not recorded["tokens_per_cost"]
        ):
            return ""
        return change(row["tokens_per_cost"] / recorded["tokens_per_cost"] - 1)

    def per_round(row: Account) -> float | None:
        return row["committed"] / row["rounds"] if row["rounds"] and row["committed"] is not None else None

    worth = "committed tokens over the cost of the rounds; beside it the change against what was recorded"
    what = "bytes of the experts" if unit is MEGABYTES else "experts"
    wanted = f"{what} that the kept rows want, each once an event, per committed token"
    figures = [
        Figure(Head("kept", "per round", "drafts kept and verified in a round"), _key("mean_kept"), _two),
        Figure(Head("committed", "tokens", "tokens committed over all rounds"), _key("committed"), count),
        Figure(Head("tokens", "per round", "tokens committed in a round"), per_round, _two),
        Figure(Head("wasted", "rows", "draft rows verified in vain"), _key("wasted_rows"), count, "low"),
        Figure(Head("tokens", "over cost", worth), _key("tokens_per_cost"), _three, "high", against),
        Figure(
            Head(f"{unit.unit} wanted", "per token", wanted), _key("expert_bytes_per_token"), unit.text, "low"
        ),
    ]
    items = [(each["policy"], each) for each in survey["policies"]]
    looks = draft_looks(survey)
    return grid(
        "Draft retention", "retention", figures, items, eligible=_is_policy,
        note=lambda name: "" if _is_policy(name) else "bound", look=lambda name: looks[name].index,
    )  # fmt: skip


def step_grid(survey: dict[str, Any]) -> Grid:
    """The drafts that were recorded, step by step: acceptance, and whether keeping each paid."""
    first = survey["policies"][0]
    says = {True: "pays", False: "does not"}

    def margin(row: Account) -> float | None:
        pays = row["kept_margin"]["pays"]
        return None if pays is None else float(pays)

    given = "accepted / rounds whose earlier drafts all matched"
    rule = "the marginal rule: acceptance over marginal cost > tokens over cost so far"
    figures = [
        Figure(Head("drafts", doc="rounds that have a draft at this step"), _key("kept"), count),
        Figure(
            Head("accepted", doc="of them in the matched prefix"), _key("accepted"), lambda v: count(round(v))
        ),
        Figure(Head("acceptance", doc="accepted / drafts"), _key("acceptance_ratio"), percent),
        Figure(Head("acceptance", "given the earlier", given), _key("conditional_ratio"), percent),
        Figure(Head("keeping it", doc=rule), margin, lambda v: says[bool(v)]),
    ]
    items = [(str(step["step"]), step) for step in first["steps"]]
    return grid(f"Draft steps under {first['policy']}", "step", figures, items)


def verdict(survey: dict[str, Any]) -> str | None:
    """Which retention policy is worth most, in a sentence."""
    ranked = [each for each in survey["policies"] if _is_policy(each["policy"]) and each["tokens_per_cost"]]
    if len(ranked) < 2:
        return None
    best = max(ranked, key=lambda each: each["tokens_per_cost"])
    others = [f"{each['policy']} {each['tokens_per_cost']:.3f}" for each in ranked if each is not best]
    return f"Most tokens over cost: {best['policy']}, {best['tokens_per_cost']:.3f} ({', '.join(others)})."
