"""
Which way?
==========

An importance says how much; an explanation says which way, row by row, by trees that never saw the row. Here every
point is a patient.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
forest = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, y)

explanation = tw.explain(forest, X, y)
print(explanation)

# One feature: what it did to predictions, with the mean of the target beside it.
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
explanation.plot("dependence", feature="bmi", ax=ax)
plt.show()
