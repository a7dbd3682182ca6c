"""Assisted generation: what the drafter proposed, and how much of it the model took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def watch_drafter(
    make: Callable[..., Any], tell: Callable[[list[float] | None, int, int], None]
) -> Callable[..., Any]:
    """Wrap what makes a model's candidate generators.

    Parameters
    ----------
    make : callable
        The model's ``_get_candidate_generator``.
    tell : callable
        Called once a round, after the verifying pass, with the drafts' probabilities (None: the drafter gives
        none), their number, and how many matched.

    Returns
    -------
    callable
    """

    def made(*args: Any, **kwargs: Any) -> Any:
        drafter = make(*args, **kwargs)
        get, update = drafter.get_candidates, drafter.update_candidate_strategy
        round_: dict[str, Any] = {}

        def get_candidates(input_ids: Any, *more: Any, **named: Any) -> Any:
            ids, logits = get(input_ids, *more, **named)
            drafted = ids[:, input_ids.shape[1] :]
            round_["count"] = int(drafted.shape[1])
            round_["p"] = None if logits is None else _probabilities(drafted, logits)
            return ids, logits

        def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
            if "count" in round_:
                tell(round_["p"], round_["count"], int(num_matches))
            return update(input_ids, scores, num_matches)

        drafter.get_candidates = get_candidates
        drafter.update_candidate_strategy = update_candidate_strategy
        return drafter

    return made


def _probabilities(drafted: Any, logits: Any) -> list[float]:
    """Probability that the drafter gave each token that it drafted."""
    count = drafted.shape[1]
    if not count:
        return []
    given = logits[0, -count:].double().softmax(-1)
    return given.gather(-1, drafted[0].to(given.device)[:, None])[:, 0].tolist()
