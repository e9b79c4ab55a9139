from __future__ import annotations

import dataclasses
import html
import json
import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._engines.cuda_device import find_problem
from truewood._results.caveats import list_caveats

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 12))
y = (X[:, 3] > 0).astype(int)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(10, random_state=0).fit(X, y)


@pytest.fixture
def result(forest):
    return tw.importance(forest, X, y)


def test_frame_is_sorted_by_score(forest, result):
    table = result.frame()
    inferred = ["std_error", "ci_low", "ci_high", "p_value"]
    assert list(table) == ["feature", "importance", "share", *inferred, "rank", "mdi", "mdi_rank"]
    plain = tw.importance(forest, X, y, inference=False).frame()
    assert list(plain) == ["feature", "importance", "share", "rank", "mdi", "mdi_rank"]
    with_differences = tw.importance(forest, X, y, contributions=True)
    ranked = with_differences.frame()
    assert list(ranked.drop(columns=["best_rank", "worst_rank"])) == list(table)
    best, worst = (ranks[with_differences.order] for ranks in with_differences.rank_sets())
    np.testing.assert_array_equal(ranked[["best_rank", "worst_rank"]], np.column_stack([best, worst]))
    assert "possible ranks: with 95%" in str(with_differences)
    assert best[1] < worst[1]
    assert f" {best[1]} to {worst[1]} " in str(with_differences)
    assert "possible ranks" in with_differences._repr_html_()
    assert "possible ranks" not in str(result)
    assert table["feature"][0] == "x3"
    assert table["rank"].tolist() == list(range(1, 13))
    assert (np.diff(table["importance"]) <= 0).all()
    assert sorted(table["mdi_rank"]) == list(range(1, 13))


def test_equal_scores_share_a_rank(result):
    tied = dataclasses.replace(result, values=np.array([1.0, 0.0, 0.0] + [-1.0] * 9))
    assert tied.frame()["rank"].tolist() == [1, 2, 2] + [4] * 9
    assert tied.frame()["feature"].tolist()[:3] == ["x0", "x1", "x2"]


def test_select_takes_the_best(result):
    mask = result.select(k=3)
    assert mask.dtype == bool
    assert set(result.feature_names[mask]) == set(result.frame()["feature"][:3])
    assert result.select(k=0).sum() == 0
    for k in (-1, 13):
        with pytest.raises(ValueError, match=rf"^k\b.*\b0\b.*\b12\b.*{k}"):
            result.select(k=k)


def test_save_and_load_are_exact(forest, result, tmp_path):
    lists = [np.setdiff1d(np.arange(90), bag) for bag in forest.estimators_samples_]
    lists[0] = []
    with pytest.warns(UserWarning, match="1 of 10 trees"):
        partial = tw.importance(forest, X, y, rows=lists, feature_groups={'<b>"é': [0, 1]})
    several = RandomForestRegressor(4, random_state=0).fit(X, X[:, :2])
    plain = tw.importance(forest, X, y, inference=False)
    # as of boosted trees whose variance is not known, and of constant targets by rounding
    without_impurity, rounded = (dataclasses.replace(plain, impurity=impurity) for impurity in (np.nan, -1e-17))
    of_outputs = tw.importance(several, X, X[:, :2], measure="mdi_oob")
    by_class = tw.importance(forest, X, y, per_class=True)
    for one in (result, partial, plain, of_outputs, by_class, without_impurity, rounded):
        one.save(tmp_path / "result.json")
        again = tw.load(tmp_path / "result.json")
        check_equal(one, again)
    assert partial.columns is not None


def test_names_that_do_not_load_are_not_saved(forest, tmp_path):
    path = tmp_path / "result.json"
    for groups in ({"caf\udce9": [0, 1]}, {"\ud800": [0, 1]}):
        with pytest.raises(ValueError, match=r"'\\ud[c8][e0][90]'"):
            tw.importance(forest, X, y, feature_groups=groups).save(path)
    assert not path.exists()


def check_equal(one, again):
    for field in dataclasses.fields(one):
        before, after = getattr(one, field.name), getattr(again, field.name)
        assert type(after) is type(before)
        if dataclasses.is_dataclass(before):
            check_equal(before, after)
        elif isinstance(before, np.ndarray):
            np.testing.assert_array_equal(after, before)
            assert after.dtype.kind == before.dtype.kind
        else:
            assert after == before or (np.isnan(after) and np.isnan(before))


