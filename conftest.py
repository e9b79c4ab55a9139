"""Doctests are collected from every module that can be imported here."""

from truewood.routing import has_native_engine

collect_ignore = [] if has_native_engine() else ["src/truewood/routing/native_engine.py"]
