"""A comparison: its candidates, one pass for all of them, the summary, and how far to trust it."""
