"""YDF: leaves and raw scores equal the library's, for columns of all kinds; nodes hold sums of training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import ydf
from scipy import special

import truewood as tw
from helpers.contract import add_leaf_values, route
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import open_model
from truewood.testing import check_adapter

LABELS = np.array(["no", "maybe", "yes"])
RANDOM = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _quiet():
    ydf.verbose(0)


def draw(n_rows=300, seed=0):
    """Columns of all kinds; the first three matter."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.standard_normal(n_rows),
            "place": rng.choice(list("uvwxyz"), n_rows),
            "flag": rng.random(n_rows) > 0.5,
            "code": rng.integers(0, 5, n_rows),
            "steps": rng.standard_normal(n_rows).round(1),
        }
    )
    table.loc[rng.random(n_rows) < 0.1, "size"] = np.nan
    table.loc[rng.random(n_rows) < 0.1, "place"] = None
    score = table["size"].fillna(0.5) + table["place"].isin(["u", "x"]) + table["flag"]
    return table, score.to_numpy() + 0.3 * rng.standard_normal(n_rows)


FEATURES = {"code": "CATEGORICAL", "steps": "DISCRETIZED_NUMERICAL", "size": None, "place": None, "flag": None}


def train(learner, target, table=None, y=None, **options):
    X, score = draw()
    table = X if table is None else table
    given = {"number": score, "classes": LABELS[np.digitize(score, [0.5, 1.5])], "two": score > 1.0}
    features = [
        ydf.Feature(name, FEATURES[name] and ydf.Semantic[FEATURES[name]]) for name in table if name in FEATURES
    ]
    task = ydf.Task.REGRESSION if target == "number" else ydf.Task.CLASSIFICATION
    options = {"features": features, "task": task, "label": "y", **options}
    if learner != "Cart":
        options = {"num_trees": 6, **options}
    data = table.assign(y=given[target] if y is None else y)
    return getattr(ydf, f"{learner}Learner")(**options).train(data)


MODELS = {
    "boosting": lambda: train("GradientBoostedTrees", "number"),
    "boosting, two classes": lambda: train("GradientBoostedTrees", "two"),
    "boosting, three classes": lambda: train("GradientBoostedTrees", "classes"),
    "boosting, poisson": lambda: train("GradientBoostedTrees", "number", y=np.arange(300) % 7, loss="POISSON"),
    "boosting, absolute error": lambda: train("GradientBoostedTrees", "number", loss="MEAN_AVERAGE_ERROR"),
    "boosting, some rows": lambda: train("GradientBoostedTrees", "number", subsample=0.5),
    "boosting, best first": lambda: train("GradientBoostedTrees", "number", growing_strategy="BEST_FIRST_GLOBAL"),
    "boosting, local imputation": lambda: train(
        "GradientBoostedTrees", "number", missing_value_policy="LOCAL_IMPUTATION"
    ),
    "boosting, two classes, local imputation": lambda: train(
        "GradientBoostedTrees", "two", missing_value_policy="LOCAL_IMPUTATION"
    ),
    "boosting, missing is a condition": lambda: train(
        "GradientBoostedTrees", "number", allow_na_conditions=True, table=draw()[0]
    ),
    "boosting, random categories": lambda: train("GradientBoostedTrees", "number", categorical_algorithm="RANDOM"),
    "forest": lambda: train("RandomForest", "number"),
    "forest, three classes": lambda: train("RandomForest", "classes"),
    "forest of probabilities": lambda: train("RandomForest", "classes", winner_take_all=False),
    "tree": lambda: train("Cart", "number"),
    "tree, two classes": lambda: train("Cart", "two"),
}


def draw_odd_table(model):
    """Rows on thresholds and beside them, categories the model does not know, missing and infinite values."""
    table = draw(400, seed=1)[0]
    ensemble = tw.to_ensemble(model)
    splits = ensemble.splits[ensemble.feature[ensemble.splits] == model.input_feature_names().index("size")]
    thresholds = ensemble.threshold[splits].astype(np.float32)
    thresholds = thresholds[np.isfinite(thresholds)]
    beside = np.concatenate([np.nextafter(thresholds, np.float32(sign * np.inf)) for sign in (1, -1)])
    special_values = [*thresholds, *beside, np.inf, -np.inf, 1e30]
    table.loc[: len(special_values[:300]) - 1, "size"] = np.array(special_values[:300], dtype=np.float64)
    table.loc[300:320, "place"] = "unseen"
    table.loc[300:310, "code"] = 99
    table["steps"] = table["steps"].where(np.arange(400) % 50 > 0)
    return table[model.input_feature_names()]


