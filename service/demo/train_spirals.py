"""Train a small neural network to tell points of ten spirals apart; an ordinary script.

The points are made here, and numpy is all that it needs.
"""

import argparse
import time

import numpy as np

SPIRALS, POINTS, BATCH, HIDDEN, RATE = 10, 20_000, 100, 128, 0.1


def spirals(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return points of as many interleaved spirals, each as eight features, and whose they are."""
    label = random.integers(SPIRALS, size=POINTS)
    radius = np.sqrt(random.random(POINTS))
    angle = 2 * np.pi * (label / SPIRALS + radius) + 0.1 * random.normal(size=POINTS)
    turns = [wave(n * angle) for n in (1, 2, 3) for wave in (np.sin, np.cos)]
    return np.stack([radius, 1 - radius, *turns], axis=1), label


def step(weights: list[np.ndarray], points: np.ndarray, label: np.ndarray) -> None:
    """Improve the weights by gradient descent on the cross-entropy of one batch."""
    hidden = np.maximum(points @ weights[0], 0)
    guess = np.exp(hidden @ weights[1])
    guess /= guess.sum(axis=1, keepdims=True)
    guess[np.arange(len(label)), label] -= 1
    back = (guess @ weights[1].T) * (hidden > 0)
    weights[1] -= RATE / len(label) * hidden.T @ guess
    weights[0] -= RATE / len(label) * points.T @ back


def train(seconds: float) -> None:
    """Train for that long [s] and print the accuracy on points that were held out."""
    random = np.random.default_rng(0)
    points, label = spirals(random)
    unseen, unseen_label = spirals(random)
    weights = [random.normal(size=shape) / 4 for shape in ((8, HIDDEN), (HIDDEN, SPIRALS))]
    epochs, end = 0, time.monotonic() + seconds
    while epochs == 0 or time.monotonic() < end:
        for batch in np.split(random.permutation(POINTS), POINTS // BATCH):
            step(weights, points[batch], label[batch])
        epochs += 1
    predicted = (np.maximum(unseen @ weights[0], 0) @ weights[1]).argmax(axis=1)
    accuracy = np.mean(predicted == unseen_label)
    print(f"{epochs} epochs of {POINTS} points, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to train [s]")
    train(parser.parse_args().seconds)
