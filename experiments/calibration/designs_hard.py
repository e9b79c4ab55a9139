"""Designs chosen to break the tests: few rows of information, strong other features, and models at their limits."""

from __future__ import annotations

from typing import Any

from design import BOOSTING, HIST, Design
from designs_null import HELD_OUT, REG, SHALLOW, STRONG, TASKS

_FIVE: dict[str, Any] = {"signal": tuple(("continuous", strength) for strength in (2.0, 1.5, 1.2, 1.0, 0.8))}
_BESIDE = {"signal": (("continuous", 1.5), ("continuous", 0.4), ("continuous", 0.3)), "correlation": 0.7}
_FOUR: dict[str, Any] = {"signal": tuple(("continuous", strength / 2) for strength in (1.2, 0.9, 0.7, 0.5))}
_EXTREME: dict[str, Any] = {"signal": (("continuous", 10.0),)}
_THREE: dict[str, Any] = {"classes": (0.5, 0.3, 0.2)}
_TREES = {"n_estimators": 500}
_TIES = ("many ties", "4 ordered levels", "binary")

# Little information: rare classes, many classes, heavy tails, few rows.
SCARCE = {
    "a class of 1 %, 2000 rows": Design(n_rows=2000, classes=(0.99, 0.01)),
    "numbers that are 0/1 at 2 %": Design(n_rows=1000, noise="0/1 at 2%", **REG),
    "50 classes": Design(n_rows=1000, classes=(0.02,) * 50),
    "log-normal target, absolute error": Design(
        n_rows=300, noise="log-normal", options={"criterion": "absolute_error"}, most=150, **REG
    ),
    "200 rows, 2000 features": Design(n_rows=200, kinds=("continuous",), per_kind=2000, most=8),
    "200 rows, 2000 features, regression": Design(n_rows=200, kinds=("continuous",), per_kind=2000, most=8, **REG),
    "3000 rows, 2 features, regression": Design(n_rows=3000, kinds=("continuous",), per_kind=2, most=100, **REG),
    "by class": Design(has_classes=True, **_THREE),
    "by class, strong feature": Design(has_classes=True, **STRONG, **_THREE),
    "by class, a class of 5 %": Design(has_classes=True, n_rows=1000, classes=(0.95, 0.05)),
    "50 rows": Design(n_rows=50),
    "50 rows, regression": Design(n_rows=50, **REG),
}
# Other features explain much of the target, which the residual test takes out.
OTHERS = {
    f"{name}{task}": Design(**{**settings, **more})
    for name, more in {
        "R2 of .99": _EXTREME,
        "five strong features": _FIVE,
        "five strong features, correlated noise": {**_FIVE, "correlation": 0.7},
        "1.5, .4, .3 beside correlated noise": _BESIDE,
        "p > n, strong features": {"n_rows": 100, "per_kind": 65, **_FIVE},
        "p > n, 500 trees, strong features": {"n_rows": 100, "per_kind": 65, "options": _TREES, **_FIVE, "most": 100},
        "50 rows, strong feature": {"n_rows": 50, **STRONG},
        "5 trees, strong feature": {"options": {"n_estimators": 5}, **STRONG},
        "20 trees, strong feature": {"options": {"n_estimators": 20}, **STRONG},
        "depth 1, strong feature": {"options": {"max_depth": 1}, **STRONG},
        "depth 2, strong features": {"options": {"max_depth": 2}, **_FIVE},
        "leaves of 50 rows, strong features": {"options": {"min_samples_leaf": 50}, **_FIVE},
        "each feature tried, strong feature": {"options": {"max_features": None}, **STRONG},
        "bags of a tenth, strong feature": {"options": {"max_samples": 0.1}, **STRONG},
        "extra trees, strong feature": {
            "model": "sklearn.ensemble.ExtraTrees",
            "options": {"bootstrap": True},
            **STRONG,
        },
        "weights log-normal, strong feature": {"weights": "log-normal", **STRONG},
        "weights by target, strong feature": {"weights": "by target", **STRONG},
        "weights by target, strong feature, held-out rows": {"weights": "by target", **STRONG, **HELD_OUT},
        "forest, held-out rows, strong feature": {**HELD_OUT, **STRONG},
        "duplicated values, strong feature": {"kinds": _TIES, **STRONG},
        "duplicated values": {"kinds": _TIES},
        "sine of another feature": {"signal": (("continuous", 2.0),), "effect": "sine"},
        "strong 20 levels": {"signal": (("20 levels", 2.0),)},
        "mdi_oob, strong feature": {"measure": "mdi_oob", **STRONG},
    }.items()
    for task, settings in TASKS.items()
}
CLASSES = {
    "a class of 4 %, four features": Design(n_rows=1000, classes=(0.96, 0.04), **_FOUR),
    "a class of 4 %, strong feature": Design(n_rows=1000, classes=(0.96, 0.04), **STRONG),
    "a class of 1 %, strong feature": Design(n_rows=2000, classes=(0.99, 0.01), **STRONG),
    "three classes, strong feature": Design(**_THREE, **STRONG),
    "ten classes, strong features": Design(classes=(0.1,) * 10, **_FIVE),
    "even classes, four weak features": Design(
        signal=tuple(("continuous", strength / 2) for strength in (0.5, 0.4, 0.3, 0.2)), per_kind=4
    ),
}
SPREAD = {
    f"noise moved by {moved}, {name}": Design(moved_noise=moved, **{**REG, **more})
    for moved in (0.4, 0.8)
    for name, more in {
        "strong feature": STRONG,
        "strong feature, 2000 rows": {"n_rows": 2000, "most": 100, **STRONG},
        "strong feature, boosting": {"model": BOOSTING, "options": SHALLOW, **HELD_OUT, **STRONG},
        "heavy tails, strong feature": {"noise": "t2", **STRONG},
    }.items()
}
BOOSTED = {
    f"{name}, five strong features{task}": Design(**{**HELD_OUT, **_FIVE, **settings, **more})
    for name, more in {
        "boosting": {"model": BOOSTING, "options": SHALLOW},
        "hist boosting": {"model": HIST},
        "hist boosting, 100 rows": {"model": HIST, "n_rows": 100},
        "deep boosting": {"model": BOOSTING, "options": {"max_depth": 8, "n_estimators": 50}},
    }.items()
    for task, settings in TASKS.items()
}
# Not nulls: how each test treats features without an effect of their own on the target.
FOLLOWERS = {
    f"followers, {name}{task}": Design(followers=(0.5, 0.7, 0.9), **{**STRONG, **settings, **more})
    for name, more in {
        "100 trees": {},
        "2000 rows": {"n_rows": 2000, "most": 100},
        "each feature tried": {"options": {"max_features": None}},
        "hist boosting": {"model": HIST, **HELD_OUT},
    }.items()
    for task, settings in TASKS.items()
}

HARD: dict[str, Design] = {**SCARCE, **OTHERS, **CLASSES, **SPREAD, **BOOSTED, **FOLLOWERS}
