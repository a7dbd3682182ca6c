"""Train a small mixture-of-experts model on the Python library's own text and record its routing.

How ``traces/py64-loop`` and ``traces/py64-spec`` were made, whole, before they were cut. Needs the extra ``record``
and a GPU; ``--tiny`` runs all of it in a minute on a processor. Only routing is recorded: no token, no text.

    python traces/record_small_moe.py OUT [--library DIR] [--steps N] [--tiny]
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3MoeConfig

import replay

VOCABULARY = 4096
LENGTH = 512  # tokens of a training row
HELD_OUT = 20  # one file in so many is kept from training
PROMPT, NEW = 48, 64  # tokens of a session
ARENA = replay.Arena(slots=160, bonus=0.85, protect=3)
NOTES = (
    "12 layers of 64 experts, top-6, hidden width 384, experts of width 128; trained from scratch for this project on "
    "the sources and documentation of the Python standard library (PSF licence); only its routing is recorded",
)


def texts(library: Path) -> Iterator[tuple[str, str, str]]:
    """Give name, kind (``code`` or ``docs``) and text of what a Python's standard library holds."""
    for path in sorted(library.rglob("*.py")):
        if {"site-packages", "dist-packages", "encodings"} & set(path.parts):
            continue
        text = path.read_text("utf-8", errors="ignore")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        if path.name == "topics.py":  # the language reference, as help() shows it: one dictionary
            for name, topic in ast.literal_eval(tree.body[-1].value).items():
                yield f"topic {name}", "docs", topic
            continue
        yield f"code {path.relative_to(library)}", "code", text
        kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
        said = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
        yield f"docs {path.relative_to(library)}", "docs", "\n\n".join(each for each in said if each)


def corpus(library: Path, limit: int) -> tuple[torch.Tensor, dict[str, list[torch.Tensor]]]:
    """Make a tokenizer; give the training tokens in one row and the held-out texts of each kind."""
    kept, train = {"code": [], "docs": []}, []
    for name, kind, text in texts(library):
        held = int(hashlib.sha256(name.split(" ", 1)[1].encode()).hexdigest(), 16) % HELD_OUT == 0
        if held and len(text) > 1000:
            kept[kind].append(text)
        elif text and not held:
            train.append(text)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        train[:limit],
        trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<end>"], show_progress=False),
    )
    rows = [each.ids + [0] for each in tokenizer.encode_batch(train[:limit])]
    ids = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
    tokens = {kind: [torch.tensor(each.ids) for each in tokenizer.encode_batch(kept[kind])] for kind in kept}
    return ids, tokens


def model_of(kind: str, tiny: bool, device: str) -> Any:
    """Make the mixture (``moe``) or the dense drafter (``drafter``), untrained."""
    shape = {"vocab_size": VOCABULARY, "max_position_embeddings": 1024, "tie_word_embeddings": True}
    shape |= {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    if kind == "drafter":
        width = 64 if tiny else 256
        config = Qwen3Config(
            **shape, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=width // 4,
        )  # fmt: skip
    else:
        width = 48 if tiny else 384
        config = Qwen3MoeConfig(
            **shape, hidden_size=width, intermediate_size=width, num_hidden_layers=3 if tiny else 12,
            num_attention_heads=6, num_key_value_heads=2, head_dim=width // 6, num_experts=64, num_experts_per_tok=6,
            moe_intermediate_size=16 if tiny else 128, norm_topk_prob=True, output_router_logits=True,
            router_aux_loss_coef=0.02,
        )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    return model.to(device, torch.float32 if device == "cpu" else torch.bfloat16)


def batches(ids: torch.Tensor, rows: int) -> Iterator[torch.Tensor]:
    """Cut the tokens into rows, anew in every epoch, without end."""
    while True:
        start = int(torch.randint(LENGTH, (1,)))
        whole = ids[start : start + (len(ids) - start) // LENGTH * LENGTH].reshape(-1, LENGTH)
        for part in torch.randperm(len(whole)).split(rows):
            if len(part) == rows:
                yield whole[part].long()


def train(model: Any, ids: torch.Tensor, rows: int, steps: int, seconds: float) -> None:
    """Train with AdamW on float32 copies of the parameters, for so many steps or seconds.

    The learning rate rises over 100 steps, then falls as a cosine.
    """
    masters = [each.detach().float().clone() for each in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1.0, betas=(0.9, 0.95), weight_decay=0.1)
    begun = time.monotonic()
    model.train()
    for step, batch in zip(range(steps), batches(ids, rows), strict=False):
        done = max(step / steps, (time.monotonic() - begun) / seconds)
        if done > 1:
            break
        rise = min(1.0, (step + 1) / 100)
        rate = 2e-3 * rise * (0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * done)))
        batch = batch.to(model.device)
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for master, parameter in zip(masters, model.parameters(), strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.float()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters(), strict=True):
                parameter.copy_(master)
        model.zero_grad(set_to_none=True)
        if step % 100 == 0:
            print(f"step {step} of {steps}: {loss.item():.3f}, {time.monotonic() - begun:.0f} s", flush=True)
    model.eval()
    model.config.output_router_logits = False


