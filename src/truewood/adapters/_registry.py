"""Which adapter reads which model."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from truewood._formatting import quote
from truewood._inputs.tables import InputSpec
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import TargetSpec, TreeModel, TreeReader

# Entry point group for adapters in other packages: class path = adapter module.
_ENTRY_POINTS = "truewood.adapters"
# The only list of supported models: class path -> adapter module.
_REGISTRY = {
    "catboost.CatBoost": "truewood.adapters._catboost",
    "cuml.ensemble.BaseRandomForestModel": "truewood.adapters._cuml",
    "econml.BaseGRF": "truewood.adapters._econml",
    "imblearn.ensemble.BalancedRandomForestClassifier": "truewood.adapters._imblearn",
    "lightgbm.Booster": "truewood.adapters._lightgbm",
    "lightgbm.LGBMModel": "truewood.adapters._lightgbm",
    "pyspark.ml._DecisionTreeModel": "truewood.adapters._spark_ml",
    "pyspark.ml._TreeEnsembleModel": "truewood.adapters._spark_ml",
    "sklearn.ensemble.BaseBagging": "truewood.adapters._sklearn_bagging",
    "sklearn.ensemble.BaseForest": "truewood.adapters._sklearn_forest",
    "sklearn.ensemble.BaseGradientBoosting": "truewood.adapters._sklearn_gradient_boosting",
    "sklearn.ensemble.BaseHistGradientBoosting": "truewood.adapters._sklearn_hist_gradient_boosting",
    "sklearn.ensemble.BaseWeightBoosting": "truewood.adapters._sklearn_adaboost",
    "sklearn.tree.BaseDecisionTree": "truewood.adapters._sklearn_tree",
    "sksurv.ensemble._BaseSurvivalForest": "truewood.adapters._sksurv",
    "treelite.Model": "truewood.adapters._treelite",
    "truewood.adapters.SparkModel": "truewood.adapters._spark_ml",
    "xgboost.Booster": "truewood.adapters._xgboost",
    "xgboost.XGBModel": "truewood.adapters._xgboost",
    "xgboost.spark._SparkXGBModel": "truewood.adapters._xgboost_spark",
}


def register_adapter(class_path: str, module: str) -> None:
    """Register an adapter for a class of models.

    Parameters
    ----------
    class_path : str
        Class that the adapter reads, such as "lib.module.Class", including subclasses. The class may be defined in a
        submodule: "sklearn.ensemble.BaggingClassifier" matches the class in ``sklearn.ensemble._bagging``.
    module : str
        Importable module with a function ``open_model(model)`` that returns a `truewood.adapters.TreeModel`.

    Examples
    --------
    >>> import truewood as tw
    >>> tw.register_adapter("my_library.MyForest", "my_package.adapter")

    An installed package can provide an adapter without being imported, by an entry point in its ``pyproject.toml``::

        [project.entry-points."truewood.adapters"]
        "my_library.MyForest" = "my_package.adapter"
    """
    if "." not in class_path:
        raise ValueError(
            f"class_path must name a module and a class, such as 'lib.module.Class', got {quote(class_path)}."
        )
    _REGISTRY[class_path] = module


def open_model(model: Any) -> TreeModel:
    """Read a fitted model through the adapter of its class."""
    if isinstance(model, TreeEnsemble):
        return _view_ensemble(model)
    if isinstance(model, type):
        raise TypeError(f"model must be a fitted model, got the class {model.__name__}.")
    module = _find_adapter(type(model), _REGISTRY) or _find_adapter(type(model), _list_entry_points())
    if module is not None:
        tree_model: TreeModel = importlib.import_module(module).open_model(model)
        return tree_model
    raise TypeError(
        f"model must be a tree model, got {type(model).__name__}; pass a tree, a forest or boosted trees of "
        "scikit-learn, XGBoost, LightGBM, CatBoost or another library listed under Models in the documentation, or add "
        "your own with tw.register_adapter."
    )


def _find_adapter(model_class: type, registry: dict[str, str]) -> str | None:
    """The adapter of the nearest base class in the registry; None if there is none."""
    for cls in model_class.__mro__:
        for class_path, module in registry.items():
            package, _, name = class_path.rpartition(".")
            if cls.__name__ == name and f"{cls.__module__}.".startswith(f"{package}."):
                return module
    return None


@cache
def _list_entry_points() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=_ENTRY_POINTS)}


def _view_ensemble(ensemble: TreeEnsemble) -> TreeModel:
    return TreeModel(
        table=InputSpec("TreeEnsemble", ensemble.n_features, dtype=ensemble.x_dtype, takes_infinite=True),
        target=TargetSpec(
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
    tree_model = open_model(model)
    return tree_model.read(range(tree_model.n_trees))
