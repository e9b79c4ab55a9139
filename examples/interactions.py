"""
Which pairs work together?
==========================

Two features interact if the effect of one depends on the value of the other. Here, the discount affects only sales to
members, but the price affects all sales in the same way. A test on rows the trees never saw finds the interaction.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "price": rng.normal(100, 20, 800),
        "discount": rng.choice([0, 5, 10, 20], 800),
        "member": rng.integers(0, 2, 800),
        "age": rng.normal(45, 12, 800),
    }
)
sales = 50 - 0.2 * X["price"] + 0.5 * X["discount"] * X["member"] + 3 * X["member"] + rng.normal(0, 4, 800)
forest = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, sales)

pairs = tw.interactions(forest, X, sales)
print(pairs.frame()[["feature_1", "feature_2", "share", "p_value"]].round(3))

# Lines that are not parallel: the effect of the discount depends on membership.
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
pairs.plot(ax=left)
pairs.plot("curves", pair=("discount", "member"), ax=right)
plt.show()
