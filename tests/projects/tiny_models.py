"""Tiny models with random weights, and a project whose questions they can learn to answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from command_line import ragwright

ANIMALS = ["dog", "cat", "horse", "cow", "sheep", "goat", "bird", "fish", "snake", "frog"]
ANIMALS += ["bear", "wolf"]
COLOURS = ["red", "blue", "green", "black", "white", "brown", "yellow", "orange", "purple", "grey"]
NOISE = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "on", "with", "as", "by"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_.?#:,"

SETTINGS = "sources: [docs]\nembed: {model: 'st:tiny'}\nretrieve: {search: dense}\n"


def write_bert(folder: Path) -> Path:
    """Write a BERT of one layer with random weights, whose words are those of the project."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = [*ANIMALS, *COLOURS, *NOISE, *_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys([*specials, *words]))}
    tokenizer = BertTokenizerFast(vocab=vocabulary, model_max_length=128)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_embedder(folder: Path) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    bert = write_bert(folder / "bert")
    layers = [modules.Transformer(str(bert), max_seq_length=64), modules.Pooling(32)]
    SentenceTransformer(modules=layers).save(str(folder / "model"), create_model_card=False)
    return folder / "model"


def write_project(root: Path) -> None:
    """Write texts with an animal and a colour among other words; questions name both."""
    (root / "docs").mkdir()
    (root / "testsets").mkdir()
    (root / "ragwright.yaml").write_text(SETTINGS)
    drawn = random.Random(0)
    right: list[dict[str, Any]] = []
    for animal in ANIMALS:
        for colour in COLOURS:
            name = f"{animal}-{colour}"
            words = [*drawn.choices(NOISE, k=6), colour, animal, *drawn.choices(NOISE, k=6)]
            (root / f"docs/{name}.txt").write_text(" ".join(words))
            asked = [*drawn.choices(NOISE, k=2), animal, colour, *drawn.choices(NOISE, k=2)]
            row = {"id": name, "user_input": " ".join(asked)}
            right.append({**row, "reference_ids": [f"docs/{name}.txt"]})
    shuffled = drawn.sample([row["reference_ids"] for row in right], len(right))
    wrong = [{**row, "reference_ids": ids} for row, ids in zip(right, shuffled, strict=True)]
    for file, rows in (("right", right), ("wrong", wrong), ("few", right[:20])):
        (root / f"testsets/{file}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(root, "ingest", "-q")
