"""Make a synthetic trace, group of windows after group, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from replay import __version__
from replay.router.rule import route, weights
from replay.synth.arena import Arena
from replay.synth.luck import Luck, find_keep, find_noise
from replay.synth.recipe import Recipe
from replay.trace import TraceWriter

_SCORES = 2**21  # scores of a group


@dataclass(frozen=True)
class Made:
    """What was made.

    Attributes
    ----------
    path : str
    windows, rows : int
    keep : float
        Probability that an expert keeps its luck from token to token.
    noise : float or None
        Deviation of the candidates' noise; None: no candidates.
    """

    path: str
    windows: int
    rows: int
    keep: float
    noise: float | None


def synthesize(path: str | os.PathLike[str], recipe: Recipe, force: bool = False) -> Made:
    """Make a synthetic trace.

    Parameters
    ----------
    path : path
        The trace's folder.
    recipe : Recipe
        What it is to be like.
    force : bool
        Whether an old trace there is replaced.

    Returns
    -------
    Made

    Raises
    ------
    InputError
        The recipe cannot be met, or the path is taken; nothing is left then.
    """
    recipe.check()
    keep, noise = find_keep(recipe), find_noise(recipe)
    with TraceWriter(path, _meta(recipe, keep, noise), force) as writer:
        maker = _Maker(recipe, writer, keep, noise)
        maker.make()
    return Made(str(Path(path)), maker.window, maker.rows, keep, None if recipe.recall is None else noise)


def _meta(recipe: Recipe, keep: float, noise: float) -> dict[str, Any]:
    model = {"layers": recipe.layers, "experts": recipe.experts, "top_k": recipe.top_k}
    policy = None
    if recipe.slots is not None:
        policy = {
            "prefetch": {"name": "none"}, "evict": "lru", "slots": [recipe.slots], "scope": "global", "split": True,
            "order": "id", "cell": "atomic", "start": "cold",
        }  # fmt: skip
    stated = {name: value for name, value in asdict(recipe).items() if value is not None}
    return {
        "model": {"name": f"synthetic-{recipe.layers}x{recipe.experts}-top{recipe.top_k}"} | model,
        "expert_bytes": recipe.expert_bytes,
        "router": {
            "protect": recipe.protect,
            "bonus": float(recipe.bonus),
            "r1_bonus": 0.0,
            "draft_moce": False,
        },
        "policy": policy,
        "io": None,
        "engine": {"name": "synthetic", "version": __version__, "config": {}},
        "source": {
            "recorder": "replay synth",
            "version": __version__,
            "licence": "none: made by a program",
            "recipe": stated,
            "found": {"keep": keep} | ({} if recipe.recall is None else {"noise": noise}),
            "notes": "made, not recorded: nothing about a model can be learned from it",
        },
    }


@dataclass
class _Group:
    """Some windows of one session: rows of each, the scores of all rows, and drafts' confidences and matches."""

    phase: str
    rows: np.ndarray
    scores: np.ndarray
    p: np.ndarray
    matched: np.ndarray


