"""``static``: a set learned from training sessions is never evicted (policies.md).

Pinned are, in each part, the experts wanted by most events of the training sessions (at least one), ties by
lowest id, as many as the part has slots. A pinned expert is loaded when it is first wanted or guessed, then
stays. Any miss takes a free slot or that of the least recently used resident that is not pinned; where no such
resident is eligible the miss is declined (a transient slot), of a pinned expert too: it tries again at its next miss.

``train=sessions/0-9`` (or ``sessions/3``, ``sessions/0-2/5/7-9``) learns from those sessions of the replayed trace, as
recorded, every row of them; ``train=PATH`` from all sessions of another trace of the same model, or from a file that
only counts picks (MoE-Infinity npy, llama.cpp imatrix, colibri usage history).
"""

import re

import numpy as np

from replay.arena.record import (
    CAPACITY,
    DECLINED,
    HOTNOW,
    KEY,
    KEY_PART,
    KEY_SIZE,
    KEYS,
    MARK,
    PART,
    PART_COUNT,
    PARTS,
    link_head,
)
from replay.declare.policy import Option, Policy
from replay.errors import InputError
from replay.evict import Training
from replay.evict.plain import move_to_head, tail_victim
from replay.jit import step

POLICY = Policy(
    name="static",
    kind="evict",
    summary="a pinned set learned from training sessions; lru among the rest",
    options={"train": Option("text", None, main=True)},
    needs="S",
    source="public engines that pin experts by a profile",
    by_bytes=False,
    declines=True,
)


def training(options):
    """Read ``train``.

    Parameters
    ----------
    options : mapping
        The policy's options.

    Returns
    -------
    Training

    Raises
    ------
    InputError
        There is none, or its sessions are not a range.

    Examples
    --------
    >>> training({"train": "sessions/0-9/12"})
    Training(trace=None, sessions=((0, 9), (12, 12)))
    """
    text = options.get("train")
    if text is None:
        raise InputError(
            "static needs training sessions; write static:train=sessions/0-9, static:train=TRACE or a file of counts"
        )
    head, slash, span = text.partition("/")
    if head != "sessions" or not slash:
        return Training(text, None)
    runs = []
    for each in span.split("/"):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", each)
        if not found or int(found[2] or found[1]) < int(found[1]):
            raise InputError(
                f"option 'train' of static: {text!r} is no range of sessions; write sessions/0-9"
            )
        runs.append((int(found[1]), int(found[2] or found[1])))
    return Training(None, tuple(runs))


def learn(m, counts):
    """Pin each part's most wanted experts.

    Parameters
    ----------
    m : int64[n]
        The memory, nothing loaded yet.
    counts : int64[L * E]
        Events of the training sessions that wanted each expert.
    """
    keys = m[KEYS] + KEY_SIZE * np.arange(len(counts))
    m[keys + MARK] = 0
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        own = order[m[keys[order] + KEY_PART] == p]
        m[keys[own[: m[p + CAPACITY]]] + MARK] = 1


@step
def enter(m, p, s):
    """A pinned expert stands outside the order; another goes to the head."""
    if m[m[s + KEY] + MARK] == 0:
        link_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit moves to the head, unless it is pinned."""
    if m[m[s + KEY] + MARK] == 0:
        move_to_head(m, p, s)
    return 0


@step
def victim(m, p, key):
    """First eligible from the tail; a miss is declined where there is none."""
    s = tail_victim(m, p)
    if s < 0 and key >= 0 and m[HOTNOW] < 0:
        return DECLINED
    return s


@step
def touch(m, p, s):
    """A resident guess moves to the head, unless it is pinned."""
    if m[m[s + KEY] + MARK] == 1:
        return 0
    move_to_head(m, p, s)
    return 1
