"""y and weights in every container and order of memory: the same bits, or an error of one line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood import TargetKind
from truewood._inputs.losses import squared_error
from truewood._inputs.target import encode_target, make_loss_target, read_sample_weight, read_target

pytestmark = pytest.mark.asan


def reverse(y):
    return y[::-1].copy()[::-1]


def put_between(y):
    """A view of every other row of a larger array."""
    larger = np.zeros((2 * len(y), *y.shape[1:]), dtype=y.dtype)
    larger[::2] = y
    return larger[::2]


def misalign(y):
    """An array whose numbers begin at an odd address."""
    raw = np.zeros(y.nbytes + 1, dtype=np.uint8)
    shifted = raw[1:].view(y.dtype).reshape(y.shape)
    shifted[...] = y
    assert not shifted.flags.aligned
    return shifted


CONTAINERS = {
    "fortran": np.asfortranarray,
    "frame": pd.DataFrame,
    "nullable frame": lambda y: pd.DataFrame(y).convert_dtypes(),
    "arrow frame": lambda y: pd.DataFrame(y).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda y: pl.DataFrame({f"y{k}": column for k, column in enumerate(y.T)}),
    "list": lambda y: y.tolist(),
    "transposed": lambda y: np.ascontiguousarray(y.T).T,
    "reversed": reverse,
    "every other row": put_between,
    "misaligned": misalign,
    "swapped bytes": lambda y: y.astype(y.dtype.newbyteorder()),
    "read-only": lambda y: np.lib.stride_tricks.as_strided(y, writeable=False),
}


def draw_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    return X, X[:, :2] + rng.standard_normal((120, 2))


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("make", [RandomForestRegressor, RandomForestClassifier])
def test_several_outputs_in_any_container(make, name, engine):
    X, y = draw_rows()
    y = y if make is RandomForestRegressor else (y > 0).astype(np.int64)
    forest = make(4, max_depth=4, random_state=0).fit(X, y)
    expected = tw.importance(forest, X, y)
    result = tw.importance(forest, X, CONTAINERS[name](y))
    np.testing.assert_array_equal(result.per_tree, expected.per_tree)
    np.testing.assert_array_equal(result.std_error, expected.std_error)


def test_estimators_take_a_frame_of_several_outputs():
    X, y = draw_rows()
    frame = pd.DataFrame(y)
    forests = [tw.UnbiasedRandomForestRegressor(4, max_depth=4, random_state=0).fit(X, given) for given in (y, frame)]
    np.testing.assert_array_equal(forests[0].feature_importances_, forests[1].feature_importances_)
    selected = [
        tw.UnbiasedSelector(RandomForestRegressor(4, random_state=0)).fit(X, given).get_support()
        for given in (y, frame)
    ]
    np.testing.assert_array_equal(*selected)
    tested = [
        tw.permutation_test(RandomForestRegressor(4, random_state=0), X, given, n_permutations=2, random_state=0)
        for given in (y, frame)
    ]
    np.testing.assert_array_equal(tested[0].null, tested[1].null)


def test_a_test_goes_on_with_y_in_another_order(tmp_path):
    X, y = draw_rows()
    forest = RandomForestRegressor(2, random_state=0)
    first, second = (
        tw.permutation_test(forest, X, given, n_permutations=2, resume=tmp_path / "checkpoint")
        for given in (y, np.asfortranarray(y))
    )
    np.testing.assert_array_equal(first.null, second.null)


@pytest.mark.parametrize("name", ["fortran", "transposed", "every other row", "reversed"])
def test_targets_of_a_loss_do_not_depend_on_the_order_of_memory(name):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((1001, 2)) * 1e6 + 0.1
    weight = rng.random(1001)

    def targets(given):
        encoded = encode_target(given, TargetKind((), 2), np.zeros(2))
        return make_loss_target(encoded, squared_error(), weight, 2), read_target(given, None, 2)

    for ours, expected in zip(targets(CONTAINERS[name](y)), targets(y), strict=True):
        assert ours.numbers.flags.c_contiguous
        np.testing.assert_array_equal(ours.numbers, expected.numbers)


@pytest.mark.parametrize("name", ["misaligned", "every other row", "reversed", "swapped bytes"])
def test_weights_in_any_array(name):
    weight = np.random.default_rng(0).random(50) + 0.1
    read = read_sample_weight(CONTAINERS[name](weight), 50)
    np.testing.assert_array_equal(read, weight)
    assert read.flags.aligned
    assert read.flags.c_contiguous


@pytest.mark.parametrize(("extreme", "named"), [(1e307, "1e\\+307"), (5e-324, "4.94066e-324"), (1e101, "1e\\+101")])
def test_weights_whose_sums_or_products_are_lost_are_refused(extreme, named):
    X, y = draw_rows()
    forest = RandomForestRegressor(4, max_depth=4, random_state=0).fit(X[:60], y[:60])
    weight = np.full(60, extreme)
    weight[:3] = 0.0
    with pytest.raises(ValueError, match=rf"1e-100.*1e\+100.*{named}"):
        tw.importance(forest, X[60:], y[60:], rows="heldout", sample_weight=weight)


@pytest.mark.parametrize(
    "measure", [measure for measure in tw.measures() if measure not in ("sobol_mda", "mdi_plus_oob")]
)
@pytest.mark.parametrize("weight", [1e-100, 1e100])
@pytest.mark.parametrize("scale", [1.0, 1e75])
def test_extremes_that_are_taken_give_finite_numbers(measure, weight, scale):
    X, y = draw_rows()
    y = y[:, 0] / np.abs(y).max() * scale
    forest = RandomForestRegressor(4, max_depth=4, random_state=0).fit(X[:60], y[:60])
    weights = np.where(np.arange(60) % 2, weight, 1.0)
    result = tw.importance(
        forest, X[60:], y[60:], rows="heldout", measure=measure, sample_weight=weights, random_state=0
    )
    assert np.isfinite(result.values).all()
    assert result.values.any()
    assert result.inference_unavailable or np.isfinite(result.std_error).all()


def test_larger_targets_are_refused():
    with pytest.raises(ValueError, match=r"\by\b.*1e\+75"):
        encode_target([1.0, 2e75], TargetKind(), np.zeros(1))
