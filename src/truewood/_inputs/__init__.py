"""What comes in: tables, columns and groups of them, targets, and the losses that make targets of y."""
