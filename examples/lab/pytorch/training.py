"""One training step: forward, loss, backward, update; the unit that is timed."""

from typing import Any

import torch
from torch import Tensor

from models.spec import Batch, Objective, Spec
from precision import Precision, autocast, scaler, update

LEARNING_RATE = 3e-4
SEED = 0


class CountedAdamW(torch.optim.AdamW):
    """AdamW that counts its updates: `GradScaler` does not say which ones it skipped."""

    updates = 0

    def step(self, closure=None):
        self.updates += 1
        return super().step(closure)


class Training:
    """A seeded model with its optimizers, one per objective, under one precision."""

    def __init__(self, spec: Spec, config: Any, precision: Precision, device: torch.device) -> None:
        torch.manual_seed(SEED)
        self.model = spec.build(config).to(device).train()
        self.objectives = spec.objectives
        self.optimizers = [
            CountedAdamW(goal.part(self.model).parameters(), lr=LEARNING_RATE)
            for goal in spec.objectives
        ]
        self.precision = precision
        self.device = device
        self.scaler = scaler(precision, device)
        self.skipped_steps = 0

    def step(self, batch: Batch) -> Tensor:
        """Updates by every objective and returns the first one's loss, still on the device."""
        before = self._updates()
        pairs = zip(self.objectives, self.optimizers)
        losses = [self._update(goal, optimizer, batch) for goal, optimizer in pairs]
        update(self.scaler, self.precision)
        self.skipped_steps += self._updates() - before < len(self.objectives)
        return losses[0]

    def _update(self, goal: Objective, optimizer: CountedAdamW, batch: Batch) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with autocast(self.precision, self.device):
            loss = goal.loss(self.model, batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        goal.after(self.model)
        return loss.detach()

    def _updates(self) -> int:
        return sum(optimizer.updates for optimizer in self.optimizers)

    @property
    def loss_scale(self) -> float:
        """The scale now, 1 where there is none; incurs a device sync."""
        return self.scaler.get_scale()


def make_batch(
    spec: Spec, config: Any, batch_size: int, device: torch.device, seed: int = SEED
) -> Batch:
    """The fixed synthetic batch, drawn on the CPU, so that it is the same for every device."""
    batch = spec.batch(config, batch_size, torch.Generator().manual_seed(seed))
    return {name: tensor.to(device) for name, tensor in batch.items()}
