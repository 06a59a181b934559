"""A small torch model of handwritten digits, trained in a few seconds on the CPU, always to the same weights.

An image of 8x8 pixels is read as eight tokens, its rows. One block of attention and one of feed-forward, both with a
layer norm before and a residual around; all tokens together are classified.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

ROWS, PIXELS, WIDTH, HIDDEN, CLASSES = 8, 8, 32, 64, 10
EPOCHS, BATCH, LEARNING_RATE, SEED = 15, 64, 1e-2, 0


class DigitClassifier(nn.Module):
    """Images `[n, 8, 8]` with pixels from 0 to 1 → logits `[n, 10]`."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(PIXELS, WIDTH)
        self.position = nn.Parameter(torch.randn(ROWS, WIDTH) * 0.1)
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.hidden_norm = nn.LayerNorm(WIDTH)
        self.expand = nn.Linear(WIDTH, HIDDEN)
        self.contract = nn.Linear(HIDDEN, WIDTH)
        self.classify = nn.Linear(ROWS * WIDTH, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.embed(images) + self.position
        y = self.attention_norm(x)
        weights = functional.softmax(self.query(y) @ self.key(y).mT / WIDTH**0.5, dim=-1)
        x = x + self.mix(weights @ self.value(y))
        x = x + self.contract(functional.gelu(self.expand(self.hidden_norm(x))))
        return self.classify(x.flatten(1))


@dataclass(frozen=True)
class Digits:
    """The data set, split: images `[n, 8, 8]` float32 from 0 to 1, labels `[n]`."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def load() -> Digits:
    """scikit-learn's bundled digits, 1797 scans; a quarter of them for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    numbers = list(range(len(labels)))
    train, test = train_test_split(numbers, test_size=0.25, random_state=SEED, stratify=digits.target)
    return Digits(images[train], labels[train], images[test], labels[test])


def train(digits: Digits, epochs: int = EPOCHS) -> DigitClassifier:
    """The trained model, in evaluation mode."""
    torch.manual_seed(SEED)
    model = DigitClassifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, epochs=epochs, steps_per_epoch=-(-len(digits.train_labels) // BATCH)
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with _one_thread(), Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for _ in progress.track(range(epochs), description="training with torch"):
            for chosen in torch.randperm(len(digits.train_labels)).split(BATCH):
                loss = functional.cross_entropy(model(digits.train_images[chosen]), digits.train_labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return model.eval()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches this small gain nothing from more, and lose much where another program wants the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images whose largest logit is their label's."""
    return (logits.argmax(1) == labels).float().mean().item()
