"""
From a CSV file to the answer
=============================

One command shows which columns of a CSV file predict whether a customer cancels. This example creates such a file, runs
the command, and plots its result. In a terminal, the command is::

    truewood importance customers.csv --target canceled --output scores.csv --output result.json
"""

import sys
from contextlib import redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import truewood as tw
from truewood._cli import main

rng = np.random.default_rng(0)
n_rows = 800
plan = rng.choice(["basic", "family", "pro"], n_rows)
fee = rng.gamma(9.0, 100.0, n_rows)
calls = rng.poisson(2.0, n_rows)
risk = 0.8 * calls + 1.5 * (plan == "basic") + (fee - 900) / 300
customers = pd.DataFrame(
    {
        "customer": [f"C{number:07d}" for number in rng.choice(10_000_000, n_rows, replace=False)],
        "since": (pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 1500, n_rows), unit="D")).date,
        "plan": plan,
        "fee": [f"${amount:,.2f}" for amount in fee],
        "calls to support": np.where(rng.random(n_rows) < 0.05, "?", calls.astype(str)),
        "newsletter": rng.choice(["yes", "no"], n_rows),
        "shop": [f"shop {number}" for number in rng.integers(0, 60, n_rows)],
        "canceled": np.where(risk + rng.logistic(size=n_rows) > 2.5, "yes", "no"),
    }
)

with TemporaryDirectory() as folder, redirect_stderr(sys.stdout):
    table, scores, saved = (str(Path(folder) / name) for name in ("customers.csv", "scores.csv", "result.json"))
    customers.to_csv(table, index=False)
    outputs = ["--output", scores, "--output", saved]
    # In a script, call the function behind the command.
    code = main(["importance", table, "--target", "canceled", "--n-estimators", "200", *outputs])
    found, result = pd.read_csv(scores), tw.load(saved)

print("exit code:", code)
print("significant:", ", ".join(sorted(found.loc[found["significant"], "feature"])))

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
result.plot(ax=ax)
plt.show()
