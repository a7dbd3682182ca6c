"""Slow eviction policies, one file each; `POLICIES` names them (semantics 5)."""

from .base import Context, Eviction
from .decode2q import Decode2q
from .lru import Lru

POLICIES: dict[str, type[Eviction]] = {"lru": Lru, "decode2q": Decode2q}

__all__ = ["POLICIES", "Context", "Decode2q", "Eviction", "Lru"]
