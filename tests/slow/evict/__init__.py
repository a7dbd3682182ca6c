"""Slow eviction policies, one file each; `POLICIES` names them (semantics 5)."""

from .base import Context, Eviction
from .belady import Belady
from .belady_bypass import BeladyBypass
from .belady_n import BeladyN
from .clock import Clock
from .decode2q import Decode2q
from .fifo import Fifo
from .heat import Heat
from .lfu import Lfu
from .lfuda import Lfuda
from .lru import Lru
from .random import RandomChoice
from .sieve import Sieve
from .static import Static

POLICIES: dict[str, type[Eviction]] = {
    "lru": Lru,
    "decode2q": Decode2q,
    "fifo": Fifo,
    "clock": Clock,
    "lfu": Lfu,
    "lfuda": Lfuda,
    "heat": Heat,
    "sieve": Sieve,
    "random": RandomChoice,
    "static": Static,
    "belady": Belady,
    "belady-bypass": BeladyBypass,
    "belady-n": BeladyN,
}

__all__ = ["POLICIES", "Context", "Eviction"]
