"""From a fitted model and rows to scores."""
