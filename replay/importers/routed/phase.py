"""Words for the two phases, as engines write them."""

from __future__ import annotations

import numpy as np

from replay.importers.routed.cells import DECODE, PREFILL, UNKNOWN
from replay.importers.routed.survey import Refuse

_WORDS = {
    "prefill": PREFILL,
    "prompt": PREFILL,
    "pp": PREFILL,
    "extend": PREFILL,
    "decode": DECODE,
    "gen": DECODE,
    "generate": DECODE,
    "generation": DECODE,
    "tg": DECODE,
    "": UNKNOWN,
    "unknown": UNKNOWN,
}


def phase_codes(words: np.ndarray, lines: np.ndarray, refuse: Refuse) -> np.ndarray:
    """Turn words into codes.

    Parameters
    ----------
    words : numpy.ndarray of object, [n]
        Text, None where unknown.
    lines : numpy.ndarray of int64, [n]
        Where each is from.
    refuse : function
        Raises for a line.

    Returns
    -------
    numpy.ndarray of int64, [n]
    """
    distinct, at = np.unique(
        np.array(["" if word is None else str(word) for word in words]), return_inverse=True
    )
    codes = np.array([_WORDS.get(str(word).strip().lower(), -1) for word in distinct], np.int64)[at]
    refuse(lines, codes < 0, lambda i: f"expected phase prefill or decode, found {str(words[i])[:40]!r}")
    return codes
