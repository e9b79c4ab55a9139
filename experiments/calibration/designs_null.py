"""Designs without signal in the features that are tested: how often do tests reject?"""

from __future__ import annotations

from typing import Any

from design import BOOSTING, FOREST, HIST, KINDS, Design

REG: dict[str, Any] = {"task": "regression"}
HELD_OUT: dict[str, Any] = {"rows": "heldout"}
STRONG: dict[str, Any] = {"signal": (("continuous", 2.0),)}
SHALLOW = {"max_depth": 3}
LIGHT = {"verbose": -1, "n_jobs": 1, "n_estimators": 50}
TASKS: dict[str, dict[str, Any]] = {"": {}, ", regression": REG}
RARE = ("continuous", "binary, 1 in 500", "binary, 1 in 5,000")

BASIC = {
    "100 rows": Design(n_rows=100),
    "100 rows, regression": Design(n_rows=100, **REG),
    "500 rows": Design(),
    "500 rows, regression": Design(**REG),
    "2000 rows": Design(n_rows=2000),
    "5000 rows, regression": Design(n_rows=5000, options={"max_features": 3, "n_estimators": 50}, **REG),
    "one class in twenty": Design(n_rows=1000, classes=(0.95, 0.05)),
    "three classes": Design(classes=(0.5, 0.3, 0.2)),
    "heavy tails": Design(noise="t2", **REG),
    "shifted target": Design(noise="shifted", **REG),
    "correlated features": Design(correlation=0.9),
    "correlated features, regression": Design(correlation=0.9, **REG),
    "150 features": Design(per_kind=50, has_mirror=True),
    "depth 3": Design(options=SHALLOW),
    "depth 3, regression": Design(options=SHALLOW, **REG),
    "leaves of 20 rows, regression": Design(options={"min_samples_leaf": 20}, **REG),
    "20 trees": Design(options={"n_estimators": 20}),
    "20 trees, regression": Design(options={"n_estimators": 20}, **REG),
    "500 trees": Design(n_rows=300, options={"n_estimators": 500}),
    "extra trees": Design(model="sklearn.ensemble.ExtraTrees", options={"bootstrap": True}),
    "sample weights": Design(weights="1 to 5"),
    "sample weights, regression": Design(weights="1 to 5", **REG),
    "another feature has signal": Design(signal=(("continuous", 1.0),)),
    "another feature has signal, regression": Design(signal=(("continuous", 1.0),), **REG),
    "centred, regression": Design(measure="ufi_centered", **REG),
    "centred": Design(measure="ufi_centered"),
    "mdi_oob": Design(measure="mdi_oob"),
    "mdi_oob, regression": Design(measure="mdi_oob", **REG),
    "forest, held-out rows": Design(**HELD_OUT),
    "boosting, held-out rows": Design(model=BOOSTING, options=SHALLOW, **HELD_OUT),
    "boosting, held-out rows, regression": Design(model=BOOSTING, options=SHALLOW, **HELD_OUT, **REG),
    "hist boosting, held-out rows": Design(model=HIST, options={"max_iter": 50}, **HELD_OUT, **REG),
}

NOISE = {
    f"{model}, noise moved by {strength}, {n_rows} rows": Design(n_rows=n_rows, moved_noise=strength, **settings, **REG)
    for model, settings in {
        "forest": {},
        "forest, ufi": {"measure": "ufi"},
        "boosting": {"model": BOOSTING, "options": SHALLOW, **HELD_OUT},
        "hist boosting": {"model": HIST, "options": {"max_iter": 50}, **HELD_OUT},
    }.items()
    for strength in (0.2, 0.4, 0.8)
    for n_rows in (300, 1000, 3000)
    if model in ("forest", "boosting") or strength == 0.8
}

