"""The arena: its memory record by record, how a bound is cut into parts, free slots."""
