"""What drafts are worth: a curve of acceptance that other sessions calibrated, and the best of each family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.amount import MEGABYTES, Amount
from replay.report.figure import Figure, Grid, Head, grid
from replay.report.wording import count, decimals

Row = dict[str, Any]
_SAYS = {None: None, True: 1.0, False: 0.0}


@dataclass(frozen=True)
class Worth:
    """The tables on what drafts are worth.

    Attributes
    ----------
    policies : Grid
        Tokens over cost of each policy: measured, by the confidence, by the calibrated curve.
    steps : Grid
        A row a draft step: how well its acceptance is told, and whether it pays.
    choices : Grid or None
        The best of each family, chosen on some sessions and scored on the others; None with one session.
    text : str
        How the tables were made.
    """

    policies: Grid
    steps: Grid
    choices: Grid | None
    text: str


def worth(survey: Row | None, unit: Amount = MEGABYTES) -> Worth | None:
    """Make the tables from a run's survey of its drafts; None where it has no economy."""
    found = (survey or {}).get("economy")
    if not found:
        return None
    choices = _choices((survey or {}).get("choices") or [])
    text = (
        "Calibrated: the acceptance that an isotonic curve by draft step tells from the confidence, each session "
        f"judged by curves of the others ({found['folds']} folds). By confidence: acceptance = confidence."
    )
    return Worth(_policies(found["policies"], unit), _steps(found), choices, text)


def _key(name: str) -> Any:
    return lambda row: row.get(name)


def _three(value: float) -> str:
    return decimals(value, 3)


def _may(name: str) -> bool:
    return not name.startswith("best:")


def _policies(rows: list[Row], unit: Amount) -> Grid:
    wasted = f"{'bytes of ' if unit is MEGABYTES else ''}experts that only rejected rows wanted, per committed token"
    figures = [
        Figure(Head("tokens over cost", "measured"), _key("measured"), _three, "high"),
        Figure(Head("tokens over cost", "by confidence"), _key("identity"), _three),
        Figure(Head("tokens over cost", "calibrated"), _key("calibrated"), _three),
        Figure(
            Head(f"{unit.unit} wasted", "per token", wasted), _key("wasted_bytes_per_token"), unit.text, "low"
        ),
    ]
    return grid(
        "What each retention policy is worth", "retention", figures, [(row["policy"], row) for row in rows],
        eligible=_may, note=lambda name: "" if _may(name) else "bound",
    )  # fmt: skip


def _steps(found: Row) -> Grid:
    """A row a draft step, its calibration and the marginal rule by what matched, the confidence and the curve."""
    rows = [{**told, **rule} for told, rule in zip(found["calibration"], found["marginal"], strict=True)]

    def of(name: str, place: int) -> Any:
        return lambda row: None if row[name] is None else row[name][place]

    def pays(name: str) -> Any:
        return lambda row: _SAYS[row[name]["pays"]]

    def says(value: float) -> str:
        return "pays" if value else "does not"

    def four(value: float) -> str:
        return decimals(value, 4)

    rule = "the marginal rule: acceptance over marginal cost > tokens over cost so far"
    brier, loss = "mean squared error, less is better", "mean negative log likelihood, less is better"
    figures = [
        Figure(Head("drafts", doc="whose earlier drafts all matched"), _key("drafts"), count),
        Figure(Head("accepted"), _key("accepted"), count),
        Figure(Head("mean", "confidence"), _key("mean_p"), _three),
        Figure(Head("Brier score", "confidence", brier), of("brier", 0), four),
        Figure(Head("Brier score", "calibrated", brier), of("brier", 1), four),
        Figure(Head("log loss", "confidence", loss), of("log_loss", 0), four),
        Figure(Head("log loss", "calibrated", loss), of("log_loss", 1), four),
        Figure(Head("keeping it", "measured", rule), pays("measured"), says),
        Figure(Head("keeping it", "by confidence", rule), pays("identity"), says),
        Figure(Head("keeping it", "calibrated", rule), pays("calibrated"), says),
    ]
    return grid(
        "How well each step's acceptance is told, and whether the draft pays", "step", figures,
        [(str(row["step"]), row) for row in rows],
    )  # fmt: skip


def _choices(rows: list[Row]) -> Grid | None:
    """The best of each family."""
    if not rows:
        return None
    best = "what the family's best would have had there, chosen on them"
    figures = [
        Figure(Head("training", "sessions"), _key("training"), _three),
        Figure(Head("held out", "sessions", "its tokens over cost there"), _key("held_out"), _three, "high"),
        Figure(Head("best there", "of the family", best), _key("best_held_out"), _three),
        Figure(Head("recorded", "there"), _key("recorded_held_out"), _three),
    ]
    caption = "Thresholds chosen on training sessions, tokens over cost on sessions that were held out"
    return grid(caption, "retention", figures, [(row["policy"], row) for row in rows])