_RARE_CLASS: dict[str, Any] = {"n_rows": 1000, "classes": (0.9, 0.1)}
_BALANCED = {
    **{
        f"{weight}, {bag}": {"options": {"class_weight": weight, **options}, **settings}
        for weight in ("balanced", "balanced_subsample")
        for bag, options, settings in (
            ("full bag", {}, {}),
            ("bag of 0.3", {"max_samples": 0.3}, {}),
            ("bag of 0.2", {"max_samples": 0.2}, {}),
            ("held-out rows", {}, HELD_OUT),
        )
    },
    "balanced, another feature has signal": {"options": {"class_weight": "balanced"}, **STRONG},
    "balanced forest": {"model": "imblearn.ensemble.BalancedRandomForest"},
    "balanced forest, bootstrap": {"model": "imblearn.ensemble.BalancedRandomForest", "options": {"bootstrap": True}},
    "balanced forest, held-out rows": {"model": "imblearn.ensemble.BalancedRandomForest", **HELD_OUT},
    "half of the held-out rows": {"heldout_classes": (0.5, 0.5), **HELD_OUT},
    "half of the held-out rows, another feature has signal": {"heldout_classes": (0.5, 0.5), **HELD_OUT, **STRONG},
}
_WEIGHTED = {
    f"weights {weights}{task}": {"weights": weights, **settings}
    for weights in ("log-normal", "by target")
    for task, settings in TASKS.items()
}
_MEASURES: dict[str, dict[str, Any]] = {"": {}, ", mdi_oob": {"measure": "mdi_oob"}}
BALANCE = {
    **{
        f"a class of 10 %, {name}{measure}": Design(**_RARE_CLASS, **settings, **chosen)
        for name, settings in _BALANCED.items()
        for measure, chosen in _MEASURES.items()
    },
    **{
        f"{name}{measure}": Design(**settings, **chosen)
        for name, settings in _WEIGHTED.items()
        for measure, chosen in _MEASURES.items()
    },
}

BOOSTED = {
    f"{name}, strong feature": Design(**{**STRONG, **HELD_OUT, **settings})
    for name, settings in {
        "boosting": {"model": BOOSTING, "options": SHALLOW},
        "boosting, regression": {"model": BOOSTING, "options": SHALLOW, **REG},
        "boosting, quantile": {"model": BOOSTING, "options": {**SHALLOW, "loss": "quantile", "alpha": 0.8}, **REG},
        "boosting of stumps, regression": {"model": BOOSTING, "options": {"max_depth": 1}, **REG},
        "hist boosting": {"model": HIST},
        "hist boosting, regression": {"model": HIST, **REG},
        "hist boosting, 3000 rows": {"model": HIST, "n_rows": 3000},
        "hist boosting, Poisson": {"model": HIST, "options": {"loss": "poisson"}, "noise": "poisson", **REG},
        "hist boosting, quantile": {"model": HIST, "options": {"loss": "quantile", "quantile": 0.8}, **REG},
        "hist boosting, heavy tails": {"model": HIST, "noise": "t2", **REG},
        "XGBoost": {"model": "xgboost.XGB", "options": {"n_estimators": 50, "n_jobs": 1}},
        "XGBoost, regression": {"model": "xgboost.XGB", "options": {"n_estimators": 50, "n_jobs": 1}, **REG},
        "LightGBM": {"model": "lightgbm.LGBM", "options": LIGHT},
        "LightGBM, Poisson": {
            "model": "lightgbm.LGBM",
            "options": {**LIGHT, "objective": "poisson"},
            "noise": "poisson",
            **REG,
        },
        "LightGBM, quantile": {
            "model": "lightgbm.LGBM",
            "options": {**LIGHT, "objective": "quantile", "alpha": 0.8},
            **REG,
        },
        "CatBoost": {
            "model": "catboost.CatBoost",
            "options": {"iterations": 50, "thread_count": 1, "verbose": False, "allow_writing_files": False},
        },
    }.items()
}

# 20,000 rows are costly: fewer data sets.
_HIST_LARGE = {"max_iter": 50, "early_stopping": False}  # which stops if there is nothing to learn
_LARGE: dict[str, Any] = {"n_rows": 20_000, "most": 100, "options": {"n_estimators": 50}}
LARGE = {
    **{
        f"only {kinds[0] if per_kind == 1 else 'two features'}{place}{task}": Design(
            kinds=kinds, per_kind=per_kind, **{**_LARGE, **more}, **settings
        )
        for kinds, per_kind in (*(((kind,), 1) for kind in KINDS), (("continuous",), 2))
        for place, more in {
            ", 20000 rows": {},
            ", 20000 rows, hist boosting": {"model": HIST, "options": _HIST_LARGE, **HELD_OUT},
        }.items()
        for task, settings in TASKS.items()
    },
    **{
        f"rare features, {name}{task}": Design(kinds=RARE, **{**_LARGE, **more}, **settings)
        for name, more in {
            "20000 rows": {},
            "20000 rows, strong feature": STRONG,
            "20000 rows, hist boosting": {
                "model": HIST,
                "options": {**_HIST_LARGE, "min_samples_leaf": 2},
                **HELD_OUT,
            },
        }.items()
        for task, settings in TASKS.items()
    },
    **{
        f"rare features, 2000 rows{task}": Design(kinds=RARE[:2], n_rows=2000, **settings)
        for task, settings in TASKS.items()
    },
    "many sparse columns": Design(
        n_rows=2000,
        kinds=tuple(f"sparse {kind}" for kind in KINDS),
        per_kind=333,
        signal=(("continuous", 1.0),),
        is_sparse=True,
        has_mirror=True,
        most=40,
    ),
}