class _Maker:
    """Makes sessions one after another."""

    def __init__(self, recipe: Recipe, writer: TraceWriter, keep: float, noise: float):
        self.recipe = recipe
        self.window = self.rows = 0
        self._writer = writer
        self._noise = noise
        self._rng = np.random.default_rng([recipe.seed, 0])
        self._luck = Luck(recipe, keep, self._rng)
        self._arena = None if recipe.slots is None else Arena(recipe.slots, recipe.layers)

    def make(self) -> None:
        """Make all sessions."""
        for session in range(self.recipe.sessions):
            self._luck.begin(session)
            for group in self._groups():
                self._write(session, group)

    def _groups(self) -> Iterator[_Group]:
        """A session's prompt, then its decode windows."""
        recipe = self.recipe
        none = np.empty((0, 0))
        cells = recipe.layers * recipe.experts
        if recipe.prompt:
            parts = [self._luck.tokens(b - a).astype(np.float16) for a, b in self._pieces(recipe.prompt)]
            yield _Group("prefill", np.array([recipe.prompt]), np.concatenate(parts), none, none)
        width = 1 + recipe.drafts
        step = max(1, _SCORES // (cells * width))
        for start in range(0, recipe.windows, step):
            yield self._decode(min(step, recipe.windows - start), width)

    def _decode(self, count: int, width: int) -> _Group:
        """Some decode windows: each commits its row 0 and the drafts that match."""
        recipe, rng = self.recipe, self._rng
        q = recipe.draft_p
        p = rng.beta(max(2 * q, 1e-3), max(2 * (1 - q), 1e-3), (count, width - 1))
        matched = np.logical_and.accumulate(rng.random(p.shape) < p**recipe.calibration, axis=1)
        committed = 1 + matched.sum(axis=1)
        tokens = self._luck.tokens(int(committed.sum()))
        first = np.cumsum(committed) - committed
        scores = np.empty((count, width, recipe.layers, recipe.experts), np.float32)
        last = tokens[first + committed - 1]
        for row in range(width):
            there = row < committed
            scores[there, row] = tokens[first[there] + row]
            if not there.all():
                away = ~there
                scores[away, row] = self._luck.branches(last[away], row + 1 - committed[away])
        flat = scores.reshape(-1, recipe.layers, recipe.experts).astype(np.float16)
        return _Group("decode", np.full(count, width), flat, p, matched)

    def _write(self, session: int, group: _Group) -> None:
        """Pick, and write every table."""
        recipe = self.recipe
        count, total = len(group.rows), int(group.rows.sum())
        number = self.window + np.arange(count)
        table = {
            "window": number,
            "session": np.full(count, session),
            "phase": pa.array([group.phase] * count),
            "rows": group.rows,
        }
        if recipe.domains > 1:
            table["domain"] = pa.array([f"domain-{session % recipe.domains}"] * count)
        self._writer.append("windows", pa.table(table))
        window = np.repeat(number, group.rows)
        row = np.arange(total) - np.repeat(np.cumsum(group.rows) - group.rows, group.rows)
        picks = self._picks(group, window)
        self._selections(group, picks, window, row)
        if group.phase == "decode":
            if recipe.scores:
                self._scored("router_scores", group.scores, window, row, 0)
            if recipe.recall is not None:
                shift = self._rng.standard_normal(group.scores.shape, np.float32) * np.float32(self._noise)
                seen = (group.scores + shift).astype(np.float16)
                self._scored("candidates", seen, window, row, recipe.distance)
            if recipe.drafts:
                self._drafts(group, number)
        self.window += count
        self.rows += total

    def _picks(self, group: _Group, window: np.ndarray) -> np.ndarray:
        """Experts of each row and layer: [rows, layers, top_k]; the arena runs along."""
        recipe = self.recipe
        picks = np.empty((len(window), recipe.layers, recipe.top_k), np.int64)
        if not recipe.bonus:
            for start, stop in self._pieces(len(window)):
                flat = group.scores[start:stop].reshape(-1, recipe.experts).astype(np.float32)
                best = route(flat, np.zeros(flat.shape, bool), recipe.top_k)
                picks[start:stop] = best.reshape(-1, recipe.layers, recipe.top_k)
        if self._arena is not None:
            self._run(self._arena, group, window, picks)
        return picks

    def _pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        """Cut many rows into pieces."""
        step = max(1, _SCORES // (self.recipe.layers * self.recipe.experts))
        for start in range(0, rows, step):
            yield start, min(rows, start + step)

    def _run(self, arena: Arena, group: _Group, window: np.ndarray, picks: np.ndarray) -> None:
        """Serve the events in order; with a bonus each is routed by what is resident."""
        recipe = self.recipe
        residents, counters = [], []
        ends = np.cumsum(group.rows)
        for start, stop in zip(ends - group.rows, ends, strict=True):
            for layer in range(recipe.layers):
                held = arena.residents(layer)
                if recipe.bonus:
                    flags = np.zeros((stop - start, recipe.experts), bool)
                    flags[:, held] = True
                    scores = group.scores[start:stop, layer].astype(np.float32)
                    picks[start:stop, layer] = route(
                        scores, flags, recipe.top_k, recipe.protect, recipe.bonus
                    )
                hits, misses = arena.event(layer, picks[start:stop, layer])
                key = {"window": int(window[start]), "layer": layer}
                residents.append(key | {"experts": held})
                counters.append(key | {"hits": hits, "prefetch_hits": 0, "late": 0, "misses": misses})
        schema = pa.schema(
            [("window", pa.uint32()), ("layer", pa.uint16()), ("experts", pa.list_(pa.uint16()))]
        )
        self._writer.append("residents", pa.Table.from_pylist(residents, schema))
        self._writer.append("counters", pa.Table.from_pylist(counters))

    def _selections(self, group: _Group, picks: np.ndarray, window: np.ndarray, row: np.ndarray) -> None:
        recipe = self.recipe
        for start, stop in self._pieces(len(window)):
            flat = picks[start:stop].reshape(-1, recipe.top_k)
            shares = weights(group.scores[start:stop].reshape(-1, recipe.experts).astype(np.float32), flat)
            offsets = pa.array(np.arange(len(flat) + 1) * recipe.top_k, pa.int32())
            key = self._key(window[start:stop], row[start:stop], np.arange(recipe.layers))
            lists = {
                "experts": pa.ListArray.from_arrays(offsets, pa.array(flat.reshape(-1), pa.uint16())),
                "weights": pa.ListArray.from_arrays(offsets, pa.array(shares.astype(np.float32).reshape(-1))),
            }
            self._writer.append("selections", pa.table(key | lists))

    def _key(self, window: np.ndarray, row: np.ndarray, layers: np.ndarray) -> dict[str, Any]:
        return {
            "window": np.repeat(window, len(layers)),
            "row": np.repeat(row, len(layers)),
            "layer": np.tile(layers, len(window)),
        }

    def _scored(
        self, name: str, scores: np.ndarray, window: np.ndarray, row: np.ndarray, distance: int
    ) -> None:
        """Write dense scores of every layer, or of those that the distance reaches."""
        layers = np.arange(distance, self.recipe.layers)
        table = self._key(window, row, layers)
        if name == "candidates":
            table["issued_after"] = table["layer"] - distance
        values = np.ascontiguousarray(scores[:, distance:]).reshape(-1)
        offsets = pa.array(np.arange(len(window) * len(layers) + 1) * self.recipe.experts, pa.int32())
        table["scores"] = pa.ListArray.from_arrays(offsets, pa.array(values))
        self._writer.append(name, pa.table(table))

    def _drafts(self, group: _Group, number: np.ndarray) -> None:
        drafts = self.recipe.drafts
        table = {
            "window": np.repeat(number, drafts),
            "step": np.tile(np.arange(drafts), len(number)),
            "p": group.p.reshape(-1),
            "matched": group.matched.reshape(-1),
        }
        self._writer.append("drafts", pa.table(table))
