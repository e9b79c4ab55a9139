"""The cuda engine agrees with the native engine. Without a GPU, its kernels are compiled for the host."""

import shutil
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import truewood as tw
from helpers.cuda_on_host import stand_for_cupy
from helpers.docs_pages import DOCS, list_blocks
from truewood._engines import cuda_device
from truewood._engines.records import RowLists
from truewood._engines.selection import ENGINE_VARIABLE, resolve_engine
from truewood._exceptions import DeviceWarning
from truewood._inputs.tables import FeatureMatrix, read_features
from truewood.adapters import open_model

HAS_GPU = cuda_device.find_problem() is None

pytestmark = [
    pytest.mark.tsan,
    pytest.mark.asan,
    pytest.mark.kernel,
    pytest.mark.skipif(not HAS_GPU and shutil.which("c++") is None, reason="needs a GPU or a C++ compiler"),
    pytest.mark.filterwarnings("ignore:Training data will be checked"),
]

N = 700
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 8)).astype(np.float32)
X[:, 3] = RNG.integers(0, 40, N)
X_GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
NUMBERS = 2.0 * X[:, 0] + np.abs(X[:, 1]) + RNG.normal(size=N) + 1_000.0
CLASSES = (X[:, 0] + RNG.normal(size=N) > 0).astype(int) + (X[:, 3] % 3 == 0)
WEIGHT = RNG.random(N) + 0.2
FIT, REST = slice(0, 400), slice(400, N)


@pytest.fixture(autouse=True, scope="module")
def gpu():
    with pytest.MonkeyPatch.context() as patch, nullcontext() if HAS_GPU else stand_for_cupy():
        patch.delenv(ENGINE_VARIABLE, raising=False)  # "auto" follows it
        yield


def to_device(values):
    import cupy

    return cupy.asarray(values)


def forest(kind=RandomForestRegressor, **options):
    return kind(6, random_state=0, **options)


