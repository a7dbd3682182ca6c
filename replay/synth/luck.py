"""Scores of tokens in their order: popularity plus luck that lasts."""

from __future__ import annotations

import numpy as np

from replay.errors import InputError
from replay.synth.recipe import Recipe

_TOKENS = 3000  # tokens of one layer that a setting is tried on
_STEPS = 16  # halvings of the range of a setting
_NEAR = 0.02  # how far below what popularity alone gives a share may be asked for
_NOISE = 64.0  # largest deviation of the candidates' noise


def gumbel(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw Gumbel noise.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : tuple of int

    Returns
    -------
    numpy.ndarray of float32
    """
    u = rng.random(shape, np.float32)
    return -np.log(-np.log(np.clip(u, 1e-7, 1 - 1e-7)))


def weights_of(recipe: Recipe) -> np.ndarray:
    """Logarithm of the popularity, the most popular first: float32, [experts]."""
    return (-recipe.popularity * np.log(np.arange(1, recipe.experts + 1))).astype(np.float32)


class Luck:
    """Draws scores, token after token.

    Parameters
    ----------
    recipe : Recipe
    keep : float
        Probability that an expert keeps its luck from one token to the next.
    rng : numpy.random.Generator
    """

    def __init__(self, recipe: Recipe, keep: float, rng: np.random.Generator):
        self._recipe = recipe
        self._keep = keep
        self._rng = rng
        self._log = self._popularity()
        self._held = np.zeros((recipe.layers, recipe.experts), np.float32)
        self._domain = 0

    def _popularity(self) -> np.ndarray:
        """Logarithm of the popularity by domain: [domains, layers, experts]."""
        recipe, rng = self._recipe, self._rng
        shape = recipe.layers, recipe.experts
        common = np.argsort(rng.random(shape), axis=1)  # rank of each expert
        found = np.empty((recipe.domains, *shape), np.float32)
        weights = weights_of(recipe)
        for domain in range(recipe.domains):
            ranks = common.copy()
            if domain:
                for layer in range(recipe.layers):
                    moved = np.flatnonzero(rng.random(recipe.experts) >= recipe.domain_overlap)
                    ranks[layer, moved] = ranks[layer, rng.permutation(moved)]
            found[domain] = weights[ranks]
        return found

    def begin(self, session: int) -> None:
        """Begin a session: its domain, and new luck."""
        self._domain = session % self._recipe.domains
        self._held = gumbel(self._rng, self._held.shape)

    def tokens(self, count: int) -> np.ndarray:
        """Scores of the next tokens.

        Parameters
        ----------
        count : int

        Returns
        -------
        numpy.ndarray of float32, [count, layers, experts]
        """
        self._drift(count)
        shape = count, *self._held.shape
        fresh = gumbel(self._rng, shape)
        anew = self._rng.random(shape, np.float32) >= self._keep
        last = np.where(anew, np.arange(count)[:, None, None], -1)
        np.maximum.accumulate(last, axis=0, out=last)
        luck = np.where(last < 0, self._held, np.take_along_axis(fresh, np.maximum(last, 0), axis=0))
        self._held = luck[-1].copy()
        return self._log[self._domain] + luck

    def branches(self, scores: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Scores of tokens that were never committed, each a step further from where it left.

        Parameters
        ----------
        scores : numpy.ndarray of float32, [n, layers, experts]
            Of the last committed tokens.
        steps : numpy.ndarray of int64, [n]
            How far.

        Returns
        -------
        numpy.ndarray of float32, [n, layers, experts]
        """
        fresh = self._log[self._domain] + gumbel(self._rng, scores.shape)
        kept = self._rng.random(scores.shape, np.float32) < self._keep ** steps[:, None, None]
        return np.where(kept, scores, fresh)

    def _drift(self, count: int) -> None:
        """Let pairs of experts change places in the popularity, in every domain."""
        recipe = self._recipe
        if not recipe.drift:
            return
        pairs = self._rng.poisson(recipe.drift * recipe.layers * recipe.experts / 2 * count / 1000)
        layers = self._rng.integers(0, recipe.layers, pairs)
        for layer, (a, b) in zip(layers, self._rng.integers(0, recipe.experts, (pairs, 2)), strict=True):
            self._log[:, layer, [a, b]] = self._log[:, layer, [b, a]]


def find_keep(recipe: Recipe) -> float:
    """Find how long luck has to last for the stated reuse.

    Parameters
    ----------
    recipe : Recipe

    Returns
    -------
    float
        Probability that an expert keeps its luck.

    Raises
    ------
    InputError
        Popularity alone gives more reuse than is asked for.
    """
    if recipe.reuse is None:
        return 0.0
    log = weights_of(recipe)
    rng = np.random.default_rng([recipe.seed, 1])
    tokens = min(_TOKENS, max(200, 2**21 // recipe.experts))
    fresh = gumbel(rng, (tokens, recipe.experts))
    chance = rng.random(fresh.shape, np.float32)

    def reuse(keep: float) -> float:
        last = np.where(chance >= keep, np.arange(tokens)[:, None], 0)
        np.maximum.accumulate(last, axis=0, out=last)
        picked = _best(log + np.take_along_axis(fresh, last, axis=0), recipe.top_k)
        return float((picked[1:] & picked[:-1]).sum() / (recipe.top_k * (tokens - 1)))

    alone = reuse(0.0)
    if recipe.reuse < alone - _NEAR:
        raise InputError(
            f"--reuse {recipe.reuse:g}: popularity alone gives {alone:.3f}; ask for more, or none"
        )
    return _halve(reuse, recipe.reuse, 0.0, 1.0, rising=True)


def find_noise(recipe: Recipe) -> float:
    """Find the deviation of the candidates' noise for the stated recall.

    Parameters
    ----------
    recipe : Recipe

    Returns
    -------
    float

    Raises
    ------
    InputError
        Noise alone gives more recall than is asked for.
    """
    if recipe.recall is None or recipe.recall == 1:
        return 0.0
    rng = np.random.default_rng([recipe.seed, 2])
    tokens = min(_TOKENS, max(200, 2**21 // recipe.experts))
    scores = weights_of(recipe) + gumbel(rng, (tokens, recipe.experts))
    noise = rng.standard_normal(scores.shape, np.float32)
    wanted = _best(scores, recipe.top_k)

    def recall(deviation: float) -> float:
        seen = _best(scores + np.float32(deviation) * noise, recipe.top_k)
        return float((seen & wanted).sum() / wanted.sum())

    least = recall(_NOISE)
    if recipe.recall < least:
        raise InputError(f"--recall {recipe.recall:g}: noise alone gives {least:.3f}; ask for more")
    return _halve(recall, recipe.recall, 0.0, _NOISE, rising=False)


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    """Mark the best of each row."""
    found = np.zeros(scores.shape, bool)
    best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    np.put_along_axis(found, best, True, axis=1)
    return found


def _halve(measure, wanted: float, low: float, high: float, rising: bool) -> float:  # type: ignore[no-untyped-def]
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if (measure(middle) < wanted) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2