_XOR: dict[str, Any] = {"effect": "xor"}
SHAPES = {
    f"{name}{task}": Design(**{**settings, **more})
    for name, more in {
        "correlated by 0.5, strong feature": {"correlation": 0.5, **STRONG},
        "correlated by 0.95, strong feature": {"correlation": 0.95, **STRONG},
        "XOR of two binary others": {"signal": (("binary", 2.0), ("binary", 2.0)), **_XOR},
        "XOR of two continuous others": {"signal": (("continuous", 2.0), ("continuous", 2.0)), **_XOR},
        "XOR, hist boosting": {"signal": (("binary", 2.0), ("binary", 2.0)), **_XOR, "model": HIST, **HELD_OUT},
        "depth 1": {"options": {"max_depth": 1}},
        "depth 6, 2000 rows": {"n_rows": 2000, "options": {"max_depth": 6}},
        "full depth, 2000 rows, strong feature": {"n_rows": 2000, **STRONG},
        "30 features, each tried at every split, 20 trees": {
            "per_kind": 10,
            "options": {"n_estimators": 20, "max_features": None},
        },
        "deep boosting, held-out rows": {
            "model": BOOSTING,
            "options": {"max_depth": 8, "n_estimators": 50},
            **HELD_OUT,
        },
        "60 features": {"per_kind": 20, "has_mirror": True},
        "60 features, strong feature": {"per_kind": 20, "has_mirror": True, **STRONG},
        "lists of out-of-bag rows": {"rows": "lists"},
        "lists of out-of-bag rows, strong feature": {"rows": "lists", **STRONG},
    }.items()
    for task, settings in TASKS.items()
}
TAILS = {
    f"{noise} target, {model}": Design(noise=noise, **settings, **REG)
    for noise in ("log-normal", "cauchy")
    for model, settings in {
        "forest": {"model": FOREST},
        "boosting": {"model": BOOSTING, "options": SHALLOW, **HELD_OUT},
    }.items()
}
_SURVIVAL = {
    "model": "sksurv.ensemble.RandomSurvivalForest",
    "options": {"n_estimators": 50, "min_samples_leaf": 5, "n_jobs": 1, "low_memory": True},
}
_COX = {
    "model": "sksurv.ensemble.GradientBoostingSurvivalAnalysis",
    "options": {"n_estimators": 50, **SHALLOW},
    **HELD_OUT,
}
_CAUSAL = {"model": "econml.grf.CausalForest", "options": {"n_estimators": 100, "n_jobs": 1}}
_MODERATE: dict[str, Any] = {"signal": (("continuous", 1.0),)}
# A useless feature may move censoring, and the treatment together with the outcome.
NUISANCE = {
    **{
        f"survival, {name}": Design(task="survival", per_kind=2, **{"most": 200, **_SURVIVAL, **more})
        for name, more in {
            "no signal": {},
            "censoring moved": {"moved_noise": 1.0},
            "censoring moved, another feature has signal": {"moved_noise": 1.0, **_MODERATE},
            "censoring moved, strong feature": {"moved_noise": 1.0, **STRONG},
            "censoring moved, strong feature, 2000 rows": {"moved_noise": 1.0, "n_rows": 2000, "most": 40, **STRONG},
            "censoring moved, strong feature, mdi_oob": {"moved_noise": 1.0, "measure": "mdi_oob", **STRONG},
            "censoring moved, strong feature, boosting": {"moved_noise": 1.0, **_COX, **STRONG},
        }.items()
    },
    **{
        f"causal, {name}": Design(most=200, per_kind=2, moved_noise=0.5, **_CAUSAL, **more)
        for name, more in {
            "raw": {"task": "causal"},
            "cross-fitted residuals": {"task": "causal residuals"},
            "cross-fitted residuals, another feature has signal": {"task": "causal residuals", **_MODERATE},
        }.items()
    },
}

NULL: dict[str, Design] = {**BASIC, **NOISE, **BALANCE, **BOOSTED, **LARGE, **SHAPES, **TAILS, **NUISANCE}
