"""Miss curves: the lanes of a survey, its grid of capacities, its tables."""
