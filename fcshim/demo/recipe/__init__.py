"""Trains `tiny.gguf`: tokenizer, model, training, export. Not part of the wheel, and not run in CI.

    pip install torch==2.13.0 tokenizers && pip install fcshim[demo]
    python -m fcshim.demo.recipe --out build/tiny --minutes 25 --threads 2

writes `build/tiny/tiny.gguf` (25 minutes on two threads of a server CPU); copy it over `fcshim/demo/tiny.gguf`
and run `python -m fcshim.demo.evaluate`. Only this folder may import torch and tokenizers.

Rule: the data come from `fcshim.demo.conversations`, so a change of the prompt templates requires new training.
"""
