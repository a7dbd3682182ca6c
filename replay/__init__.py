"""Replay recorded mixture-of-experts decode traces through caching and read-ahead policies.

What a program or a notebook needs is here under one name and loaded on first use, so that ``import replay`` costs
nothing: ``open``, ``compare`` and ``load`` for runs, ``plot_*`` for charts, ``record`` (with its ``Arena``)
for models of transformers, ``write_trace`` and ``TraceWriter`` for other recorders, and the errors.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PLACES = {
    "open": "replay.trace:open_trace",
    "open_trace": "replay.trace",
    "Trace": "replay.trace",
    "compare": "replay.front",
    "load": "replay.front",
    "Run": "replay.front",
    "plot_bytes_by_fate": "replay.chart",
    "plot_drafts": "replay.chart",
    "plot_frontier": "replay.chart",
    "plot_hit_curves": "replay.chart",
    "plot_layer_heatmap": "replay.chart",
    "plot_layer_hit_curves": "replay.chart",
    "plot_miss_curve": "replay.chart",
    "plot_trace_line": "replay.chart",
    "save_chart": "replay.plot:save",
    "write_trace": "replay.trace",
    "TraceWriter": "replay.trace",
    "record": "replay.recorder",
    "Arena": "replay.recorder",
    "ReplayError": "replay.errors",
    "InputError": "replay.errors",
    "CheckFailed": "replay.errors",
    "IdentityError": "replay.errors",
}
"""Where each name is: its module, and what it is called there where that differs."""

__all__ = ["__version__", *_PLACES]  # noqa: PLE0604

if TYPE_CHECKING:
    from replay.chart import plot_bytes_by_fate as plot_bytes_by_fate
    from replay.chart import plot_drafts as plot_drafts
    from replay.chart import plot_frontier as plot_frontier
    from replay.chart import plot_hit_curves as plot_hit_curves
    from replay.chart import plot_layer_heatmap as plot_layer_heatmap
    from replay.chart import plot_layer_hit_curves as plot_layer_hit_curves
    from replay.chart import plot_miss_curve as plot_miss_curve
    from replay.chart import plot_trace_line as plot_trace_line
    from replay.errors import CheckFailed as CheckFailed
    from replay.errors import IdentityError as IdentityError
    from replay.errors import InputError as InputError
    from replay.errors import ReplayError as ReplayError
    from replay.front import Run as Run
    from replay.front import compare as compare
    from replay.front import load as load
    from replay.plot import save
    from replay.recorder import Arena as Arena
    from replay.recorder import record as record
    from replay.trace import Trace as Trace
    from replay.trace import TraceWriter as TraceWriter
    from replay.trace import open_trace as open_trace
    from replay.trace import write_trace as write_trace

    open, save_chart = open_trace, save


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'replay' has no attribute {name!r}")
    module, _, known_as = _PLACES[name].partition(":")
    value = getattr(import_module(module), known_as or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
