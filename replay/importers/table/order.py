"""The order of a table's rows: as time goes, starting over, or none."""

from __future__ import annotations

import numpy as np


class Order:
    """Watches the keys of rows go by.

    Parameters
    ----------
    stepped : bool
        Whether a column tells forward steps.

    Attributes
    ----------
    rows : int
        Rows seen.
    restarts : int
        Times that tokens started over after a whole token, with no session to tell.
    shuffled : bool
        Whether any row came out of order.
    """

    def __init__(self, stepped: bool):
        self._stepped = stepped
        self.rows = self.restarts = 0
        self.shuffled = False
        self._last: np.ndarray | None = None  # session, step, token, layer
        self._seen: set[int] = set()  # sessions that are over
        self._falls: set[tuple[int, int]] = set()  # layers before and after tokens started over
        self._span = (2**62, -1)  # lowest and highest layer

    def add(self, session: np.ndarray, step: np.ndarray, token: np.ndarray, layer: np.ndarray) -> None:
        """Look at some rows.

        Parameters
        ----------
        session, step, token, layer : numpy.ndarray of int64, [n]
            Their keys; step is 0 where no column tells it.
        """
        if len(layer) == 0:
            return
        self.rows += len(layer)
        self._span = min(self._span[0], int(layer.min())), max(self._span[1], int(layer.max()))
        keys = np.stack([session, step, token, layer])
        if self._last is not None:
            keys = np.concatenate([self._last[:, None], keys], axis=1)
        self._last = keys[:, -1]
        before, after = keys[:, :-1], keys[:, 1:]
        if self._stepped:
            self._watch_steps(before, after)
        else:
            self._watch_tokens(before, after)

    def _watch_steps(self, before: np.ndarray, after: np.ndarray) -> None:
        """Steps may not fall; inside one, rows go token by token or layer by layer."""
        same = before[1] == after[1]
        rows = (before[0] == after[0]) & (before[2] == after[2])
        by_token = rows & (before[3] <= after[3]) | ~rows & (before[2] <= after[2])
        by_layer = (before[3] < after[3]) | (before[3] == after[3])
        self.shuffled |= bool((before[1] > after[1]).any() or (same & ~by_token & ~by_layer).any())

    def _watch_tokens(self, before: np.ndarray, after: np.ndarray) -> None:
        """A session's tokens may not fall, a token's layers neither; sessions may not come back."""
        other = before[0] != after[0]
        for left, entered in zip(before[0][other].tolist(), after[0][other].tolist(), strict=True):
            self._seen.add(left)
            self.shuffled |= entered in self._seen
        back = ~other & ((after[2] < before[2]) | ((after[2] == before[2]) & (after[3] < before[3])))
        self.restarts += int(back.sum())
        if len(self._falls) < 1000:
            self._falls |= set(zip(before[3][back].tolist(), after[3][back].tolist(), strict=True))

    def finish(self, sessions: bool) -> None:
        """Tell starting over from disorder: after a token's last layer comes the first one's first.

        Parameters
        ----------
        sessions : bool
            Whether a column tells sessions.
        """
        if self.restarts and (
            sessions or any(each != (self._span[1], self._span[0]) for each in self._falls)
        ):
            self.shuffled = True
            self.restarts = 0
