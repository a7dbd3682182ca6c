"""Replay recorded mixture-of-experts decode traces through caching and read-ahead policies.

What a program outside needs is here under one name and loaded on first use, so that ``import replay`` costs
nothing: ``open_trace``, ``write_trace`` and ``TraceWriter`` for recorders, the errors for both.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "open_trace": "replay.trace",
    "write_trace": "replay.trace",
    "TraceWriter": "replay.trace",
    "ReplayError": "replay.errors",
    "InputError": "replay.errors",
    "CheckFailed": "replay.errors",
    "IdentityError": "replay.errors",
}

__all__ = ["__version__", *_PLACES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'replay' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
