"""What gates learn before a run: labelled candidates, fitted files, prices that meet a budget."""
