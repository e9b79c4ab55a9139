"""Reading inputs: tables, feature groups, targets, and the losses that derive targets from y."""
