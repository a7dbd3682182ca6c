"""A chunk of a trace made ready once for every policy: unions, moments of guesses, next uses."""
