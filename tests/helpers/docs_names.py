"""What pages leave out: tables, models and files of the reader's own, by page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import truewood as tw


def draw_table(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"size": rng.gamma(9, 8, n_rows), "age": rng.integers(0, 90, n_rows).astype(float)})
    table["price"] = 10 * table["size"] - table["age"] + rng.normal(0, 50, n_rows)
    return table


def write_rows(folder):
    """Parquet files of two years."""
    Path(folder).mkdir()
    for year in (2024, 2025):
        for part in range(2):
            table = draw_table(80, seed=2 * year + part).assign(weight=1.0, year=year)
            table.to_parquet(Path(folder) / f"{year}-{part}.parquet", index=False)


def fit_forest():
    table = draw_table()
    X, y = table[["size", "age"]], table["price"]
    return RandomForestRegressor(10, min_samples_leaf=5, random_state=0).fit(X, y), X, y


def prepare_integrations():
    from matplotlib.figure import Figure

    forest, X, y = fit_forest()
    return {
        "tw": tw,
        "forest": forest,
        "X": X,
        "y": y,
        "weight": np.arange(1.0, len(y) + 1),
        "result": tw.importance(forest, X, y),
        "ax": Figure().subplots(),
    }


def prepare_models():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    treatment = rng.normal(size=200)
    outcome = X["a"] * treatment + rng.normal(size=200)
    table = draw_table()
    return {
        "tw": tw,
        "X": X,
        "treatment": treatment,
        "outcome": outcome,
        "train": table[:120],
        "test": table[120:],
    }


def prepare_big_data():
    import pyarrow

    write_rows("rows")
    forest, _, _ = fit_forest()
    columns = ["size", "age", "price"]
    plain = Path("plain")  # files of the model's columns and the target alone
    plain.mkdir()
    for path in Path("rows").glob("*.parquet"):
        pd.read_parquet(path, columns=columns).to_parquet(plain / path.name, index=False)
    reader = pyarrow.Table.from_pandas(draw_table(seed=1), preserve_index=False).to_reader()
    return {"model": forest, "reader": reader, "paths": sorted(plain.glob("*.parquet"))}


def prepare_dask_spark():
    write_rows("rows")
    return {"tw": tw, "model": fit_forest()[0]}


def prepare_tables():
    import xgboost

    rng = np.random.default_rng(0)
    customers = pd.DataFrame({"fee": rng.gamma(9, 100, 300), "calls": rng.poisson(2.0, 300).astype(float)})
    customers["churn"] = np.where(customers["calls"] + rng.normal(size=300) > 2, 1, 0)
    customers["customer"] = [f"C{number:07d}" for number in rng.choice(10_000_000, 300, replace=False)]
    test = customers.drop(columns="customer")
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=3).fit(test[["fee", "calls"]][:200], test["churn"][:200])
    model.save_model("model.ubj")
    test[200:].to_parquet("test.parquet", index=False)
    return {"customers": customers}


PREPARE = {
    "docs/howto/big_data.md": prepare_big_data,
    "docs/howto/dask_spark.md": prepare_dask_spark,
    "docs/howto/integrations.md": prepare_integrations,
    "docs/howto/tables.md": prepare_tables,
    "docs/reference/models.md": prepare_models,
}


def write_files():
    """The files that `truewood ...` lines speak of, in this folder."""
    import xgboost

    draw_table().to_csv("data.csv", index=False)
    write_rows("rows")
    table = draw_table(seed=1)
    xgboost.XGBRegressor(n_estimators=20, max_depth=3).fit(table[["size", "age"]], table["price"]).save_model(
        "model.ubj"
    )
    forest, X, y = fit_forest()
    for name in ("old", "new"):
        tw.importance(forest, X, y, contributions=True).save(f"{name}.json")
