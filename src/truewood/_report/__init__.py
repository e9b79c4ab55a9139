"""Reports: one HTML file that works offline, for readers who do not use Python."""
