"""Layer budgets: slots of each layer from hit curves, and what they are worth on other sessions."""
