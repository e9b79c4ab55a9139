"""
Which way?
==========

An importance measures how much a feature matters. An explanation shows in which direction a feature moves the
prediction for each row, using only trees that never saw the row. In the plot, each point is a patient: a higher body
mass index raises the prediction.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
forest = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, y)

explanation = tw.explain(forest, X, y)
print(explanation)

# How one feature moves predictions, with the mean of the target for comparison.
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
explanation.plot("dependence", feature="bmi", ax=ax)
plt.show()
