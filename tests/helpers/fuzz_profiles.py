"""Profiles of hypothesis: a small one for every run, and HYPOTHESIS_PROFILE=deep for 20,000 cases."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("small", max_examples=400, derandomize=True, database=None, **COMMON)
settings.register_profile("deep", max_examples=20_000, **COMMON)


def share(part):
    """Settings of a test that gets this part of the profile's cases."""
    profile = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "small"))
    return settings(profile, max_examples=max(1, round(part * profile.max_examples)))
