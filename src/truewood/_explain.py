"""`explain()`: how far, and in which direction, each feature moved the predictions for evaluation rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs, check_n_rows
from truewood._engines.selection import place_rows, use_engine
from truewood._exceptions import warn
from truewood._inputs.groups import sum_feature_groups
from truewood._inputs.table_types import bring_to_host, take_from_device, take_named
from truewood._inputs.tables import FeatureMatrix, read_features
from truewood._inputs.target import ClassTarget, encode_target
from truewood._pipelines.containers import take_inputs
from truewood._pipelines.final_estimator import extract_final_estimator
from truewood._results.explanation import Explanation
from truewood._rows.evaluation_rows import EvaluationRows, choose_evaluation_rows_without_target
from truewood._scoring.inputs import make_scoring_inputs
from truewood._scoring.path_values import count_columns, sum_paths
from truewood._scoring.results import find_groupings
from truewood._streaming.open_source import check_in_memory
from truewood.adapters import TreeModel, open_model
from truewood.adapters._verification import verify_against_library

Floats = NDArray[np.float64]


def explain(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    rows: Any = "auto",
    sample_weight: Any = None,
    feature_groups: Any = None,
    n_jobs: int | None = None,
    engine: str = "auto",
) -> Explanation:
    """Explain the prediction for each row by the features on its paths, with trees that never saw the row.

    At each split, the prediction for a row moves from the value of the node to the value of the child that the row goes
    to. These steps are summed by feature along the row's paths, and averaged over the trees that never saw the row, or
    summed for boosted trees. They are not Shapley values; see "Explain predictions" in the documentation.

    Parameters
    ----------
    model : object
        A fitted tree, forest or boosted model, or a Pipeline that ends in one, as in `importance`.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The training data for ``rows="oob"``, held-out data for ``rows="heldout"``.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str, default=None
        The target, or the name of its column in X. It is needed unless ``rows="heldout"``, to check whether X is the
        training data; plots show its mean beside the explanation.
    rows : {"auto", "oob", "heldout"} or sequence of array-like, default="auto"
        Which trees explain a row. "oob": those whose bootstrap sample (their bag) does not contain it. "heldout": all
        of them. A sequence with one list of row numbers, or one mask, per tree: the trees whose list or mask contains
        it. "auto" means "oob", and raises an error if the model does not record which rows are in the bag of each tree.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        The weights used in training, if truewood needs them to verify the training data, as in `importance`.
    feature_groups : dict or sequence, default=None
        Columns to explain as one feature, as in `importance`.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; the result does not depend on it.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `importance`.

    Returns
    -------
    Explanation
        Values by row and feature, and base values, which add up to the prediction of the trees that never saw the row.
        The initial constant of boosted trees is part of the base value if the library provides it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> explanation = tw.explain(forest, X[300:], rows="heldout")
    >>> bool(abs(explanation.predictions - forest.predict(X[300:])).max() < 1e-9)
    True
    """
    check_in_memory(X, "explain")
    X, chosen = place_rows(X, engine)
    X, y = take_from_device(X, "explain"), bring_to_host(y)
    X, y, sample_weight = take_named(X, y=y, sample_weight=bring_to_host(sample_weight))
    with use_engine(chosen):
        return _explain(model, X, y, rows, sample_weight, feature_groups, check_n_jobs(n_jobs))


def _explain(
    model: Any, X: Any, y: Any, rows: Any, sample_weight: Any, feature_groups: Any, n_threads: int
) -> Explanation:
    """Explain rows in the host's memory, with the engine in use."""
    final = extract_final_estimator(model, X, y, rows)
    tree_model = open_model(final.model)
    if not tree_model.has_predictions:
        raise TypeError(
            f"explain needs trees that store predictions, but those of {tree_model.name} do not; use another model."
        )
    matrix = read_features(final.X, tree_model.table)
    evaluation_rows, constant = _choose_rows(tree_model, final.X, final.y, matrix, rows, sample_weight, n_threads)
    groupings, notes = find_groupings(feature_groups, matrix.names, final.encoding, tree_model)
    paths = sum_paths(tree_model, matrix, evaluation_rows, n_threads)
    n_unexplained = int(np.count_nonzero(~paths.is_explained))
    if n_unexplained:
        them = "it" if n_unexplained == 1 else "them"
        warn(
            f"no explanation for {n_unexplained} of {matrix.n_rows} rows because every tree was trained on {them} or "
            f"on copies of {them}; fit more trees to explain {them}."
        )
    values, base = (
        sum_feature_groups(paths.values, groupings[0]),
        paths.roots if constant is None else paths.roots + constant,
    )
    output_names, target = _name_outputs(tree_model), _find_target(tree_model, final.y, matrix.n_rows)
    if output_names is None:
        values, base, target = values[:, :, 0], base[:, 0], None if target is None else target[:, 0]
    inputs = matrix.names.tolist() if final.encoding is None else final.encoding.inputs
    return Explanation(
        values=values,
        base_values=base,
        data=take_inputs(X, inputs, groupings[0].names.tolist(), matrix.n_rows),
        feature_names=groupings[0].names,
        output_names=output_names,
        target=target,
        rows=evaluation_rows.name,
        is_additive=tree_model.is_additive,
        is_risk=tree_model.target.loss is not None and tree_model.target.loss.is_life_table,
        notes=notes,
        positive_class=_name_positive_class(tree_model),
    )


