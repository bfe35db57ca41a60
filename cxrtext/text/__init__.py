"""Report sections, sentences and word pieces."""

from cxrtext.text.sections import SECTIONS, split_sections
from cxrtext.text.sentences import split_sentences
from cxrtext.text.studies import DESCRIPTIVE_SECTIONS, check_sections, study_sentences
from cxrtext.text.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer

__all__ = [
    "DESCRIPTIVE_SECTIONS",
    "SECTIONS",
    "check_sections",
    "load_tokenizer",
    "save_tokenizer",
    "split_sections",
    "split_sentences",
    "study_sentences",
    "train_tokenizer",
]