def test_the_file_is_plain_json(result, tmp_path):
    result.save(tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["format"] == "truewood.ImportanceResult"
    assert content["version"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r"ImportanceResult\.save"),
        ('{"a": 1}', r"ImportanceResult\.save"),
        ("not json", r"ImportanceResult\.save"),
        ('{"format": "truewood.ImportanceResult", "version": 99}', r"version 99\b.*\b1\b"),
    ],
)
def test_other_files_are_refused(text, message, tmp_path):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        tw.load(tmp_path / "other.json")


def test_repr_names_measure_and_rows(result):
    lines = repr(result).splitlines()
    assert lines[0] == "ImportanceResult: ufi, classification, 10 trees, 90 out-of-bag rows"
    headings = "feature share % 95% CI p-value importance rank biased rank"
    assert lines[1].split() == headings.split()
    first = lines[2].split()
    assert (first[0], float(first[1])) == ("x3", pytest.approx(100 * result.share.max(), abs=0.06))
    assert "*" in first
    assert len(lines) == 16
    assert result.values[result.order[:10]].min() < 0
    assert not find_lacking(lines[-3], "share %", "negative")
    assert not find_lacking(lines[-2], "2 more features", ".frame()")
    assert f"{100 * result.skipped_weight:.0f}% of splits" in lines[-1]


def test_what_is_not_there_is_not_mentioned(result):
    small = dataclasses.replace(
        tw.importance(RandomForestClassifier(1, random_state=0).fit(X[:, 3:6], y), X[:, 3:6], y), skipped_weight=0.0
    )
    lines = repr(small).splitlines()
    assert lines[0] == "ImportanceResult: ufi, classification, 1 tree, 90 out-of-bag rows"
    assert len(lines) == 5 + small.select().any()
    plain = dataclasses.replace(small, share=np.full(3, np.nan), total_error=np.nan)
    assert "%" not in repr(plain).replace("95% CI", "")
    assert small._repr_html_().count("</p>") == 3 + small.select().any()  # there are few rows
    page = result._repr_html_()
    caveats = list_caveats(result, None)
    assert page.count("</p>") == 5 + len(caveats)
    assert not find_lacking(page, *(html.escape(caveat.heading) for caveat in caveats), "90 rows", "2 more features")
    assert page.count("of splits") == 1
    # Bars as long as the scores, with intervals, and pale where nothing was found.
    widths = np.array([float(width) for width in re.findall(r";width:([\d.]+)%", page)]).reshape(10, 2)
    order = result.order[:10]
    shown, (low, high) = result.share.clip(0, 1)[order], (end[order] for end in result.interval(share=True))
    lengths = np.column_stack([np.abs(shown), high - low])
    assert (high <= 2 * shown[0]).all()  # none is cut off
    np.testing.assert_allclose(widths, lengths * (widths[0, 0] / lengths[0, 0]), atol=0.12)
    assert page.count("opacity:1") == np.count_nonzero(result.select()[result.order][:10])


def test_html_keeps_names_as_text(forest):
    name = "<script>alert(1)</script>"
    result = tw.importance(forest, X, y, feature_groups={name: [0, 1, 2, 3]})
    assert name not in result._repr_html_()
    assert html.escape(name) in result._repr_html_()


def test_results_are_frozen(result):
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.measure = "mdi"
    with pytest.raises(ValueError, match="read-only"):
        result.values[0] = 1.0


def test_an_incomplete_file_is_refused(tmp_path):
    (tmp_path / "part.json").write_text('{"format": "truewood.ImportanceResult", "version": 1, "values": []}')
    with pytest.raises(ValueError, match="fields"):
        tw.load(tmp_path / "part.json")


def test_show_versions_names_the_engine(capsys, engine):
    tw.show_versions()
    shown = capsys.readouterr().out
    assert f"engine        {engine}\n" in shown
    problem = find_problem()
    assert problem is None or f"GPU           not used: {problem}\n" in shown
    for name in ("truewood", "scikit-learn", "numpy", "narwhals"):
        assert f"\n{name}" in f"\n{shown}"
