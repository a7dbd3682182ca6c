"""What is counted: sums by layer and window, the identities, the tables made of them."""