@torch.no_grad()
def held_out_loss(model: Any, texts: list[torch.Tensor]) -> float:
    """Mean loss a token (nats) over the beginnings of the held-out texts."""
    rows = [each[:LENGTH] for each in texts if len(each) >= LENGTH][:64] or [each[:64] for each in texts[:8]]
    losses = []
    for row in rows:
        row = row[None].to(model.device)
        losses.append(float(model(input_ids=row, labels=row, use_cache=False).loss))
    return sum(losses) / len(losses)


def prompts(held: dict[str, list[torch.Tensor]], count: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Take prompts from held-out texts, code and documentation by turns."""
    for i in range(count):
        kind = ("code", "docs")[i % 2]
        text = held[kind][i // 2 % len(held[kind])]
        start = len(text) // 3
        yield kind, text[start : start + PROMPT][None]


def record(model: Any, path: Path, held: dict[str, list[torch.Tensor]], count: int, **more: Any) -> float:
    """Record so many sessions; returns tokens a second. ``drafter``: assisted generation."""
    drafter, arena = more.pop("drafter", None), more.pop("arena", None)
    sampled = {"do_sample": True, "temperature": 0.8, "top_k": 0, "max_new_tokens": NEW} | more
    sampled |= {} if drafter is None else {"assistant_model": drafter}
    begun = time.monotonic()
    recorder = replay.record(
        model, path, name="qwen3moe-12x64-top6 trained on the Python library", licence="ours, Apache-2.0",
        notes=NOTES, timing=arena is not None, arena=arena,
    )  # fmt: skip
    with recorder:
        for seed, (kind, prompt) in enumerate(prompts(held, count)):
            torch.manual_seed(seed)
            with recorder.session(domain=kind):
                model.generate(prompt.to(model.device), **sampled)
    return count * NEW / (time.monotonic() - begun)


def plain_speed(model: Any, held: dict[str, list[torch.Tensor]], count: int) -> float:
    """Tokens a second without a recorder."""
    begun = time.monotonic()
    for seed, (_, prompt) in enumerate(prompts(held, count)):
        torch.manual_seed(seed)
        prompt = prompt.to(model.device)
        model.generate(prompt, do_sample=True, temperature=0.8, top_k=0, max_new_tokens=NEW)
    return count * NEW / (time.monotonic() - begun)


def main() -> None:
    """Train, measure, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="a model and a text for trying the script out")
    parser.add_argument("--library", type=Path, default=Path(sysconfig.get_path("stdlib")))
    parser.add_argument("--steps", type=int, default=3000, help="of 16 rows of 512 tokens")
    parser.add_argument("--seconds", type=float, default=300, help="of training at most")
    parser.add_argument("--sessions", type=int, default=16)
    given = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given.out.mkdir(parents=True, exist_ok=True)
    ids, held = corpus(given.library, 60 if given.tiny else 10**9)
    print(f"{len(ids)} tokens, { ({kind: len(each) for kind, each in held.items()}) } held out", flush=True)
    made, losses = {}, {}
    for kind in ("drafter", "moe"):
        made[kind] = model_of(kind, given.tiny, device)
        train(made[kind], ids, 4 if given.tiny else 16, 20 if given.tiny else given.steps, given.seconds)
        losses[kind] = {of: held_out_loss(made[kind], each) for of, each in held.items()}
        print(kind, losses[kind], flush=True)
    model, drafter = made["moe"], made["drafter"]
    for each in (model, drafter):
        each.generation_config.pad_token_id = 0
        each.generation_config.eos_token_id = None
    drafter.generation_config.update(
        num_assistant_tokens=3, num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0
    )
    count = given.sessions
    plain_speed(model, held, 2)
    speed = {"plain": plain_speed(model, held, count)}
    speed["recorded"] = record(model, given.out / "py64-open", held, count)
    speed["closed loop"] = record(model, given.out / "py64-loop", held, count, arena=ARENA)
    speed["drafts"] = record(
        model, given.out / "py64-spec", held, count, drafter=drafter, arena=replay.Arena(160)
    )
    speed["plain again"] = plain_speed(model, held, count)
    told = {"tokens": len(ids), "held_out_loss": losses, "tokens_per_second": speed, "device": device}
    (given.out / "made.json").write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
