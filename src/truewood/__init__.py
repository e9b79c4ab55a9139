"""Which features does a tree model really use?

Split importances of trees are biased: a feature with many possible splits looks important even when it is pure noise,
because splits are judged on the rows that chose them. truewood scores the same splits on rows the tree never saw.
"""

from importlib.metadata import version as _version

from truewood import tabular
from truewood.adapters import load_spark_model, register_adapter, to_ensemble
from truewood.data.device_arrays import DeviceWarning
from truewood.data.target import TargetKind
from truewood.engines.engine import NativeEngineWarning
from truewood.estimators.cross_validation import cross_importance
from truewood.estimators.display import ImportanceDisplay
from truewood.estimators.forests import (
    UnbiasedExtraTreesClassifier,
    UnbiasedExtraTreesRegressor,
    UnbiasedRandomForestClassifier,
    UnbiasedRandomForestRegressor,
)
from truewood.estimators.permuted_targets import permutation_test
from truewood.estimators.pseudo_data import corrected_importance
from truewood.estimators.selector import UnbiasedSelector
from truewood.formulas.registry import measures
from truewood.front_door import importance
from truewood.result.comparing import compare
from truewood.result.comparison import Comparison
from truewood.result.correlated_groups import correlated_groups
from truewood.result.explanation import Explanation
from truewood.result.importance_result import ImportanceResult
from truewood.result.saving import load
from truewood.scale.accumulating import accumulate
from truewood.scale.finishing import accumulate_errors, finish
from truewood.scale.partial import Partial
from truewood.scoring.explaining import explain
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.versions import show_versions

__version__ = _version("truewood")

__all__ = [
    "Comparison",
    "DeviceWarning",
    "Explanation",
    "ImportanceDisplay",
    "ImportanceResult",
    "NativeEngineWarning",
    "NodeSums",
    "Partial",
    "TargetKind",
    "TreeEnsemble",
    "UnbiasedExtraTreesClassifier",
    "UnbiasedExtraTreesRegressor",
    "UnbiasedRandomForestClassifier",
    "UnbiasedRandomForestRegressor",
    "UnbiasedSelector",
    "accumulate",
    "accumulate_errors",
    "compare",
    "corrected_importance",
    "correlated_groups",
    "cross_importance",
    "explain",
    "finish",
    "importance",
    "load",
    "load_spark_model",
    "measures",
    "permutation_test",
    "register_adapter",
    "show_versions",
    "tabular",
    "to_ensemble",
]
