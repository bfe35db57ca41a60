"""From an evaluation to the verdicts of its checkpoint."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.verdicts.fit import fit_verdicts
from cxrtext.evaluation.verdicts.kept import KeptVerdicts
from cxrtext.images.cache import DecodedCache
from cxrtext.records import Rejects


def verdicts_of(
    evaluation: Evaluation,
    *,
    cache: DecodedCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> KeptVerdicts:
    """Calibrate the verdicts of an evaluation's model on the validation images of its data.

    Words of findings are learned from the reports of all splits but "test".

    Args:
        evaluation: One that was just made, with its details.
        cache: Where decoded images are kept.
        progress: Called with (done, total) images.
    """
    details = evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    folder = details.folder
    if not folder.sentences:
        raise DataError(f"{folder.path}: no reports, and so no sentences to calibrate verdicts on")
    reports: dict[str, list[str]] = defaultdict(list)
    for sentence in folder.sentences:
        reports[sentence.study_id].append(sentence.sentence)
    records = [r for r in folder.records if r.split == "val" and r.study_id in reports]
    rejects = Rejects()
    embedder = Embedder(details.model, cache, rejects, len(records), progress)
    cohort = embedder.cohort(records)
    if not cohort.records:
        why = f": {rejects.rows[-1][1]}" if rejects.rows else ""
        raise DataError(f"{folder.path}: no image of split 'val' with a report can be read{why}")
    tested = {record.study_id for record in folder.records if record.split == "test"}
    corpus = {study: said for study, said in reports.items() if study not in tested}
    return fit_verdicts(details.model, cohort, reports, corpus, Path(evaluation.data).name)
