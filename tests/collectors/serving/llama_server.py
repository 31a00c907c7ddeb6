"""llama.cpp's own server on a model of random weights: `python -m ... PORT MODEL`, until killed.

The model has one layer and answers at once; what matters is that its counters are the real ones.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, CONTEXT = 64, 4, 512
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def write_model(path: Path) -> None:
    """Write a llama model of one layer, with a vocabulary of bytes."""
    tokens = ["<unk>", "<s>", "</s>", *BYTE_TOKENS]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * len(BYTE_TOKENS))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    for name, shape in _shapes(len(tokens)).items():
        draw = np.random.default_rng(len(name))
        random = (draw.standard_normal(shape) * 0.05).astype(np.float32)
        writer.add_tensor(f"{name}.weight", random if len(shape) > 1 else np.ones_like(random))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    square = (WIDTH, WIDTH)
    inner = {name: square for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
    norms = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
    forward = {"ffn_gate": (2 * WIDTH, WIDTH), "ffn_up": (2 * WIDTH, WIDTH)}
    block = {**inner, **norms, **forward, "ffn_down": (WIDTH, 2 * WIDTH)}
    ends = {"token_embd": (vocabulary, WIDTH), "output": (vocabulary, WIDTH)}
    return {**ends, "output_norm": (WIDTH,), **{f"blk.0.{name}": s for name, s in block.items()}}


def main() -> None:
    """Serve until the process is killed."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.port, params.model.path = int(sys.argv[1]), sys.argv[2]
    params.endpoint_metrics, params.n_ctx, params.n_parallel = True, CONTEXT, 2
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
