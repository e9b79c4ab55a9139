"""
For which class?
================

Which feature matters for which kind of wine? The score of a feature is a sum over classes, and the parts of the sum
show for which classes the feature matters.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import truewood as tw

wine = load_wine(as_frame=True)
forest = RandomForestClassifier(200, random_state=0).fit(wine.data, wine.target)

result = tw.importance(forest, wine.data, wine.target, per_class=True)
for number, scores in enumerate(result.per_class):
    print(f"class {number}: strongest feature {result.feature_names[scores.argmax()]}")

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
result.plot("classes", ax=ax)
plt.show()
