"""What a policy spec means: its grammar, what it comes to on a trace, an engine's own switches."""
