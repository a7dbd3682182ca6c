"""Replay recorded mixture-of-experts decode traces through caching and read-ahead policies."""

__version__ = "0.1.0"
