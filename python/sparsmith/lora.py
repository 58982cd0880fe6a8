"""LoRA of PEFT on top of sparse layers."""

from __future__ import annotations

import warnings
from typing import Any

from peft.tuners.lora.layer import Linear
from torch import nn

from sparsmith._library import SparsmithError
from sparsmith.layers import is_conv1d, is_linear


class SparseLora(Linear):
    """``lora.Linear`` whose base layer is a sparse layer: ``y = base(x) + B(A(x)) * scaling``.

    Merging needs a dense base layer: call :func:`sparsmith.unpatch_model` first. Raises SparsmithError for variants and
    initialisations that read or change the base weight: DoRA, PiSSA, OLoRA and others.
    """

    def __init__(self, base_layer: nn.Module, adapter_name: str, config: Any, **kwargs: Any) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Unsupported layer type")
            super().__init__(base_layer, adapter_name, config=config, **kwargs)

    @property
    def lora_variants(self) -> dict:
        return {(): None}

    def update_layer(self, adapter_name: str, *args: Any, config: Any, **kwargs: Any) -> None:
        if config.init_lora_weights not in (True, False, "gaussian"):
            raise SparsmithError(f"init_lora_weights={config.init_lora_weights!r} needs a dense weight, and "
                                 f"{type(self.get_base_layer()).__name__} has none: use True or \"gaussian\"")
        if config.use_dora:
            raise SparsmithError("use_dora=True needs a dense weight; sparse layers have none")
        base = self.get_base_layer()
        tuned = getattr(base, "tuned", None) or getattr(getattr(base, "group", None), "tuned", None)
        if tuned is not None and tuned.split:
            raise SparsmithError(f"{tuned.name} is rank {tuned.split.rank}'s part of a weight, which takes no adapter")
        if tuned is not None and tuned.fused:
            raise SparsmithError(f"{tuned.name} computes {tuned.fused} in its kernels, and an adapter comes before: use "
                                 "optimize(model, fuse=False)")
        super().update_layer(adapter_name, *args, config=config, **kwargs)

    def merge(self, safe_merge: bool = False, adapter_names: list[str] | None = None) -> None:
        if not is_linear(self.get_base_layer()):
            raise SparsmithError("an adapter cannot be merged into a sparse weight: make the model dense with "
                                 "sparsmith.unpatch_model first")
        self.fan_in_fan_out = is_conv1d(self.get_base_layer())
        super().merge(safe_merge, adapter_names)
