"""Binary JSON holds what the same model's JSON holds."""

import json

import numpy as np
import pytest
import xgboost

from truewood.adapters._ubjson import read_ubjson


def check_same(binary, plain):
    if isinstance(plain, dict):
        assert binary.keys() == plain.keys()
        for key in plain:
            check_same(binary[key], plain[key])
    elif isinstance(plain, list) and isinstance(binary, np.ndarray):
        np.testing.assert_array_equal(binary, np.asarray(plain, dtype=binary.dtype))
    elif isinstance(plain, list):
        assert len(binary) == len(plain)
        for one, other in zip(binary, plain, strict=True):
            check_same(one, other)
    elif isinstance(plain, float):
        assert np.float32(binary) == np.float32(plain)
    else:
        assert binary == plain


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "reg:quantileerror"])
def test_same_as_json(objective):
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 3
    settings = {"objective": objective, "num_class": 3 if "multi" in objective else 0, "max_depth": 3}
    if "quantile" in objective:
        settings["quantile_alpha"] = [0.1, 0.9]
    booster = xgboost.train(settings, xgboost.DMatrix(X, y, feature_names=["a", "ä", "c", "d"]), 5)
    check_same(read_ubjson(booster.save_raw("ubj")), json.loads(booster.save_raw("json")))


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"{}", {}),
        (b"[]", []),
        (b"[i\x01TFZ]", [1, True, False, None]),
        (b"[#i\x02U\xffI\x01\x00", [255, 256]),
        (b"{i\x01aSU\x02\xc3\xa4}", {"a": "ä"}),
        (b"D\x3f\xb9\x99\x99\x99\x99\x99\x9a", 0.1),
    ],
)
def test_plain_values(content, value):
    assert read_ubjson(content) == value


def test_arrays_of_numbers():
    found = read_ubjson(b"[$l#i\x02\x00\x00\x00\x01\xff\xff\xff\xff")
    assert found.dtype == np.dtype(">i4")
    assert found.tolist() == [1, -1]


def test_unknown_marker():
    with pytest.raises(ValueError, match="marker 'x'"):
        read_ubjson(b"x")
