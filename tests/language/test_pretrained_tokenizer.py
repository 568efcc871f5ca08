"""Tokenizers of transformers."""

import io

import pytest
import torch
from small_pretrained import BOS, CHAT, EOS, PAD, words

from ppobook.language.pretrained_tokenizer import build_tokenizer, open_tokenizer


def test_text_and_back(transformers):
    tokenizer = open_tokenizer(words())
    ids = tokenizer.encode("say fox :")
    assert ids == [4, 8, 5]
    assert tokenizer.begin == []
    assert tokenizer.decode([PAD, PAD, *ids, EOS]) == "say fox : </s>"
    assert not hasattr(tokenizer, "apply_chat_template")
    begun = open_tokenizer(words(begins=True))
    assert begun.begin == [BOS]
    assert begun.encode("say fox :") == begun.encode("<s> say fox :") == [BOS, 4, 8, 5]
    assert begun.decode([BOS, 4, 8, 5]) == "say fox :"
    processors = pytest.importorskip("tokenizers.processors")
    theirs = words(bos=None)
    parts = [("<unk>", theirs.unk_token_id), ("<s>", BOS)]
    two = processors.TemplateProcessing(single="<unk> <s> $A </s>", special_tokens=[*parts, ("</s>", EOS)])
    theirs.backend_tokenizer.post_processor = two
    # The order of a vocabulary is random.
    theirs.get_vocab = lambda: dict(sorted(words().get_vocab().items(), key=lambda word: word[1] != BOS))
    assert open_tokenizer(theirs).encode("say fox :") == [theirs.unk_token_id, BOS, 4, 8, 5]


def test_a_pad_that_is_missing_is_the_end(transformers):
    tokenizer = open_tokenizer(words(pad=None))
    assert tokenizer.pad == tokenizer.eos == EOS
    assert tokenizer.decode([4, 8, EOS]) == "say fox </s>"
    with pytest.raises(ValueError, match="tokenizer must have an eos_token"):
        open_tokenizer(words(eos=None))


def test_chat_templates(transformers):
    tokenizer = open_tokenizer(words(template=CHAT))
    asked = [{"role": "say", "content": "fox"}]
    ids = tokenizer.apply_chat_template(asked, tokenize=True, add_generation_prompt=False)
    assert list(ids["input_ids"]) == [4, 5, 8, EOS]


@pytest.mark.parametrize("how", [{}, {"begins": True, "template": CHAT}, {"pad": None}])
def test_a_tokenizer_is_made_again_from_its_description(transformers, how):
    tokenizer = open_tokenizer(words(**how))
    stored = io.BytesIO()
    torch.save(tokenizer.description(), stored)
    stored.seek(0)
    again = build_tokenizer(torch.load(stored, weights_only=True))
    for name in ("vocab_size", "eos", "pad", "begin"):
        assert getattr(again, name) == getattr(tokenizer, name)
    assert again.encode("say fox : the hen") == tokenizer.encode("say fox : the hen")
    assert again.tokenizer.chat_template == tokenizer.tokenizer.chat_template


def test_a_strangers_tokenizer_writes_nowhere_else(transformers, tmp_path):
    for name in ("../out.json", str(tmp_path / "out.json"), "a/../../out.json"):
        with pytest.raises(ValueError, match="files must be inside its folder, got"):
            build_tokenizer({"kind": "transformers", "files": {name: "{}"}})
    assert not (tmp_path / "out.json").exists()
