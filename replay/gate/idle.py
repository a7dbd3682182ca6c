"""What stands where a spec has no further gate: it is never asked."""

from replay.jit import gate


@gate
def ask(operation, at, reals_at, words, reals):
    """Admit everything."""
    return 1
