"""Eviction policies: one file each, a line each here (name: module). Nothing heavy is imported."""

POLICIES: dict[str, str] = {
    "lru": "replay.evict.lru",
    "decode2q": "replay.evict.decode2q",
}
