"""
Has it changed?
===============

A model is scored on the rows of two months. In the second month, the price has lost most of its effect. The comparison
shows for which features the scores of the two months differ by more than chance would explain.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

import truewood as tw

rng = np.random.default_rng(0)


def draw_month(n, price_effect):
    """Draw the purchases of one month."""
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["price", "weather", "weekday", "noise"])
    return X, price_effect * X["price"] + 0.5 * X["weather"] + 0.3 * X["weekday"] + rng.normal(size=n)


model = HistGradientBoostingRegressor(max_iter=60, max_depth=3, random_state=0).fit(*draw_month(1500, 1.0))
may, june = (tw.importance(model, *draw_month(800, effect), rows="heldout") for effect in (1.0, 0.2))

comparison = tw.compare(may, june, names=("May", "June"), same_rows=False)
print(comparison.frame()[["feature", "difference", "std_error", "adjusted_p_value"]].round(3).to_string(index=False))

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
comparison.plot(ax=ax)
plt.show()
