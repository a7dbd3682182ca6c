"""Tiny randomly initialised models of the families that the recorder is tested with."""

from typing import Any

SHAPE = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
EIGHT = {"num_experts": 8, "num_experts_per_tok": 3}
LOCAL = {"num_local_experts": 8, "num_experts_per_tok": 3}
ROUTED = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
}
LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}
SMALL = {"moe_intermediate_size": 16}
SHARED = {"shared_expert_intermediate_size": 24}
LINEAR = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
MAMBA = {
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 0,
    "num_hidden_layers": 4,
    "use_mamba_kernels": False,
    "mamba_d_state": 4,
    "mamba_d_conv": 2,
    "mamba_dt_rank": 4,
}
FULL = {"layer_types": ["full_attention"] * 3}

HASHED = {
    "num_experts_per_tok": 3,
    "n_routed_experts": 8,
    "head_dim": 16,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_lora_rank": 8,
    "o_groups": 2,
    "num_key_value_heads": 1,
    "moe_intermediate_size": 16,
    "index_n_heads": 2,
    "index_head_dim": 8,
    "index_topk": 4,
    "sliding_window": 16,
    "num_hash_layers": 1,
    "mlp_layer_types": ["hash_moe", "moe", "moe"],
    "layer_types": [
        "heavily_compressed_attention",
        "heavily_compressed_attention",
        "compressed_sparse_attention",
    ],
    "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
}

FAMILIES: dict[str, dict[str, Any]] = {
    "mixtral": LOCAL,
    "qwen2_moe": EIGHT | SMALL | SHARED,
    "qwen3_moe": EIGHT | SMALL,
    "qwen3_next": EIGHT | SMALL | SHARED | LINEAR,
    "olmoe": EIGHT,
    "gpt_oss": LOCAL | FULL,
    "deepseek_v2": ROUTED | LATENT | {"topk_method": "greedy"},
    "deepseek_v3": ROUTED | LATENT | {"n_group": 2},
    "deepseek_v4": HASHED,
    "granitemoe": LOCAL,
    "phimoe": LOCAL | {"num_experts_per_tok": 2},
    "llama4_text": LOCAL
    | {"num_experts_per_tok": 1, "intermediate_size_mlp": 48, "interleave_moe_layer_step": 1},
    "jamba": EIGHT | MAMBA,
    "jetmoe": LOCAL | {"num_experts_per_tok": 2, "kv_channels": 8},
    "glm4_moe": ROUTED,
    "ernie4_5_moe": SMALL
    | {"moe_num_experts": 8, "moe_k": 3, "moe_num_shared_experts": 1, "moe_layer_start_index": 1},
    "gemma4_text": SMALL
    | FULL
    | {
        "enable_moe_block": True,
        "num_experts": 8,
        "top_k_experts": 3,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "global_head_dim": 8,
    },
}


def tiny(family: str, seed: int = 0, **more: Any) -> Any:
    """A model of a family; every parameter is random, selection biases too, so that routing is uneven.

    Skips the test where this transformers does not know the family or its options.
    """
    import pytest
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    try:
        config = AutoConfig.for_model(family, **SHAPE | FAMILIES[family] | more)
        model = AutoModelForCausalLM.from_config(config)
    except (ValueError, TypeError, AttributeError, KeyError) as problem:
        pytest.skip(f"this transformers has no tiny {family}: {problem}")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
            elif not torch.isfinite(parameter).all():
                parameter.normal_(std=0.1)
        for name, value in [*model.named_buffers(), *model.named_parameters()]:
            if "correction_bias" in name:
                value.normal_(std=0.2)
            elif "tid2eid" in name:  # each token's experts
                value.copy_(torch.rand(value.shape[0], 8).argsort(dim=1)[:, : value.shape[1]])
    model.eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model
