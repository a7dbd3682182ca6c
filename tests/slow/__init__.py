"""Slow reference twins: pure Python readings of the semantics, kept apart from what they check."""
