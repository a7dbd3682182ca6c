"""Slow eviction policies, one file each; `POLICIES` names them (semantics 5)."""

from .arc import Arc
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
from .lirs import Lirs
from .lru import Lru
from .random import RandomChoice
from .s3fifo import S3Fifo
from .sieve import Sieve
from .static import Static
from .two_queue import TwoQueue

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
    "arc": Arc,
    "2q": TwoQueue,
    "s3fifo": S3Fifo,
    "lirs": Lirs,
}

__all__ = ["POLICIES", "Context", "Eviction"]
