"""Processes that work together, where the user has started them: torchrun and torch.distributed."""

from __future__ import annotations

import sys
from typing import Any, List, Optional


class Team:
    """The processes of torch.distributed's default group, as the core's teams are."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.rank = int(torch.distributed.get_rank())
        self.size = int(torch.distributed.get_world_size())

    def exchange(self, mine: bytes) -> List[bytes]:
        """What every process hands over, by rank."""
        distributed = self._torch.distributed
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        sizes = [self._torch.zeros(1, dtype=self._torch.int64, device=device)
                 for _ in range(self.size)]
        distributed.all_gather(sizes, self._torch.tensor([len(mine)], device=device))
        longest = max(int(size) for size in sizes)
        padded = self._torch.zeros(max(1, longest), dtype=self._torch.uint8, device=device)
        if mine:
            padded[:len(mine)] = self._torch.frombuffer(bytearray(mine), dtype=self._torch.uint8)
        parts = [self._torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        return [bytes(part[:int(size)].cpu().numpy().tobytes())
                for part, size in zip(parts, sizes)]


def started_team() -> Optional[Team]:
    """The team of this process, or none where it is alone."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Team(torch) if distributed.get_world_size() > 1 else None
