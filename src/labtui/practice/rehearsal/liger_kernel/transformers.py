"""The fused loss, rehearsed."""

from __future__ import annotations

from typing import Any

import torch  # type: ignore[import-not-found]  # the rehearsed one, in front of all others


class LigerFusedLinearCrossEntropyLoss:
    def __call__(self, *_tensors: object) -> Any:
        return torch.zeros()
