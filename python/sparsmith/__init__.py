"""sparsmith: sparse layers for pruned models, faster and smaller than dense ones.

    import sparsmith

    report = sparsmith.optimize(model, tokens=(1, 8))
    print(report)
    model(inputs)
"""

from sparsmith import patterns, prune, training
from sparsmith._library import SparsmithError
from sparsmith._library import version as __version__
from sparsmith.block_sparse import BlockSparseLinear, BlockSparseModelPatcher, ModelPatcher
from sparsmith.linear import SparseGroup, SparseGroupMember, SparseLinear
from sparsmith.model_report import KernelTime, ModelReport, StepProfile, report_model
from sparsmith.patch import LayerReport, PatchReport, optimize, patch_model, unpatch_model
from sparsmith.semi_sparse import (
    SemiSparseLinear,
    SparseThenDense,
    swap_linear_with_semi_sparse_linear,
    swap_semi_sparse_linear_with_linear,
)
from sparsmith.trainable_linear import TrainableSparseLinear
from sparsmith.tuned_file import Choice, Member, PrunedPlan, TunedFile, TunedSplit, TunedWeight, load
from sparsmith.tuning import tune

__all__ = ["BlockSparseLinear", "BlockSparseModelPatcher", "Choice", "KernelTime", "LayerReport", "Member",
           "ModelPatcher", "ModelReport", "PatchReport", "PrunedPlan", "SemiSparseLinear", "SparseGroup",
           "SparseGroupMember", "SparseLinear", "SparseThenDense", "SparsmithError", "StepProfile", "TrainableSparseLinear",
           "TunedFile", "TunedSplit", "TunedWeight", "__version__", "load", "optimize", "patch_model", "patterns", "prune", "report_model",
           "swap_linear_with_semi_sparse_linear", "swap_semi_sparse_linear_with_linear", "training", "tune", "unpatch_model"]
