"""Saved models, scored on a table that they have not seen."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import truewood as tw
from helpers.messages import find_lacking
from helpers.mixed_table import N_ROWS, TABLE
from truewood.tabular import score_saved_model

pytestmark = [pytest.mark.any_engine, pytest.mark.usefixtures("no_sandbox")]

TRAINING, TEST = TABLE[:200], TABLE[200:].reset_index(drop=True)


def score_file(folder, name, target="y", table=TEST, trust_pickle=False):
    table.to_csv(folder / "test.csv", index=False)
    return score_saved_model(folder / name, folder / "test.csv", target, trust_pickle=trust_pickle, n_jobs=1)


def assert_same(scored, result):
    found = dict(zip(scored.result.feature_names.tolist(), scored.result.values, strict=True))
    assert set(found) == set(result.feature_names.tolist())
    assert_allclose([found[name] for name in result.feature_names.tolist()], result.values, rtol=1e-6)


def as_categories(table):
    return table.assign(city=table["city"].astype("category"), member=(table["member"] == "yes").astype(int))


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("is_wrapper", [True, False])
def test_xgboost_files(ending, is_wrapper, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, y = as_categories(TRAINING)[["city", "member", "x"]], (TRAINING["y"] == "stays").astype(int)
    model = xgboost.XGBClassifier(n_estimators=20, enable_categorical=True, n_jobs=1).fit(X, y)
    saved = (
        model
        if is_wrapper
        else xgboost.train(
            {"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, y, enable_categorical=True), 20
        )
    )
    saved.save_model(tmp_path / f"m.{ending}")
    labels = (TEST["y"] == "stays").astype(int)
    table = TEST.assign(member=(TEST["member"] == "yes").astype(int), label=labels)
    scored = score_file(tmp_path, f"m.{ending}", "label", table)
    assert_same(scored, tw.importance(saved, as_categories(TEST)[["city", "member", "x"]], labels, rows="heldout"))
    chances = model.predict_proba(as_categories(TEST)[["city", "member", "x"]])[:, 1]
    if is_wrapper:
        assert_allclose(scored.performance.value, roc_auc_score(labels, chances), rtol=1e-6)
    assert any(re.search(r"not used.*\bid\b", message) for message in scored.messages)


def test_lightgbm_files(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    columns = ["x", "city", "member"]
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(
        as_categories(TRAINING)[columns], TRAINING["amount"]
    )
    model.booster_.save_model(tmp_path / "m.txt")
    table = TEST.assign(member=(TEST["member"] == "yes").astype(int))
    scored = score_file(tmp_path, "m.txt", "amount", table)
    assert_same(scored, tw.importance(model, as_categories(TEST)[columns], TEST["amount"], rows="heldout"))
    assert_allclose(scored.performance.value, r2_score(TEST["amount"], model.predict(as_categories(TEST)[columns])))


@pytest.mark.parametrize("ending", ["cbm", "json"])
def test_catboost_files(ending, tmp_path):
    catboost = pytest.importorskip("catboost")
    columns = ["x", "city", "member"]
    model = catboost.CatBoostClassifier(
        iterations=20, verbose=False, cat_features=["city", "member"], thread_count=1, allow_writing_files=False
    )
    model.fit(TRAINING[columns], TRAINING["y"])
    model.save_model(
        str(tmp_path / f"m.{ending}"),
        format=ending,
        pool=catboost.Pool(TRAINING[columns], TRAINING["y"], cat_features=[1, 2]),
    )
    scored = score_file(tmp_path, f"m.{ending}")
    assert_same(scored, tw.importance(model, TEST[columns], TEST["y"], rows="heldout"))
    area = roc_auc_score(TEST["y"] == "stays", model.predict_proba(TEST[columns])[:, 1])
    assert_allclose(scored.performance.value, area, rtol=1e-6)


@pytest.mark.parametrize("ending", ["skops", "pkl", "joblib"])
def test_files_of_pipelines(ending, tmp_path):
    encoder = make_column_transformer((OneHotEncoder(), ["city", "member"]), remainder="passthrough")
    columns = ["city", "x", "member"]
    pipeline = make_pipeline(encoder, RandomForestClassifier(30, random_state=0)).fit(TRAINING[columns], TRAINING["y"])
    if ending == "skops":
        pytest.importorskip("skops.io").dump(pipeline, tmp_path / "m.skops")
    else:
        (tmp_path / f"m.{ending}").write_bytes(pickle.dumps(pipeline))
    scored = score_file(tmp_path, f"m.{ending}", trust_pickle=ending != "skops")
    assert_same(scored, tw.importance(pipeline, TEST[columns], TEST["y"], rows="heldout"))
    assert scored.performance.name == "AUC"


def test_a_model_without_names_takes_the_columns_in_order(tmp_path):
    forest = RandomForestRegressor(20, random_state=0).fit(TRAINING[["x"]].to_numpy(), TRAINING["amount"])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forest))
    scored = score_file(tmp_path, "m.pkl", "amount", TEST[["x", "amount"]], trust_pickle=True)
    assert scored.result.feature_names.tolist() == ["x"]


def draw_levels():
    """Levels that pandas keeps and others would change: a question mark, blanks, truth with gaps."""
    rng = np.random.default_rng(7)
    mark, blank = rng.choice(["x", "?", "y"], N_ROWS), rng.choice([" u", " v", "w "], N_ROWS)
    truth = pd.Series(rng.random(N_ROWS) < 0.5).astype(object)
    signal = 2.0 * (mark == "?") + 2.0 * (blank == " u") + 2.0 * truth.astype(float) + rng.normal(size=N_ROWS)
    truth[::9] = None
    label = np.where(signal > 2.0, " high", " low")
    return pd.DataFrame({"mark": mark, "blank": blank, "truth": truth, "signal": signal, "label": label})


def read_back(table, path):
    """The table as a user gets it who reads it with pandas."""
    table.to_csv(path, index=False)
    return pd.read_csv(path)


LEVELS = ["mark", "blank", "truth"]


def test_a_pipeline_gets_the_table_as_pandas_reads_it(tmp_path):
    table = draw_levels()
    training, test = read_back(table[:150], tmp_path / "a.csv"), read_back(table[150:], tmp_path / "a.csv")
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), LEVELS))
    pipeline = make_pipeline(encoder, RandomForestClassifier(20, random_state=0)).fit(
        training[LEVELS], training["label"]
    )
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pipeline))
    scored = score_file(tmp_path, "m.pkl", "label", test[[*LEVELS, "label"]], trust_pickle=True)
    assert_same(scored, tw.importance(pipeline, test[LEVELS], test["label"], rows="heldout"))
    assert scored.result.values.min() > 0.01
    assert scored.warnings == []
    other = test[[*LEVELS, "label"]].assign(mark="new")
    scored = score_file(tmp_path, "m.pkl", "label", other, trust_pickle=True)
    assert not find_lacking(scored.warnings[0], "100.0%", "mark", "'new'")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_boosting_gets_levels_as_pandas_reads_them(library, tmp_path):
    package, table = pytest.importorskip(library), draw_levels()[["mark", "blank", "signal"]]
    training, test = read_back(table[:150], tmp_path / "a.csv"), read_back(table[150:], tmp_path / "a.csv")
    columns = ["mark", "blank"]
    category = dict.fromkeys(columns, "category")
    if library == "xgboost":
        model = package.XGBRegressor(n_estimators=10, n_jobs=1, enable_categorical=True).fit(
            training[columns].astype(category), training["signal"]
        )
        model.save_model(tmp_path / "m.json")
    elif library == "lightgbm":
        model = package.LGBMRegressor(n_estimators=10, n_jobs=1, verbose=-1)
        model.fit(training[columns].astype(category), training["signal"])
        model.booster_.save_model(tmp_path / "m.txt")
    else:
        model = package.CatBoostRegressor(
            iterations=10, cat_features=columns, verbose=False, thread_count=1, allow_writing_files=False
        ).fit(training[columns], training["signal"])
        model.save_model(str(tmp_path / "m.cbm"))
    name = {"xgboost": "m.json", "lightgbm": "m.txt", "catboost": "m.cbm"}[library]
    scored = score_file(tmp_path, name, "signal", test)
    taken = test[columns] if library == "catboost" else test[columns].astype(category)
    assert_same(scored, tw.importance(model, taken, test["signal"], rows="heldout"))
    assert scored.result.values.min() > 0.05
    if library != "catboost":  # which keeps hashes of levels only
        scored = score_file(tmp_path, name, "signal", test.replace("?", "!"))
        assert not find_lacking(scored.warnings[0], "mark", "'!'")
        missing = test[columns].replace("?", None).astype(category)
        assert_same(scored, tw.importance(model, missing, test["signal"], rows="heldout"))


def test_levels_of_xgboost_that_are_numbers_or_letters_beyond_ascii(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"k": rng.choice([3, 9, 12], N_ROWS), "city": rng.choice(["Málaga", "Łódź", "Rome"], N_ROWS)})
    category = {"k": "category", "city": "category"}
    table["signal"] = 2.0 * (table["k"] == 9) + (table["city"] == "Łódź") + rng.normal(size=N_ROWS)
    X = table[["k", "city"]].astype(category)
    model = xgboost.XGBRegressor(n_estimators=10, n_jobs=1, enable_categorical=True).fit(X[:150], table["signal"][:150])
    model.save_model(tmp_path / "m.ubj")
    test = table[150:].reset_index(drop=True)
    scored = score_file(tmp_path, "m.ubj", "signal", test)
    assert_same(scored, tw.importance(model, test[["k", "city"]].astype(category), test["signal"], rows="heldout"))
    assert scored.warnings == []
    scored = score_file(tmp_path, "m.ubj", "signal", test.assign(k=test["k"].replace(12, 13)))
    assert not find_lacking(scored.warnings[0], "k", "13")


@pytest.mark.parametrize("ending", ["cbm", "json", "joblib"])
@pytest.mark.parametrize("loss", ["Poisson", "Tweedie:variance_power=1.5", "RMSE"])
def test_catboost_predicts_on_the_scale_of_the_target(ending, loss, tmp_path):
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=N_ROWS), "z": rng.normal(size=N_ROWS)})
    table = X.assign(n=rng.poisson(np.exp(2 + 0.5 * X["x"])))
    model = catboost.CatBoostRegressor(
        iterations=40, loss_function=loss, verbose=False, thread_count=1, allow_writing_files=False
    ).fit(X[:200], table["n"][:200])
    if ending == "joblib":
        (tmp_path / "m.joblib").write_bytes(pickle.dumps(model))
    else:
        model.save_model(str(tmp_path / f"m.{ending}"), format=ending)
    scored = score_file(tmp_path, f"m.{ending}", "n", table[200:], trust_pickle=ending == "joblib")
    assert_allclose(scored.performance.value, r2_score(table["n"][200:], model.predict(X[200:])), rtol=1e-6)
    assert scored.result.feature_names[scored.result.order[0]] == "x"


def test_notes_of_a_pipeline(tmp_path):
    columns = ["x", "amount"]
    pipeline = make_pipeline(
        make_column_transformer((PCA(1), columns), ("drop", ["other"])), RandomForestClassifier(10, random_state=0)
    ).fit(TRAINING[columns].assign(other=1.0), TRAINING["y"])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pipeline))
    table = TEST[[*columns, "y"]].assign(other=1.0)
    scored = score_file(tmp_path, "m.pkl", table=table, trust_pickle=True)
    assert any("columns" in note for note in scored.result.notes)


def test_duplicates_in_the_table_of_a_model(tmp_path):
    forest = RandomForestRegressor(5, random_state=0).fit(TRAINING[["x"]], TRAINING["amount"])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forest))
    scored = score_file(tmp_path, "m.pkl", "amount", pd.concat([TEST, TEST]), trust_pickle=True)
    assert scored.warnings[0].startswith("100 of 200 rows")


def test_leaks_in_the_table_of_a_model():
    forest = RandomForestRegressor(5, random_state=0).fit(TRAINING[["x"]].assign(copy=1.0), TRAINING["amount"])
    leaky = TEST[["x", "amount"]].assign(copy=TEST["amount"] ** 3)
    scored = score_saved_model(forest, leaky, "amount", n_jobs=1)
    assert re.match(r".*\bcopy\b.*100%.*\bamount\b", scored.warnings[0])
    for silent in (leaky.assign(copy=1.0), leaky.assign(amount=1.0)):
        assert not any(" alone explains " in text for text in score_saved_model(forest, silent, "amount").warnings)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_boosters_that_are_loaded_already(library, tmp_path):
    package = pytest.importorskip(library)
    X, y = TRAINING[["x", "amount"]], (TRAINING["y"] == "stays").astype(int)
    if library == "xgboost":
        model = package.train({"objective": "binary:logistic", "nthread": 1}, package.DMatrix(X, y), 10)
        model.save_model(tmp_path / "m.ubj")
    elif library == "lightgbm":
        model = package.train({"objective": "binary", "num_threads": 1, "verbose": -1}, package.Dataset(X, y), 10)
        model.save_model(tmp_path / "m.txt")
    else:
        model = package.CatBoostClassifier(iterations=10, verbose=False, thread_count=1, allow_writing_files=False)
        model.fit(X, y).save_model(str(tmp_path / "m.cbm"))
    test = TEST[["x", "amount"]].assign(label=(TEST["y"] == "stays").astype(int))
    loaded = score_saved_model(model, test, "label")
    (path,) = tmp_path.glob("m.*")
    from_file = score_saved_model(path, test, "label")
    assert_array_equal(loaded.result.values, from_file.result.values)
    assert loaded.performance == from_file.performance


def test_an_estimator_that_is_loaded_already():
    forest = RandomForestClassifier(10, random_state=0).fit(TRAINING[["x", "amount"]], TRAINING["y"])
    scored = score_saved_model(forest, TEST, "y")
    assert scored.model is forest
    assert scored.model_name == "RandomForestClassifier"
    assert not find_lacking(scored.messages[0], "RandomForestClassifier", "classification")
    result = tw.importance(forest, TEST[["x", "amount"]], TEST["y"], rows="heldout")
    assert_array_equal(scored.result.values, result.values)
    assert [(column.name, column.is_used) for column in scored.columns] == [("x", True), ("amount", True)]


def lower(table):
    return table.apply(lambda column: column.str.lower())


def test_levels_that_an_earlier_step_changes_are_not_compared():
    cities = make_pipeline(FunctionTransformer(lower), OneHotEncoder(handle_unknown="ignore"))
    pipeline = make_pipeline(make_column_transformer((cities, ["city"])), RandomForestClassifier(5, random_state=0))
    pipeline.fit(TRAINING[["city"]], TRAINING["y"])
    assert not any(not find_lacking(text, "city") for text in score_saved_model(pipeline, TEST, "y").warnings)


def test_measures_of_in_bag_rows_are_refused():
    forest = RandomForestClassifier(2, random_state=0).fit(TRAINING[["x", "amount"]], TRAINING["y"])
    with pytest.raises(tw.tabular.TableError, match=r"sobol_mda.*in-bag") as caught:
        score_saved_model(forest, TEST, "y", measure="sobol_mda")
    assert caught.value.argument == "measure"


def test_levels_that_only_a_later_file_has(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.choice(["a", "b"], 300), "x": rng.normal(size=300)})
    table["y"] = (table["kind"] == "a") + table["x"] + rng.normal(size=300)
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, RandomForestRegressor(10, random_state=0))
    pipeline.fit(table[["kind", "x"]][:100], table["y"][:100])
    table[100:200].to_parquet(tmp_path / "0.parquet", index=False)
    table[200:].assign(kind="c").to_parquet(tmp_path / "1.parquet", index=False)
    scored = score_saved_model(pipeline, tmp_path, "y", n_jobs=1)
    assert any(not find_lacking(text, "1 batch", "1.parquet", "100.0%", "kind", "'c'") for text in scored.warnings)
