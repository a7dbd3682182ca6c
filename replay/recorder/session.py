"""Which session and phase a forward pass belongs to, and the model's ``generate`` wrapped to tell them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from replay.errors import InputError

DRAFT_ROWS = 8  # without generate: more rows than this onto a cache are a prompt's, not drafts


class Sessions:
    """Follows sessions and phases.

    Inside ``generate`` a session is one call, and its prompt is prefill until it is fed whole. Outside, a pass
    without a filled cache begins a session and is prefill; onto a filled cache, up to 8 tokens a sequence are decode.
    :meth:`session` and :meth:`phase` say otherwise.

    Attributes
    ----------
    current : int
        Number of the session, -1 before the first.
    domain : str or None
    """

    def __init__(self, domain: str | None = None):
        self.current = -1
        self.domain = domain
        self._prompt: int | None = None
        self._fed = 0
        self._held = False
        self._phase: str | None = None

    def enter(self, tokens: int, kwargs: dict[str, Any]) -> bool:
        """Tell of a forward pass.

        Parameters
        ----------
        tokens : int
            Tokens a sequence.
        kwargs : dict
            The model's arguments.

        Returns
        -------
        bool
            Whether it is prefill.
        """
        if self._prompt is not None:
            prefill = self._fed < max(self._prompt, 1)
            self._fed += tokens
        else:
            fresh = _cached(kwargs) == 0
            if (fresh and not self._held) or self.current < 0:
                self.current += 1
            prefill = fresh or tokens > DRAFT_ROWS
        return prefill if self._phase is None else self._phase == "prefill"

    @contextmanager
    def session(self, domain: str | None = None) -> Iterator[None]:
        """Put all passes of the block, ``generate`` included, in one new session.

        Parameters
        ----------
        domain : str, optional
            Kind of text.

        Yields
        ------
        None
        """
        before = self._held, self.domain
        self.current += 1
        self._held, self.domain = True, domain if domain is not None else self.domain
        try:
            yield
        finally:
            self._held, self.domain = before

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Say the phase of all passes of the block.

        Parameters
        ----------
        name : str
            ``prefill`` or ``decode``.

        Yields
        ------
        None

        Raises
        ------
        InputError
            Another name.
        """
        if name not in ("prefill", "decode"):
            raise InputError(f"phase {name!r}; expected prefill or decode")
        before, self._phase = self._phase, name
        try:
            yield
        finally:
            self._phase = before

    def wrap(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a model's ``generate``.

        Parameters
        ----------
        generate : callable

        Returns
        -------
        callable
        """

        @functools.wraps(generate)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._prompt is not None:
                return generate(*args, **kwargs)
            given = args[0] if args else kwargs.get("inputs", kwargs.get("input_ids"))
            given = kwargs.get("inputs_embeds") if given is None else given
            if not self._held:
                self.current += 1
            self._prompt = 1 if given is None else int(given.shape[1])
            self._fed = _cached(kwargs)
            try:
                return generate(*args, **kwargs)
            finally:
                self._prompt = None

        return recorded


def _cached(kwargs: dict[str, Any]) -> int:
    """Tokens in the cache that the model is given."""
    for name in ("past_key_values", "cache"):
        cache = kwargs.get(name)
        if cache is not None:
            try:
                return int(cache.get_seq_length())
            except (AttributeError, TypeError, ValueError, NotImplementedError):
                return 1  # an older cache: a tuple of filled states
    return 0
