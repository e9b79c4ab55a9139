"""`SkoreCheck`: its findings on reports, and the rows that it scores."""

from __future__ import annotations

import re
import sys
import tomllib
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import truewood as tw
from helpers.docs_pages import ROOT
from helpers.installed import lacks_any
from truewood.integrations import SkoreCheck

pytestmark = pytest.mark.any_engine

rng = np.random.default_rng(0)
X = pd.DataFrame({"signal": rng.integers(0, 2, 400), **{f"id {k}": rng.integers(0, 150, 400) for k in range(5)}})
Y = X["signal"] + 0.8 * rng.standard_normal(400)
FOREST = RandomForestRegressor(40, random_state=0)
BOOSTING = HistGradientBoostingRegressor(max_iter=30, random_state=0)


class NotApplicableError(Exception):
    """What skore raises, where it is not installed."""


@pytest.fixture(autouse=True)
def not_applicable(monkeypatch):
    if not lacks_any(["skore"]):
        return pytest.importorskip("skore").CheckNotApplicable
    module = ModuleType("skore")
    module.CheckNotApplicable = NotApplicableError
    monkeypatch.setitem(sys.modules, "skore", module)
    return NotApplicableError


def report_on(estimator, table=X, y=Y, *, has_train=True):
    """What the check reads of an EstimatorReport."""
    train = (table[:300], y[:300]) if has_train else (None, None)
    return SimpleNamespace(
        estimator_=clone(estimator).fit(table[:300], y[:300]),
        X_train=train[0],
        y_train=train[1],
        X_test=table[300:],
        y_test=y[300:],
    )


def report_on_folds(estimator):
    splits = list(KFold(4).split(X))
    folds = [SimpleNamespace(estimator_=clone(estimator).fit(X.iloc[train], Y.iloc[train])) for train, _ in splits]
    return SimpleNamespace(X=X, y=Y, split_indices=tuple(splits), reports_=folds)


def read_share(finding):
    return float(re.search(r"account for (\d+)%", finding)[1])


def test_a_forest_is_scored_on_out_of_bag_rows():
    report = report_on(make_pipeline(StandardScaler().set_output(transform="pandas"), FOREST))
    finding = SkoreCheck().check_function(report)
    result = tw.importance(report.estimator_, report.X_train, report.y_train)
    noise = ~result.select()
    assert noise.sum() == 5
    assert "5 features of 6" in finding
    assert "300 out-of-bag rows" in finding
    assert "Significant features, the most important first: signal." in finding
    assert read_share(finding) == round(100 * result.mdi[noise].sum() / result.mdi.sum())
    largest = result.feature_names[np.where(noise, result.mdi, 0).argsort()[:-4:-1]]
    assert re.findall(r"(id \d) \(\d+%\)", finding) == largest.tolist()
    assert "2 others" in finding


@pytest.mark.parametrize(("estimator", "has_train"), [(FOREST, False), (BOOSTING, True)], ids=["forest", "boosting"])
def test_other_models_are_scored_on_test_rows(estimator, has_train):
    report = report_on(estimator, has_train=has_train)
    finding = SkoreCheck().check_function(report)
    assert "100 test rows:" in finding
    assert "first: signal." in finding


def test_folds_are_scored_on_all_of_their_test_rows():
    report = report_on_folds(BOOSTING)
    finding = SkoreCheck().check_function(report)
    assert "400 test rows of the folds" in finding
    models = [fold.estimator_ for fold in report.reports_]
    train, test = zip(*report.split_indices, strict=True)
    result = tw.cross_importance({"estimator": models, "indices": {"train": train, "test": test}}, X, Y)
    assert read_share(finding) == round(100 * result.mdi[~result.select()].sum() / result.mdi.sum())


def test_features_that_matter_pass():
    table = pd.DataFrame(rng.standard_normal((400, 2)), columns=["a", "b"])
    report = report_on(FOREST, table, table["a"] + table["b"])
    assert SkoreCheck().check_function(report) is None


def test_the_limits_can_be_set():
    report = report_on(FOREST)
    share = read_share(SkoreCheck().check_function(report)) / 100
    assert SkoreCheck(min_share=share + 0.02).check_function(report) is None
    assert SkoreCheck(min_share=share - 0.02).check_function(report) is not None
    assert "none" in SkoreCheck(alpha=1e-300).check_function(report)


def test_what_cannot_be_scored_is_not_applicable(not_applicable):
    with pytest.raises(not_applicable, match="Ridge"):
        SkoreCheck().check_function(report_on(Ridge()))
    few = report_on(FOREST)
    few.X_train, (few.X_test, few.y_test) = None, (X[300:310], Y[300:310])
    with pytest.raises(not_applicable, match=r"p-values.*\b20 evaluation rows\b"):
        SkoreCheck().check_function(few)


def test_reports_of_skore_take_the_check():
    skore = sys.modules["skore"]
    if not hasattr(skore, "evaluate"):
        pytest.skip("needs skore")
    classes = RandomForestClassifier(20, random_state=0)
    for estimator, y, splitter in ((FOREST, Y, 0.25), (BOOSTING, Y, 3), (classes, Y > 0.5, 0.25)):
        report = skore.evaluate(clone(estimator), X, y, splitter=splitter)
        others = [name.partition(" - ")[0] for name in report.checks.available()]
        assert isinstance(SkoreCheck(), skore.Check)
        report.checks.add([SkoreCheck()])
        summary = report.checks.summarize(ignore=others)
        found = summary.frame().set_index("code").loc["TRUEWOOD"]
        assert found["section"] == "tip"
        assert "first: signal." in found["explanation"]
        assert "TRUEWOOD" in summary._repr_html_()


def test_documentation_of_the_check_exists():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    page, _, heading = SkoreCheck.docs_url.removeprefix(urls["Documentation"]).partition(".html#")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert f"## {heading}\n" in text
