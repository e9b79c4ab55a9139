"""Which rows evaluate which tree, and the check whether rows are the training data."""
