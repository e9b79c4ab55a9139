"""The experiments of Zhou & Hooker, "Unbiased Measurement of Feature Importance in Tree-Based Methods"."""
