"""belady-bypass (semantics 5): belady that may decline to keep a miss."""

from __future__ import annotations

from ..trace import Key
from .base import Eligible
from .belady import Belady


class BeladyBypass(Belady):
    """Declines what is wanted later than every resident that could go; hot ones can when nothing else does."""

    with_bytes = False

    def declines(self, key: Key, eligible: Eligible) -> bool:
        """Say whether the miss is wanted later than all that could go; not where nothing could."""
        could_go = [k for k in self.keys if eligible(k) and k not in self.context.hot]
        could_go = could_go or [k for k in self.keys if eligible(k)]
        return bool(could_go) and all(self.next_use(key) > self.next_use(k) for k in could_go)
