"""What tests share: the oracle, small models, tables, and drivers of other programs."""
