"""
A table through a pipeline
==========================

A scikit-learn Pipeline encodes a table with numbers, text and missing values, and fits a forest. truewood scores the
original columns of the table, not the encoded ones.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw

# Rents of 800 apartments. Size, district and heating determine the rent; the age of the building, the agent and the
# advertisement number are unrelated to it.
rng = np.random.default_rng(0)
n = 800
homes = pd.DataFrame(
    {
        "size": rng.gamma(9, 8, n).round(),
        "district": rng.choice(["center", "north", "south", "harbor"], n),
        "heating": rng.choice(["gas", "district heating", None], n, p=[0.5, 0.3, 0.2]),
        "age": rng.integers(0, 120, n).astype(float),
        "agent": rng.choice([f"agent {k}" for k in range(40)], n),
        "advertisement": rng.permutation(n),
    }
)
rent = 8 * homes["size"] + 250 * (homes["district"] == "center") - 80 * (homes["heating"] == "gas")
rent += rng.normal(0, 150, n)
homes.loc[rng.random(n) < 0.1, "age"] = np.nan

numbers, texts = ["size", "age", "advertisement"], ["district", "heating", "agent"]
model = Pipeline(
    [
        (
            "columns",
            ColumnTransformer(
                [
                    ("numbers", SimpleImputer(add_indicator=True), numbers),
                    ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
                ],
                verbose_feature_names_out=False,
            ),
        ),
        ("forest", RandomForestRegressor(200, min_samples_leaf=3, n_jobs=2, random_state=0)),
    ]
).fit(homes, rent)

# One score per column of the table, not one for each of the 50 encoded columns that the forest was trained on.
result = tw.importance(model, homes, rent, n_jobs=2)
print(result.frame()[["feature", "share", "p_value", "rank", "mdi_rank"]].round(3).to_string(index=False))

print("\nColumns that matter:", ", ".join(result.feature_names[result.select(alpha=0.05)]))

print("\nThe encoded columns behind them:")
columns = result.expand()
print(columns.frame()[["feature", "share", "p_value"]].head(5).round(3).to_string(index=False))

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
result.plot(ax=ax)
plt.show()
