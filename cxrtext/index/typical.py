"""Sentences of chest radiograph reports in general, for an archive that has none of its own."""

from functools import cache

STUDIES = 60


@cache
def typical_sentences() -> tuple[str, ...]:
    """A few hundred distinct sentences, as the phantom data set's reports have them."""
    from cxrtext.phantom.studies import draw_studies
    from cxrtext.text.sentences import split_sentences

    reports = [study.report for study in draw_studies(STUDIES, seed=0)]
    parts = (said.text for report in reports for said in (*report.findings, *report.impression))
    return tuple(dict.fromkeys(sentence for part in parts for sentence in split_sentences(part)))
