"""Engines send rows down trees: `native` (C++), `numpy` (the readable reference) and `cuda` (GPU)."""
