"""How ``replay drafts`` shows the economics of drafts and a sweep."""

from typing import TYPE_CHECKING, Any

from replay.cli.table import aligned

if TYPE_CHECKING:
    from replay.retain.cost import Margin
    from replay.retain.economy import Economy
    from replay.retain.sweep import Sweep

WORTH = ("policy", "kept/round", "tokens/cost", "by confidence", "calibrated")
STEPS = (
    "step", "drafts", "accepted", "mean p", "Brier p", "calibrated", "log loss p", "calibrated", "pays", "by p",
    "calibrated",
)  # fmt: skip
CHOICES = ("best on training sessions", "family", "training", "held out", "best there", "recorded there")


def per_token(sized: bool) -> str:
    """The head of what a token wants: bytes, or experts where their sizes are not known."""
    return "expert bytes/token" if sized else "experts/token"


def moved(value: float | None, sized: bool) -> str | None:
    """Bytes as a person reads them, or a number of experts where 1 byte stands for each."""
    from replay.units import format_bytes

    if value is None:
        return None
    return format_bytes(round(value)) if sized else f"{value:,.2f}"


def economy_lines(found: "Economy", sized: bool = True) -> list[str]:
    """Two tables: what each policy is worth, and how well each step's acceptance is told."""
    worth = [
        [
            each.policy,
            f"{each.mean_kept:.3f}",
            *(f"{value:.6f}" for value in (each.measured, each.identity, each.calibrated)),
            moved(each.bytes_per_token, sized),
            moved(each.wasted_bytes_per_token, sized),
        ]
        for each in found.policies
    ]
    steps = []
    for each, rule in zip(found.calibration, found.marginal, strict=True):
        pairs: list[Any] = []
        for pair in (each.brier, each.log_loss):
            pairs += [None, None] if pair is None else [f"{pair[0]:.4f}", f"{pair[1]:.4f}"]
        mean = None if each.mean_p is None else f"{each.mean_p:.3f}"
        says = [_says(margin) for margin in (rule.measured, rule.identity, rule.calibrated)]
        steps.append([each.step, each.drafts, each.accepted, mean, *pairs, *says])
    note = f"calibrated: isotonic by step, each session judged by the others ({found.folds} folds)"
    heads = (*WORTH, per_token(sized), "of wasted rows")
    return [aligned(heads, worth), "", aligned(STEPS, steps), note]


def _says(margin: "Margin") -> str | None:
    return {None: None, True: "pays", False: "does not"}[margin.pays]


def sweep_lines(found: "Sweep") -> list[str]:
    """The best of each family, chosen on training sessions and scored on held-out ones; else over all rounds."""
    if found.choices:
        rows = [
            [
                each.policy,
                each.family,
                *(
                    f"{v:.6f}"
                    for v in (each.training, each.held_out, each.best_held_out, each.recorded_held_out)
                ),
            ]
            for each in found.choices
        ]
        note = f"tokens/cost on {found.training} training and {found.held_out} held-out sessions"
        return [aligned(CHOICES, rows), note]
    rows = []
    for family in dict.fromkeys(each.family for each in found.points):
        best = max(
            (each for each in found.points if each.family == family), key=lambda each: each.tokens_per_cost
        )
        rows.append([best.policy, family, f"{best.tokens_per_cost:.6f}"])
    return [
        aligned(("best over all rounds", "family", "tokens/cost"), rows),
        "one session: nothing is held out",
    ]
