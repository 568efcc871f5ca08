"""Make the folder that all contestants of the language race begin from, with this book's library.

    MODEL/            GPT-2 and its tokenizer, for SFT and DPO
    MODEL/sampled     the same, but it never ends: for all that sample, and write exactly 24 tokens so
    MODEL/reward_model    a GPT-2 that classifies sequences by one label, for PPO
    MODEL/*.pt        the same three as the library's own decoder
    MODEL/data.json   prompts, examples, pairs; and the words

Nobody pays for suppressing the end of a text: the last norm's first coordinate is made the constant 1, and
the words of end and padding have −100 there, where all others have 0. So their logits are −100, whatever was
said.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import common
import torch
from language import folder

from ppobook.language.hf import open_pretrained, save_pretrained
from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.language.rewards import RewardModel
from ppobook.language.serialization import describe
from ppobook.language.tokens import WordTokenizer
from ppobook.language.world import World


def never_ends(decoder: Decoder) -> Decoder:
    with torch.no_grad():
        decoder.ln_f.weight[0], decoder.ln_f.bias[0] = 0.0, 1.0
        decoder.wte.weight[:, 0] = 0.0
        decoder.wte.weight[[decoder.eos, decoder.pad], 0] = -100.0
    return decoder


def records(job: dict[str, Any], world: World, generator: torch.Generator) -> dict[str, Any]:
    """Prompts of the world's; examples and pairs of random words and the end."""
    words, prompts = world.tokenizer.words[2:], [*world.prompts] * (job["rows"] // len(world.prompts))

    def said() -> str:
        ids = torch.randint(len(words), (job["new_tokens"] - 1,), generator=generator).tolist()
        return " " + " ".join(words[i] for i in ids)

    return {
        "prompts": [{"prompt": prompt} for prompt in prompts],
        "examples": [{"prompt": prompt, "completion": said()} for prompt in prompts],
        "pairs": [{"prompt": prompt, "chosen": said(), "rejected": said()} for prompt in prompts],
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    world, place = World(), folder(job)
    shutil.rmtree(place, ignore_errors=True)
    tokenizer = WordTokenizer(world.tokenizer.words[2:])
    config = DecoderConfig(
        vocab_size=tokenizer.vocab_size,
        context=world.prompt_tokens()[0].shape[1] + job["new_tokens"],
        layers=job["layers"],
        width=job["width"],
        eos=tokenizer.eos,
        pad=tokenizer.pad,
    )
    decoder, sampled = Decoder(config, seed=1), never_ends(Decoder(config, seed=1))
    save_pretrained(decoder, place, tokenizer)
    save_pretrained(sampled, place / "sampled", tokenizer)
    body, theirs = open_pretrained(place)
    reward_models = [RewardModel(body, "last", bias=False), Scalar(decoder, bias=False)]
    for reward_model in reward_models:
        torch.nn.init.normal_(reward_model.output.weight, generator=torch.Generator().manual_seed(2))
    save_pretrained(reward_models[0], place / "reward_model", theirs)
    for name, model in (("decoder", decoder), ("sampled", sampled), ("reward_model", reward_models[1])):
        saved = {"architecture": describe(model), "weights": model.state_dict()}
        torch.save(saved, place / f"{name}.pt")
    data = records(job, world, torch.Generator().manual_seed(3))
    data["words"] = list(tokenizer.words[2:])
    (place / "data.json").write_text(json.dumps(data, indent=1) + "\n")
    return {}


if __name__ == "__main__":
    common.main(run)
