"""What a scoring run reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """What a run of scoring did; also the content of ``<out>.meta.json``.

    Args:
        model: Hub id or folder name of the language model.
        fingerprint: SHA-256 of its configuration, weights and vocabulary.
        a: Largest class probability.
        k: Exponent on the likelihood.
        fitted: Whether a and k were fitted to the corpus.
        precision: Arithmetic of the network.
        variant: What is masked beside the word piece asked for.
        reports: Number of reports; of sentences, where sentences were given.
        with_text: Reports with at least one sentence.
        without_text: Reports without; empty sections are normal.
        sentences: Sentences scored.
        distinct_sentences: Of these, different from each other to the model.
        tokens: Word pieces of all sentences.
        words: Words of all sentences, punctuation not counted.
        unknown_words: Of these, such as the vocabulary lacks.
        without_eta: Sentences that have no η, because they are mostly unknown.
        warning: That the text is foreign to the model, or None.
        from_cache: Distinct sentences whose score a cache knew.
        resumed: Distinct sentences whose score was there from a run that was stopped.
        rejected: Rows and sentences set aside, listed in ``<out>.rejected.csv``.
        seconds: Wall-clock time.
    """

    model: str
    fingerprint: str
    a: float
    k: float
    fitted: bool
    precision: str
    variant: str
    reports: int
    with_text: int
    without_text: int
    sentences: int
    distinct_sentences: int
    tokens: int
    words: int
    unknown_words: int
    without_eta: int
    warning: str | None
    from_cache: int
    resumed: int
    rejected: int
    seconds: float
