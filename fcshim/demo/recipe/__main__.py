"""The command of the recipe: trains the tokenizer and the model, and exports them as a GGUF file.

Rule: it writes only below `--out`. The file has everything that a runtime needs: sizes, vocabulary, merges, chat
template, and the prompts' hash; llama architecture, matrices in Q8_0, vectors in float32.
"""

import argparse
import json
import logging
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from fcshim.demo import fingerprint
from fcshim.demo.chatml import CLOSE, END_OF_TEXT, SPECIAL_TOKENS, TEMPLATE
from fcshim.demo.recipe.network import Network, NetworkShape
from fcshim.demo.recipe.train import TrainingPlan, train, train_tokenizer

Q8_0 = gguf.GGMLQuantizationType.Q8_0
CONTEXT = 4096
"""More than the length of the training data: long conversations get worse results instead of an error."""


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


def export(model: Network, tokenizer: Tokenizer, path: Path) -> None:
    """Write the model and the tokenizer to a GGUF file."""
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, model.shape)
    _add_vocabulary(writer, tokenizer)
    for name, weight in model.state_dict().items():
        values = weight.float().numpy()
        if values.ndim == 1:
            writer.add_tensor(name, values.astype(np.float32))
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, Q8_0), raw_dtype=Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter, shape: NetworkShape) -> None:
    writer.add_name("fcshim-tiny")
    writer.add_description("Copies tool names and arguments from a command into calls; made by fcshim/demo/recipe.")
    writer.add_license("Apache-2.0")
    writer.add_string(fingerprint.KEY, fingerprint.prompt_sha256())
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_vocab_size(shape.vocabulary)


def _add_vocabulary(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL_TOKENS else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(tokens.index(END_OF_TEXT))
    writer.add_eos_token_id(tokens.index(CLOSE))
    writer.add_add_bos_token(value=False)
    writer.add_chat_template(TEMPLATE)


if __name__ == "__main__":
    main()
