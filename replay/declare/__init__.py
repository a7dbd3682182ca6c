"""What a policy, its queue and a run's semantics declare of themselves."""
