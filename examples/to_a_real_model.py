"""Train a pretrained chat model by GRPO: by default SmolLM2, on sums such as 7 + 5.

    make real                                                     SmolLM2 in runs/smollm2
    python examples/to_a_real_model.py --out runs/sums            run it again to go on after a Ctrl-C,
                                                                  with the settings of the first call

Your own model and data, a JSONL file of lines with a prompt and a number as answer:

    python examples/to_a_real_model.py --model my-model --data my.jsonl --out runs/mine --device cuda

    {"prompt": [{"role": "user", "content": "What is 7 + 5?"}], "answer": 12}
"""

import argparse
from pathlib import Path

import torch

from ppobook.language import evaluate, open_pretrained, train
from ppobook.language.records import records_of
from ppobook.language.sums import answer_is_right, chat_sums


def options(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--model", default="runs/smollm2", help="a folder, or a name on the hub")
    parser.add_argument("--data", help="a JSONL file; left out: sums")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--updates", type=int, default=20, help="of 32 answers each (20)")
    parser.add_argument("--max-new-tokens", type=int, default=16, help="the longest answer (16)")
    parser.add_argument("--lr", type=float, default=2e-4, help="learning rate (2e-4)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", default="float32", help="float32 or bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


def data_of(o: argparse.Namespace) -> tuple[list[dict], list[dict]]:
    """The rows to train on, and those held out: the first fifth of a file, at most 100."""
    if o.data is None:
        return chat_sums(seed=o.seed)
    rows = list(records_of(o.data).rows)
    held_out = min(100, len(rows) // 5)
    return rows[held_out:], rows[:held_out]


def report(name: str, model, tokenizer, rows: list[dict], o: argparse.Namespace) -> None:
    """Print the share of right answers, greedy and sampled, and some samples."""
    model.to(o.device)
    asked = {"reward_model": answer_is_right, "tokenizer": tokenizer, "seed": o.seed}
    asked |= {"max_new_tokens": o.max_new_tokens, "n": len(rows)}
    greedy = evaluate(model, rows, temperature=0.0, **asked)
    sampled = evaluate(model, rows, **asked)
    print(f"{name}: {greedy.numbers['reward']:.0%} right; sampled, {sampled.numbers['reward']:.0%}")
    for row, text in list(zip(rows, sampled.texts, strict=True))[:4]:
        print(f"    {row['answer']}: {text!r}")


def main(words: list[str] | None = None) -> None:
    """Evaluate, train, and evaluate again."""
    o = options(words)
    training, held_out = data_of(o)
    report("before", *open_pretrained(o.model, dtype=o.dtype), held_out, o)
    if any(o.out.glob("checkpoint-*")):
        run = train(resume=o.out, data=training, reward=answer_is_right, updates=o.updates)
    else:
        run = train(
            "grpo",
            o.model,
            training,
            reward=answer_is_right,
            lora={"r": 16, "alpha": 32},
            batch_size=32,
            group_size=8,
            max_new_tokens=o.max_new_tokens,
            lr=o.lr,
            updates=o.updates,
            dtype=o.dtype,
            device=o.device,
            seed=o.seed,
            num_threads=torch.get_num_threads(),
            out=o.out,
            checkpoint_every=10,
        )
    report("after", run.model, run.tokenizer, held_out, o)
    print(f"to write it for transformers: ppobook language export {o.out} FOLDER")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt as stopped:  # it says after which update, which is saved
        raise SystemExit(f"{str(stopped) or 'stopped'}; run the same command again to go on") from None
