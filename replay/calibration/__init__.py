"""Calibration of guesses: how likely a candidate is to be selected (``file``: what is written and read)."""