def _choose_rows(
    tree_model: TreeModel, X: Any, y: Any, matrix: FeatureMatrix, rows: Any, sample_weight: Any, n_threads: int
) -> tuple[EvaluationRows, Floats | None]:
    """Which trees explain which rows, with the checks of `importance`; and the constant of additive trees."""
    # For trees without means of y, y only serves to recognize the training data.
    is_y_needed = tree_model.why_no_heldout is None or not (isinstance(rows, str) and rows == "heldout")
    if y is None or tree_model.is_additive or not is_y_needed:
        constant = verify_against_library(tree_model, matrix)
        return choose_evaluation_rows_without_target(rows, tree_model, matrix, n_threads), constant
    evaluation_rows = make_scoring_inputs(
        tree_model, X, y, rows=rows, sample_weight=sample_weight, n_threads=n_threads
    ).evaluation_rows
    if evaluation_rows.are_training and tree_model.training is not None and tree_model.training.is_honest:
        raise ValueError(
            f"rows must be 'heldout' for {tree_model.name}, because out-of-bag rows determine its leaf values."
        )
    return evaluation_rows, None


def _name_outputs(tree_model: TreeModel) -> NDArray[np.str_] | None:
    """Names of the outputs; None for a single number."""
    kind, n_columns = tree_model.target.kind, count_columns(tree_model)
    if n_columns == 1:
        return None
    return kind.column_names if kind.n_columns == n_columns else np.arange(n_columns).astype(np.str_)


def _name_positive_class(tree_model: TreeModel) -> str | None:
    """Name of the second of two classes that share a single raw score."""
    kind = tree_model.target.kind
    is_shared = kind.is_classification and kind.n_columns == 2 and count_columns(tree_model) == 1
    return str(kind.column_names[1]) if is_shared else None


def _find_target(tree_model: TreeModel, y: Any, n_rows: int) -> Floats | None:
    """The target of the predictions, shape (n_rows, n_columns), with one-hot classes; None if y has another form."""
    kind, n_columns = tree_model.target.kind, count_columns(tree_model)
    if y is None or tree_model.target.read_y is not None:
        return None
    encoded = encode_target(y, kind, np.zeros(kind.n_columns))
    check_n_rows(encoded.n_rows, n_rows, "y")
    numbers = encoded.encoded
    if isinstance(encoded, ClassTarget) and n_columns == kind.n_columns:
        numbers = encoded.vectors
    return numbers if numbers.shape[1] == n_columns else None
