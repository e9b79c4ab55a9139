"""Which adapter reads which model."""

from __future__ import annotations

import importlib
from typing import Any

from truewood._arguments import check_type
from truewood._formatting import quote
from truewood._inputs.tables import InputSpec
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._plugins import list_plugins, open_with_module, open_with_plugin
from truewood.adapters._tree_model import TargetSpec, TreeModel, TreeReader

# The only list of models that truewood reads itself: class path -> adapter module. `register_adapter` adds to it.
_REGISTRY = {
    "catboost.CatBoost": "truewood.adapters._catboost",
    "cuml.ensemble.BaseRandomForestModel": "truewood.adapters._cuml",
    "econml.BaseGRF": "truewood.adapters._econml",
    "imblearn.ensemble.BalancedRandomForestClassifier": "truewood.adapters._imblearn",
    "lightgbm.Booster": "truewood.adapters._lightgbm",
    "lightgbm.LGBMModel": "truewood.adapters._lightgbm",
    "ngboost.NGBoost": "truewood.adapters._ngboost",
    "pyspark.ml._DecisionTreeModel": "truewood.adapters._spark_ml",
    "pyspark.ml._TreeEnsembleModel": "truewood.adapters._spark_ml",
    "sklearn.ensemble.BaseBagging": "truewood.adapters._sklearn_bagging",
    "sklearn.ensemble.BaseForest": "truewood.adapters._sklearn_trees",
    "sklearn.ensemble.BaseGradientBoosting": "truewood.adapters._sklearn_gradient_boosting",
    "sklearn.ensemble.BaseHistGradientBoosting": "truewood.adapters._sklearn_hist_gradient_boosting",
    "sklearn.ensemble.BaseWeightBoosting": "truewood.adapters._sklearn_adaboost",
    "sklearn.tree.BaseDecisionTree": "truewood.adapters._sklearn_trees",
    "sksurv.ensemble._BaseSurvivalForest": "truewood.adapters._sksurv",
    "treelite.Model": "truewood.adapters._treelite",
    "truewood.adapters.SparkModel": "truewood.adapters._spark_ml",
    "ydf.DecisionForestModel": "truewood.adapters._ydf",
    "xgboost.Booster": "truewood.adapters._xgboost",
    "xgboost.XGBModel": "truewood.adapters._xgboost",
    "xgboost.spark._SparkXGBModel": "truewood.adapters._xgboost_spark",
}
# Models that cannot be read, and why: a predicate whose subject is the class.
_NO_WEIGHTS = (
    "does not store how many training rows reached each node, which weights the splits; pass the model that it was "
    "converted from"
)
_UNREADABLE = {
    "h2o.ModelBase": "keeps its trees on a Java server, which truewood cannot read; fit the model with another library",
    "onnx.ModelProto": _NO_WEIGHTS,
    "onnxruntime.InferenceSession": _NO_WEIGHTS,
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

    An installed package can provide an adapter without this call, through an entry point in its ``pyproject.toml``::

        [project.entry-points."truewood.adapters"]
        "my_library.MyForest" = "my_package.adapter"
    """
    check_type(class_path, str, "class_path", "a str")
    check_type(module, str, "module", "a str")
    if "." not in class_path:
        raise ValueError(
            f"class_path must name a module and a class, such as 'lib.module.Class', got {quote(class_path)}."
        )
    _REGISTRY[class_path] = module


def open_model(model: Any) -> TreeModel:
    """Read a fitted model through the adapter of its class.

    Parameters
    ----------
    model : object
        A fitted tree model, or a `TreeEnsemble`.

    Returns
    -------
    TreeModel
        What the adapter declares about the model.
    """
    if isinstance(model, TreeEnsemble):
        return _view_ensemble(model)
    if isinstance(model, type):
        raise TypeError(f"model must be a fitted model, got the class {model.__name__}; pass a fitted instance of it.")
    class_path = _find_class_path(type(model), [*_REGISTRY, *list_plugins()])
    if class_path is None:
        list_plugins.cache_clear()  # a package may have been installed since
        class_path = _find_class_path(type(model), list(list_plugins()))
    if class_path is None:
        unreadable = _find_class_path(type(model), list(_UNREADABLE))
        if unreadable is not None:
            raise TypeError(f"model must be readable, but {type(model).__name__} {_UNREADABLE[unreadable]}.")
        raise TypeError(
            f"model must be a tree model, got {type(model).__name__}; pass a tree, a forest or boosted trees of "
            "scikit-learn, XGBoost, LightGBM, CatBoost or another library listed under Models in the documentation, or "
            "add your own with tw.register_adapter."
        )
    if class_path not in _REGISTRY:
        return open_with_plugin(class_path, model)
    module = _REGISTRY[class_path]
    if not module.startswith("truewood."):
        return open_with_module(module, model, f"the adapter registered for {class_path}")
    tree_model: TreeModel = importlib.import_module(module).open_model(model)
    return tree_model


def _find_class_path(model_class: type, class_paths: list[str]) -> str | None:
    """The class path of the nearest base class; None if no base class is among them."""
    for cls in model_class.__mro__:
        for class_path in class_paths:
            package, _, name = class_path.rpartition(".")
            if cls.__name__ == name and f"{cls.__module__}.".startswith(f"{package}."):
                return class_path
    return None


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
        The trees. Node k of a tree is the library's node k for scikit-learn and Spark; other libraries may number nodes
        differently.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> forest = RandomForestRegressor(3, max_depth=1, random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    >>> tw.to_ensemble(forest)
    TreeEnsemble(3 trees, 9 nodes, 1 feature, regression, 1 output)
    """
    tree_model = open_model(model)
    return tree_model.read(range(tree_model.n_trees))
