"""Small models and tokenizers of transformers for the tests of ppobook.language."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from ppobook.language import hf
from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import Completions, left_pad, right_pad

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "say", ":", "the", "a", "fox", "owl", "hen"]
WORDS += ["sings", "sits", "runs", "by", "barn", "lake", "mill", "."]
V = len(WORDS)
PAD, BOS, EOS = 0, 1, 2
ROWS = [[5, 9, 6, 12], [7], [4, 4, 11, 10, 8, 13, 15], [16, 5]]
CHAT = (
    "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)


def words(eos="</s>", pad="<pad>", bos="<s>", template=None, begins=False, vocabulary=WORDS):
    """A tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if begins:
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=eos, pad_token=pad, bos_token=bos, unk_token="<unk>"
    )
    made.chat_template = template
    return made


def sizes_of(kind, **changes):
    if kind == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
        return {"vocab_size": V, **sizes, "bos_token_id": BOS, "eos_token_id": EOS, **changes}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    more = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 40}
    ids = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    return {"vocab_size": V, **sizes, **more, **ids, **changes}


def net_of(kind, seed=0, scale=0.15, task="AutoModelForCausalLM", **changes):
    """A model of transformers whose weights are far from their initialization."""
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(kind, **sizes_of(kind, **changes))
        net = getattr(transformers, task).from_config(config)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += scale * torch.randn(parameter.shape)
    return net.eval()


def save_letters(folder, template=None):
    """A folder with a model of transformers, small and new, and a tokenizer of letters."""
    import tokenizers
    import transformers

    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    ids = {letter: i for i, letter in enumerate(["<pad>", "<eos>", *letters])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(ids, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>"
    )
    tokenizer.chat_template = template
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    special = {"bos_token_id": None, "eos_token_id": ids["<eos>"], "pad_token_id": ids["<pad>"]}
    config = transformers.LlamaConfig(vocab_size=len(ids), max_position_embeddings=128, **sizes, **special)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


KINDS = ["gpt2", "llama"]


def assert_close(mine, theirs):
    """Equal but for rounding: GPT-2 in its fast form adds up in another order."""
    tolerance = 1e-9 if theirs.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def opened(net, **how):
    return hf.open_pretrained(net, words(), **how)[0]


def as_decoder(net):
    """GPT-2 of transformers as our decoder, with the same weights."""
    c, weights = net.config, net.transformer.state_dict()
    sizes = c.vocab_size, c.n_positions, c.n_layer, c.n_embd, c.n_head
    decoder = Decoder(DecoderConfig(*sizes, eos=EOS, pad=PAD))
    names = {name: hf._gpt2_name(name) for name in decoder.state_dict()}
    decoder.load_state_dict({name: hf._transposed(name, weights[theirs]) for name, theirs in names.items()})
    return decoder


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def own(net, row):
    """Logits by transformers for a row alone, without padding."""
    return net(input_ids=torch.tensor([row])).logits[0]


def some_completions(n=6, prompt=3, length=5, seed=0):
    """Completions of random words; every other one has ended."""
    g = seeded(seed)
    prompts = [torch.randint(4, V, (1 + i % prompt,), generator=g).tolist() for i in range(n)]
    rows = [torch.randint(4, V, (1 + (3 * i) % length,), generator=g).tolist() for i in range(n)]
    rows = [[*row, EOS] if i % 2 else row for i, row in enumerate(rows)]
    tokens, mask = right_pad(rows, PAD)
    ended = torch.arange(n) % 2 == 1
    return Completions(*left_pad(prompts, PAD), tokens, mask, torch.zeros(tokens.shape), ended)


def scattered(rows, columns, seed=0, junk=None):
    """Rows of ids at random columns, where padding holds `junk`."""
    g = seeded(seed)
    tokens = torch.randint(0, V, (len(rows), columns), generator=g)
    tokens = tokens if junk is None else torch.full_like(tokens, junk)
    mask = torch.zeros(len(rows), columns, dtype=torch.bool)
    for b, row in enumerate(rows):
        places = torch.randperm(columns, generator=g)[: len(row)].sort().values
        tokens[b, places], mask[b, places] = torch.tensor(row), True
    return tokens, mask


def rough_reward_model(net, tokenizer, **how):
    model, tokenizer = hf.open_pretrained(net, tokenizer)
    reward_model = RewardModel(model, "last", **how)
    with torch.no_grad():
        for parameter in reward_model.output.parameters():
            parameter.normal_(generator=seeded(5))
        reward_model.zero.fill_(0.375)
    return reward_model, tokenizer


def scored(transformers, folder, completions, pad, left):
    """Score completions with transformers, padded in its own way."""
    net = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    c = completions
    rows = [i[m].tolist() for i, m in zip(c.inputs, c.input_mask, strict=True)]
    tokens, mask = (left_pad if left else right_pad)(rows, pad)
    assert net.config.num_labels == 1
    with torch.no_grad():
        return net(input_ids=tokens, attention_mask=mask.long()).logits.squeeze(1), net.config


def roughen(model, seed=1, scale=0.2):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=seeded(seed), dtype=parameter.dtype)
    return model


# Prompts with a column for reward functions.
ASKED = [{"prompt": f"say {noun} :", "kind": noun} for noun in ("fox", "owl", "hen")]
PADDINGS = {
    "left": lambda: left_pad(ROWS, PAD),
    "right": lambda: right_pad(ROWS, PAD),
    "anywhere": lambda: scattered(ROWS, 11),
}
