"""BERT's tokenizer, without transformers, which takes a second to import; ids are the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxrtext.files import write_json
from cxrtext.text.vocabularies import SPECIAL_TOKENS, WordPieces


class BertTokenizer:
    """Word pieces of text, called as transformers' tokenizers are."""

    def __init__(self, pieces: WordPieces) -> None:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

        self.do_lower_case = pieces.lowercase
        self.strip_accents = pieces.strip_accents
        self.tokenize_chinese_chars = pieces.split_chinese
        own = Tokenizer(models.WordPiece(dict(pieces.ids), unk_token=SPECIAL_TOKENS[1]))
        own.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=pieces.split_chinese,
            strip_accents=pieces.strip_accents,
            lowercase=pieces.lowercase,
        )
        own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        own.decoder = decoders.WordPiece(prefix="##")
        own.add_special_tokens(list(SPECIAL_TOKENS))
        self.all_special_ids = [pieces.ids[token] for token in SPECIAL_TOKENS]
        ids = self.all_special_ids
        self.pad_token_id, self.unk_token_id, self.cls_token_id = ids[:3]
        self.sep_token_id, self.mask_token_id = ids[3:]
        begin, end = SPECIAL_TOKENS[2:4]
        own.post_processor = processors.TemplateProcessing(
            single=f"{begin}:0 $A:0 {end}:0",
            pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
            special_tokens=[(begin, self.cls_token_id), (end, self.sep_token_id)],
        )
        self.backend_tokenizer = own

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.backend_tokenizer.get_vocab()
        return vocabulary

    def tokenize(self, text: str) -> list[str]:
        pieces: list[str] = self.backend_tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        padding: bool = False,
        return_tensors: str | None = None,
        return_token_type_ids: bool = False,
    ) -> dict[str, Any]:
        """Ids and attention masks; of one text, where one is given.

        Args:
            truncation: Keep the first ``max_length`` ids, special ones counted.
            return_tensors: "pt" for padded tensors [S, T]; None for lists.
        """
        every = [texts] if isinstance(texts, str) else list(texts)
        encodings = self.backend_tokenizer.encode_batch(every, add_special_tokens=False)
        around = 2 if add_special_tokens else 0
        most = max_length - around if truncation and max_length is not None else None
        ids = [encoding.ids[:most] for encoding in encodings]
        if add_special_tokens:
            ids = [[self.cls_token_id, *one, self.sep_token_id] for one in ids]
        width = max(map(len, ids), default=0) if padding else 0
        found: dict[str, Any] = {
            "input_ids": [[*one, *[self.pad_token_id] * (width - len(one))] for one in ids],
            "attention_mask": [[1] * len(one) + [0] * (width - len(one)) for one in ids],
        }
        if return_token_type_ids:
            found["token_type_ids"] = [[0] * len(one) for one in found["input_ids"]]
        if return_tensors is not None:
            import torch

            return {name: torch.tensor(rows) for name, rows in found.items()}
        return {name: rows[0] for name, rows in found.items()} if isinstance(texts, str) else found

    def save_pretrained(self, folder: Path) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json`` into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.backend_tokenizer.save(str(folder / "tokenizer.json"))
        settings = {"do_lower_case": self.do_lower_case, "tokenizer_class": "BertTokenizer"}
        write_json(folder / "tokenizer_config.json", settings | self.unusual_settings)

    @property
    def unusual_settings(self) -> dict[str, bool]:
        """How text is normalized, where it is not as BERT's own beside the lower case."""
        settings: dict[str, bool] = {}
        if self.strip_accents is not None:
            settings["strip_accents"] = self.strip_accents
        if not self.tokenize_chinese_chars:
            settings["tokenize_chinese_chars"] = False
        return settings
