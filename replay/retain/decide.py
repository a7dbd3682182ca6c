"""How many drafts of each round a policy keeps (semantics 9).

A policy that would keep a draft which has no row is refused: it is looser than what was recorded.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from replay.errors import InputError
from replay.retain.policy import Retention
from replay.retain.rounds import Floats, Ints, Rounds, read_rounds


def _prefix(passes: npt.NDArray[np.bool_]) -> Ints:
    """Count the leading True of each row: bool[rounds, steps] to int64[rounds]."""
    return np.logical_and.accumulate(passes, axis=1).sum(axis=1, dtype=np.int64)


def confidence(p: Floats) -> Floats:
    """Return the acceptance of each draft where acceptance is modelled as the draft head's confidence.

    Parameters
    ----------
    p : float64[rounds, steps]
        Draft head probabilities.

    Returns
    -------
    float64[rounds, steps]
        ``A_j = p_0 * .. * p_j`` in double; 0 from the first value on that is no probability (NaN included).
    """
    return np.cumprod(np.where((p >= 0.0) & (p <= 1.0), p, 0.0), axis=1, dtype=np.float64)


def decide(p: Floats, length: Ints, policy: Retention) -> tuple[Ints, Ints]:
    """Decide how many drafts of each round a policy keeps.

    Every gate passes some prefix of a round; the policy keeps the shortest of them.

    Parameters
    ----------
    p : float64[rounds, steps]
        Draft head probabilities, padded with anything.
    length : int64[rounds]
        Drafts of each round.
    policy : Retention
        The policy.

    Returns
    -------
    kept : int64[rounds]
        Drafts kept.
    ran : int64[rounds]
        Draft steps that a drafter which stops at the first failing draft has run: that draft included.
    """
    steps = p.shape[1]
    passes = np.arange(steps) < length[:, None]
    if policy.closed:
        passes &= (p >= 0.0) & (p <= 1.0)
        passes &= confidence(p) >= (policy.min_cum_p or 0.0)
    others = _prefix(passes)
    if policy.min_p is not None or policy.schedule:
        passes &= p >= policy.floors(steps)
    kept = _prefix(passes)
    ran = np.minimum(kept + 1, length)
    return (np.minimum(kept + 1, others) if policy.append else kept), ran


def keep(rounds: Rounds, policy: Retention) -> tuple[Ints, Ints]:
    """Decide how many drafts of recorded rounds a policy keeps, or refuse.

    Parameters
    ----------
    rounds : Rounds
        Recorded rounds.
    policy : Retention
        The policy; one without a gate keeps every draft that has a row.

    Returns
    -------
    kept, ran : int64[rounds]
        As ``decide`` gives them.

    Raises
    ------
    InputError
        The policy keeps a draft that has no row: it is looser than what was recorded.
    """
    if not policy.gated:
        return rounds.verified, rounds.length
    kept, ran = decide(rounds.p, rounds.length, policy)
    missing = kept > rounds.verified
    if missing.any():
        at = int(missing.argmax())
        raise InputError(
            f"{policy.name}: looser than what was recorded: window {rounds.window[at]} would keep {kept[at]} "
            f"drafts and has rows for {rounds.verified[at]}; choose a tighter policy"
        )
    return kept, ran


def rows_used(
    rows: Ints, drafts: Mapping[str, npt.NDArray[np.generic]], policy: Retention, first: int = 0
) -> Ints:
    """Return how many rows of each window a replay under a policy counts.

    Parameters
    ----------
    rows : int64[windows]
        Rows recorded.
    drafts : mapping of str to array
        Their part of the table ``drafts``; see ``read_rounds``.
    policy : Retention
        The policy.
    first : int, optional
        Number of the first window of ``rows``.

    Returns
    -------
    int64[windows]
        1 + kept drafts for a window with drafts; every row of any other.

    Raises
    ------
    InputError
        As ``read_rounds`` and ``keep``.
    """
    rounds = read_rounds(drafts, rows, first=first)
    used = rows.astype(np.int64)
    used[rounds.window - first] = 1 + keep(rounds, policy)[0]
    return used


def committed(
    rows: Ints,
    prefill: npt.NDArray[np.bool_],
    drafts: Mapping[str, npt.NDArray[np.generic]],
    policy: Retention,
    first: int = 0,
) -> Ints:
    """Return how many tokens each window commits under a policy.

    Parameters
    ----------
    rows : int64[windows]
        Rows recorded.
    prefill : bool[windows]
        Which windows are prefill.
    drafts : mapping of str to array
        Their part of the table ``drafts``; see ``read_rounds``.
    policy : Retention
        The policy.
    first : int, optional
        Number of the first window of ``rows``.

    Returns
    -------
    int64[windows]
        1 + matched drafts among the kept; 1 for a decode window without drafts (its row 0); 0 for prefill.

    Raises
    ------
    InputError
        As ``read_rounds`` and ``keep``.
    """
    rounds = read_rounds(drafts, rows, prefill, first)
    tokens = (~prefill).astype(np.int64)
    tokens[rounds.window - first] += np.minimum(keep(rounds, policy)[0], rounds.matched)
    return tokens
