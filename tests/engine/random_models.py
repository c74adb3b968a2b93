"""Tiny llama models with random weights. Under a grammar they write valid calls, in ever different tokens.

Rule: the same seed gives the same file, byte for byte; only numpy and gguf are needed.
"""

from pathlib import Path

import gguf
import numpy as np

from tests.engine.vocabulary import Vocabulary

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML without tools, as of the models that fcshim is made for."""

WIDTH, HIDDEN, BLOCKS, HEADS, KEY_HEADS = 64, 128, 2, 4, 2
TRAINED_CONTEXT = 8192


def write_random_model(path: Path, vocabulary: Vocabulary, seed: int = 1, *, infill: bool = False) -> None:
    """Write a GGUF file of about 0.3 MB that llama.cpp loads in 30 ms; with `infill`, it can fill in the middle."""
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, path.stem)
    _add_vocabulary(writer, vocabulary)
    if infill:
        for number, part in enumerate(("pre", "suf", "mid"), start=len(vocabulary.tokens) - 3):
            writer.add_uint32(f"tokenizer.ggml.fim_{part}_token_id", number)
    for name, tensor in _weights(len(vocabulary.tokens), np.random.default_rng(seed)).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter, name: str) -> None:
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(TRAINED_CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_vocabulary(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model(vocabulary.kind)
    writer.add_vocab_size(len(vocabulary.tokens))
    writer.add_token_list([token.text for token in vocabulary.tokens])
    writer.add_token_types([token.type for token in vocabulary.tokens])
    writer.add_bos_token_id(vocabulary.bos)
    writer.add_eos_token_id(vocabulary.eos)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    if vocabulary.merges:
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(vocabulary.merges)
    else:
        writer.add_token_scores([token.score for token in vocabulary.tokens])
        writer.add_add_space_prefix(False)


def _weights(tokens: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    def normal(rows: int, columns: int, scale: float) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * scale).astype(np.float16)

    ones = np.ones(WIDTH, np.float32)
    keys = WIDTH // HEADS * KEY_HEADS
    weights = {
        "token_embd.weight": normal(tokens, WIDTH, 1.0),
        "output_norm.weight": ones,
        # A small scale makes all tokens almost equally likely, so that every split into tokens occurs.
        "output.weight": normal(tokens, WIDTH, 0.12),
    }
    for block in range(BLOCKS):
        matrices = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (keys, WIDTH),
            "attn_v": (keys, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH),
            "ffn_down": (WIDTH, HIDDEN),
        }
        weights |= {f"blk.{block}.{name}.weight": ones for name in ("attn_norm", "ffn_norm")}
        weights |= {f"blk.{block}.{name}.weight": normal(*shape, shape[1] ** -0.5) for name, shape in matrices.items()}
    return weights
