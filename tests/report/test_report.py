from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import truewood as tw
from helpers.messages import find_lacking
from truewood._formatting import enumerate_names
from truewood._inputs.correlation import find_correlations
from truewood._report.charts import wrap_name
from truewood._report.effects import draw_effects
from truewood._results.caveats import TableCheck, check_table, describe_correlations
from truewood._results.trends import Direction

pytestmark = pytest.mark.any_engine

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def make_table(n_rows=400, n_features=6):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((n_rows, n_features)), columns=[f"f{j}" for j in range(n_features)])
    return X, X["f1"] + 0.5 * X["f2"] + rng.standard_normal(n_rows) > 0


def make_result(**options):
    X, y = make_table()
    return tw.importance(RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y), X, y, **options)


@pytest.fixture(scope="module")
def result():
    return make_result()


def read_words(path):
    """The text of a report, without its scripts and styles."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def read_data(path):
    page = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_says_what_was_asked_and_what_was_measured(result, tmp_path):
    X, _ = make_table()
    texts = {"performance": "AUC 0.8", "notes": ["The rows are of May."], "warnings": ["the target was seen before"]}
    result.report(tmp_path / "report.html", X=X, title="Who says yes?", target="answer", data="may.csv", **texts)
    text = read_words(tmp_path / "report.html")
    parts = [
        "Who says yes?",
        "may.csv · 400 rows · 6 features · ",
        "The target was seen before.",
        "f1 and f2 explain 26% of the variation in answer.",
        "All features together explain 26% of the variation in answer",
        "Model performance AUC 0.8",
        "Evaluated on 400 out-of-bag rows, 30 trees",
        "5% false discovery rate",
        "No evidence that",
        "Feature by feature",
        "How to read this report",
        "The variation in answer is measured by the target's Gini impurity",
        "Significant: adjusted p-value (Benjamini-Hochberg) at most 0.05.",
        "Significant, but small: less than 1% of the variation in answer.",
        "clustered rows",
        "A p-value is the probability",
        "How this was measured",
        "30 trees with averaged predictions (forest)",
        "400 out-of-bag rows: each tree is evaluated on the training rows that its bootstrap sample left out.",
        "decrease in Gini impurity",
        "No pair of features is strongly correlated",
        "400 rows; 6 of 6 columns compared)",
        "The rows are of May.",
        "Unbiased Measurement of Feature Importance",
        f"truewood {tw.__version__}",
    ]
    places = [text.find(part) for part in parts]
    assert min(places) >= 0
    assert places == sorted(places)


def test_is_one_small_file_that_may_load_nothing(result, tmp_path):
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 1_500_000
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert not re.search(r"<(link|iframe|img|object)\b|<script[^>]*\bsrc=|@import|url\(", read_markup(page))


def read_markup(page):
    return re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)


def test_the_table_is_that_of_the_result(result, tmp_path):
    result.report(tmp_path / "report.html")
    data = read_data(tmp_path / "report.html")
    table = pd.DataFrame(data["rows"], columns=data["fields"])
    adjusted = table.pop("adjusted_p_value")
    pd.testing.assert_frame_equal(table, result.frame(), check_exact=True)
    assert adjusted.tolist() == result.adjusted_p_value()[result.order].tolist()
    assert len(data["verdicts"]) - data["verdicts"].count("not significant") == np.count_nonzero(result.select())
    low, high = result.interval(share=True)
    expected = 100 * np.column_stack([result.share.clip(0, 1), low, high])[result.order]
    np.testing.assert_allclose(data["shown"], expected)
    assert expected[-1, 0] == 0
    assert result.share.min() < 0


def test_user_text_is_escaped(result, tmp_path):
    bad = '</script><script>alert("1")</script><!-- & \u2028 $summary'
    names = np.array([bad, *[f"f{j}" for j in range(1, 6)]])
    replace(result, feature_names=names).report(tmp_path / "report.html", title=bad, notes=[bad])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 3
    assert '<script>alert("1")' not in page
    assert "<!-- &" not in page
    assert bad in [row[0] for row in read_data(tmp_path / "report.html")["rows"]]


def test_repeated_names_are_distinguished_in_charts(result, tmp_path):
    replace(result, feature_names=np.array(["a", "a", "b", "a", "a (2)", ""])).report(tmp_path / "report.html")
    data = read_data(tmp_path / "report.html")
    assert len(set(data["labels"])) == 6
    assert sorted(row[0] for row in data["rows"]) == ["", "a", "a", "a", "a (2)", "b"]
    assert {"a", "a (2)", "b"} <= set(data["labels"])


def test_the_same_result_gives_the_same_file(result, tmp_path):
    for name in ("a.html", "b.html"):
        result.report(tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_without_inference(tmp_path):
    make_result(inference=False).report(tmp_path / "report.html")
    text = read_words(tmp_path / "report.html")
    assert re.search(r"\b6 features.*\(UFI\).*\bf1, f2,", text)
    assert "inference=False" in text
    assert "false discovery" not in text
    assert "A p-value is" not in text
    data = read_data(tmp_path / "report.html")
    assert data["verdicts"] is None
    assert "p_value" not in data["fields"]
    assert "p_value" not in [column["name"] for column in data["columns"]]


def test_regression_boosting_and_the_biased_measure(tmp_path):
    X, y = make_table()
    regressor = RandomForestRegressor(5, random_state=0).fit(X, X["f1"])
    tw.importance(regressor, X, X["f1"]).report(tmp_path / "regression.html")
    assert "measured by the target's variance" in read_words(tmp_path / "regression.html")
    boosted = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X[:200], y[:200])
    tw.importance(boosted, X[200:], y[200:], rows="heldout").report(tmp_path / "boosting.html")
    text = read_words(tmp_path / "boosting.html")
    assert re.search(r"\b10 trees.*boosting", text)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[:200], y[:200])
    tw.importance(tree, X[200:], y[200:], rows="heldout").report(tmp_path / "tree.html")
    assert "a single tree" in read_words(tmp_path / "tree.html")
    assert "200 held-out rows" in text
    make_result(measure="mdi").report(tmp_path / "mdi.html")
    text = read_words(tmp_path / "mdi.html")
    assert "biased" in text
    assert "out-of-bag" not in text


def test_a_model_no_better_than_chance_is_called_so(tmp_path):
    X, _ = make_table()
    y = np.random.default_rng(1).random(len(X)) > 0.5
    result = tw.importance(RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y), X, y)
    assert result.total_p_value > 0.05
    result.report(tmp_path / "report.html")
    text = read_words(tmp_path / "report.html")
    assert re.search(r"chance.*\b6 features\b", text)
    result.report(tmp_path / "report.html", warnings=["its importances are meaningless"])
    assert read_words(tmp_path / "report.html").count("meaningless") == 1


def test_the_level_of_significance_is_the_readers(result, tmp_path):
    alpha = float(np.sort(result.adjusted_p_value())[-1])
    assert alpha > 0.05
    result.report(tmp_path / "report.html", alpha=alpha)
    text = read_words(tmp_path / "report.html")
    assert re.search(rf"\b4 more\b.*\b1 ?% each.*{100 * alpha:g} ?% false discovery rate", text)
    large, _, small, *_ = read_data(tmp_path / "report.html")["verdicts"]
    assert read_data(tmp_path / "report.html")["verdicts"] == [large] * 2 + [small] * 4
    assert large != small
    with pytest.raises(ValueError, match=r"alpha.*\b0\b.*\b1\b.*\b5\b"):
        result.report(tmp_path / "report.html", alpha=5)


def test_error_rates_have_no_share(tmp_path):
    make_result(measure="permutation", random_state=0).report(tmp_path / "report.html")
    text = read_words(tmp_path / "report.html")
    assert "increase in error rate" in text
    assert "of the target's" not in text
    data = read_data(tmp_path / "report.html")
    share = data["fields"].index("share")
    assert {row[share] for row in data["rows"]} == {None}


def read_cards(path):
    """The text of each card, by the feature in its heading."""
    page = path.read_text(encoding="utf-8")
    cards = re.findall(r'<details class="card".*?</details>', page, flags=re.DOTALL)
    names = [html.unescape(re.search(r'class="name">(.*?)</span>', card)[1]) for card in cards]
    return {name: html.unescape(re.sub(r"<[^>]+>", " ", card)) for name, card in zip(names, cards, strict=True)}


def test_every_feature_has_a_card(result, tmp_path):
    X, _ = make_table()
    result.report(tmp_path / "report.html", X=X.assign(f5=X["f1"] + 0.01 * X["f5"]))
    cards = read_cards(tmp_path / "report.html")
    table = result.frame()
    assert list(cards) == table["feature"].tolist()
    low, high = (100 * end[result.order[0]] for end in result.interval(share=True))
    expected = [f"{100 * table['share'][0]:.1f}%", f"{low:.1f} to {high:.1f}%", "<0.001, adjusted <0.001"]
    best, worst = (ranks[result.order[0]] for ranks in result.rank_sets())
    expected += [f"1 of 6 (95% simultaneous confidence: {best} to {worst})", "f5 (1.00)"]
    assert not find_lacking(cards["f1"], *expected, "significant")
    assert "Correlated" not in cards["f2"]
    noise = table["feature"].iloc[-1]
    assert not find_lacking(cards[noise], f"{table['p_value'].iloc[-1]:.3f}", "not significant", "0 to")


def test_cards_list_the_columns_of_groups(tmp_path):
    X, y = make_table()
    forest = RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y)
    groups = {"first": ["f0", "f1", "f2"]}
    result = tw.importance(forest, X, y, feature_groups=groups)
    result.report(tmp_path / "report.html", X=X, feature_groups=groups)
    cards = read_cards(tmp_path / "report.html")
    assert not find_lacking(cards["first"], "f0, f1 and f2", "1 of 4 (95% simultaneous confidence: 1)")
    assert "Columns" not in cards["f3"]


def test_cards_show_effects_and_classes(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"up": rng.standard_normal(400), "city": rng.choice(["Bonn", "Rome", "<Oslo>"], 400)})
    y = np.where(X["city"] == "Rome", "much", np.where(X["up"] > 0, "some", "none"))
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestClassifier(50, max_depth=5, random_state=0)).fit(X, y)
    result, explanation = tw.importance(model, X, y, per_class=True), tw.explain(model, X, y)
    result.report(tmp_path / "report.html", X=X, explanation=explanation)
    cards = read_cards(tmp_path / "report.html")
    shown = re.search(r"Rome +\+([\d.]+) +(\d+)", cards["city"])
    effects = explanation.values[X["city"] == "Rome", list(result.feature_names).index("city"), 0]
    assert float(shown[1]) == pytest.approx(effects.mean(), abs=0.001)
    assert int(shown[2]) == len(effects)
    assert not find_lacking(cards["city"], "<Oslo>", "Bonn", 'prediction for "much"', "95%")
    for name, values in zip(result.feature_names, result.classes.values.T, strict=True):
        for label, value in zip(result.classes.names, 100 * values / result.impurity, strict=True):
            assert re.search(rf"\b{label} +{value:.1f}", cards[name])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('class="curve"') == 3
    assert '"levels":[["for much",""],["Rome",' in page  # the table names the class of the effects of levels
    # The class that the feature affects most comes first.
    size = np.abs(explanation.values[:, list(result.feature_names).index("up")]).mean(axis=0)
    drawn = re.findall(r'prediction for "(\w+)" by value', cards["up"])
    assert drawn == explanation.output_names[np.argsort(-size)].tolist()
    assert "<Oslo>" not in read_markup(page)


def test_the_curve_of_a_date_has_dates():
    direction = Direction(
        "rising", [-1.0, 1.0], errors=[0.1, np.nan], values=[0.0, 86400.0], counts=[5, 1], is_date=True
    )
    drawn = draw_effects(direction, "prediction")
    assert not find_lacking(drawn, "1970-01-01", "1970-01-02", "-1.20", "+1.00", "no interval for a value with 1 row")
    assert "nan" not in drawn


def test_of_many_features_the_first_and_the_significant_have_cards(tmp_path):
    X, y = make_table(n_features=30)
    result = tw.importance(RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y), X, y)
    result.report(tmp_path / "report.html")
    assert list(read_cards(tmp_path / "report.html")) == result.frame()["feature"][:20].tolist()
    assert "10 more features" in read_words(tmp_path / "report.html")


def test_three_caveats_are_open_and_the_rest_is_folded(result, tmp_path):
    X, _ = make_table()
    X = X.assign(f5=X["f1"], f4=np.where(np.arange(len(X)) % 2, X["f4"], np.nan))
    poor = replace(result, n_rows=50, skipped_weight=0.1, notes=("pca0: several columns.",))
    poor.report(tmp_path / "report.html", X=X, warnings=["the target leaks"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    is_folded = [place > page.index("more caveats</summary>") for place in find_all('class="caveat', page)]
    assert is_folded == [False] * 3 + [True] * 4  # the last one is about the number of trees
    assert "4 more caveats" in page
    assert page.index("The target leaks") < min(find_all('id="dots"', page))
    result.report(tmp_path / "report.html", X=X[["f0"]])
    assert "more caveats" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def find_all(part, text):
    return [found.start() for found in re.finditer(part, text)]


def test_directions_are_explained_only_if_there_are_any(tmp_path):
    X, _ = make_table()
    y = np.random.default_rng(1).random(len(X)) > 0.5
    model = RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y)
    result, explanation = tw.importance(model, X, y), tw.explain(model, X, y)
    assert not result.select().any()
    result.report(tmp_path / "report.html", explanation=explanation)
    assert "Direction of the mean effect" not in read_words(tmp_path / "report.html")
    assert "direction" not in [column["name"] for column in read_data(tmp_path / "report.html")["columns"]]


def test_large_numbers_share_a_unit(tmp_path):
    X, _ = make_table()
    y = 1e9 * (X["f1"] + 0.1 * X["f2"])
    result = tw.importance(RandomForestRegressor(20, random_state=0).fit(X, y), X, y)
    result.report(tmp_path / "report.html")
    columns = {column["name"]: column for column in read_data(tmp_path / "report.html")["columns"]}
    exponent = int(re.search(r"in 1e(\d+)", columns["importance"]["title"])[1])
    shown = [float(text.replace(",", "")) for text in columns["importance"]["texts"]]
    np.testing.assert_allclose(shown, result.frame()["importance"] / 10.0**exponent, atol=0.01 * max(shown))
    assert max(len(text) for text in columns["importance"]["texts"]) <= 6


def test_long_names_are_wrapped_and_not_cut(result, tmp_path):
    long = "How satisfied are you with the advice that you received from our staff last year?"
    replace(result, feature_names=np.array([long, *"abcde"])).report(tmp_path / "report.html")
    data = read_data(tmp_path / "report.html")
    lines = data["lines"][data["labels"].index(long)]
    assert " ".join(lines) == long
    assert len(lines) == 2
    assert wrap_name("x" * 500)[0].startswith("xx")
    assert len(wrap_name("x" * 500)) <= 3
    assert (
        "".join(wrap_name("size in centimeters (outer diameter)", is_narrow=True))
        == "size in centimeters(outer diameter)"
    )


def test_many_names_are_counted():
    assert enumerate_names([f"f{j}" for j in range(200)]).endswith("f8, f9 and 190 more")


def test_finds_redundant_columns():
    rng = np.random.default_rng(0)
    n_rows = 3000
    X = pd.DataFrame({"age": rng.integers(18, 90, n_rows), "years": rng.integers(1, 17, n_rows)})
    X["birth"] = pd.Timestamp("2020-01-01") - pd.to_timedelta(365 * X["age"], unit="D")
    X["school"] = X["years"].map(lambda year: f"grade {year}")
    X["noise"] = np.where(rng.random(n_rows) < 0.1, np.nan, rng.standard_normal(n_rows))
    X["color"] = rng.choice(["red", "green", "blue"], n_rows)
    X["constant"] = 1
    X["id"] = [f"person {j}" for j in range(n_rows)]
    names = X.columns.tolist()
    found = find_correlations(X, names)
    assert (found.n_rows, found.n_columns, found.n_with_categories, found.n_given) == (2000, 6, 6, 8)
    assert [(first, second) for first, second, _ in found.pairs] == [("age", "birth"), ("years", "school")]
    assert found.pairs[0][2] == pytest.approx(-1)
    assert found.pairs[1][2] > 0.99
    assert find_correlations(pytest.importorskip("pyarrow").Table.from_pandas(X), names) == found
    assert find_correlations(pytest.importorskip("polars").from_pandas(X), names) == found
    # Only what is a feature is looked at, and what is named.
    assert find_correlations(X, ["age", "school"]).pairs == []


def test_missing_values_do_not_hide_a_copy():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(400), "noise": rng.standard_normal(400)})
    X["copy"] = X["a"].where(rng.random(400) < 0.5)
    X["large ones"] = X["a"].where(X["a"] > 1)
    X["hardly known"] = X["a"].where(np.arange(400) < 10)
    pairs = {pair[:2]: pair[2] for pair in find_correlations(X, X.columns.tolist()).pairs}
    assert pairs == {
        ("a", "copy"): pytest.approx(1, abs=0.01),
        ("a", "large ones"): pytest.approx(1, abs=0.01),
        ("copy", "large ones"): pytest.approx(1, abs=0.02),
    }
    X = pd.DataFrame({"a": X["a"], "b": X["a"] + 0.5 * X["noise"]}).where(rng.random((400, 2)) < 0.6)
    expected = X.corr("spearman").loc["a", "b"]  # of the rows in which both are known
    assert find_correlations(X, ["a", "b"]).pairs == [("a", "b", pytest.approx(expected, abs=0.01))]


def test_says_how_many_columns_were_compared():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((50, 600))).add_prefix("f")
    X.insert(0, "group", rng.choice(["u", "v"], 50))
    found = find_correlations(X, X.columns.tolist())
    assert (found.n_columns, found.n_with_categories, found.n_given) == (500, 100, 601)
    text = describe_correlations(TableCheck(found, []))
    assert not find_lacking(text, "50 rows", "500 of 601 columns", "100")
    numbers = find_correlations(X[["f1", "f2"]], ["f1", "f2"])
    assert find_lacking(describe_correlations(TableCheck(numbers, [])), "100")


def test_says_that_pairs_within_groups_are_not_counted():
    X = pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50.0), "c": np.arange(50.0) % 7})
    model = RandomForestRegressor(5, random_state=0).fit(X, X["a"])
    groups = {"both": ["a", "b"]}
    check = check_table(tw.importance(model, X, X["a"], feature_groups=groups), X, groups)
    assert not find_lacking(describe_correlations(check), "No pair of features", "1 pair within a feature group")
    check = check_table(tw.importance(model, X, X["a"]), X, None)
    assert not find_lacking(describe_correlations(check), "1 pair of features is")
    assert "within a feature group" not in describe_correlations(check)


def test_finds_them_in_arrays_and_sparse_matrices():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) * (rng.random((300, 3)) < 0.5)
    X[:, 2] = X[:, 0] ** 3
    pairs = find_correlations(X, ["a", "b", "c"]).pairs
    assert [pair[:2] for pair in pairs] == [("a", "c")]
    assert find_correlations(sparse.csr_array(X), ["a", "b", "c"]).pairs == pairs
    assert [pair[:2] for pair in find_correlations(X, ["group"]).pairs] == [("x0", "x2")]


def test_correlated_features_are_listed(result, tmp_path):
    X, _ = make_table()
    result.report(tmp_path / "report.html", X=X.assign(f5=X["f1"] + 0.01 * X["f5"]))
    text = read_words(tmp_path / "report.html")
    assert re.search(r"\b(1|[Oo]ne) pair\b", text)
    assert re.search(r"f1 and f5 \([^)]*\b1\.00\)", text)
    result.report(tmp_path / "report.html")
    assert "Not checked" in read_words(tmp_path / "report.html")


def test_columns_of_an_array_are_named_right():
    """The most important feature is not the first column."""
    X, y = make_table()
    X["f5"] = X["f1"]
    forest = RandomForestClassifier(30, max_depth=4, random_state=0).fit(X.to_numpy(), y)
    result = tw.importance(forest, X.to_numpy(), y)
    assert [pair[:2] for pair in check_table(result, X.to_numpy(), None).correlations.pairs] == [("x1", "x5")]


def test_bad_arguments(result, tmp_path):
    with pytest.raises(TypeError, match=r"notes.*str.*'one'"):
        result.report(tmp_path / "report.html", notes="one")
    with pytest.raises(TypeError, match=r"warnings.*str.*'one'"):
        result.report(tmp_path / "report.html", warnings="one")
    for name in ("report.pdf", "report", "reporthtml"):
        with pytest.raises(ValueError, match=r"path.*\.html"):
            result.report(tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(ValueError, match=r"\bX\b.*\(3,\)"):
        result.report(tmp_path / "report.html", X=[1, 2, 3])
    with pytest.raises(TypeError, match=r"feature_groups.*dict.*int"):
        result.report(tmp_path / "report.html", feature_groups=3)
    X, y = make_table()
    others = X.set_axis([f"other {name}" for name in X], axis=1)
    pairs = tw.interactions(RandomForestClassifier(20, max_depth=3, random_state=0).fit(others, y), others, y)
    with pytest.raises(ValueError, match=r"interactions.*features.*feature_groups"):
        result.report(tmp_path / "report.html", interactions=pairs)


@pytest.mark.parametrize("library", ["altair", "vl_convert"])
def test_a_missing_library_is_named(library, tmp_path):
    """Without the libraries everything else works, and a report names what to install."""
    code = f"""
import sys
import truewood as tw
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
assert "altair" not in sys.modules
sys.modules[{library!r}] = None
X, y = load_iris(return_X_y=True)
result = tw.importance(RandomForestClassifier(5, random_state=0).fit(X, y), X, y)
try:
    result.report({str(tmp_path / "report.html")!r})
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not find_lacking(done.stdout, library, "pip install 'truewood[report]'")