@pytest.mark.parametrize("name", MODELS)
def test_leaves_and_raw_scores_are_those_of_the_library(name):
    model = MODELS[name]()
    table = draw_odd_table(model)
    check_adapter(model, table)
    label = model.label_classes()[0] if model.task() == ydf.Task.CLASSIFICATION else 0.0
    own = model.predict_leaves(table.assign(y=label))
    found = route(model, table)
    for tree in range(model.num_trees()):
        pairs = set(zip(found[:, tree].tolist(), own[:, tree].tolist(), strict=True))
        assert len(pairs) == len(np.unique(found[:, tree])) == len(np.unique(own[:, tree]))
    predicted = model.predict(table, use_slow_engine="local" in name)
    added = add_leaf_values(model, table)
    if "boosting" in name:
        raw = added + model.initial_predictions()
        if model.task() == ydf.Task.CLASSIFICATION:
            expected = special.expit(raw[:, 0]) if raw.shape[1] == 1 else special.softmax(raw, axis=1)
        else:
            expected = np.exp(raw[:, 0]) if "poisson" in name else raw[:, 0]
    else:
        expected = added / model.num_trees()
        expected = expected[:, -1] if expected.shape[1] < 3 else expected
    if name != "forest, three classes":  # whose trees vote
        np.testing.assert_allclose(predicted, expected, rtol=1e-5, atol=1e-6)
    assert open_model(model).has_predictions == (name != "forest, three classes")


