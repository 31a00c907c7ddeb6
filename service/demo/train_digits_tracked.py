"""Train a small neural network on handwritten digits; the tracked twin of train_digits.py.

The data are the 1797 images of 8x8 pixels that scikit-learn carries (UCI ML hand-written digits).
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from gramwatt import track


def shifted(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the same digits moved by up to one pixel each way, so that no two epochs are alike."""
    moves = tuple(random.integers(-1, 2, size=2))
    return np.roll(images.reshape(-1, 8, 8), moves, axis=(1, 2)).reshape(images.shape)


@track(project="demo", name="digits, decorated", unit="image")
def train(seconds: float) -> None:
    """Train for that long [s] and print the accuracy on images that were held out."""
    images, digits = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, digits, test_size=0.2, random_state=0)
    known, unseen, known_digits, unseen_digits = split
    model = MLPClassifier(hidden_layer_sizes=(256, 128), random_state=0)
    random = np.random.default_rng(0)
    epochs, end = 0, time.monotonic() + seconds
    while epochs == 0 or time.monotonic() < end:
        model.partial_fit(shifted(known, random), known_digits, classes=range(10))
        epochs += 1
        with track() as job:  # the job that runs already
            job.count(len(known))
    accuracy = model.score(unseen, unseen_digits)
    print(f"{epochs} epochs of {len(known)} images, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to train [s]")
    train(parser.parse_args().seconds)
