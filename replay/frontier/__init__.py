"""Frontiers: what families of guesses read ahead against what they spare, in one pass, with controls."""