@pytest.mark.parametrize("target", ["number", "classes"])
def test_nodes_hold_counts_and_means_of_the_training_rows(target):
    X, score = draw()
    model = train("RandomForest", target, bootstrap_training_dataset=False, num_trees=2)
    ensemble, leaves = tw.to_ensemble(model), route(model, X[model.input_feature_names()])
    y = score[:, np.newaxis] if target == "number" else np.eye(3)[np.digitize(score, [0.5, 1.5])]
    if target == "classes":
        y = y[:, [list(LABELS).index(label) for label in model.label_classes()]]
    for tree in range(2):
        first, last = ensemble.offset[tree : tree + 2]
        for node in range(first, last):
            below = {node}
            for child in range(node + 1, last):
                if ensemble.parent[child] in below:
                    below.add(child)
            rows = np.isin(leaves[:, tree] + first, list(below))
            assert ensemble.weight[node] == rows.sum()
            np.testing.assert_allclose(ensemble.value[node], y[rows].mean(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ensemble.root_impurity[tree], y.var(axis=0).sum(), rtol=1e-5)


def test_weights_of_training_rows_are_those_of_the_nodes():
    X, score = draw()
    weight = np.arange(1.0, 301)
    model = train("RandomForest", "number", X.assign(w=weight), weights="w", bootstrap_training_dataset=False)
    roots = tw.to_ensemble(model).offset[:-1]
    np.testing.assert_allclose(tw.to_ensemble(model).weight[roots], weight.sum())
    np.testing.assert_allclose(tw.to_ensemble(model).value[roots, 0], np.average(score, weights=weight), rtol=1e-5)
    check_adapter(model, X[model.input_feature_names()])


def test_what_matters_is_found_and_labels_may_have_any_type():
    X, score = draw(400, seed=2)
    for name, y in (
        ("boosting", score),
        ("forest", score),
        ("boosting, three classes", LABELS[np.digitize(score, [0.5, 1.5])]),
        ("boosting, two classes", score > 1.0),
    ):
        model = MODELS[name]()
        result = tw.importance(model, X[model.input_feature_names()], y, rows="heldout")
        assert set(result.feature_names[result.select()]) == {"size", "place", "flag"}
    numbered = train("GradientBoostedTrees", "classes", y=np.digitize(draw()[1], [0.5, 1.5]))
    codes = np.digitize(score, [0.5, 1.5])
    table = X[numbered.input_feature_names()]
    expected = tw.importance(numbered, table, codes, rows="heldout").values
    np.testing.assert_array_equal(tw.importance(numbered, table, codes.astype(str), rows="heldout").values, expected)


@pytest.mark.parametrize("container", ["polars", "pyarrow", "category", "string", "array"])
def test_the_container_makes_no_difference(container):
    model = MODELS["boosting"]()
    X, score = draw(200, seed=3)
    X = X[model.input_feature_names()]
    expected = tw.importance(model, X, score, rows="heldout").values
    if container in ("polars", "pyarrow"):
        library = pytest.importorskip(container)
        other = library.from_pandas(X) if container == "polars" else library.Table.from_pandas(X)
    elif container == "array":
        other = X.to_numpy()
    else:
        other = X.astype({"place": container})
    np.testing.assert_array_equal(tw.importance(model, other, score, rows="heldout").values, expected)


def test_an_array_of_two_dimensions_is_one_column_of_the_library():
    X = RANDOM.standard_normal((300, 3))
    y = X[:, 0] + RANDOM.standard_normal(300)
    model = ydf.GradientBoostedTreesLearner(label="y", task=ydf.Task.REGRESSION, num_trees=5).train(
        {"x": X[:200], "y": y[:200]}
    )
    check_adapter(model, X)
    result = tw.importance(model, X[200:], y[200:], rows="heldout")
    assert result.feature_names[result.order[0]] == "x.0_of_3"


def test_training_rows_are_not_held_out():
    X, score = draw()
    model = train("GradientBoostedTrees", "number", validation_ratio=0.0)
    assert not open_model(model).is_stopped_early
    assert open_model(MODELS["boosting"]()).is_stopped_early
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(model, X[model.input_feature_names()], score, rows="heldout")
    with pytest.raises(ValueError, match="rows='oob'"):
        tw.importance(MODELS["forest"](), X[model.input_feature_names()], score, rows="oob")


def test_what_is_rejected():
    X, score = draw()
    numbers = X[["size", "steps"]].fillna(0.0)
    oblique = train("RandomForest", "number", numbers, split_axis="SPARSE_OBLIQUE", features=None)
    with pytest.raises(ValueError, match=r"SparseOblique.*AXIS_ALIGNED"):
        tw.to_ensemble(oblique)
    with pytest.raises(ValueError, match="honest=False"):
        tw.to_ensemble(train("RandomForest", "number", honest=True))
    with pytest.raises(ValueError, match="pure_serving_model=False"):
        tw.to_ensemble(train("RandomForest", "number", pure_serving_model=True))
    words = X.assign(words=[["a", "b"]] * 150 + [["c"]] * 150)[["size", "words"]]
    with pytest.raises(ValueError, match=r"'words'.*CATEGORICAL_SET"):
        tw.to_ensemble(train("RandomForest", "number", words, features=None))
    isolation = ydf.IsolationForestLearner(features=["size", "steps"], num_trees=3).train(numbers)
    with pytest.raises(TypeError, match="ANOMALY_DETECTION"):
        tw.to_ensemble(isolation)
    model = MODELS["boosting"]()
    table = X[model.input_feature_names()]
    with pytest.raises(ValueError, match=r"^X\b.*'flag'"):
        tw.importance(model, table.astype({"flag": object}).assign(flag=None), score, rows="heldout")
    with pytest.raises(ValueError, match=r"^X\b.*\b5 columns\b"):
        tw.importance(model, table.drop(columns="flag"), score, rows="heldout")
    ranking = ydf.GradientBoostedTreesLearner(
        label="y", task=ydf.Task.RANKING, ranking_group="code", num_trees=2, features=["size", "steps"]
    ).train(X.assign(y=(np.arange(300) % 3).astype(float)))
    with pytest.raises(TypeError, match="RANKING"):
        tw.to_ensemble(ranking)
    focal = train("GradientBoostedTrees", "two", loss="BINARY_FOCAL_LOSS")
    with pytest.raises(ValueError, match=r"BINARY_FOCAL_LOSS.*target="):
        tw.importance(focal, table, score > 1.0, rows="heldout")


@pytest.mark.parametrize(("name", "part"), [("boosting", "value"), ("boosting", "threshold"), ("forest", "threshold")])
def test_what_is_read_otherwise_is_refused(name, part, monkeypatch):
    X, score = draw(100, seed=1)
    model = MODELS[name]()

    def misread(**parts):
        changed = 1.2 * parts["value"] if part == "value" else parts["threshold"] + 0.7
        return TreeEnsemble(**{**parts, part: changed})

    monkeypatch.setattr("truewood.adapters._ydf.TreeEnsemble", misread)
    with pytest.raises(tw.AdapterError, match=rf"{type(model).__name__}.*YDF \d"):
        tw.importance(model, X[model.input_feature_names()], score, rows="heldout")


@pytest.mark.statistical
@pytest.mark.parametrize("learner", ["RandomForest", "GradientBoostedTrees"])
def test_a_category_of_noise_scores_zero_where_the_library_often_ranks_it_first(learner):
    scores, n_first = [], 0
    for seed in range(100, 140):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({"signal": rng.random(400) > 0.5, "noise": rng.integers(0, 60, 400).astype(str)})
        y = table["signal"] + 1.5 * rng.standard_normal(400)
        options = {"num_trees": 20, "label": "y", "task": ydf.Task.REGRESSION, "random_seed": seed}
        model = getattr(ydf, f"{learner}Learner")(**options).train(table[:200].assign(y=y[:200]))
        n_first += model.variable_importances()["SUM_SCORE"][0][1] == "noise"
        features = table[200:][model.input_feature_names()]
        result = tw.importance(model, features, y[200:], rows="heldout")
        scores.append(dict(zip(result.feature_names, result.values, strict=True)))
    noise, signal = (np.array([score[name] for score in scores]) for name in ("noise", "signal"))
    assert n_first > 20
    assert abs(noise.mean()) < 4 * noise.std(ddof=1) / np.sqrt(40)
    assert signal.mean() > 6 * signal.std(ddof=1) / np.sqrt(40)
