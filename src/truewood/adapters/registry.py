"""Which adapter reads which model."""

from __future__ import annotations

import importlib
from typing import Any

from truewood.adapters.view import ModelView, TargetForm, TreeReader
from truewood.data.tables import TableForm
from truewood.trees.ensemble import TreeEnsemble
from truewood.words import quote

# The only list of what is supported: class path -> adapter module.
_REGISTRY = {
    "catboost.CatBoost": "truewood.adapters.catboost",
    "cuml.ensemble.BaseRandomForestModel": "truewood.adapters.cuml",
    "econml.BaseGRF": "truewood.adapters.econml",
    "imblearn.ensemble.BalancedRandomForestClassifier": "truewood.adapters.imblearn",
    "lightgbm.Booster": "truewood.adapters.lightgbm",
    "lightgbm.LGBMModel": "truewood.adapters.lightgbm",
    "pyspark.ml._DecisionTreeModel": "truewood.adapters.spark_ml",
    "pyspark.ml._TreeEnsembleModel": "truewood.adapters.spark_ml",
    "sklearn.ensemble.BaseBagging": "truewood.adapters.sklearn_bagging",
    "sklearn.ensemble.BaseForest": "truewood.adapters.sklearn_forest",
    "sklearn.ensemble.BaseGradientBoosting": "truewood.adapters.sklearn_gradient_boosting",
    "sklearn.ensemble.BaseHistGradientBoosting": "truewood.adapters.sklearn_hist_gradient_boosting",
    "sklearn.ensemble.BaseWeightBoosting": "truewood.adapters.sklearn_adaboost",
    "sklearn.tree.BaseDecisionTree": "truewood.adapters.sklearn_tree",
    "sksurv.ensemble._BaseSurvivalForest": "truewood.adapters.sksurv",
    "treelite.Model": "truewood.adapters.treelite",
    "truewood.adapters.SparkModel": "truewood.adapters.spark_ml",
    "xgboost.Booster": "truewood.adapters.xgboost",
    "xgboost.XGBModel": "truewood.adapters.xgboost",
    "xgboost.spark._SparkXGBModel": "truewood.adapters.xgboost_spark",
}


def register_adapter(class_path: str, module: str) -> None:
    """Teach truewood a new kind of model.

    Parameters
    ----------
    class_path : str
        Class the adapter reads, such as "lib.module.Class"; subclasses are read too. The class may be defined deeper
        than the path says: "sklearn.ensemble.BaggingClassifier" finds it in ``sklearn.ensemble._bagging``.
    module : str
        Importable module with a function ``open_model(model)`` that returns a `truewood.adapters.ModelView`.

    Examples
    --------
    >>> import truewood as tw
    >>> tw.register_adapter("my_library.MyForest", "my_package.adapter")
    """
    if "." not in class_path:
        raise ValueError(
            f"class_path must be a module and a class, such as 'lib.module.Class', got {quote(class_path)}."
        )
    _REGISTRY[class_path] = module


def open_model(model: Any) -> ModelView:
    """Read a fitted model through the adapter of its class."""
    if isinstance(model, TreeEnsemble):
        return _view_ensemble(model)
    if isinstance(model, type):
        raise TypeError(f"model must be a fitted model, got the class {model.__name__}.")
    for cls in type(model).__mro__:
        for class_path, module in _REGISTRY.items():
            if _is_class(cls, class_path):
                view: ModelView = importlib.import_module(module).open_model(model)
                return view
    known = ", ".join(sorted(_REGISTRY))
    raise TypeError(
        f"model must be a tree model that truewood can read, got {type(model).__name__}; it reads {known} and their "
        "subclasses, and tw.register_adapter adds others."
    )


def _is_class(cls: type, class_path: str) -> bool:
    module, _, name = class_path.rpartition(".")
    return cls.__name__ == name and f"{cls.__module__}.".startswith(f"{module}.")


def _view_ensemble(ensemble: TreeEnsemble) -> ModelView:
    return ModelView(
        table=TableForm("TreeEnsemble", ensemble.n_features, dtype=ensemble.x_dtype, takes_infinite=True),
        target=TargetForm(
            ensemble.kind,
            why_no_loss="a TreeEnsemble does not know the loss of its trees" if ensemble.is_additive else None,
            n_scores=ensemble.kind.n_columns if ensemble.column is None else 1 + int(ensemble.column.max()),
        ),
        reader=TreeReader.of_ensemble(ensemble),
    )


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read all trees of a fitted model.

    Parameters
    ----------
    model : object
        A fitted tree model.

    Returns
    -------
    TreeEnsemble
        The trees; node k of a tree is the library's own node k.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> forest = RandomForestRegressor(3, max_depth=1, random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    >>> tw.to_ensemble(forest)
    TreeEnsemble(3 trees, 9 nodes, 1 features, regression, 1 output)
    """
    view = open_model(model)
    return view.read(range(view.n_trees))
