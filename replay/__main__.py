"""``python -m replay`` is the command ``replay``."""

from replay.cli import entry

if __name__ == "__main__":
    entry()
