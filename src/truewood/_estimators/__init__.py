"""What fits models: forests with unbiased importances, a selector, and tests and corrections by refitting."""
