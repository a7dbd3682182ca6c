"""Replay fidelity (semantics 8): the recorded policy, replayed and held against what was recorded."""

from replay.fidelity.check import Fidelity, Total, check_fidelity
from replay.fidelity.sides import Difference
from replay.fidelity.told import fidelity_of

__all__ = ["Difference", "Fidelity", "Total", "check_fidelity", "fidelity_of"]