CASES = {
    "numbers": lambda: (forest().fit(X, NUMBERS), X, NUMBERS, {}),
    "numbers, ufi": lambda: (forest().fit(X, NUMBERS), X, NUMBERS, {"measure": "ufi"}),
    "numbers, mdi_oob": lambda: (forest().fit(X, NUMBERS), X, NUMBERS, {"measure": "mdi_oob"}),
    "classes, mdi_plus_oob": lambda: (
        forest(RandomForestClassifier).fit(X, CLASSES),
        X,
        CLASSES,
        {"measure": "mdi_plus_oob"},
    ),
    "two outputs": lambda: (
        forest().fit(X, np.c_[NUMBERS, X[:, 1]]),
        X,
        np.c_[NUMBERS, X[:, 1]],
        {},
    ),
    "weights": lambda: (
        forest().fit(X, NUMBERS, sample_weight=WEIGHT),
        X,
        NUMBERS,
        {"sample_weight": WEIGHT},
    ),
    "gaps": lambda: (forest().fit(X_GAPS, NUMBERS), X_GAPS, NUMBERS, {}),
    "classes": lambda: (forest(RandomForestClassifier).fit(X, CLASSES), X, CLASSES, {}),
    "classes of two outputs": lambda: (
        forest(RandomForestClassifier).fit(X, np.c_[CLASSES, CLASSES > 0]),
        X,
        np.c_[CLASSES, CLASSES > 0],
        {},
    ),
    "few draws": lambda: (forest(max_samples=0.3).fit(X, NUMBERS), X, NUMBERS, {}),
    "without replacement": lambda: (
        BaggingRegressor(DecisionTreeRegressor(), 5, bootstrap=False, max_samples=0.5, random_state=0).fit(X, NUMBERS),
        X,
        NUMBERS,
        {},
    ),
    "lists of rows, some twice": lambda: (
        forest(bootstrap=False, max_features=3).fit(X[FIT], NUMBERS[FIT]),
        X[REST],
        NUMBERS[REST],
        {"rows": [RNG.integers(0, 300, 200 + 10 * k) for k in range(6)]},
    ),
    "held-out": lambda: (
        forest(RandomForestClassifier).fit(X[FIT], CLASSES[FIT]),
        X[REST],
        CLASSES[REST],
        {"rows": "heldout", "sample_weight": WEIGHT[REST]},
    ),
    "small trees": lambda: (
        HistGradientBoostingRegressor(max_iter=30).fit(X[FIT].astype(float), NUMBERS[FIT]),
        X[REST].astype(float),
        NUMBERS[REST],
        {"rows": "heldout"},
    ),
    "small trees, weights": lambda: (
        HistGradientBoostingRegressor(max_iter=30).fit(X[FIT].astype(float), NUMBERS[FIT]),
        X[REST].astype(float),
        NUMBERS[REST],
        {"rows": "heldout", "sample_weight": WEIGHT[REST]},
    ),
    "categories": lambda: (
        HistGradientBoostingClassifier(max_iter=10, categorical_features=[3]).fit(X[FIT].astype(float), CLASSES[FIT]),
        X[REST].astype(float),
        CLASSES[REST],
        {"rows": "heldout"},
    ),
    "a column of the target a tree": lambda: (
        GradientBoostingClassifier(n_estimators=8).fit(X[FIT], CLASSES[FIT]),
        X[REST],
        CLASSES[REST],
        {"rows": "heldout"},
    ),
    "groups of columns": lambda: (
        forest(RandomForestClassifier).fit(X, CLASSES),
        X,
        CLASSES,
        {"feature_groups": {"a": [0, 1], "b": [2, 3, 4]}},
    ),
    "groups of rows": lambda: (
        forest().fit(X[FIT], NUMBERS[FIT]),
        X[REST],
        NUMBERS[REST],
        {"rows": "heldout", "groups": np.arange(300) // 3},
    ),
    "bags": lambda: (forest().fit(X, NUMBERS), X, NUMBERS, {"inference": "bags"}),
    "rows": lambda: (forest().fit(X, NUMBERS), X, NUMBERS, {"contributions": True}),
    "residual": lambda: (forest().fit(X, NUMBERS), X, NUMBERS, {"inference": "residual"}),
    "residual, held-out rows": lambda: (
        HistGradientBoostingClassifier(max_iter=4, random_state=0).fit(X_GAPS[FIT], CLASSES[FIT]),
        X_GAPS[REST],
        CLASSES[REST],
        {"rows": "heldout", "inference": "residual"},
    ),
    "permutation": lambda: (
        forest(RandomForestClassifier).fit(X, CLASSES),
        X,
        CLASSES,
        {"measure": "permutation", "random_state": 0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_and_errors_are_those_of_the_kernel(name):
    model, rows, y, options = CASES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        native = tw.importance(model, rows, y, engine="native", **options)
        on_host = tw.importance(model, rows, y, engine="cuda", **options)
        on_device = tw.importance(model, to_device(rows), y, **options)
    largest = np.abs(native.per_tree).max()
    np.testing.assert_allclose(on_host.per_tree, native.per_tree, rtol=0, atol=1e-12 * largest)
    np.testing.assert_array_equal(on_device.per_tree, on_host.per_tree)
    if native.inference_unavailable is None:
        np.testing.assert_allclose(on_host.std_error, native.std_error, rtol=1e-10)
        np.testing.assert_allclose(on_host.p_value, native.p_value, rtol=0, atol=1e-10)
        np.testing.assert_array_equal(on_device.std_error, on_host.std_error)


def test_wide_rows_need_no_shared_memory():
    wide = RNG.normal(size=(60, 900)).astype(np.float32)
    y = wide[:, 0] + RNG.normal(size=60)
    model = forest().fit(wide, y)
    native, cuda = (tw.importance(model, wide, y, engine=engine) for engine in ("native", "cuda"))
    np.testing.assert_allclose(cuda.values, native.values, rtol=0, atol=1e-12 * np.abs(native.values).max())
    np.testing.assert_allclose(cuda.std_error, native.std_error, rtol=1e-10)


@pytest.mark.parametrize("gaps", [False, True])
def test_leaves_are_those_of_the_reference(gaps):
    table = X_GAPS if gaps else X
    view = open_model(forest().fit(table, NUMBERS))
    matrix = read_features(table, view.table)
    ensemble = view.read(range(6))
    lists = RowLists.join([RNG.integers(0, N, size) for size in (100, 0, 30, 1, 300, 50)])
    rows, donors = np.arange(0, N, 7), RNG.integers(0, N, 100)
    one, cuda, reference = view.read(range(1)), resolve_engine("cuda"), resolve_engine("numpy")
    np.testing.assert_array_equal(
        cuda.find_leaves(ensemble, matrix, lists), reference.find_leaves(ensemble, matrix, lists)
    )
    np.testing.assert_array_equal(
        cuda.find_swapped_leaves(one, matrix, rows, donors), reference.find_swapped_leaves(one, matrix, rows, donors)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hashes_of_rows_are_those_of_the_reference(dtype):
    factors = np.random.default_rng(0).integers(0, 1 << 64, (8, 2), dtype=np.uint64)
    table = np.where(np.abs(X_GAPS) < 0.2, -0.0, X_GAPS).astype(dtype)
    cuda, reference = resolve_engine("cuda"), resolve_engine("numpy")
    for rows in (table, table[RNG.integers(0, N, 2 * N)]):
        expected = reference.hash_rows(FeatureMatrix(rows, np.empty(0, dtype=str), has_missing=True), factors)
        for values in (rows, to_device(rows)):
            matrix = FeatureMatrix(values, np.empty(0, dtype=str), has_missing=True)
            np.testing.assert_array_equal(cuda.hash_rows(matrix, factors), expected)
            cuda_device.copy_rows(matrix)
            np.testing.assert_array_equal(cuda.hash_rows(matrix, factors), expected)
    assert expected is not None


def test_sums_and_influence_of_all_rows():
    from truewood._inputs.target import encode_target
    from truewood._measures.split_measures import make_ufi_terms

    view = open_model(forest(RandomForestClassifier).fit(X, CLASSES))
    matrix, ensemble = read_features(X, view.table), view.read(range(6))
    target = encode_target(CLASSES, view.target.kind, np.zeros(view.target.kind.n_columns))
    cuda, native = resolve_engine("cuda"), resolve_engine("native")
    sums, expected = (e.sum_nodes(ensemble, matrix, target, WEIGHT) for e in (cuda, native))
    np.testing.assert_allclose(sums.weight, expected.weight, rtol=1e-13)
    np.testing.assert_allclose(sums.total, expected.total, rtol=1e-13, atol=1e-13)
    terms = make_ufi_terms(ensemble, expected).evaluation
    out, expected_out = np.ones((2, N, 8))
    for engine, into in ((cuda, out), (native, expected_out)):
        engine.add_influence(ensemble, matrix, target, WEIGHT, terms, np.arange(6.0), into)
    np.testing.assert_allclose(out, expected_out, rtol=0, atol=1e-12 * np.abs(expected_out).max())


@pytest.mark.parametrize("n_draws", [1, 623, 625, 3_000])
@pytest.mark.parametrize("n_rows", [1, 2, 777, 1_025])
def test_bags_are_those_of_numpy(n_rows, n_draws):
    from truewood._engines.cuda_trees import draw_bags

    seeds = np.array([0, 1, 2**32 - 1], dtype=np.uint32)
    expected = [
        np.bincount(np.random.RandomState(seed).randint(0, n_rows, n_draws, dtype=np.int32), minlength=n_rows)
        for seed in seeds
    ]
    np.testing.assert_array_equal(draw_bags(seeds, n_draws, n_rows).get(), expected)


def test_rows_that_do_not_fit_are_copied_block_by_block(monkeypatch):
    from truewood._inputs.target import NumberTarget

    view = open_model(forest().fit(X, NUMBERS))
    ensemble, target = view.read(range(6)), NumberTarget.of_numbers(NUMBERS[:, np.newaxis])
    engine = resolve_engine("cuda")
    whole = engine.sum_nodes(ensemble, read_features(X, view.table), target, None)
    monkeypatch.setattr(cuda_device, "_COPY_BYTES", 2_000)
    monkeypatch.setattr(cuda_device, "_KEPT_SHARE", 0.0)
    in_blocks = engine.sum_nodes(ensemble, read_features(X, view.table), target, None)
    np.testing.assert_array_equal(in_blocks.total, whole.total)


def test_sparse_rows_are_filled_in():
    from scipy import sparse

    table = np.where(np.abs(X) < 1, 0, X).astype(np.float32)
    model = forest().fit(sparse.csr_array(table), NUMBERS)
    native, cuda = (tw.importance(model, sparse.csr_array(table), NUMBERS, engine=e) for e in ("native", "cuda"))
    np.testing.assert_allclose(cuda.values, native.values, rtol=0, atol=1e-12 * np.abs(native.values).max())


def test_heavy_tails_keep_their_digits():
    y = NUMBERS * 10.0 ** RNG.integers(-3, 4, N)
    model = forest().fit(X, y)
    native, cuda = (tw.importance(model, X, y, engine=engine) for engine in ("native", "cuda"))
    np.testing.assert_allclose(cuda.values, native.values, rtol=0, atol=1e-12 * np.abs(native.values).max())


def test_rows_on_the_gpu_are_copied_for_another_engine_with_a_warning():
    model = forest().fit(X, NUMBERS)
    with pytest.warns(DeviceWarning, match="host.*'native'"):
        result = tw.importance(model, to_device(X), NUMBERS, engine="native")
    np.testing.assert_array_equal(result.values, tw.importance(model, X, NUMBERS).values)


def test_other_functions_copy_rows_with_a_warning():
    model = forest().fit(X[FIT], NUMBERS[FIT])
    with pytest.warns(DeviceWarning, match="host.*explain"):
        explained = tw.explain(model, to_device(X[REST]), rows="heldout")
    np.testing.assert_array_equal(explained.values, tw.explain(model, X[REST], rows="heldout").values)
    pipeline = make_pipeline(StandardScaler(), forest()).fit(X[FIT], NUMBERS[FIT])
    with pytest.warns(DeviceWarning, match="pipeline"):
        result = tw.importance(pipeline, to_device(X[REST]), NUMBERS[REST], rows="heldout")
    own = tw.importance(pipeline, X[REST], NUMBERS[REST], rows="heldout")
    np.testing.assert_allclose(result.values, own.values, rtol=1e-12, atol=1e-12 * np.abs(own.values).max())


def test_all_batches_use_the_requested_engine(monkeypatch):
    from truewood._engines.cuda_engine import CudaEngine
    from truewood._scoring import trees

    monkeypatch.setattr(trees, "_BATCH_NODES", 10)
    found = []
    own = CudaEngine.find_swapped_leaves
    monkeypatch.setattr(CudaEngine, "find_swapped_leaves", lambda *args: found.append(1) or own(*args))
    model = RandomForestRegressor(20, max_depth=3, random_state=0).fit(X, NUMBERS)
    tw.importance(model, to_device(X), NUMBERS, measure="permutation", random_state=0, n_jobs=2)
    assert len(found) == 20


def test_runs_of_trees_give_the_same_scores(monkeypatch):
    from truewood._engines import cuda_engine

    model = forest().fit(X, NUMBERS)
    expected = tw.importance(model, X, NUMBERS, engine="cuda")
    limits = {"_MOST_NODES": 100, "_MOST_BAG_WEIGHTS": 3 * len(X)}
    for limit, most in limits.items():
        with monkeypatch.context() as patch:
            patch.setattr(cuda_engine, limit, most)
            result = tw.importance(model, X, NUMBERS, engine="cuda")
        np.testing.assert_array_equal(result.values, expected.values)
        np.testing.assert_allclose(result.std_error, expected.std_error, rtol=1e-12)


def test_tiny_and_huge_targets():
    for factor in (1e-150, 1e60):
        model = forest().fit(X, NUMBERS * factor)
        native, cuda = (tw.importance(model, X, NUMBERS * factor, engine=engine) for engine in ("native", "cuda"))
        np.testing.assert_allclose(cuda.values, native.values, rtol=0, atol=1e-9 * np.abs(native.values).max())


def test_target_and_lists_of_rows_may_be_on_the_gpu():
    model = GradientBoostingRegressor(n_estimators=5).fit(X[FIT], NUMBERS[FIT])
    given = {"target": NUMBERS[REST], "rows": [np.arange(200)] * 5}
    own = tw.importance(model, X[REST], NUMBERS[REST], **given)
    given = {"target": to_device(NUMBERS[REST]), "rows": [to_device(np.arange(200))] * 5}
    result = tw.importance(model, to_device(X[REST]), to_device(NUMBERS[REST]), **given)
    np.testing.assert_allclose(result.values, own.values, rtol=0, atol=1e-12 * np.abs(own.values).max())


def test_sobol_mda_needs_rows_on_the_host():
    with pytest.raises(ValueError, match=r"'sobol_mda'.*\bX\b.*host"):
        tw.importance(forest().fit(X, NUMBERS), to_device(X), NUMBERS, measure="sobol_mda")


def test_unknown_engine():
    with pytest.raises(ValueError, match=r"engine.*'native'.*'numpy'.*'cuda'.*'fast'"):
        tw.importance(forest().fit(X, NUMBERS), X, NUMBERS, engine="fast")


def test_too_little_memory_is_one_line(monkeypatch):
    from truewood._engines import cuda_engine

    class OutOfMemoryError(MemoryError):
        pass

    def refuse(*_args, **_options):
        raise OutOfMemoryError

    monkeypatch.setattr(cuda_engine, "sum_rows", refuse)
    model = forest().fit(X, NUMBERS)
    with pytest.raises(MemoryError, match=r"GPU.*memory"):
        tw.importance(model, X, NUMBERS, engine="cuda")
    with pytest.warns(DeviceWarning, match="GPU.*memory"):
        result = tw.importance(model, to_device(X), NUMBERS)
    np.testing.assert_array_equal(result.values, tw.importance(model, X, NUMBERS).values)


def test_matrix_knows_where_it_is():
    assert FeatureMatrix(to_device(X), np.array(["x"] * 8), has_missing=False).is_on_device
    assert not FeatureMatrix(X, np.array(["x"] * 8), has_missing=False).is_on_device


def test_the_page_about_gpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in list_blocks(DOCS / "howto" / "gpu.md"):
        if block.language == "python":
            exec(block.text, names)
    assert len(names["result"].values) == 10
