"""Designs with signal: do intervals contain the expected score, and do tests find the feature?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from design import BOOSTING, HIST, KINDS, Design
from designs_null import HELD_OUT, REG, SHALLOW

_ANY_KIND = {
    "200 rows": (1.0, {"n_rows": 200}),
    "200 rows, regression": (1.0, {"n_rows": 200, **REG}),
    "1000 rows": (1.0, {"n_rows": 1000}),
    "1000 rows, regression": (1.0, {"n_rows": 1000, **REG}),
    "1000 rows, weak": (0.3, {"n_rows": 1000}),
    "1000 rows, weak, regression": (0.3, {"n_rows": 1000, **REG}),
    "1000 rows, very weak, regression": (0.15, {"n_rows": 1000, **REG}),
    "1000 rows, a class of 6 %": (1.0, {"n_rows": 1000, "classes": (0.94, 0.06)}),
    "500 rows, depth 3": (0.5, {"options": SHALLOW}),
    "500 rows, centred, regression": (0.5, {"measure": "ufi_centered", **REG}),
    "boosting, held-out": (0.5, {"model": BOOSTING, "options": SHALLOW, **HELD_OUT, **REG}),
}
_ONE_KIND = {
    f"{name}{task}": (kind, 1.0, {"effect": effect, **settings})
    for name, kind, effect in (
        ("500 rows, many levels", "50 levels", "sum"),
        ("500 rows, XOR of continuous", "continuous", "xor"),
        ("500 rows, XOR of binary", "binary", "xor"),
        ("500 rows, sine", "continuous", "sine"),
    )
    for task, settings in {"": {}, ", regression": REG}.items()
}
_CONTINUOUS = {
    "1000 rows, a class of 4 %": (1.0, {"n_rows": 1000, "classes": (0.96, 0.04)}),
    "1000 rows, a class of 4 %, 500 trees": (
        1.0,
        {"n_rows": 1000, "classes": (0.96, 0.04), "options": {"n_estimators": 500}},
    ),
    "150 rows, 100 features, weak": (0.5, {"n_rows": 150, "per_kind": 33}),
    "150 rows, 100 features, weak, regression": (0.5, {"n_rows": 150, "per_kind": 33, **REG}),
    "150 rows, 100 features, weak, 500 trees": (
        0.5,
        {"n_rows": 150, "per_kind": 33, "options": {"n_estimators": 500}},
    ),
}
_FOUR = (1.2, 0.9, 0.7, 0.5)
# The feature whose interval counts comes first.
_COVERAGE: dict[str, Design] = {
    **{
        f"{name}, {kind}": Design(signal=((kind, strength),), **settings)
        for name, (strength, settings) in _ANY_KIND.items()
        for kind in KINDS
    },
    **{
        f"1000 rows, a class of 4 %, {strength} of four features, continuous": Design(
            signal=tuple(("continuous", other / 2) for other in (strength, *(own for own in _FOUR if own != strength))),
            n_rows=1000,
            classes=(0.96, 0.04),
        )
        for strength in _FOUR
    },
    **{
        f"{name}, continuous": Design(signal=(("continuous", strength),), **settings)
        for name, (strength, settings) in _CONTINUOUS.items()
    },
    **{
        name: Design(signal=((kind, strength),) * (2 if settings["effect"] == "xor" else 1), **settings)
        for name, (kind, strength, settings) in _ONE_KIND.items()
    },
}
_BAGS = "bags of 1000 trees: "
# Again with errors from the bags, for designs in which rows determine the splits.
COVERAGE = _COVERAGE | {
    _BAGS + name: replace(design, inference="bags", options={**design.options, "n_estimators": 1000}, data=name)
    for name, design in _COVERAGE.items()
    if any(part in name for part in ("XOR", "sine", "weak, regression", "a class of 6 %", "many levels"))
}

PEERS = "300 rows, beside other tests"  # costly: few data sets
_STRENGTHS = (0.0, 0.15, 0.3)
_BESIDE: dict[str, Any] = {"n_rows": 300, **HELD_OUT}
_RARE_CLASS: dict[str, Any] = {"n_rows": 1000, "classes": (0.9, 0.1)}
# Each strength, with and without a strong feature beside the one that is tested.
_POWER: dict[str, tuple[tuple[float, ...], bool, dict[str, Any]]] = {
    PEERS: (_STRENGTHS, False, {"n_rows": 300, "has_peers": True, "most": 16}),
    **{
        f"weak beside strong, {name}": ((0.0, 0.2, 0.4), True, {"data": f"weak beside strong{task}", **settings})
        for name, task, settings in (
            ("hist boosting", "", {"model": HIST, **_BESIDE}),
            ("hist boosting, regression", ", regression", {"model": HIST, **_BESIDE, **REG}),
            ("boosting, regression", ", regression", {"model": BOOSTING, "options": SHALLOW, **_BESIDE, **REG}),
            ("XGBoost", "", {"model": "xgboost.XGB", "options": {"n_jobs": 1}, **_BESIDE}),
            (
                "XGBoost, regression",
                ", regression",
                {"model": "xgboost.XGB", "options": {"n_jobs": 1}, **_BESIDE, **REG},
            ),
        )
    },
    **{
        f"a class of 10 %, {weight or 'not weighted'}{place}{bag}": (
            _STRENGTHS,
            False,
            {"data": f"a class of 10 %{place}", "options": {"class_weight": weight, **options}, **rows, **_RARE_CLASS},
        )
        for weight in (None, "balanced", "balanced_subsample")
        for place, bag, options, rows in (
            ("", "", {}, {}),
            ("", ", bag of 0.2", {"max_samples": 0.2}, {}),
            (", held-out rows", "", {}, HELD_OUT),
        )
    },
}


def _put_first(kind: str, strength: float, *, is_beside: bool) -> tuple[tuple[str, float], ...]:
    return ((kind, strength), ("continuous", 2.0)) if is_beside else ((kind, strength),)


POWER: dict[str, Design] = {
    f"{name}, {kind}, {strength}": Design(
        signal=_put_first(kind, strength, is_beside=is_beside),
        **{**settings, "data": f"{settings['data']}, {kind}, {strength}" if "data" in settings else ""},
    )
    for name, (strengths, is_beside, settings) in _POWER.items()
    for kind in KINDS
    for strength in strengths
}
