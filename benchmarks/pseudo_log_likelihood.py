"""Pseudo-log-likelihoods: ours against the plain loop of one forward pass a word piece.

Random weights of the given shape; sentences are drawn from its vocabulary, a third of them twice.
Prints sentences a second of both, their ratio, and the largest difference in nats.
"""

import argparse
import time

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

from cxrtext.language import score_sentences
from cxrtext.models import MaskedLanguageModel
from cxrtext.text.tokenizer import train_tokenizer

WORDS = (  # noqa: SIM905
    "the lungs are clear no pleural effusion or pneumothorax heart size is normal mild moderate "
    "severe left right lower upper lobe opacity consolidation edema stable unchanged small large"
).split()


def plain(model: MaskedLanguageModel, sentences: list[str]) -> np.ndarray:
    """One forward pass a word piece, the vocabulary projection on every position."""
    result = []
    for sentence in sentences:
        ids = torch.tensor([model.tokenizer(sentence)["input_ids"]])
        total = 0.0
        for place in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, place] = model.tokenizer.mask_token_id
            logits = model.model(input_ids=masked).logits[0, place]
            total += float(torch.log_softmax(logits, -1)[ids[0, place]])
        result.append(total)
    return np.array(result)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    distinct = [
        " ".join(generator.choice(WORDS, size=generator.integers(5, 20)))
        for _ in range(options.sentences * 2 // 3)
    ]
    sentences = [*distinct, *distinct[: options.sentences - len(distinct)]]
    tokenizer = train_tokenizer(sentences, 400)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.hidden // 64,
        intermediate_size=4 * options.hidden,
    )
    model = MaskedLanguageModel(BertForMaskedLM(config).eval(), tokenizer, "random", "random")
    with torch.inference_mode():
        begun = time.perf_counter()
        ours = score_sentences(sentences, model)
        ours_seconds = time.perf_counter() - begun
        begun = time.perf_counter()
        expected = plain(model, sentences)
        plain_seconds = time.perf_counter() - begun
    print(f"ours   {len(sentences) / ours_seconds:.2f} sentences/s")
    print(f"plain  {len(sentences) / plain_seconds:.2f} sentences/s")
    print(
        f"ratio  {plain_seconds / ours_seconds:.1f}   "
        f"largest difference {np.abs(ours - expected).max():.1e} nats"
    )


if __name__ == "__main__":
    main()
