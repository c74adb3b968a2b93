"""The command of the recipe: trains the tokenizer and the model, and exports them.

Rule: it writes only below `--out`.
"""

import argparse
import logging
from pathlib import Path

import torch

from fcshim.demo.recipe.export import export
from fcshim.demo.recipe.train import TrainingPlan, train, train_tokenizer


def main() -> None:
    """Train the model and write `tiny.gguf`."""
    parser = argparse.ArgumentParser(prog="python -m fcshim.demo.recipe", description="Train the tiny model.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint and tiny.gguf")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=768)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    tokenizer = train_tokenizer(options.vocabulary)
    tokenizer.save(str(options.out / "tokenizer.json"))
    model = train(tokenizer, TrainingPlan(options.minutes, options.seed), options.out / "weights.pt")
    export(model, tokenizer, options.out / "tiny.gguf")


if __name__ == "__main__":
    main()
