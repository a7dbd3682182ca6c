"""What shows that nothing is lost and nothing is trusted: bad inputs, fuzzing, load, and one command with the figures.

``python -m tests.reliability`` prints the figures; ``--write`` keeps them in ``reports/reliability/``. The tests
``tests/test_bad_input.py``, ``tests/test_fuzz.py`` and ``tests/test_load.py`` run the same cases.
"""
