"""Make and keep results of an image: each only once, however often it is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from unicodedata import normalize

from cxrtext.datasets.admission.ids import Ids
from cxrtext.pacs import need
from cxrtext.pacs.identity import CLASSES
from cxrtext.pacs.results.building import Result, result_uid
from cxrtext.pacs.results.capture import build_capture
from cxrtext.pacs.results.finding import Finding, read_and_find
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.image import SourceImage, read_source
from cxrtext.pacs.results.report import build_report
from cxrtext.service import Service
from cxrtext.service.limits import check_sentence


@dataclass(frozen=True, slots=True)
class Made:
    results: tuple[Kept, ...]
    new: int  # results made by this call


def make_results(
    service: Service,
    path: Path,
    sentence: str,
    folder: ResultsFolder,
    *,
    above: float = 0.0,
    ids: Ids | None = None,
) -> Made:
    """Make the capture and the report of a sentence and an image; existing ones are kept.

    A result that was taken back is not made again: peers were told to hide its UID.

    Args:
        above: Make nothing if the probability is lower, or if it is unknown and this is above 0.
        ids: How the archive writes ids; unchanged by default.
    """
    need("highdicom")
    check_sentence(sentence)
    sentence = " ".join(normalize("NFC", sentence).split())  # one spelling, and so one UID
    source = read_source(path)
    model = service.model.fingerprint
    there = {kind: folder.find(result_uid(source, model, sentence, kind)) for kind in CLASSES}
    if None not in there.values():
        return _made([one for one in there.values() if one is not None])
    pixels, finding = read_and_find(service, path, sentence)
    if above > 0 and (finding.probability is None or finding.probability < above):
        return Made((), 0)
    result = Result(source, finding, datetime.now())
    made, new = [], 0
    for kind, kept in there.items():
        if kept is None:
            built = build_capture(result, pixels) if kind == "sc" else build_report(result)
            kept = folder.put(built, kind=kind, **_facts(source, finding, ids or Ids(None)))
            new += 1
        made.append(kept)
    return _made(made, new)


def _made(results: Sequence[Kept], new: int = 0) -> Made:
    return Made(tuple(one for one in results if not one.revoked), new)


def _facts(source: SourceImage, finding: Finding, ids: Ids) -> dict[str, str]:
    return {
        "source": source.instance,
        "study_id": ids.of("study", source.ids.study),
        "patient_id": ids.of("patient", source.ids.patient),
        "sentence": finding.sentence,
        "model": finding.model,
    }
