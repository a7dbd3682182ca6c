"""The router: its rule, the same for many rows at once, and the shortlists it picks from."""
