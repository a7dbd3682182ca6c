"""A resolved policy, semantics and routes as the numbers that the event loop reads."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

import replay.engine.frame as fr
from replay.declare.semantics import ENGINE_CAPS, Routes, Semantics
from replay.lane.shape import Shape
from replay.predict import POLICIES as READ_AHEAD
from replay.predict.ranking import Ranking
from replay.spec.resolve import Resolved

_MODES = {"oracle": fr.ORACLE, "finemoe": fr.LISTED, "previous": fr.PREVIOUS, "stmoe": fr.SUCCESSORS}


def reach(policy: Resolved, routes: Routes, shape: Shape) -> float:
    """Largest boost at any rank that read-ahead, routes ``predicted``, or the k-th pick of gates, look at."""
    if policy.ranking is None:
        return 0.0
    wide = policy.ranking.widened(shape.top_k if routes.kind == "predicted" or policy.spec.gates else 0)
    return max((0.0, *wide.boosts))


def read_ahead(policy: Resolved) -> ModuleType:
    """The file of a policy's read-ahead."""
    return import_module(READ_AHEAD[policy.spec.read_ahead.name])


def raw_ranking(policy: Resolved, shape: Shape) -> Ranking | None:
    """The ranking of a policy that picks raw candidates, as many as the model's top_k says; else None."""
    ahead = read_ahead(policy)
    if not hasattr(ahead, "picks"):
        return None
    return Ranking(ahead.picks(policy.values[policy.spec.read_ahead.name], shape.top_k))


def settings_of(shape: Shape, policy: Resolved, semantics: Semantics, routes: Routes) -> NDArray[np.int64]:
    """Whole numbers by which the event loop plays a policy, in the order of :mod:`replay.engine.frame`."""
    s = np.zeros(fr.SETTINGS, np.int64)
    s[fr.LAYERS], s[fr.EXPERTS], s[fr.TOP_K] = shape.layers, shape.experts, shape.top_k
    s[fr.CELL] = fr.SEQUENTIAL if semantics.cell == "sequential" else fr.ATOMIC
    s[fr.ORDER] = fr.BY_ROWS if semantics.order == "rows" else fr.BY_ID
    s[fr.SPLIT], s[fr.SCOPE] = semantics.split, semantics.scope == "layer"
    cap = semantics.stream
    s[fr.STREAM] = fr.STREAM_OFF if cap is None else fr.STREAM_DEFAULT if cap == ENGINE_CAPS else cap
    s[fr.PROMPT_HOT] = -1 if semantics.prompt_hot is None else semantics.prompt_hot
    s[fr.READ_AHEAD] = fr.NOTHING
    if policy.ranking is not None:
        rank = policy.ranking
        s[fr.READ_AHEAD], s[fr.COUNT_K], s[fr.PROTECT] = fr.RANKED, min(rank.k, shape.experts), rank.p
        s[fr.BOOSTED] = reach(policy, routes, shape) > 0
    elif (raw := raw_ranking(policy, shape)) is not None:
        s[fr.READ_AHEAD], s[fr.COUNT_K] = fr.RANKED, min(raw.k, shape.experts)
    elif policy.spec.read_ahead.name in _MODES:
        s[fr.READ_AHEAD] = _MODES[policy.spec.read_ahead.name]
    s[fr.TOUCH] = policy.touch
    s[fr.SPARES] = policy.acting.get("spare") is not None
    s[fr.COUNTS_USES] = s[fr.SPARES] or cap is not None
    s[fr.ROUTES] = {"recorded": fr.RECORDED, "predicted": fr.PREDICTED}.get(routes.kind, fr.REROUTED)
    s[fr.CACHE_PRIOR] = routes.kind == "cacheprior"
    s[fr.ROUTE_PROTECT] = routes.protect if s[fr.CACHE_PRIOR] else policy.router.p
    s[fr.DRAFT_MOCE] = policy.router.draft_moce
    return s


def rates_of(policy: Resolved, routes: Routes, layers: int) -> NDArray[np.float64]:
    """Other numbers by which the event loop plays a policy, in the order of :mod:`replay.engine.frame`."""
    rates = np.zeros(fr.SPREAD + layers)
    if policy.ranking is not None:
        rates[fr.BONUS], rates[fr.RANK1] = policy.ranking.b, policy.ranking.r1
    rates[fr.ROUTE_BONUS], rates[fr.ROUTE_RANK1] = policy.router.b, policy.router.r1
    rates[fr.PRIOR] = routes.prior
    rates[fr.SPARE_FACTOR], rates[fr.SPARE_USES] = policy.acting.get("spare") or (0.0, 0.0)
    rates[fr.SPREAD :] = -1.0
    return rates
